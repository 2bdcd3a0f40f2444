//! Chat Completions: one message, and the chunks it is cut into.

use serde_json::{Map, Value, json};

use super::{Fault, Piece, Says, Turn};

/// The whole answer.
pub(super) fn document(turn: &Turn, model: &str) -> String {
    if let Some(error) = error(turn) {
        return error.to_string();
    }
    let (message, finish, usage, model) = (message(turn), json!(finish(turn)), usage(turn), json!(model));
    format!(
        "{{\"id\":\"chatcmpl-fake\",\"object\":\"chat.completion\",\"created\":1,\"model\":{model},\
         \"choices\":[{{\"index\":0,\"message\":{message},\"logprobs\":null,\"finish_reason\":{finish}}}],\
         \"usage\":{usage}}}"
    )
}

/// The same as events.
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

/// The error that comes instead of an answer, or in the middle of it.
pub(super) fn error(turn: &Turn) -> Option<Value> {
    turn.faults.iter().find_map(|fault| match fault {
        Fault::ErrorEvent(kind, message) => Some(json!({"error":{"message":message,"type":kind,"code":null}})),
        _ => None,
    })
}

fn message(turn: &Turn) -> String {
    let pieces = match &turn.says {
        Says::Message(message) => return message.clone(),
        Says::Pieces(pieces) => pieces,
        Says::Blocks(_) => panic!("this turn is for the Messages API"),
    };
    let mut message = Map::from_iter([("role".to_owned(), json!("assistant"))]);
    if !matches!(pieces.first(), Some(Piece::Thinking(_))) {
        message.insert("content".to_owned(), Value::Null);
    }
    let mut calls = Vec::new();
    for piece in pieces {
        match piece {
            Piece::Thinking(text) => grow(&mut message, "reasoning_content", text),
            Piece::Text(text) => grow(&mut message, "content", text),
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

fn grow(message: &mut Map<String, Value>, key: &str, text: &str) {
    let before = message.get(key).and_then(Value::as_str).unwrap_or_default().to_owned();
    message.insert(key.to_owned(), Value::from(before + text));
}

/// A message in pieces, its fields in the order they have.
fn deltas(turn: &Turn) -> Vec<Value> {
    let message: Map<String, Value> = serde_json::from_str(&message(turn)).expect("messages are objects");
    let mut deltas = Vec::new();
    for (key, value) in message {
        match (key.as_str(), value) {
            ("content" | "reasoning" | "reasoning_content" | "refusal", Value::String(text)) if !text.is_empty() => {
                deltas.extend(turn.pieces_of(&text).into_iter().map(|piece| json!({ &key: piece })));
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
    let mut begun = Map::from_iter([("index".to_owned(), json!(index))]);
    if let Value::Object(call) = call {
        begun.extend(call);
    }
    let mut deltas = vec![json!({"tool_calls":[begun]})];
    for piece in turn.pieces_of(&arguments) {
        deltas.push(json!({"tool_calls":[{"index":index,"function":{"arguments":piece}}]}));
    }
    deltas
}

/// A thought that has an index comes in pieces.
fn detail_deltas(turn: &Turn, detail: &Value) -> Vec<Value> {
    let text = detail["text"].as_str().filter(|text| !text.is_empty() && detail["index"].is_u64()).map(str::to_owned);
    let Some(text) = text else { return vec![json!({"reasoning_details":[detail]})] };
    let mut begun = detail.clone();
    begun["text"] = json!("");
    let mut deltas = vec![json!({"reasoning_details":[begun]})];
    for piece in turn.pieces_of(&text) {
        let piece = json!({"type":detail["type"],"text":piece,"index":detail["index"]});
        deltas.push(json!({"reasoning_details":[piece]}));
    }
    deltas
}

fn finish(turn: &Turn) -> String {
    let calls = match &turn.says {
        Says::Pieces(pieces) => pieces.iter().any(|piece| matches!(piece, Piece::Call { .. })),
        Says::Message(message) => message.contains("\"tool_calls\""),
        Says::Blocks(_) => false,
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
