//! Messages of a trace in the form of the log.

use std::collections::HashMap;

use serde_json::{Value, json};
use wharf_agent::TraceMessage;
use wharf_protocol::Role;

use crate::outcome::UnitResult;
use crate::trace_calls::{TracedCall, traced_calls};

/// Returns the conversation: the question, then the trace. In a scenario, each turn begins with its own message.
pub(super) fn messages(question: &str, unit: &UnitResult, model: &str) -> Vec<Value> {
    let functions: HashMap<usize, &str> = traced_calls(&unit.trace)
        .into_iter()
        .filter_map(|TracedCall { call, result }| Some((result?, &*call.name)))
        .collect();
    let mut traced = unit.trace.iter().enumerate();
    let mut read = |count: usize| -> Vec<Value> {
        let messages = traced.by_ref().take(count);
        messages.map(|(index, message)| of_trace(message, functions.get(&index).copied(), model)).collect()
    };
    let user = |text: &str| json!({"role": "user", "content": text, "source": "input"});
    let mut messages = Vec::new();
    match &unit.scenario {
        None => messages.push(user(question)),
        Some(scenario) => {
            for turn in &scenario.turns {
                messages.push(user(&turn.prompt));
                messages.extend(read(turn.messages));
            }
        }
    }
    messages.extend(read(usize::MAX));
    messages
}

/// `function` is the tool whose result the message is.
fn of_trace(message: &TraceMessage, function: Option<&str>, model: &str) -> Value {
    if let Some(result) = &message.tool_result {
        let mut shown = json!({
            "role": "tool",
            "content": message.content,
            "tool_call_id": result.tool_use_id,
            "function": function,
        });
        if result.is_error {
            shown["error"] = json!({"type": "unknown", "message": message.content});
        }
        return shown;
    }
    let role = match message.role {
        Role::Assistant => "assistant",
        Role::System => "system",
        Role::User | Role::Tool => "user",
    };
    let mut shown = json!({"role": role, "content": message.content});
    if role != "assistant" {
        return shown;
    }
    if let Some(thinking) = &message.thinking {
        shown["content"] = json!([
            {"type": "reasoning", "reasoning": thinking.thinking, "signature": thinking.signature},
            {"type": "text", "text": message.content},
        ]);
    }
    shown["source"] = "generate".into();
    shown["model"] = model.into();
    if !message.tool_calls.is_empty() {
        // Arguments are an object there; a model can write anything.
        let arguments = |input: Value| if input.is_object() { input } else { json!({"input": input}) };
        let call = |call: &wharf_agent::TraceCall| {
            let input = serde_json::to_value(&call.input).unwrap_or_default();
            json!({"id": call.id, "function": call.name, "arguments": arguments(input), "type": "function"})
        };
        shown["tool_calls"] = message.tool_calls.iter().map(call).collect();
    }
    shown
}
