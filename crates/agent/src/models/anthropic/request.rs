//! A question, as the Messages API wants it.
//!
//! What was read from this wire goes back as it came. What others said is built anew, without what only they can read.

use std::borrow::Cow;
use std::collections::{BTreeSet, HashSet};
use std::sync::LazyLock;

use serde::Serialize;
use wharf_protocol::{BlockKind, Json, Message, Role};

use super::results::{ResultPart, result_parts};
use super::{WIRE, wire};
use crate::{Cache, ModelRequest};

/// Less is refused.
const LEAST_THINKING: u32 = 1024;

#[derive(Serialize)]
pub(super) struct Request<'a> {
    model: &'a str,
    max_tokens: u32,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    stream: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    temperature: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    thinking: Option<Thinking>,
    #[serde(skip_serializing_if = "Option::is_none")]
    output_config: Option<OutputConfig<'a>>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    tools: Vec<ToolSpec<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    tool_choice: Option<ToolChoice>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    system: Vec<SystemText<'a>>,
    messages: Vec<Spoken<'a>>,
}

#[derive(Serialize)]
struct Thinking {
    r#type: &'static str,
    budget_tokens: u32,
}

#[derive(Serialize)]
struct OutputConfig<'a> {
    format: Format<'a>,
}

#[derive(Serialize)]
struct Format<'a> {
    r#type: &'static str,
    schema: &'a Json,
}

#[derive(Serialize)]
struct ToolChoice {
    r#type: &'static str,
}

#[derive(Serialize)]
struct ToolSpec<'a> {
    name: &'a str,
    description: &'a str,
    input_schema: &'a Json,
    #[serde(skip_serializing_if = "Option::is_none")]
    cache_control: Option<CacheControl>,
}

#[derive(Serialize)]
struct SystemText<'a> {
    r#type: &'static str,
    text: Cow<'a, str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    cache_control: Option<CacheControl>,
}

#[derive(Clone, Copy, Serialize)]
struct CacheControl {
    r#type: &'static str,
    ttl: &'static str,
}

#[derive(Serialize)]
struct Spoken<'a> {
    role: &'static str,
    content: Vec<Part<'a>>,
}

#[derive(Serialize)]
#[serde(untagged)]
enum Part<'a> {
    /// As it was written.
    Raw(&'a Json),
    Made(Made<'a>),
}

#[derive(Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum Made<'a> {
    Text {
        text: &'a str,
    },
    ToolUse {
        id: Cow<'a, str>,
        name: &'a str,
        input: Json,
    },
    ToolResult {
        tool_use_id: Cow<'a, str>,
        #[serde(skip_serializing_if = "Vec::is_empty")]
        content: Vec<ResultPart<'a>>,
        #[serde(skip_serializing_if = "std::ops::Not::not")]
        is_error: bool,
    },
}

