//! What a tool takes, in one line.

use serde_json::Value;
use wharf::Tool;
use wharf::fleet::Entry;

/// For example `add takes a: integer, b: integer, note: string (optional)`.
pub(crate) fn sentence(tool: &Tool) -> String {
    told(tool, &listed(&tool.input_schema.to_value().unwrap_or_default()))
}

/// The same for a tool in a catalog: without the arguments that the configuration sets.
pub(crate) fn taken_by(entry: &Entry) -> String {
    told(&entry.tool, &offered(entry))
}

/// What a model is told that a tool takes, for example `a: integer, b: integer, note: string (optional)`.
pub(crate) fn offered(entry: &Entry) -> String {
    listed(&entry.input_schema.to_value().unwrap_or_default())
}

fn told(tool: &Tool, taken: &str) -> String {
    if taken.is_empty() { format!("{} takes no arguments", tool.name) } else { format!("{} takes {taken}", tool.name) }
}

fn listed(schema: &Value) -> String {
    let required = |name: &str| schema["required"].as_array().is_some_and(|all| all.iter().any(|one| one == name));
    let one = |(name, schema): (&String, &Value)| {
        let optional = if required(name) { "" } else { " (optional)" };
        format!("{name}: {}{optional}", kind(schema))
    };
    let taken: Vec<String> = schema["properties"].as_object().into_iter().flatten().map(one).collect();
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

    #[test]
    fn types_choices_and_alternatives_are_told() {
        let schema = json!({"required": ["a"], "properties": {
            "a": {"type": "integer"}, "b": {"enum": ["+", "-"]}, "c": {"anyOf": [{"type": "string"}, {"type": "null"}]},
            "d": {"type": ["array", "null"]}, "e": {}}});
        let expected = "a: integer, b: \"+\" | \"-\" (optional), c: string | null (optional), \
            d: array | null (optional), e: any (optional)";
        assert_eq!(listed(&schema), expected);
    }
}
