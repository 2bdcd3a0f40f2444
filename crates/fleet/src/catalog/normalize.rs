//! A copy of a tool's schema that every model API accepts. The server's own schema stays unchanged.
//!
//! Model APIs require an object at the root: `type` object, `properties`, and no alternatives. A single other schema makes
//! them reject the whole request, so each is normalized or its tool is left out.

mod merge;
mod resolve;
mod validate;

use serde_json::{Map, Value, json};
use wharf_client::{Schema, SchemaError};
use wharf_protocol::Json;

/// The result of [`normalize`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NormalizedSchema {
    /// The schema can be used unchanged.
    Same,
    /// The normalized schema, and a description of each change.
    Changed(Json, Vec<String>),
    /// The schema cannot be used, for this reason.
    Unusable(String),
}

/// Keywords that some APIs do not accept at the root. The server still checks them, and so does Wharf.
const NOT_AT_ROOT: [&str; 3] = ["enum", "const", "not"];

/// Returns the schema in a form that every model API accepts.
pub fn normalize(schema: &Json) -> NormalizedSchema {
    let tree = match Schema::parse(schema) {
        Ok(tree) => tree,
        Err(error) => return NormalizedSchema::Unusable(error.to_string()),
    };
    if may_multiply(schema)
        && let Err(SchemaError::OverBudget(reason)) = Schema::weight(&tree)
    {
        return NormalizedSchema::Unusable(reason);
    }
    match at_root(&tree) {
        Ok((_, changes)) if changes.is_empty() => NormalizedSchema::Same,
        Ok((tree, changes)) => NormalizedSchema::Changed(Json::from(Value::Object(tree)), changes),
        Err(reason) => NormalizedSchema::Unusable(reason),
    }
}

/// Whether checking a value against a schema may take much more work than the schema's size suggests. Without references,
/// patterns and `unevaluated…` it cannot, and most schemas have none. An escape may hide a keyword.
pub(super) fn may_multiply(schema: &Json) -> bool {
    ["$", "pattern", "unevaluated", "\\u"].iter().any(|part| schema.as_str().contains(part))
}

/// Returns the root as an object, and a description of each change.
pub(super) fn at_root(tree: &Value) -> Result<(Map<String, Value>, Vec<String>), String> {
    let empty = |note: &str| Ok((object(), vec![note.to_owned()]));
    let root = match tree {
        Value::Bool(true) => return empty("replaced a schema that accepts anything by an object without properties"),
        Value::Bool(false) => return Err("it accepts nothing".to_owned()),
        Value::Object(root) => root,
        _ => return Err("not a schema".to_owned()),
    };
    validate::check(tree)?;
    let mut changes = Vec::new();
    let mut root = resolve::resolved(root, root, &mut changes)?;
    merge::alternatives(&mut root, &mut changes)?;
    set_object_type(&mut root, &mut changes)?;
    for key in NOT_AT_ROOT {
        if root.shift_remove(key).is_some() {
            changes.push(format!("removed `{key}` at the root"));
        }
    }
    if !root.contains_key("properties") {
        root.insert("properties".to_owned(), json!({}));
        changes.push("added `properties`".to_owned());
    }
    Ok((root, changes))
}

fn object() -> Map<String, Value> {
    Map::from_iter([("type".to_owned(), json!("object")), ("properties".to_owned(), json!({}))])
}

/// Sets `type` to object, unless the schema excludes objects.
fn set_object_type(root: &mut Map<String, Value>, changes: &mut Vec<String>) -> Result<(), String> {
    match root.get("type") {
        Some(Value::String(one)) if one == "object" => return Ok(()),
        Some(Value::Array(several)) if several.iter().any(|one| one == "object") => {
            changes.push(format!("changed the type from {}", Value::Array(several.clone())));
        }
        Some(other) => return Err(format!("its type is {other}, but arguments are an object")),
        None => changes.push("added the type".to_owned()),
    }
    root.insert("type".to_owned(), json!("object"));
    Ok(())
}

#[cfg(test)]
mod tests;
