//! A question, as Chat Completions wants it.

use std::borrow::Cow;

use serde::Serialize;
use wharf_protocol::{Json, Message, Role, ToolReturn};

use super::super::IMAGES;
use super::schema::ResponseFormat;
use super::{Dialect, OpenAi, WIRE, emulated};
use crate::{Cache, ModelRequest};

#[derive(Serialize)]
pub(super) struct Request<'a> {
    model: &'a str,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub(super) stream: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    stream_options: Option<StreamOptions>,
    #[serde(skip_serializing_if = "Option::is_none")]
    max_tokens: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    max_completion_tokens: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    temperature: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    reasoning: Option<Reasoning>,
    #[serde(skip_serializing_if = "Option::is_none")]
    reasoning_effort: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    usage: Option<Include>,
    #[serde(skip_serializing_if = "Option::is_none")]
    response_format: Option<ResponseFormat>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    tools: Vec<ToolSpec<'a>>,
    messages: Vec<Spoken<'a>>,
}

#[derive(Serialize)]
struct StreamOptions {
    include_usage: bool,
}

#[derive(Serialize)]
struct Include {
    include: bool,
}

#[derive(Serialize)]
struct Reasoning {
    max_tokens: u32,
}

#[derive(Serialize)]
struct ToolSpec<'a> {
    r#type: &'static str,
    function: FunctionSpec<'a>,
}

#[derive(Serialize)]
struct FunctionSpec<'a> {
    name: &'a str,
    description: &'a str,
    parameters: &'a Json,
}

/// A message, as it was written or as it is made here.
#[derive(Serialize)]
#[serde(untagged)]
pub(super) enum Spoken<'a> {
    Raw(Cow<'a, Json>),
    Made(Made<'a>),
}

#[derive(Serialize)]
#[serde(tag = "role", rename_all = "lowercase")]
pub(super) enum Made<'a> {
    System {
        content: Words,
    },
    User {
        content: Words,
    },
    Assistant {
        content: Option<String>,
        #[serde(skip_serializing_if = "Vec::is_empty")]
        tool_calls: Vec<Call<'a>>,
    },
    Tool {
        tool_call_id: &'a str,
        content: String,
    },
}

#[derive(Serialize)]
#[serde(untagged)]
pub(super) enum Words {
    Text(String),
    Parts(Vec<Part>),
}

#[derive(Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub(super) enum Part {
    Text {
        text: String,
        #[serde(skip_serializing_if = "Option::is_none")]
        cache_control: Option<CacheControl>,
    },
    ImageUrl {
        image_url: ImageUrl,
    },
}

#[derive(Clone, Copy, Serialize)]
pub(super) struct CacheControl {
    r#type: &'static str,
    ttl: &'static str,
}

#[derive(Serialize)]
pub(super) struct ImageUrl {
    url: String,
}

#[derive(Serialize)]
pub(super) struct Call<'a> {
    id: &'a str,
    r#type: &'static str,
    function: Function<'a>,
}

#[derive(Serialize)]
struct Function<'a> {
    name: &'a str,
    arguments: String,
}

impl<'a> Request<'a> {
    pub(super) fn new(model: &'a OpenAi, ask: &ModelRequest<'a>) -> Self {
        let options = ask.options;
        let emulates = model.emulate_tools;
        // An answer that is a call in the form of text is of no use before it is complete.
        let stream = options.stream && !emulates;
        let (newer, router) = (model.dialect == Dialect::OpenAi, model.dialect == Dialect::OpenRouter);
        let cache = options.cache.filter(|_| model.caches_by_wish());
        Self {
            model: &model.model,
            stream,
            stream_options: stream.then_some(StreamOptions { include_usage: true }),
            max_tokens: Some(options.max_tokens).filter(|_| !newer),
            max_completion_tokens: Some(options.max_tokens).filter(|_| newer),
            temperature: options.temperature,
            reasoning: options.thinking.filter(|_| router).map(|max_tokens| Reasoning { max_tokens }),
            reasoning_effort: options.thinking.filter(|_| !router).map(effort),
            usage: router.then_some(Include { include: true }),
            response_format: if emulates && !ask.tools.is_empty() {
                Some(emulated::format(ask))
            } else {
                options.schema.as_ref().map(ResponseFormat::answer)
            },
            tools: if emulates { Vec::new() } else { tools(ask) },
            messages: if emulates { emulated::messages(model, ask) } else { messages(model, ask.messages, cache) },
        }
    }
}

/// A budget, in the only words there are for it here.
fn effort(budget: u32) -> &'static str {
    match budget {
        0..=2048 => "low",
        2049..=8192 => "medium",
        _ => "high",
    }
}

