//! Names of enum variants as JSON writes them.

use serde::Serialize;
use serde_json::Value;

/// Returns the name of a plain enum variant in JSON.
pub(crate) fn json_name(variant: &impl Serialize) -> String {
    match serde_json::to_value(variant) {
        Ok(Value::String(name)) => name,
        _ => String::new(),
    }
}
