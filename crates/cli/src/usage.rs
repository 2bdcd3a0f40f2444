//! What a tool takes, in one line.

use serde_json::Value;
use wharf::fleet::Entry;
use wharf::{Json, Tool};

/// For example `add takes a: integer, b: integer, note: string (optional)`.
pub(crate) fn sentence(tool: &Tool) -> String {
    match arguments(tool) {
        taken if taken.is_empty() => format!("{} takes no arguments", tool.name),
        taken => format!("{} takes {taken}", tool.name),
    }
}

/// The same of a tool in a catalog, without the arguments that the configuration sets.
pub(crate) fn taken_by(entry: &Entry) -> String {
    match arguments_of(&entry.tool.input_schema, entry) {
        taken if taken.is_empty() => format!("{} takes no arguments", entry.tool.name),
        taken => format!("{} takes {taken}", entry.tool.name),
    }
}

/// What a model is told that a tool takes.
pub(crate) fn offered(entry: &Entry) -> String {
    arguments_of(&entry.input_schema, entry)
}

fn arguments_of(schema: &Json, entry: &Entry) -> String {
    let bound: Vec<&str> = entry.bound().collect();
    listed(&schema.to_value().unwrap_or_default(), &bound)
}

/// For example `a: integer, b: integer, note: string (optional)`.
pub(crate) fn arguments(tool: &Tool) -> String {
    listed(&tool.input_schema.to_value().unwrap_or_default(), &[])
}

fn listed(schema: &Value, without: &[&str]) -> String {
    let required = |name: &str| schema["required"].as_array().is_some_and(|all| all.iter().any(|one| one == name));
    let one = |(name, schema): (&String, &Value)| {
        let optional = if required(name) { "" } else { " (optional)" };
        format!("{name}: {}{optional}", kind(schema))
    };
    let all = schema["properties"].as_object().into_iter().flatten();
    let taken: Vec<String> = all.filter(|(name, _)| !without.contains(&name.as_str())).map(one).collect();
    taken.join(", ")
}

/// The values a schema names, or its types, or `any`.
fn kind(schema: &Value) -> String {
    let joined = |parts: &[Value], say: fn(&Value) -> String| parts.iter().map(say).collect::<Vec<_>>().join(" | ");
    if let Some(values) = schema["enum"].as_array() {
        return joined(values, Value::to_string);
    }
    if let Some(alternatives) = schema["anyOf"].as_array().or(schema["oneOf"].as_array()) {
        return joined(alternatives, kind);
    }
    match &schema["type"] {
        Value::String(one) => one.clone(),
        Value::Array(several) => joined(several, |one| one.as_str().unwrap_or("any").to_owned()),
        _ => "any".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;
    use wharf::Item as _;

    #[test]
    fn types_choices_and_alternatives_are_told() {
        let tool = json!({"name": "t", "inputSchema": {"required": ["a"], "properties": {
            "a": {"type": "integer"}, "b": {"enum": ["+", "-"]}, "c": {"anyOf": [{"type": "string"}, {"type": "null"}]},
            "d": {"type": ["array", "null"]}, "e": {}}}});
        let tool = Tool::from_json(&Json::from(tool)).unwrap();
        let expected = "t takes a: integer, b: \"+\" | \"-\" (optional), c: string | null (optional), \
            d: array | null (optional), e: any (optional)";
        assert_eq!(sentence(&tool), expected);
    }
}
