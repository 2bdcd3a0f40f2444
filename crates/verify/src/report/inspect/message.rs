//! Messages of a trace in the form of the log.

use serde_json::{Value, json};
use wharf_agent::TraceMessage;
use wharf_protocol::Role;

/// Returns the conversation: the question, then the trace.
pub(super) fn messages(question: &str, trace: &[TraceMessage], model: &str) -> Vec<Value> {
    let user = json!({"role": "user", "content": question, "source": "input"});
    std::iter::once(user).chain(trace.iter().map(|message| of_trace(message, trace, model))).collect()
}

fn of_trace(message: &TraceMessage, trace: &[TraceMessage], model: &str) -> Value {
    if let Some(result) = &message.tool_result {
        let calls = trace.iter().flat_map(|message| &message.tool_calls);
        let function = calls.into_iter().find(|call| call.id == result.tool_use_id).map(|call| call.name.as_ref());
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
