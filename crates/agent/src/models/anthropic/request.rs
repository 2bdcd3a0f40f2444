//! The request body of the Messages API.
//!
//! Messages received from this API are sent back unchanged. Other messages are built from the common form, without the
//! parts that only their own provider can read.

use std::borrow::Cow;
use std::collections::{BTreeSet, HashSet};
use std::sync::LazyLock;

use serde::Serialize;
use wharf_protocol::{Block, BlockKind, Json, Message, Role};

use super::results::{ResultPart, result_parts};
use super::{WIRE, wire};
use crate::{Cache, ModelRequest};

/// Minimum reasoning budget that the API accepts.
const MIN_THINKING_TOKENS: u32 = 1024;

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
    messages: Vec<WireMessage<'a>>,
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
struct WireMessage<'a> {
    role: &'static str,
    content: Vec<Part<'a>>,
}

#[derive(Serialize)]
#[serde(untagged)]
enum Part<'a> {
    /// As received.
    Raw(&'a Json),
    Built(WireBlock<'a>),
}

#[derive(Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum WireBlock<'a> {
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
    pub(super) fn new(model: &'a str, request: &ModelRequest<'a>) -> Self {
        let options = request.options;
        let cache = options.cache.map(cache_control);
        let budget_tokens = options.thinking.map(|budget| budget.max(MIN_THINKING_TOKENS));
        let tools = tools(request, cache);
        Self {
            model,
            max_tokens: match budget_tokens {
                // Reasoning counts toward the response and must leave room for the answer.
                Some(budget) if options.max_tokens <= budget => options.max_tokens.saturating_add(budget),
                _ => options.max_tokens,
            },
            stream: options.stream,
            // The API rejects a temperature together with reasoning.
            temperature: if budget_tokens.is_none() { options.temperature } else { None },
            thinking: budget_tokens.map(|budget_tokens| Thinking { r#type: "enabled", budget_tokens }),
            output_config: options
                .schema
                .as_ref()
                .map(|schema| OutputConfig { format: Format { r#type: "json_schema", schema } }),
            tool_choice: (request.tools.is_empty() && !tools.is_empty()).then_some(ToolChoice { r#type: "none" }),
            tools,
            system: system(request, cache),
            messages: messages(request.messages),
        }
    }
}

fn cache_control(cache: Cache) -> CacheControl {
    CacheControl { r#type: "ephemeral", ttl: cache.as_str() }
}

/// Returns the tool definitions of a request. The API rejects a conversation with tool calls but without definitions.
/// If no tool may be called any more, the request has the known tools, or at least placeholders with their names.
fn tools<'a>(request: &ModelRequest<'a>, cache: Option<CacheControl>) -> Vec<ToolSpec<'a>> {
    let used = || request.messages.iter().flat_map(Message::calls).map(|call| &*call.name);
    let sent = if request.tools.is_empty() && used().next().is_some() { request.all_tools } else { request.tools };
    let specs = sent.iter().map(|tool| ToolSpec {
        name: &tool.name,
        description: &tool.description,
        input_schema: &tool.input_schema,
        cache_control: None,
    });
    let mut specs: Vec<ToolSpec<'a>> = specs.collect();
    if specs.is_empty() {
        static ANY_OBJECT: LazyLock<Json> = LazyLock::new(|| serde_json::json!({"type": "object"}).into());
        let names: BTreeSet<&str> = used().collect();
        let description = "This tool is no longer available.";
        let spec = |name| ToolSpec { name, description, input_schema: &ANY_OBJECT, cache_control: None };
        specs.extend(names.into_iter().map(spec));
    }
    // The mark on the last tool covers all of them.
    if let Some(last) = specs.last_mut() {
        last.cache_control = cache;
    }
    specs
}

fn system<'a>(request: &ModelRequest<'a>, cache: Option<CacheControl>) -> Vec<SystemText<'a>> {
    let texts = request.system_texts().into_iter();
    let mut system: Vec<SystemText<'_>> =
        texts.map(|text| SystemText { r#type: "text", text: text.into(), cache_control: None }).collect();
    if let Some(last) = system.last_mut() {
        last.cache_control = cache;
    }
    system
}

fn messages(messages: &[Message]) -> Vec<WireMessage<'_>> {
    // Messages that are sent back unchanged keep their ids.
    let own = messages.iter().filter(|message| is_own(message)).flat_map(Message::calls);
    let own_ids: HashSet<&str> = own.map(|call| &*call.id).collect();
    let mut wire_messages: Vec<WireMessage<'_>> = Vec::with_capacity(messages.len());
    let mut after_results = false;
    for message in messages {
        let role = match message.role {
            Role::System => continue,
            Role::User | Role::Tool => "user",
            Role::Assistant => "assistant",
        };
        let content: Vec<Part<'_>> =
            message.content.iter().filter_map(|block| part(block, is_own(message), &own_ids)).collect();
        if content.is_empty() {
            continue;
        }
        match wire_messages.last_mut() {
            // The results of one turn are in one message. Separate messages teach a model to call one tool at a time.
            Some(last) if after_results && message.role == Role::Tool => last.content.extend(content),
            _ => wire_messages.push(WireMessage { role, content }),
        }
        after_results = message.role == Role::Tool;
    }
    wire_messages
}

/// Returns whether a message was received from this API.
fn is_own(message: &Message) -> bool {
    message.origin.as_ref().is_some_and(|origin| origin.wire == WIRE)
}

fn part<'a>(block: &'a Block, own: bool, own_ids: &HashSet<&str>) -> Option<Part<'a>> {
    match (&block.kind, &block.raw) {
        // The API sends blank text but does not accept it.
        (BlockKind::Text(text), _) if text.trim().is_empty() => None,
        (_, Some(raw)) if own => Some(Part::Raw(raw)),
        (BlockKind::Text(text), _) => Some(Part::Built(WireBlock::Text { text })),
        (BlockKind::ToolUse(call), _) => Some(Part::Built(WireBlock::ToolUse {
            id: wire_id(&call.id, own_ids),
            name: &call.name,
            input: wire::as_object(&call.arguments),
        })),
        (BlockKind::ToolResult(returned), _) => Some(Part::Built(WireBlock::ToolResult {
            tool_use_id: wire_id(&returned.call_id, own_ids),
            content: result_parts(&returned.output),
            is_error: returned.output.is_error,
        })),
        // The API does not accept reasoning without its own signature.
        (BlockKind::Thinking { .. } | BlockKind::RedactedThinking { .. } | BlockKind::Other, _) => None,
    }
}

/// Replaces the characters of an id that the API does not accept.
fn wire_id<'a>(id: &'a str, own_ids: &HashSet<&str>) -> Cow<'a, str> {
    let is_valid = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-');
    if own_ids.contains(id) || (!id.is_empty() && id.chars().all(is_valid)) {
        return id.into();
    }
    format!("id_{}", id.chars().map(|c| if is_valid(c) { c } else { '_' }).collect::<String>()).into()
}
