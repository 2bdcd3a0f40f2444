//! The request body of Chat Completions.

use std::borrow::Cow;

use serde::Serialize;
use wharf_protocol::{Json, Message, Role, ToolDefinition};

use super::messages::{
    CacheControl, Call, Function, Part, WireContent, WireEntry, WireMessage, push_images, raw, result_text, results,
    user,
};
use super::response_format::ResponseFormat;
use super::{Dialect, OpenAi, WIRE, emulation};
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
    usage: Option<UsageOption>,
    #[serde(skip_serializing_if = "Option::is_none")]
    response_format: Option<ResponseFormat>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    tools: Vec<ToolSpec<'a>>,
    messages: Vec<WireEntry<'a>>,
}

#[derive(Serialize)]
struct StreamOptions {
    include_usage: bool,
}

#[derive(Serialize)]
struct UsageOption {
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

impl<'a> Request<'a> {
    pub(super) fn new(model: &'a OpenAi, request: &ModelRequest<'a>) -> Self {
        let options = request.options;
        let emulates = model.emulate_tools;
        // An emulated tool call is text, which is of no use before it is complete.
        let stream = options.stream && !emulates;
        let is_openai = model.dialect == Dialect::OpenAi;
        let is_router = model.dialect == Dialect::OpenRouter;
        let cache = if model.needs_cache_request() { options.cache } else { None };
        Self {
            model: &model.model,
            stream,
            stream_options: stream.then_some(StreamOptions { include_usage: true }),
            max_tokens: (!is_openai).then_some(options.max_tokens),
            max_completion_tokens: is_openai.then_some(options.max_tokens),
            temperature: options.temperature,
            reasoning: match options.thinking {
                Some(max_tokens) if is_router => Some(Reasoning { max_tokens }),
                _ => None,
            },
            reasoning_effort: match options.thinking {
                Some(budget) if !is_router => Some(effort(budget)),
                _ => None,
            },
            usage: is_router.then_some(UsageOption { include: true }),
            response_format: if emulates && !request.tools.is_empty() {
                Some(emulation::format(request))
            } else {
                options.schema.as_ref().map(ResponseFormat::answer)
            },
            tools: if emulates { Vec::new() } else { tools(request) },
            messages: if emulates { emulation::messages(model, request) } else { messages(model, request, cache) },
        }
    }
}

/// Converts a token budget to the levels of the API.
fn effort(budget: u32) -> &'static str {
    match budget {
        0..=2048 => "low",
        2049..=8192 => "medium",
        _ => "high",
    }
}

fn tools<'a>(request: &ModelRequest<'a>) -> Vec<ToolSpec<'a>> {
    let function = |tool: &'a ToolDefinition| FunctionSpec {
        name: &tool.name,
        description: &tool.description,
        parameters: &tool.input_schema,
    };
    request.tools.iter().map(|tool| ToolSpec { r#type: "function", function: function(tool) }).collect()
}

fn messages<'a>(model: &OpenAi, request: &ModelRequest<'a>, cache: Option<Cache>) -> Vec<WireEntry<'a>> {
    let mut entries = Vec::with_capacity(request.messages.len());
    entries.extend(system(request, cache));
    let mut images = Vec::new();
    for message in request.messages {
        if message.role != Role::Tool {
            // No message may come between the results of one turn, so their images follow them.
            push_images(&mut images, &mut entries);
        }
        match message.role {
            Role::System => {}
            Role::User => entries.push(user(message.plain_text())),
            Role::Assistant => entries.push(assistant(message)),
            Role::Tool => {
                for returned in results(message) {
                    entries.push(WireEntry::Built(WireMessage::Tool {
                        tool_call_id: &returned.call_id,
                        content: result_text(returned),
                    }));
                    model.collect_images(returned, &mut images);
                }
            }
        }
    }
    push_images(&mut images, &mut entries);
    entries
}

/// Joins the system prompt into one message at the beginning: many chat templates accept no other.
fn system<'a>(request: &ModelRequest<'_>, cache: Option<Cache>) -> Option<WireEntry<'a>> {
    let text = Some(request.system_texts().join("\n\n")).filter(|text| !text.is_empty())?;
    let content = match cache {
        None => WireContent::Text(text),
        Some(cache) => {
            let cache_control = Some(CacheControl { r#type: "ephemeral", ttl: cache.as_str() });
            WireContent::Parts(vec![Part::Text { text, cache_control }])
        }
    };
    Some(WireEntry::Built(WireMessage::System { content }))
}

fn assistant(message: &Message) -> WireEntry<'_> {
    if let Some(raw) = raw(message, WIRE) {
        return WireEntry::Raw(Cow::Borrowed(raw));
    }
    let tool_calls: Vec<Call<'_>> = message
        .calls()
        .map(|call| Call {
            id: &call.id,
            r#type: "function",
            // Invalid arguments are sent back as received.
            function: Function {
                name: &call.name,
                arguments: call.arguments.decode().unwrap_or_else(|_| call.arguments.to_string()),
            },
        })
        .collect();
    let text = message.plain_text();
    let content = Some(text).filter(|text| !text.is_empty() || tool_calls.is_empty());
    WireEntry::Built(WireMessage::Assistant { content, tool_calls })
}
