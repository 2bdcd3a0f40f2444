//! Messages of `OpenAI` (chat completions and responses) and Anthropic. Both forms may occur in one log.

use serde_json::{Value, json};
use wharf_agent::{TraceCall, TraceMessage, TraceResult, TraceThinking};
use wharf_protocol::{Json, Role};

use super::LogErrorKind;

/// The maximum number of messages of a conversation.
const MAX_MESSAGES: usize = 100_000;

/// A conversation: what the user asked first, and what the model and the tools said.
#[derive(Debug, Default, PartialEq)]
pub(super) struct Conversation {
    pub(super) prompt: Option<String>,
    pub(super) trace: Vec<TraceMessage>,
}

/// Reads a conversation: a list of messages, or an object with a request, a response or both.
pub(super) fn conversation(value: &Value) -> Result<Conversation, LogErrorKind> {
    let mut messages: Vec<&Value> = Vec::new();
    let mut prompt = None;
    match value {
        Value::Array(items) => messages.extend(items),
        Value::Object(fields) => {
            let request = fields.get("request").unwrap_or(value);
            match request.get("messages").or_else(|| request.get("input")) {
                Some(Value::Array(items)) => messages.extend(items),
                Some(Value::String(text)) => prompt = Some(text.clone()),
                _ => {}
            }
            let response = fields.get("response").unwrap_or(value);
            if let Some(choice) = response.pointer("/choices/0/message") {
                messages.push(choice);
            } else if let Some(Value::Array(output)) = response.get("output") {
                messages.extend(output);
            } else if response.get("content").is_some() {
                messages.push(response);
            } else if let Some(text @ Value::String(_)) = fields.get("response") {
                messages.push(text);
            }
        }
        _ => return Err(LogErrorKind::UnknownFormat),
    }
    if messages.is_empty() {
        return Err(LogErrorKind::UnknownFormat);
    }
    if messages.len() > MAX_MESSAGES {
        let reason = format!("the conversation has more than {MAX_MESSAGES} messages");
        return Err(LogErrorKind::InvalidMessage { number: MAX_MESSAGES, reason });
    }
    let mut read = Conversation { prompt, trace: Vec::new() };
    for (index, message) in messages.into_iter().enumerate() {
        let invalid = |reason| LogErrorKind::InvalidMessage { number: index + 1, reason };
        read.add(message).map_err(invalid)?;
    }
    for (index, message) in read.trace.iter_mut().enumerate() {
        message.block_index = index;
    }
    Ok(read)
}

fn message(role: Role, content: String) -> TraceMessage {
    TraceMessage {
        role,
        content,
        block_index: 0,
        tool_calls: Vec::new(),
        tool_result: None,
        thinking: None,
        usage_metadata: None,
    }
}

impl Conversation {
    fn add(&mut self, value: &Value) -> Result<(), String> {
        if let Some(text) = value.as_str() {
            self.trace.push(message(Role::Assistant, text.to_owned()));
            return Ok(());
        }
        match value.get("type").and_then(Value::as_str) {
            Some("function_call") => {
                let call = call(value.get("call_id").or_else(|| value.get("id")), value)?;
                self.of_model().tool_calls.push(call);
                return Ok(());
            }
            Some("function_call_output") => {
                let output = value.get("output").unwrap_or(&Value::Null);
                return self.add_result(value.get("call_id"), output, false);
            }
            Some("reasoning" | "item_reference") => return Ok(()),
            _ => {}
        }
        let role = value.get("role").and_then(Value::as_str).ok_or("it has no `role`")?;
        let content = value.get("content").unwrap_or(&Value::Null);
        match role {
            "system" | "developer" => Ok(()),
            "user" => self.add_user(content),
            "assistant" | "model" => self.add_assistant(value, content),
            "tool" | "function" => {
                let id = value.get("tool_call_id").or_else(|| value.get("name"));
                self.add_result(id, content, false)
            }
            other => Err(format!("unknown role `{}`", other.chars().take(40).collect::<String>())),
        }
    }