impl<'a> Request<'a> {
    pub(super) fn new(model: &'a str, ask: &ModelRequest<'a>) -> Self {
        let options = ask.options;
        let cache = options.cache.map(cache_control);
        let budget_tokens = options.thinking.map(|budget| budget.max(LEAST_THINKING));
        let tools = tools(ask, cache);
        Self {
            model,
            max_tokens: match budget_tokens {
                // Thoughts count as part of the answer, and have to leave room for it.
                Some(budget) if options.max_tokens <= budget => options.max_tokens.saturating_add(budget),
                _ => options.max_tokens,
            },
            stream: options.stream,
            // Nobody who thinks may be told how much chance there is in it.
            temperature: options.temperature.filter(|_| budget_tokens.is_none()),
            thinking: budget_tokens.map(|budget_tokens| Thinking { r#type: "enabled", budget_tokens }),
            output_config: options
                .schema
                .as_ref()
                .map(|schema| OutputConfig { format: Format { r#type: "json_schema", schema } }),
            tool_choice: (ask.tools.is_empty() && !tools.is_empty()).then_some(ToolChoice { r#type: "none" }),
            tools,
            system: system(ask.messages, cache),
            messages: messages(ask.messages),
        }
    }
}

fn cache_control(cache: Cache) -> CacheControl {
    CacheControl { r#type: "ephemeral", ttl: cache.as_str() }
}

/// The tools that are told of. A conversation in which some were used is refused without any, even if none may be used
/// any more: then it is told of those there are, or at least of their names.
fn tools<'a>(ask: &ModelRequest<'a>, cache: Option<CacheControl>) -> Vec<ToolSpec<'a>> {
    let used = || ask.messages.iter().flat_map(Message::calls).map(|call| &*call.name);
    let told = if ask.tools.is_empty() && used().next().is_some() { ask.known } else { ask.tools };
    let specs = told.iter().map(|tool| ToolSpec {
        name: &tool.name,
        description: &tool.description,
        input_schema: &tool.input_schema,
        cache_control: None,
    });
    let mut specs: Vec<ToolSpec<'a>> = specs.collect();
    if specs.is_empty() {
        static ANYTHING: LazyLock<Json> = LazyLock::new(|| serde_json::json!({"type": "object"}).into());
        let names: BTreeSet<&str> = used().collect();
        let gone = "This tool is not there any more.";
        let spec = |name| ToolSpec { name, description: gone, input_schema: &ANYTHING, cache_control: None };
        specs.extend(names.into_iter().map(spec));
    }
    // The mark on the last one covers all of them.
    if let Some(last) = specs.last_mut() {
        last.cache_control = cache;
    }
    specs
}

fn system(messages: &[Message], cache: Option<CacheControl>) -> Vec<SystemText<'_>> {
    let texts = messages.iter().filter(|message| message.role == Role::System).map(Message::spoken);
    let texts = texts.filter(|text| !text.trim().is_empty());
    let mut system: Vec<SystemText<'_>> =
        texts.map(|text| SystemText { r#type: "text", text: text.into(), cache_control: None }).collect();
    if let Some(last) = system.last_mut() {
        last.cache_control = cache;
    }
    system
}

fn messages(messages: &[Message]) -> Vec<Spoken<'_>> {
    // What goes back as it came keeps its ids, whatever they are made of.
    let own = messages.iter().filter(|message| is_own(message)).flat_map(Message::calls);
    let kept: HashSet<&str> = own.map(|call| &*call.id).collect();
    let mut spoken: Vec<Spoken<'_>> = Vec::with_capacity(messages.len());
    let mut after_results = false;
    for message in messages {
        let role = match message.role {
            Role::System => continue,
            Role::User | Role::Tool => "user",
            Role::Assistant => "assistant",
        };
        let content: Vec<Part<'_>> =
            message.content.iter().filter_map(|block| part(block, is_own(message), &kept)).collect();
        if content.is_empty() {
            continue;
        }
        match spoken.last_mut() {
            // The results of one turn stand in one message: split, they teach a model to call one tool at a time.
            Some(last) if after_results && message.role == Role::Tool => last.content.extend(content),
            _ => spoken.push(Spoken { role, content }),
        }
        after_results = message.role == Role::Tool;
    }
    spoken
}

/// Whether a message was read from this wire.
fn is_own(message: &Message) -> bool {
    message.origin.as_ref().is_some_and(|origin| origin.wire == WIRE)
}

fn part<'a>(block: &'a wharf_protocol::Block, own: bool, kept: &HashSet<&str>) -> Option<Part<'a>> {
    match (&block.kind, &block.raw) {
        // A text of nothing is something that the API says, and does not take back.
        (BlockKind::Text(text), _) if text.trim().is_empty() => None,
        (_, Some(raw)) if own => Some(Part::Raw(raw)),
        (BlockKind::Text(text), _) => Some(Part::Made(Made::Text { text })),
        (BlockKind::ToolUse(call), _) => Some(Part::Made(Made::ToolUse {
            id: wire_id(&call.id, kept),
            name: &call.name,
            input: wire::as_object(&call.arguments),
        })),
        (BlockKind::ToolResult(returned), _) => Some(Part::Made(Made::ToolResult {
            tool_use_id: wire_id(&returned.call_id, kept),
            content: result_parts(&returned.output),
            is_error: returned.output.is_error,
        })),
        // Without a signature of this provider, a thought is nobody's.
        (BlockKind::Thinking { .. } | BlockKind::RedactedThinking { .. } | BlockKind::Other, _) => None,
    }
}

/// An id in the letters that the API takes.
fn wire_id<'a>(id: &'a str, kept: &HashSet<&str>) -> Cow<'a, str> {
    let taken = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-');
    if kept.contains(id) || (!id.is_empty() && id.chars().all(taken)) {
        return id.into();
    }
    format!("id_{}", id.chars().map(|c| if taken(c) { c } else { '_' }).collect::<String>()).into()
}
