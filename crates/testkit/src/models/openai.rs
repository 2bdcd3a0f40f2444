//! Chat Completions: one message, and its chunks.

use serde_json::{Map, Value, json};

use super::turn::{Content, Fault, Piece, Turn};

/// Returns the whole response.
pub(super) fn document(turn: &Turn, model: &str) -> String {
    if let Some(error) = error(turn) {
        return error.to_string();
    }
    let message = message(turn);
    let finish = json!(finish(turn));
    let usage = usage(turn);
    let model = json!(model);
    format!(
        "{{\"id\":\"chatcmpl-fake\",\"object\":\"chat.completion\",\"created\":1,\"model\":{model},\
         \"choices\":[{{\"index\":0,\"message\":{message},\"logprobs\":null,\"finish_reason\":{finish}}}],\
         \"usage\":{usage}}}"
    )
}

/// Returns the response as events.
pub(super) fn events(turn: &Turn, model: &str) -> Vec<String> {
    let chunk = |choices: Value, usage: Value| {
        let chunk = json!({"id":"chatcmpl-fake","object":"chat.completion.chunk","created":1,"model":model,
            "choices":choices,"usage":usage});
        format!("data: {chunk}\n\n")
    };
    let of = |delta: Value, finish: Value| json!([{"index":0,"delta":delta,"logprobs":null,"finish_reason":finish}]);
    let mut events = vec![": PROCESSING\n\n".to_owned()];
    events.extend(deltas(turn).into_iter().map(|delta| chunk(of(delta, Value::Null), Value::Null)));
    events.push(chunk(of(json!({}), json!(finish(turn))), Value::Null));
    events.push(chunk(json!([]), usage(turn)));
    if !turn.has(&Fault::NoDoneEvent) {
        events.push("data: [DONE]\n\n".to_owned());
    }
    events
}

/// Returns the error to send instead of a response, or in the middle of it.
pub(super) fn error(turn: &Turn) -> Option<Value> {
    turn.faults.iter().find_map(|fault| match fault {
        Fault::ErrorEvent(kind, message) => Some(json!({"error":{"message":message,"type":kind,"code":null}})),
        _ => None,
    })
}

fn message(turn: &Turn) -> String {
    let pieces = match &turn.content {
        Content::Message(message) => return message.clone(),
        Content::Pieces(pieces) => pieces,
        Content::Blocks(_) => panic!("this turn is for the Messages API"),
    };
    let mut message = Map::from_iter([("role".to_owned(), json!("assistant"))]);
    if !matches!(pieces.first(), Some(Piece::Thinking(_))) {
        message.insert("content".to_owned(), Value::Null);
    }
    let mut calls = Vec::new();
    for piece in pieces {
        match piece {
            Piece::Thinking(text) => append(&mut message, "reasoning_content", text),
            Piece::Text(text) => append(&mut message, "content", text),
            Piece::Call { id, name, arguments } => {
                let id = if turn.has(&Fault::SameIds) { "call_same" } else { id };
                let function = json!({"name":name,"arguments":arguments});
                let mut call = json!({"id":id,"type":"function","function":function});
                if turn.has(&Fault::NoIds) {
                    call["id"] = json!("");
                }
                calls.push(call);
            }
        }
    }
    if !calls.is_empty() {
        message.insert("tool_calls".to_owned(), Value::Array(calls));
    }
    Value::Object(message).to_string()
}

fn append(message: &mut Map<String, Value>, key: &str, text: &str) {
    let before = message.get(key).and_then(Value::as_str).unwrap_or_default().to_owned();
    message.insert(key.to_owned(), Value::from(before + text));
}

/// Splits a message into deltas, in the order of its fields.
fn deltas(turn: &Turn) -> Vec<Value> {
    let message: Map<String, Value> = serde_json::from_str(&message(turn)).expect("messages are objects");
    let mut deltas = Vec::new();
    for (key, value) in message {
        match (key.as_str(), value) {
            ("content" | "reasoning" | "reasoning_content" | "refusal", Value::String(text)) if !text.is_empty() => {
                deltas.extend(turn.split_text(&text).into_iter().map(|piece| json!({ &key: piece })));
            }
            ("tool_calls", Value::Array(calls)) => {
                for (index, call) in calls.into_iter().enumerate() {
                    let index = if turn.has(&Fault::SameIndex) { 0 } else { index };
                    deltas.extend(call_deltas(turn, index, call));
                }
            }
            ("reasoning_details", Value::Array(details)) => {
                deltas.extend(details.iter().flat_map(|detail| detail_deltas(turn, detail)));
            }
            (_, value) => deltas.push(json!({ &key: value })),
        }
    }
    deltas
}

fn call_deltas(turn: &Turn, index: usize, mut call: Value) -> Vec<Value> {
    let arguments = call["function"]["arguments"].as_str().unwrap_or_default().to_owned();
    call["function"]["arguments"] = json!("");
    let mut start = Map::from_iter([("index".to_owned(), json!(index))]);
    if let Value::Object(call) = call {
        start.extend(call);
    }
    let mut deltas = vec![json!({"tool_calls":[start]})];
    for piece in turn.split_text(&arguments) {
        deltas.push(json!({"tool_calls":[{"index":index,"function":{"arguments":piece}}]}));
    }
    deltas
}

/// Splits reasoning details that have an index.
fn detail_deltas(turn: &Turn, detail: &Value) -> Vec<Value> {
    let text = detail["text"].as_str().filter(|text| !text.is_empty() && detail["index"].is_u64()).map(str::to_owned);
    let Some(text) = text else { return vec![json!({"reasoning_details":[detail]})] };
    let mut start = detail.clone();
    start["text"] = json!("");
    let mut deltas = vec![json!({"reasoning_details":[start]})];
    for piece in turn.split_text(&text) {
        let piece = json!({"type":detail["type"],"text":piece,"index":detail["index"]});
        deltas.push(json!({"reasoning_details":[piece]}));
    }
    deltas
}

fn finish(turn: &Turn) -> String {
    let calls = match &turn.content {
        Content::Pieces(pieces) => pieces.iter().any(|piece| matches!(piece, Piece::Call { .. })),
        Content::Message(message) => message.contains("\"tool_calls\""),
        Content::Blocks(_) => false,
    };
    turn.stop.clone().unwrap_or_else(|| if calls { "tool_calls" } else { "stop" }.to_owned())
}

fn usage(turn: &Turn) -> Value {
    let tokens = turn.tokens;
    let mut usage = json!({
        "prompt_tokens": tokens.input,
        "completion_tokens": tokens.output,
        "total_tokens": tokens.input + tokens.output,
        "prompt_tokens_details": {"cached_tokens": tokens.cache_read, "cache_write_tokens": tokens.cache_write},
        "completion_tokens_details": {"reasoning_tokens": tokens.reasoning},
    });
    if let Some(cost) = tokens.cost {
        usage["cost"] = json!(cost);
    }
    usage
}