fn tools<'a>(ask: &ModelRequest<'a>) -> Vec<ToolSpec<'a>> {
    let function = |tool: &'a wharf_protocol::ToolDefinition| FunctionSpec {
        name: &tool.name,
        description: &tool.description,
        parameters: &tool.input_schema,
    };
    ask.tools.iter().map(|tool| ToolSpec { r#type: "function", function: function(tool) }).collect()
}

fn messages<'a>(model: &OpenAi, messages: &'a [Message], cache: Option<Cache>) -> Vec<Spoken<'a>> {
    let mut spoken = Vec::with_capacity(messages.len());
    spoken.extend(system(messages, cache));
    let mut shown = Vec::new();
    for message in messages {
        if message.role != Role::Tool {
            // Nothing may come between the results of one turn, so what they show comes after them.
            show(&mut shown, &mut spoken);
        }
        match message.role {
            Role::System => {}
            Role::User => spoken.push(user(message.spoken())),
            Role::Assistant => spoken.push(assistant(message)),
            Role::Tool => {
                for returned in results(message) {
                    spoken.push(Spoken::Made(Made::Tool {
                        tool_call_id: &returned.call_id,
                        content: result_text(returned),
                    }));
                    model.images(returned, &mut shown);
                }
            }
        }
    }
    show(&mut shown, &mut spoken);
    spoken
}

pub(super) fn user<'a>(text: String) -> Spoken<'a> {
    Spoken::Made(Made::User { content: Words::Text(text) })
}

pub(super) fn show(shown: &mut Vec<Part>, spoken: &mut Vec<Spoken<'_>>) {
    if !shown.is_empty() {
        spoken.push(Spoken::Made(Made::User { content: Words::Parts(std::mem::take(shown)) }));
    }
}

/// All instructions in one message at the beginning: many templates take no other.
fn system<'a>(messages: &[Message], cache: Option<Cache>) -> Option<Spoken<'a>> {
    let texts = messages.iter().filter(|message| message.role == Role::System).map(Message::spoken);
    let texts: Vec<String> = texts.filter(|text| !text.trim().is_empty()).collect();
    let text = Some(texts.join("\n\n")).filter(|text| !text.is_empty())?;
    let content = match cache {
        None => Words::Text(text),
        Some(cache) => {
            let cache_control = Some(CacheControl { r#type: "ephemeral", ttl: cache.as_str() });
            Words::Parts(vec![Part::Text { text, cache_control }])
        }
    };
    Some(Spoken::Made(Made::System { content }))
}

fn assistant(message: &Message) -> Spoken<'_> {
    if let Some(raw) = raw(message, WIRE) {
        return Spoken::Raw(Cow::Borrowed(raw));
    }
    let tool_calls: Vec<Call<'_>> = message
        .calls()
        .map(|call| Call {
            id: &call.id,
            r#type: "function",
            // Broken arguments go back as they came.
            function: Function {
                name: &call.name,
                arguments: call.arguments.decode().unwrap_or_else(|_| call.arguments.to_string()),
            },
        })
        .collect();
    let text = message.spoken();
    let content = Some(text).filter(|text| !text.is_empty() || tool_calls.is_empty());
    Spoken::Made(Made::Assistant { content, tool_calls })
}

/// A message as it was written on a wire.
pub(super) fn raw<'a>(message: &'a Message, wire: &str) -> Option<&'a Json> {
    message.origin.as_ref().filter(|origin| origin.wire == wire)?.raw.as_ref()
}

/// The results in a message.
pub(super) fn results(message: &Message) -> impl Iterator<Item = &ToolReturn> {
    message.content.iter().filter_map(|block| match &block.kind {
        wharf_protocol::BlockKind::ToolResult(returned) => Some(returned),
        _ => None,
    })
}

/// A result as text. There is no other place here to say that it is an error.
pub(super) fn result_text(returned: &ToolReturn) -> String {
    let text = returned.text();
    if returned.output.is_error { format!("Error: {text}") } else { text }
}

impl OpenAi {
    /// The images of a result, each with words about where it comes from. Those that nobody would take are left to the
    /// words about them in the result itself.
    pub(super) fn images(&self, returned: &ToolReturn, shown: &mut Vec<Part>) {
        if self.blind {
            return;
        }
        let images = returned.images().filter(|(_, mime)| IMAGES.contains(mime));
        for (number, (data, mime)) in images.enumerate() {
            let text = format!("Image {} of the result of the call {}:", number + 1, returned.call_id);
            shown.push(Part::Text { text, cache_control: None });
            shown.push(Part::ImageUrl { image_url: ImageUrl { url: format!("data:{mime};base64,{data}") } });
        }
    }
}
