//! The Messages API: blocks, and their events.

use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Value, json};

use super::turn::{Content, Fault, Piece, Turn};

/// Returns the whole response.
pub(super) fn document(turn: &Turn, model: &str) -> String {
    if let Some(error) = error(turn) {
        return error.to_string();
    }
    let blocks = blocks(turn).join(",");
    let stop = json!(stop(turn));
    let usage = usage(turn);
    let model = json!(model);
    format!(
        "{{\"id\":\"msg_fake\",\"type\":\"message\",\"role\":\"assistant\",\"model\":{model},\"content\":[{blocks}],\
         \"stop_reason\":{stop},\"stop_sequence\":null,\"usage\":{usage}}}"
    )
}

/// Returns the response as events.
pub(super) fn events(turn: &Turn, model: &str) -> Vec<String> {
    let mut events = Vec::new();
    let mut push = |data: Value| {
        let kind = data["type"].as_str().unwrap_or_default().to_owned();
        events.push(format!("event: {kind}\ndata: {data}\n\n"));
    };
    if !turn.has(&Fault::NoMessageStart) {
        let mut start = usage(turn);
        start["output_tokens"] = json!(1);
        push(
            json!({"type":"message_start","message":{"id":"msg_fake","type":"message","role":"assistant","model":model,
            "content":[],"stop_reason":null,"stop_sequence":null,"usage":start}}),
        );
    }
    push(json!({"type":"ping"}));
    for (index, block) in blocks(turn).iter().enumerate() {
        let (start, deltas) = split_block(turn, block);
        push(json!({"type":"content_block_start","index":index,"content_block":start}));
        for delta in deltas {
            push(json!({"type":"content_block_delta","index":index,"delta":delta}));
        }
        push(json!({"type":"content_block_stop","index":index}));
    }
    let mut ended = usage(turn);
    if turn.has(&Fault::NoInputTokens) {
        ended = json!({"output_tokens": turn.tokens.output});
    }
    push(json!({"type":"message_delta","delta":{"stop_reason":stop(turn),"stop_sequence":null},"usage":ended}));
    push(json!({"type":"message_stop"}));
    events
}

/// Returns the error to send instead of a response, or in the middle of it.
pub(super) fn error(turn: &Turn) -> Option<Value> {
    turn.faults.iter().find_map(|fault| match fault {
        Fault::ErrorEvent(kind, message) => {
            Some(json!({"type":"error","error":{"type":kind,"message":message},"request_id":"req_fake"}))
        }
        _ => None,
    })
}

fn blocks(turn: &Turn) -> Vec<String> {
    let pieces = match &turn.content {
        Content::Blocks(blocks) => return blocks.clone(),
        Content::Pieces(pieces) => pieces,
        Content::Message(_) => panic!("this turn is for Chat Completions"),
    };
    let block = |piece: &Piece| match piece {
        Piece::Thinking(text) => json!({"type":"thinking","thinking":text,"signature":""}).to_string(),
        Piece::Text(text) => json!({"type":"text","text":text}).to_string(),
        Piece::Call { id, name, arguments } => {
            let id = json!(id);
            let name = json!(name);
            let id = if turn.has(&Fault::SameIds) { json!("toolu_same") } else { id };
            let id = if turn.has(&Fault::NoIds) { String::new() } else { format!("\"id\":{id},") };
            // Invalid arguments are only possible in a stream.
            let broken = serde_json::from_str::<Value>(arguments).is_err();
            let arguments = if broken { json!({ "broken": arguments }).to_string() } else { arguments.clone() };
            format!("{{\"type\":\"tool_use\",{id}\"name\":{name},\"input\":{arguments}}}")
        }
    };
    pieces.iter().map(block).collect()
}

/// Splits a block into its start and its deltas.
fn split_block(turn: &Turn, block: &str) -> (Value, Vec<Value>) {
    #[derive(Deserialize)]
    struct Raw {
        input: Option<Box<RawValue>>,
    }
    let mut start: Value = serde_json::from_str(block).expect("blocks are JSON");
    let raw: Raw = serde_json::from_str(block).expect("blocks are objects");
    let mut deltas = Vec::new();
    let kind = start["type"].as_str().unwrap_or_default().to_owned();
    let mut split_field = |start: &mut Value, key: &str, delta: &str| {
        let Some(Value::String(text)) = start.get_mut(key).map(Value::take) else { return };
        start[key] = json!("");
        deltas.extend(turn.split_text(&text).into_iter().map(|piece| json!({"type": delta, key: piece})));
    };
    match kind.as_str() {
        "text" => split_field(&mut start, "text", "text_delta"),
        "thinking" => {
            split_field(&mut start, "thinking", "thinking_delta");
            if let Some(Value::String(signature)) = start.get_mut("signature").map(Value::take) {
                start["signature"] = json!("");
                deltas.push(json!({"type":"signature_delta","signature":signature}));
            }
        }
        "tool_use" | "server_tool_use" => {
            let input = raw.input.map(|input| input.get().to_owned()).unwrap_or_default();
            let broken = start["input"]["broken"].as_str().map(str::to_owned);
            start["input"] = json!({});
            let mut pieces = turn.split_text(&broken.unwrap_or(input));
            // The first delta is always empty.
            pieces.insert(0, String::new());
            deltas.extend(pieces.into_iter().map(|piece| json!({"type":"input_json_delta","partial_json":piece})));
        }
        _ => {}
    }
    (start, deltas)
}

fn stop(turn: &Turn) -> String {
    let calls = match &turn.content {
        Content::Pieces(pieces) => pieces.iter().any(|piece| matches!(piece, Piece::Call { .. })),
        Content::Blocks(blocks) => blocks.iter().any(|block| block.contains("\"tool_use\"")),
        Content::Message(_) => false,
    };
    turn.stop.clone().unwrap_or_else(|| if calls { "tool_use" } else { "end_turn" }.to_owned())
}

/// Returns the usage. This API does not count cached tokens as input.
fn usage(turn: &Turn) -> Value {
    let tokens = turn.tokens;
    json!({
        "input_tokens": tokens.input - tokens.cache_read - tokens.cache_write,
        "cache_creation_input_tokens": tokens.cache_write,
        "cache_read_input_tokens": tokens.cache_read,
        "output_tokens": tokens.output,
        "output_tokens_details": {"thinking_tokens": tokens.reasoning},
    })
}

/// Returns the error of the real API for requests with tool blocks but without tools.
pub(super) fn validation_error(request: &Value) -> Option<String> {
    let blocks = request["messages"].as_array()?.iter().filter_map(|message| message["content"].as_array()).flatten();
    let mut used = blocks.filter(|block| block["type"] == "tool_use" || block["type"] == "tool_result");
    let has_none = request["tools"].as_array().is_none_or(Vec::is_empty);
    (has_none && used.next().is_some())
        .then(|| "Requests which include `tool_use` or `tool_result` blocks must define tools.".to_owned())
}
