//! Compares a tool with the definition that the model has seen: does a call made for the old definition still mean the
//! same?

use serde_json::{Map, Value};
use wharf_client::Schema;
use wharf_protocol::Tool;

use super::entry::ToolMeta;
use super::normalize::at_root;

/// How a tool has changed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Drift {
    /// A call still means the same: only texts or optional parts have changed. Describes the changes.
    Harmless(String),
    /// A call made for the old definition may fail or mean something else. Describes the changes.
    Breaking(String),
}

/// The maximum depth to which schemas are compared.
const MAX_DEPTH: usize = 16;

/// Compares two definitions of a tool.
pub fn drift(old: &Tool, new: &Tool) -> Drift {
    let mut changes = Changes::default();
    match (tree(old), tree(new)) {
        (Some(old), Some(new)) => changes.object(&old, &new, "", MAX_DEPTH),
        (_, None) => changes.breaking.push("its schema has become unusable".to_owned()),
        (None, Some(_)) => changes.harmless.push("its schema has become usable".to_owned()),
    }
    if old.description != new.description {
        changes.harmless.push("its description has changed".to_owned());
    }
    changes.hints(old, new);
    if !changes.breaking.is_empty() {
        return Drift::Breaking(changes.breaking.join("; "));
    }
    if changes.harmless.is_empty() {
        changes.harmless.push("nothing that affects its arguments".to_owned());
    }
    Drift::Harmless(changes.harmless.join("; "))
}

fn tree(tool: &Tool) -> Option<Map<String, Value>> {
    Some(at_root(&Schema::parse(&tool.input_schema).ok()?).ok()?.0)
}

#[derive(Default)]
struct Changes {
    breaking: Vec<String>,
    harmless: Vec<String>,
}

impl Changes {
    /// Hints decide whether the user is asked, so a tool that became less safe needs a new decision.
    fn hints(&mut self, old: &Tool, new: &Tool) {
        let was = old.hints;
        let is = new.hints;
        if is.destructive == Some(true) && was.destructive != Some(true) {
            self.breaking.push("it is destructive now".to_owned());
        }
        if was.read_only == Some(true) && is.read_only != Some(true) {
            self.breaking.push("it is no longer read-only".to_owned());
        }
        if ToolMeta::of(new).requires_user && !ToolMeta::of(old).requires_user {
            self.breaking.push("it requires the user's approval now".to_owned());
        }
        if was != is {
            self.harmless.push("its hints have changed".to_owned());
        }
    }

    fn object(&mut self, old: &Map<String, Value>, new: &Map<String, Value>, path: &str, depth: usize) {
        let had = properties(old);
        let has = properties(new);
        for (name, was) in had.into_iter().flatten() {
            match has.and_then(|has| has.get(name)) {
                Some(is) => self.property(was, is, &format!("{path}{name}"), depth),
                None => self.breaking.push(format!("`{path}{name}` was removed")),
            }
        }
        for (name, _) in has.into_iter().flatten().filter(|(name, _)| had.is_none_or(|had| !had.contains_key(*name))) {
            if !requires(new, name) {
                self.harmless.push(format!("`{path}{name}` is a new optional argument"));
            }
        }
        let required = new.get("required").and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_str);
        for name in required.filter(|name| !requires(old, name)) {
            self.breaking.push(format!("`{path}{name}` is required now"));
        }
    }

    fn property(&mut self, was: &Value, is: &Value, path: &str, depth: usize) {
        let before = types(was);
        let after = types(is);
        if before.iter().any(|one| !accepts(&after, one)) || (before.is_empty() && !after.is_empty()) {
            self.breaking.push(format!("`{path}` changed from {} to {}", joined(&before), joined(&after)));
        } else if before != after {
            self.harmless.push(format!("`{path}` accepts {} now", joined(&after)));
        }
        if depth == 0 {
            return;
        }
        if let (Value::Object(was), Value::Object(is)) = (was, is) {
            self.object(was, is, &format!("{path}."), depth - 1);
        }
        if let (Some(was), Some(is)) = (was.get("items"), is.get("items")) {
            self.property(was, is, &format!("{path}[]"), depth - 1);
        }
    }
}

