//! Putting a message together that comes in pieces: texts grow, lists grow by index, objects field by field.
//!
//! Fields that nobody here knows grow in the same way, so that the message can be sent back whole.

use serde_json::{Map, Value};

/// Fields that are said once, or again and again, and do not grow.
const SAID_WHOLE: [&str; 7] = ["role", "id", "type", "name", "index", "format", "object"];

/// Adds a piece to an object.
pub(super) fn merge(into: &mut Map<String, Value>, piece: Map<String, Value>) {
    for (key, value) in piece {
        // A list in pieces is a list of pieces, also where it begins.
        let nothing = if value.is_array() { Value::Array(Vec::new()) } else { Value::Null };
        merge_value(&key.clone(), into.entry(key).or_insert(nothing), value);
    }
}

fn merge_value(key: &str, there: &mut Value, piece: Value) {
    match (there, piece) {
        (_, Value::Null) => {}
        (Value::String(text), Value::String(piece)) if !SAID_WHOLE.contains(&key) => text.push_str(&piece),
        (Value::String(text), Value::String(piece)) if piece.is_empty() && !text.is_empty() => {}
        (Value::Object(fields), Value::Object(piece)) => merge(fields, piece),
        (Value::Array(items), Value::Array(pieces)) => {
            for piece in pieces {
                merge_item(items, piece);
            }
        }
        (there, piece) => *there = piece,
    }
}

/// An item that has an index goes on where one with the same index is.
fn merge_item(items: &mut Vec<Value>, piece: Value) {
    let index = piece.get("index").and_then(Value::as_u64);
    let same = |item: &&mut Value| {
        index.is_some()
            && item.get("index").and_then(Value::as_u64) == index
            // Thoughts of another kind are other thoughts, whatever their index.
            && (piece.get("type").is_none() || item.get("type") == piece.get("type"))
    };
    match (items.iter_mut().find(same), piece) {
        (Some(Value::Object(item)), Value::Object(piece)) => merge(item, piece),
        (_, piece) => items.push(piece),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn pieces_become_what_they_were_cut_from() {
        let mut whole = Map::new();
        for piece in [
            json!({"role":"assistant","content":null,"reasoning_details":[{"type":"reasoning.text","text":"I ","index":0}]}),
            json!({"role":"assistant","reasoning_details":[{"type":"reasoning.text","text":"think","signature":null,"index":0}]}),
            json!({"reasoning_details":[{"type":"reasoning.encrypted","data":"eA==","id":"r1","index":0}]}),
            json!({"content":"a","x":{"y":"1"}}),
            json!({"content":"b","x":{"y":"2","z":[1]}}),
            json!({"content":null,"x":{"z":[2]}}),
        ] {
            let Value::Object(piece) = piece else { panic!() };
            merge(&mut whole, piece);
        }
        assert_eq!(
            Value::Object(whole),
            json!({
                "role":"assistant",
                "content":"ab",
                "reasoning_details":[
                    {"type":"reasoning.text","text":"I think","index":0,"signature":null},
                    {"type":"reasoning.encrypted","data":"eA==","id":"r1","index":0},
                ],
                "x":{"y":"12","z":[1,2]},
            })
        );
    }
}