    /// Adds the text of a user, or results of tools.
    fn add_user(&mut self, content: &Value) -> Result<(), String> {
        let mut said = String::new();
        match content {
            Value::Array(blocks) => {
                for block in blocks {
                    if block.get("type").and_then(Value::as_str) == Some("tool_result") {
                        let is_error = block.get("is_error") == Some(&Value::Bool(true));
                        let output = block.get("content").unwrap_or(&Value::Null);
                        self.add_result(block.get("tool_use_id"), output, is_error)?;
                    } else {
                        said.push_str(&text(block));
                    }
                }
            }
            other => said = text(other),
        }
        if self.prompt.is_none() && !said.is_empty() {
            self.prompt = Some(said);
        }
        Ok(())
    }

    fn add_assistant(&mut self, value: &Value, content: &Value) -> Result<(), String> {
        let mut read = message(Role::Assistant, String::new());
        match content {
            Value::Array(blocks) => {
                for block in blocks {
                    match block.get("type").and_then(Value::as_str) {
                        Some("tool_use") => read.tool_calls.push(call(block.get("id"), block)?),
                        Some("thinking") => {
                            let thinking = block.get("thinking").and_then(Value::as_str).unwrap_or_default().to_owned();
                            let signature = block.get("signature").and_then(Value::as_str).map(str::to_owned);
                            read.thinking = Some(TraceThinking { thinking, signature });
                        }
                        _ => read.content.push_str(&text(block)),
                    }
                }
            }
            other => read.content = text(other),
        }
        for item in value.get("tool_calls").and_then(Value::as_array).into_iter().flatten() {
            read.tool_calls.push(call(item.get("id"), item.get("function").unwrap_or(item))?);
        }
        if let Some(function) = value.get("function_call").filter(|function| !function.is_null()) {
            read.tool_calls.push(call(function.get("name"), function)?);
        }
        self.trace.push(read);
        Ok(())
    }

    fn add_result(&mut self, id: Option<&Value>, content: &Value, is_error: bool) -> Result<(), String> {
        let id = id.and_then(Value::as_str).ok_or("a result of a tool has no id of its call")?;
        let mut read = message(Role::Tool, text(content));
        read.tool_result = Some(TraceResult { tool_use_id: id.into(), is_error, output: None });
        self.trace.push(read);
        Ok(())
    }

    /// Returns the message of the model that a call belongs to.
    fn of_model(&mut self) -> &mut TraceMessage {
        if self.trace.last().is_none_or(|last| last.role != Role::Assistant) {
            self.trace.push(message(Role::Assistant, String::new()));
        }
        let last = self.trace.len() - 1;
        &mut self.trace[last]
    }
}

/// Reads a call. Arguments are an object, or JSON in a text.
fn call(id: Option<&Value>, value: &Value) -> Result<TraceCall, String> {
    let name = value.get("name").and_then(Value::as_str).ok_or("a tool call has no `name`")?;
    let id = id.and_then(Value::as_str).ok_or("a tool call has no `id`")?;
    let input = value.get("input").or_else(|| value.get("arguments")).cloned().unwrap_or_else(|| json!({}));
    let input = match input {
        Value::String(text) => serde_json::from_str(&text).unwrap_or(Value::String(text)),
        other => other,
    };
    Ok(TraceCall { id: id.into(), name: name.into(), input: Json::from(input) })
}

/// Returns the text of a content: a text, a block, or a list of blocks. Other content has none.
fn text(content: &Value) -> String {
    match content {
        Value::String(text) => text.clone(),
        Value::Array(blocks) => blocks.iter().map(text).collect(),
        Value::Object(block) => match block.get("text").or_else(|| block.get("refusal")) {
            Some(Value::String(text)) => text.clone(),
            _ => String::new(),
        },
        Value::Null => String::new(),
        other => other.to_string(),
    }
}
