//! A copy of a tool's schema that every model API takes. The server's own text stays as it is, for everybody else.
//!
//! Model APIs want an object at the root: `type` object, `properties`, and no alternatives. One schema that is otherwise
//! makes them refuse the whole request, so each is put right or its tool is left out.

mod merge;
mod sound;

use serde_json::{Map, Value, json};
use wharf_protocol::Json;

/// What comes of a schema.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NormalizedSchema {
    /// It can be shown as it is.
    Same,
    /// This can be shown, and what was changed, in words.
    Changed(Json, Vec<String>),
    /// Nothing can be shown for it, and why.
    Unusable(String),
}

/// How often the root may refer to somewhere else.
const MOST_HOPS: usize = 16;
/// What the root may not hold for some APIs. Servers still check it, and so do we.
const NOT_AT_ROOT: [&str; 3] = ["enum", "const", "not"];

/// Makes the copy.
pub fn normalize(schema: &Json) -> NormalizedSchema {
    let tree = match schema.to_value() {
        Ok(tree) => tree,
        Err(error) if error.to_string().starts_with("recursion limit") => {
            return NormalizedSchema::Unusable("it nests deeper than 128 levels".to_owned());
        }
        Err(error) => return NormalizedSchema::Unusable(error.to_string()),
    };
    match at_root(&tree) {
        Ok(notes) if notes.1.is_empty() => NormalizedSchema::Same,
        Ok((tree, notes)) => NormalizedSchema::Changed(Json::from(Value::Object(tree)), notes),
        Err(reason) => NormalizedSchema::Unusable(reason),
    }
}

/// The root as an object, and what had to be done for that.
pub(super) fn at_root(tree: &Value) -> Result<(Map<String, Value>, Vec<String>), String> {
    let empty = |note: &str| Ok((object(), vec![note.to_owned()]));
    let root = match tree {
        Value::Bool(true) => return empty("it takes anything, and is shown as an object without properties"),
        Value::Bool(false) => return Err("it takes nothing at all".to_owned()),
        Value::Object(root) => root,
        _ => return Err("it is no schema".to_owned()),
    };
    sound::check(tree)?;
    let mut notes = Vec::new();
    let mut root = resolved(root, root, &mut notes)?;
    merge::alternatives(&mut root, &mut notes)?;
    be_object(&mut root, &mut notes)?;
    for key in NOT_AT_ROOT {
        if root.shift_remove(key).is_some() {
            notes.push(format!("`{key}` at its root is not shown"));
        }
    }
    if !root.contains_key("properties") {
        root.insert("properties".to_owned(), json!({}));
        notes.push("`properties` was added".to_owned());
    }
    Ok((root, notes))
}

fn object() -> Map<String, Value> {
    Map::from_iter([("type".to_owned(), json!("object")), ("properties".to_owned(), json!({}))])
}

/// The schema with what its own `$ref` leads to in its place; what stands beside the reference counts too.
fn resolved(
    schema: &Map<String, Value>,
    document: &Map<String, Value>,
    notes: &mut Vec<String>,
) -> Result<Map<String, Value>, String> {
    let mut schema = schema.clone();
    for _ in 0..MOST_HOPS {
        let Some(reference) = schema.shift_remove("$ref") else { return Ok(schema) };
        let reference = reference.as_str().unwrap_or_default().to_owned();
        let found =
            sound::lookup(document, &reference).ok_or_else(|| format!("`$ref` to `{reference}` leads nowhere"))?;
        match found {
            Value::Object(found) => {
                for (key, value) in found {
                    schema.entry(key.clone()).or_insert_with(|| value.clone());
                }
            }
            Value::Bool(true) => {}
            _ => return Err(format!("`$ref` to `{reference}` leads to what takes nothing")),
        }
        notes.push(format!("its root referred to `{reference}`, which was put in its place"));
    }
    Err("its root refers to itself".to_owned())
}

/// Makes `type` say object, unless it says that no object is wanted.
fn be_object(root: &mut Map<String, Value>, notes: &mut Vec<String>) -> Result<(), String> {
    match root.get("type") {
        Some(Value::String(one)) if one == "object" => return Ok(()),
        Some(Value::Array(several)) if several.iter().any(|one| one == "object") => {
            notes.push(format!("its type was {}", Value::Array(several.clone())));
        }
        Some(other) => return Err(format!("it is for {other}, and arguments are an object")),
        None => notes.push("it did not say that it is for an object".to_owned()),
    }
    root.insert("type".to_owned(), json!("object"));
    Ok(())
}

#[cfg(test)]
mod tests;
