//! The two forms in which a conversation is kept: messages, which are the truth, and a text for people.

use std::fmt::Write as _;
use std::sync::Arc;

use serde::Serialize;
use wharf_protocol::{BlockKind, Json, Message, Role, Usage};

use crate::{Limit, RunEnd};

/// One message of a trace.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct TraceMessage {
    /// Who says it: the model, or a tool.
    pub role: Role,
    /// Its text.
    pub content: String,
    /// Its place among all of them.
    pub block_index: usize,
    /// The calls it makes.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub tool_calls: Vec<TraceCall>,
    /// Which call it is the result of.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tool_result: Option<TraceResult>,
    /// What was thought.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub thinking: Option<TraceThinking>,
    /// What it cost.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub usage_metadata: Option<Usage>,
}

/// A call in a trace.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct TraceCall {
    /// The model's id for it.
    pub id: Arc<str>,
    /// The tool.
    pub name: Arc<str>,
    /// The arguments as the model wrote them.
    pub input: Json,
}

/// Which call something is the result of.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct TraceResult {
    /// The model's id for the call.
    pub tool_use_id: Arc<str>,
    /// Whether the tool says that it failed.
    pub is_error: bool,
    /// The blocks of the result as they were sent, where they say more than the text does.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub output: Option<Json>,
}

/// What was thought.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct TraceThinking {
    /// The thought.
    pub thinking: String,
    /// The provider's proof that it is the model's own.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub signature: Option<String>,
}

/// What the model and the tools said; what they were told is no part of it.
pub fn trace_messages(messages: &[Message]) -> Vec<TraceMessage> {
    let said = messages.iter().filter(|message| matches!(message.role, Role::Assistant | Role::Tool));
    said.enumerate().map(|(place, message)| traced(place, message)).collect()
}

fn traced(block_index: usize, message: &Message) -> TraceMessage {
    let mut traced = TraceMessage {
        role: message.role,
        content: message.spoken(),
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

/// A conversation as text: a heading for every message, and a note where it ends before its time.
pub fn raw_trace(messages: &[Message], stop: &RunEnd, answered: bool) -> String {
    let mut parts = Vec::new();
    for message in messages {
        sections(message, &mut parts);
    }
    if let RunEnd::Limit(limit) = stop {
        let what = match limit {
            Limit::ModelCalls { .. } => "Turn limit reached",
            Limit::Time { .. } => "Agent timed out",
            _ => "Recursion limit reached",
        };
        parts.push(format!("[Note: {what} - partial response shown]"));
    }
    if !answered {
        parts.push("[No final response extracted]".to_owned());
    }
    parts.join("\n\n")
}

fn sections(message: &Message, parts: &mut Vec<String>) {
    match message.role {
        Role::System => parts.push(section("--- System Message ---", &message.spoken())),
        Role::User => parts.push(section("--- Human Message ---", &message.spoken())),
        Role::Tool => {
            for block in &message.content {
                let BlockKind::ToolResult(returned) = &block.kind else { continue };
                let heading = format!("--- Tool Message (call_id: {}) ---", returned.call_id);
                let mark = if returned.output.is_error { "[ERROR] " } else { "" };
                parts.push(section(&heading, &format!("{mark}{}", returned.text())));
            }
        }
        Role::Assistant => {
            for block in &message.content {
                if let BlockKind::Thinking { text, .. } = &block.kind {
                    parts.push(section("--- Thinking ---", text));
                }
            }
            let mut words = section("--- AI Message ---", &message.spoken());
            let mut calls = message.calls().peekable();
            if calls.peek().is_some() {
                words.push_str("\n\nTool Calls:");
            }
            for call in calls {
                let _ = write!(words, "\n  {} (call_{})\n   Call ID: {}", call.name, call.id, call.id);
                let _ = write!(words, "\n   Args: {}", call.arguments);
            }
            parts.push(words);
        }
    }
}

/// A heading and what is under it. A line that looks like a heading and is none is marked, so that no reader takes it for
/// one.
fn section(heading: &str, text: &str) -> String {
    let mut section = heading.to_owned();
    for line in text.split('\n').filter(|_| !text.is_empty()) {
        let trimmed = line.trim();
        let is_like = trimmed.starts_with("--- ") && trimmed.ends_with(" ---");
        section.push_str(if is_like { "\n\\" } else { "\n" });
        section.push_str(line);
    }
    section
}