fn properties(schema: &Map<String, Value>) -> Option<&Map<String, Value>> {
    schema.get("properties").and_then(Value::as_object)
}

fn requires(schema: &Map<String, Value>, name: &str) -> bool {
    schema.get("required").and_then(Value::as_array).is_some_and(|required| required.iter().any(|one| one == name))
}

/// Returns the types that a schema names, directly or in its alternatives; none means any.
fn types(schema: &Value) -> Vec<&str> {
    let mut found: Vec<&str> = match schema.get("type") {
        Some(Value::String(one)) => vec![one],
        Some(Value::Array(several)) => several.iter().filter_map(Value::as_str).collect(),
        _ => Vec::new(),
    };
    for key in ["anyOf", "oneOf"] {
        found.extend(schema.get(key).and_then(Value::as_array).into_iter().flatten().flat_map(types));
    }
    found.sort_unstable();
    found.dedup();
    found
}

fn accepts(types: &[&str], one: &str) -> bool {
    types.is_empty() || types.contains(&one) || (one == "integer" && types.contains(&"number"))
}

fn joined(types: &[&str]) -> String {
    if types.is_empty() { "any type".to_owned() } else { types.join(" or ") }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;
    use wharf_protocol::{Item as _, Json};

    fn compared(old: Value, new: Value) -> String {
        let tool = |schema| Tool::from_json(&Json::from(json!({"name": "t", "inputSchema": schema}))).unwrap();
        match drift(&tool(old), &tool(new)) {
            Drift::Harmless(text) => format!("harmless: {text}"),
            Drift::Breaking(text) => format!("breaking: {text}"),
        }
    }

    #[test]
    fn a_required_removed_or_retyped_argument_breaks_a_call_and_nothing_else_does() {
        let old = json!({"type": "object", "required": ["a"], "properties": {"a": {"type": "string"}, "n": {"type": "integer"},
            "o": {"type": "object", "properties": {"x": {}}}, "l": {"type": "array", "items": {"type": "string"}}}});
        let with = |change: fn(&mut Value)| {
            let mut new = old.clone();
            change(&mut new);
            compared(old.clone(), new)
        };
        insta::assert_snapshot!([
            with(|_| {}),
            with(|new| new["properties"]["b"] = json!({"type": "string"})),
            with(|new| new["required"] = json!([])),
            with(|new| new["properties"]["n"] = json!({"type": ["number", "null"]})),
            with(|new| new["properties"]["a"]["description"] = json!("another description")),
            with(|new| new["required"] = json!(["a", "n"])),
            with(|new| { new["properties"]["b"] = json!({}); new["required"] = json!(["a", "b"]) }),
            with(|new| drop(new["properties"].as_object_mut().unwrap().remove("n"))),
            with(|new| new["properties"]["a"] = json!({"type": "integer"})),
            with(|new| new["properties"]["o"]["required"] = json!(["x"])),
            with(|new| new["properties"]["l"]["items"] = json!({"type": "integer"})),
            with(|new| *new = json!({"type": "string"})),
        ].join("\n"), @"
        harmless: nothing that affects its arguments
        harmless: `b` is a new optional argument
        harmless: nothing that affects its arguments
        harmless: `n` accepts null or number now
        harmless: nothing that affects its arguments
        breaking: `n` is required now
        breaking: `b` is required now
        breaking: `n` was removed
        breaking: `a` changed from string to integer
        breaking: `o.x` is required now
        breaking: `l[]` changed from string to integer
        breaking: its schema has become unusable
        ");
    }

    #[test]
    fn a_changed_description_is_harmless() {
        let tool = |description: &str| {
            Tool::from_json(&Json::from(json!({"name": "t", "inputSchema": {}, "description": description}))).unwrap()
        };
        assert_eq!(drift(&tool("a"), &tool("b")), Drift::Harmless("its description has changed".to_owned()));
    }
}
