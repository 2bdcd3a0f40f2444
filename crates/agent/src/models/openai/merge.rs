//! Merges the parts of a streamed message: strings are concatenated, lists are merged by index, objects field by field.
//!
//! Unknown fields are merged in the same way, so that the whole message can be sent back.

use serde_json::{Map, Value};

/// Fields that are sent complete, once or repeatedly, and are not concatenated.
const COMPLETE_FIELDS: [&str; 7] = ["role", "id", "type", "name", "index", "format", "object"];

/// Merges a part into an object.
pub(super) fn merge(into: &mut Map<String, Value>, part: Map<String, Value>) {
    for (key, value) in part {
        // A streamed list starts empty: its first part may be a part of an item, too.
        let initial = if value.is_array() { Value::Array(Vec::new()) } else { Value::Null };
        merge_value(&key.clone(), into.entry(key).or_insert(initial), value);
    }
}

fn merge_value(key: &str, current: &mut Value, part: Value) {
    match (current, part) {
        (_, Value::Null) => {}
        (Value::String(text), Value::String(part)) if !COMPLETE_FIELDS.contains(&key) => text.push_str(&part),
        (Value::String(text), Value::String(part)) if part.is_empty() && !text.is_empty() => {}
        (Value::Object(fields), Value::Object(part)) => merge(fields, part),
        (Value::Array(items), Value::Array(parts)) => {
            for part in parts {
                merge_item(items, part);
            }
        }
        (current, part) => *current = part,
    }
}

/// Merges a part of a list item into the item with the same index, or appends it.
fn merge_item(items: &mut Vec<Value>, part: Value) {
    let index = part.get("index").and_then(Value::as_u64);
    let is_same = |item: &&mut Value| {
        index.is_some()
            && item.get("index").and_then(Value::as_u64) == index
            // Reasoning of another type is a separate item, even with the same index.
            && (part.get("type").is_none() || item.get("type") == part.get("type"))
    };
    match (items.iter_mut().find(is_same), part) {
        (Some(Value::Object(item)), Value::Object(part)) => merge(item, part),
        (_, part) => items.push(part),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn parts_are_merged_to_the_original_message() {
        let mut whole = Map::new();
        for part in [
            json!({"role":"assistant","content":null,"reasoning_details":[{"type":"reasoning.text","text":"I ","index":0}]}),
            json!({"role":"assistant","reasoning_details":[{"type":"reasoning.text","text":"think","signature":null,"index":0}]}),
            json!({"reasoning_details":[{"type":"reasoning.encrypted","data":"eA==","id":"r1","index":0}]}),
            json!({"content":"a","x":{"y":"1"}}),
            json!({"content":"b","x":{"y":"2","z":[1]}}),
            json!({"content":null,"x":{"z":[2]}}),
        ] {
            let Value::Object(part) = part else { panic!() };
            merge(&mut whole, part);
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
