//! What has changed about a tool since a model was told of it, and whether a call made for the old one still means the
//! same.

use serde_json::{Map, Value};
use wharf_protocol::Tool;

use super::entry::wishes;
use super::normalise::at_root;

/// What has changed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Drift {
    /// Nothing that matters to a call: words, or what may be left out. What it is, in words.
    Harmless(String),
    /// A call made for the old tool may fail or mean something else. What it is, in words.
    Breaking(String),
}

/// How deep schemas are compared.
const DEEPEST: usize = 16;

/// Compares a tool with what it has become.
pub fn drift(old: &Tool, new: &Tool) -> Drift {
    let mut changes = Changes::default();
    match (tree(old), tree(new)) {
        (Some(old), Some(new)) => changes.object(&old, &new, "", DEEPEST),
        (_, None) => changes.breaking.push("its schema cannot be used any more".to_owned()),
        (None, Some(_)) => changes.harmless.push("its schema can be used now".to_owned()),
    }
    if old.description != new.description {
        changes.harmless.push("its description is another one".to_owned());
    }
    changes.hints(old, new);
    if !changes.breaking.is_empty() {
        return Drift::Breaking(changes.breaking.join("; "));
    }
    if changes.harmless.is_empty() {
        changes.harmless.push("nothing that its arguments depend on".to_owned());
    }
    Drift::Harmless(changes.harmless.join("; "))
}

fn tree(tool: &Tool) -> Option<Map<String, Value>> {
    Some(at_root(&tool.input_schema.to_value().ok()?).ok()?.0)
}

#[derive(Default)]
struct Changes {
    breaking: Vec<String>,
    harmless: Vec<String>,
}

impl Changes {
    /// What a tool says about itself decides whether somebody is asked; what was said before no longer counts.
    fn hints(&mut self, old: &Tool, new: &Tool) {
        let (was, is) = (old.hints, new.hints);
        if is.destructive == Some(true) && was.destructive != Some(true) {
            self.breaking.push("it says now that it may destroy something".to_owned());
        }
        if was.read_only == Some(true) && is.read_only != Some(true) {
            self.breaking.push("it no longer says that it only reads".to_owned());
        }
        if wishes(new).1 && !wishes(old).1 {
            self.breaking.push("it wants a person to be asked now".to_owned());
        }
        if was != is {
            self.harmless.push("its hints are others".to_owned());
        }
    }

    fn object(&mut self, old: &Map<String, Value>, new: &Map<String, Value>, path: &str, depth: usize) {
        let (had, has) = (properties(old), properties(new));
        for (name, was) in had.into_iter().flatten() {
            match has.and_then(|has| has.get(name)) {
                Some(is) => self.property(was, is, &format!("{path}{name}"), depth),
                None => self.breaking.push(format!("`{path}{name}` is gone")),
            }
        }
        for (name, _) in has.into_iter().flatten().filter(|(name, _)| had.is_none_or(|had| !had.contains_key(*name))) {
            if !requires(new, name) {
                self.harmless.push(format!("`{path}{name}` may be given now"));
            }
        }
        let required = new.get("required").and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_str);
        for name in required.filter(|name| !requires(old, name)) {
            self.breaking.push(format!("`{path}{name}` is required now"));
        }
    }

    fn property(&mut self, was: &Value, is: &Value, path: &str, depth: usize) {
        let (before, after) = (types(was), types(is));
        if before.iter().any(|one| !accepts(&after, one)) || (before.is_empty() && !after.is_empty()) {
            self.breaking.push(format!("`{path}` was {} and is {}", told(&before), told(&after)));
        } else if before != after {
            self.harmless.push(format!("`{path}` may be {} now", told(&after)));
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

/// The types a schema names, directly or in its alternatives; none means any.
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

fn told(types: &[&str]) -> String {
    if types.is_empty() { "anything".to_owned() } else { types.join(" or ") }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;
    use wharf_protocol::{Item as _, Json};

    fn compared(old: Value, new: Value) -> String {
        let tool = |schema| Tool::from_json(&Json::from(json!({"name": "t", "inputSchema": schema}))).unwrap();
        match drift(&tool(old), &tool(new)) {
            Drift::Harmless(words) => format!("harmless: {words}"),
            Drift::Breaking(words) => format!("breaking: {words}"),
        }
    }

    #[test]
    fn what_is_required_gone_or_of_another_type_breaks_a_call_and_nothing_else_does() {
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
            with(|new| new["properties"]["a"]["description"] = json!("other words")),
            with(|new| new["required"] = json!(["a", "n"])),
            with(|new| { new["properties"]["b"] = json!({}); new["required"] = json!(["a", "b"]) }),
            with(|new| drop(new["properties"].as_object_mut().unwrap().remove("n"))),
            with(|new| new["properties"]["a"] = json!({"type": "integer"})),
            with(|new| new["properties"]["o"]["required"] = json!(["x"])),
            with(|new| new["properties"]["l"]["items"] = json!({"type": "integer"})),
            with(|new| *new = json!({"type": "string"})),
        ].join("\n"), @"
        harmless: nothing that its arguments depend on
        harmless: `b` may be given now
        harmless: nothing that its arguments depend on
        harmless: `n` may be null or number now
        harmless: nothing that its arguments depend on
        breaking: `n` is required now
        breaking: `b` is required now
        breaking: `n` is gone
        breaking: `a` was string and is integer
        breaking: `o.x` is required now
        breaking: `l[]` was string and is integer
        breaking: its schema cannot be used any more
        ");
    }

    #[test]
    fn other_words_are_harmless() {
        let tool = |description: &str| {
            Tool::from_json(&Json::from(json!({"name": "t", "inputSchema": {}, "description": description}))).unwrap()
        };
        assert_eq!(drift(&tool("a"), &tool("b")), Drift::Harmless("its description is another one".to_owned()));
    }
}
