//! The two forms of a trace: messages, which are authoritative, and text for reading.

pub(crate) mod text_format;

use std::fmt::Write as _;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use wharf_protocol::{BlockKind, Json, Message, Role, Usage};

use crate::RunEnd;
use text_format::{
    AI_HEADING, CALLS, ERROR_MARK, HUMAN_HEADING, LimitNote, NO_ANSWER, SYSTEM_HEADING, THINKING_HEADING, escape,
    one_line, tool_heading,
};

/// One message of a trace.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TraceMessage {
    /// The author: the model or a tool.
    pub role: Role,
    /// The text of the message.
    pub content: String,
    /// Index of the message in the trace, from 0.
    #[serde(default)]
    pub block_index: usize,
    /// The tool calls of the message.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tool_calls: Vec<TraceCall>,
    /// The call that the message answers, for a tool's message.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tool_result: Option<TraceResult>,
    /// The model's reasoning.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub thinking: Option<TraceThinking>,
    /// Tokens and cost of the response.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub usage_metadata: Option<Usage>,
}

/// A tool call in a trace.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TraceCall {
    /// The model's id for the call.
    pub id: Arc<str>,
    /// Name of the tool.
    pub name: Arc<str>,
    /// The arguments as the model wrote them.
    pub input: Json,
}

/// The result of a tool call in a trace.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TraceResult {
    /// The model's id for the call.
    pub tool_use_id: Arc<str>,
    /// Whether the tool reported a failure.
    #[serde(default)]
    pub is_error: bool,
    /// The result as received, if it has more than one text block.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub output: Option<Json>,
}

/// The model's reasoning.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TraceThinking {
    /// The reasoning as text.
    pub thinking: String,
    /// The provider's proof that the text is the model's own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub signature: Option<String>,
}

/// Returns the trace of a conversation: the messages of the model and the tools, without the prompts.
pub fn trace_messages(messages: &[Message]) -> Vec<TraceMessage> {
    let traced = messages.iter().filter(|message| matches!(message.role, Role::Assistant | Role::Tool));
    traced.enumerate().map(|(index, message)| trace_message(index, message)).collect()
}

fn trace_message(block_index: usize, message: &Message) -> TraceMessage {
    let mut traced = TraceMessage {
        role: message.role,
        content: message.plain_text(),
        block_index,
        tool_calls: Vec::new(),
        tool_result: None,
        thinking: None,
        usage_metadata: message.usage,
    };
    for block in &message.content {
        match &block.kind {
            BlockKind::ToolUse(call) => traced.tool_calls.push(TraceCall {
                id: call.id.clone(),
                name: call.name.clone(),
                input: call.arguments.clone(),
            }),
            BlockKind::ToolResult(returned) => {
                let output = &returned.output;
                let plain = output.structured.is_none()
                    && output.content.iter().all(|block| block.as_text().is_some())
                    && output.content.len() == 1;
                traced.content = returned.text();
                traced.tool_result = Some(TraceResult {
                    tool_use_id: returned.call_id.clone(),
                    is_error: output.is_error,
                    output: (!plain).then(|| output.raw.clone()),
                });
            }
            BlockKind::Thinking { text, signature } => match &mut traced.thinking {
                Some(before) => {
                    before.thinking.push_str("\n\n");
                    before.thinking.push_str(text);
                    before.signature = signature.clone().or(before.signature.take());
                }
                None => {
                    traced.thinking = Some(TraceThinking { thinking: text.clone(), signature: signature.clone() });
                }
            },
            BlockKind::Text(_) | BlockKind::RedactedThinking { .. } | BlockKind::Other => {}
        }
    }
    traced
}

/// Renders a conversation as text: a heading for every message, and a note if the run ended early.
pub fn raw_trace(messages: &[Message], stop: &RunEnd, answered: bool) -> String {
    let mut parts = Vec::new();
    for message in messages {
        sections(message, &mut parts);
    }
    parts.extend(LimitNote::of(stop).map(|note| note.as_str().to_owned()));
    if !answered {
        parts.push(NO_ANSWER.to_owned());
    }
    parts.join("\n\n")
}

fn sections(message: &Message, parts: &mut Vec<String>) {
    match message.role {
        Role::System => parts.push(section(SYSTEM_HEADING, &message.plain_text())),
        Role::User => parts.push(section(HUMAN_HEADING, &message.plain_text())),
        Role::Tool => {
            for block in &message.content {
                let BlockKind::ToolResult(returned) = &block.kind else { continue };
                parts.push(section(
                    &tool_heading(&returned.call_id),
                    &result_text(&returned.text(), returned.output.is_error),
                ));
            }
        }
        Role::Assistant => {
            for block in &message.content {
                if let BlockKind::Thinking { text, .. } = &block.kind {
                    parts.push(section(THINKING_HEADING, text));
                }
            }
            let mut text = section(AI_HEADING, &message.plain_text());
            let mut calls = message.calls().peekable();
            if calls.peek().is_some() {
                let _ = write!(text, "\n\n{CALLS}");
            }
            for call in calls {
                let name = one_line(&call.name);
                let id = one_line(&call.id);
                let _ = write!(text, "\n  {name} (call_{id})\n   Call ID: {id}");
                let _ = write!(text, "\n   Args: {}", call.arguments);
            }
            parts.push(text);
        }
    }
}

/// Marks the text of a failed call. A backslash marks text that only looks like a failure.
fn result_text(text: &str, is_error: bool) -> String {
    let looks_marked = text.trim_start_matches('\\').starts_with(ERROR_MARK);
    match (is_error, looks_marked) {
        (true, _) => format!("{ERROR_MARK}{text}"),
        (false, true) => format!("\\{text}"),
        (false, false) => text.to_owned(),
    }
}

/// Renders a heading and the text under it. A text line that looks like a part of the format is escaped.
fn section(heading: &str, text: &str) -> String {
    let mut section = heading.to_owned();
    if text.is_empty() {
        return section;
    }
    for line in text.split('\n') {
        section.push('\n');
        section.push_str(&escape(line));
    }
    section
}
