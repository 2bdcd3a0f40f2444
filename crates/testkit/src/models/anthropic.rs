//! The Messages API: blocks, and the events they are cut into.

use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Value, json};

use super::{Fault, Piece, Says, Turn};

/// The whole answer.
pub(super) fn document(turn: &Turn, model: &str) -> String {
    if let Some(error) = error(turn) {
        return error.to_string();
    }
    let blocks = blocks(turn).join(",");
    let (stop, usage) = (json!(stop(turn)), usage(turn));
    let model = json!(model);
    format!(
        "{{\"id\":\"msg_fake\",\"type\":\"message\",\"role\":\"assistant\",\"model\":{model},\"content\":[{blocks}],\
         \"stop_reason\":{stop},\"stop_sequence\":null,\"usage\":{usage}}}"
    )
}

/// The same as events.
pub(super) fn events(turn: &Turn, model: &str) -> Vec<String> {
    let mut events = Vec::new();
    let mut say = |data: Value| {
        let kind = data["type"].as_str().unwrap_or_default().to_owned();
        events.push(format!("event: {kind}\ndata: {data}\n\n"));
    };
    if !turn.has(&Fault::NoMessageStart) {
        let mut begun = usage(turn);
        begun["output_tokens"] = json!(1);
        say(
            json!({"type":"message_start","message":{"id":"msg_fake","type":"message","role":"assistant","model":model,
            "content":[],"stop_reason":null,"stop_sequence":null,"usage":begun}}),
        );
    }
    say(json!({"type":"ping"}));
    for (index, block) in blocks(turn).iter().enumerate() {
        let (begun, deltas) = cut(turn, block);
        say(json!({"type":"content_block_start","index":index,"content_block":begun}));
        for delta in deltas {
            say(json!({"type":"content_block_delta","index":index,"delta":delta}));
        }
        say(json!({"type":"content_block_stop","index":index}));
    }
    let mut ended = usage(turn);
    if turn.has(&Fault::NoInputTokens) {
        ended = json!({"output_tokens": turn.tokens.output});
    }
    say(json!({"type":"message_delta","delta":{"stop_reason":stop(turn),"stop_sequence":null},"usage":ended}));
    say(json!({"type":"message_stop"}));
    events
}

/// The error that comes instead of an answer, or in the middle of it.
pub(super) fn error(turn: &Turn) -> Option<Value> {
    turn.faults.iter().find_map(|fault| match fault {
        Fault::ErrorEvent(kind, message) => {
            Some(json!({"type":"error","error":{"type":kind,"message":message},"request_id":"req_fake"}))
        }
        _ => None,
    })
}

fn blocks(turn: &Turn) -> Vec<String> {
    let pieces = match &turn.says {
        Says::Blocks(blocks) => return blocks.clone(),
        Says::Pieces(pieces) => pieces,
        Says::Message(_) => panic!("this turn is for Chat Completions"),
    };
    let block = |piece: &Piece| match piece {
        Piece::Thinking(text) => json!({"type":"thinking","thinking":text,"signature":""}).to_string(),
        Piece::Text(text) => json!({"type":"text","text":text}).to_string(),
        Piece::Call { id, name, arguments } => {
            let (id, name) = (json!(id), json!(name));
            let id = if turn.has(&Fault::SameIds) { json!("toolu_same") } else { id };
            let id = if turn.has(&Fault::NoIds) { String::new() } else { format!("\"id\":{id},") };
            // Broken arguments come in pieces only.
            let broken = serde_json::from_str::<Value>(arguments).is_err();
            let arguments = if broken { json!({ "broken": arguments }).to_string() } else { arguments.clone() };
            format!("{{\"type\":\"tool_use\",{id}\"name\":{name},\"input\":{arguments}}}")
        }
    };
    pieces.iter().map(block).collect()
}

/// A block at its beginning, and what comes after.
fn cut(turn: &Turn, block: &str) -> (Value, Vec<Value>) {
    #[derive(Deserialize)]
    struct Raw {
        input: Option<Box<RawValue>>,
    }
    let mut begun: Value = serde_json::from_str(block).expect("blocks are JSON");
    let raw: Raw = serde_json::from_str(block).expect("blocks are objects");
    let mut deltas = Vec::new();
    let kind = begun["type"].as_str().unwrap_or_default().to_owned();
    let mut grows = |begun: &mut Value, key: &str, delta: &str| {
        let Some(Value::String(text)) = begun.get_mut(key).map(Value::take) else { return };
        begun[key] = json!("");
        deltas.extend(turn.pieces_of(&text).into_iter().map(|piece| json!({"type": delta, key: piece})));
    };
    match kind.as_str() {
        "text" => grows(&mut begun, "text", "text_delta"),
        "thinking" => {
            grows(&mut begun, "thinking", "thinking_delta");
            if let Some(Value::String(signature)) = begun.get_mut("signature").map(Value::take) {
                begun["signature"] = json!("");
                deltas.push(json!({"type":"signature_delta","signature":signature}));
            }
        }
        "tool_use" | "server_tool_use" => {
            let input = raw.input.map(|input| input.get().to_owned()).unwrap_or_default();
            let broken = begun["input"]["broken"].as_str().map(str::to_owned);
            begun["input"] = json!({});
            let mut pieces = turn.pieces_of(&broken.unwrap_or(input));
            // They always begin with nothing.
            pieces.insert(0, String::new());
            deltas.extend(pieces.into_iter().map(|piece| json!({"type":"input_json_delta","partial_json":piece})));
        }
        _ => {}
    }
    (begun, deltas)
}

fn stop(turn: &Turn) -> String {
    let calls = match &turn.says {
        Says::Pieces(pieces) => pieces.iter().any(|piece| matches!(piece, Piece::Call { .. })),
        Says::Blocks(blocks) => blocks.iter().any(|block| block.contains("\"tool_use\"")),
        Says::Message(_) => false,
    };
    turn.stop.clone().unwrap_or_else(|| if calls { "tool_use" } else { "end_turn" }.to_owned())
}

/// Here, what comes from a cache is not counted as input.
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

/// Why the true API would not take a request: where tools were used, there have to be tools.
pub(super) fn refusal(request: &Value) -> Option<String> {
    let blocks = request["messages"].as_array()?.iter().filter_map(|message| message["content"].as_array()).flatten();
    let mut used = blocks.filter(|block| block["type"] == "tool_use" || block["type"] == "tool_result");
    let has_none = request["tools"].as_array().is_none_or(Vec::is_empty);
    (has_none && used.next().is_some())
        .then(|| "Requests which include `tool_use` or `tool_result` blocks must define tools.".to_owned())
}
