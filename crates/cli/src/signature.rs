//! A tool's arguments in one line.

use serde_json::Value;
use wharf::Tool;
use wharf::fleet::Entry;

/// Returns for example `add accepts a: integer, b: integer, note: string (optional)`.
pub(crate) fn sentence(tool: &Tool) -> String {
    accepts(tool, &arguments_of(&tool.input_schema.to_value().unwrap_or_default()))
}

/// Like [`sentence`], for a catalog's tool: without the arguments that the configuration sets.
pub(crate) fn of_entry(entry: &Entry) -> String {
    accepts(&entry.tool, &arguments(entry))
}

/// Returns the arguments that models see, for example `a: integer, b: integer, note: string (optional)`.
pub(crate) fn arguments(entry: &Entry) -> String {
    arguments_of(&entry.input_schema.to_value().unwrap_or_default())
}

fn accepts(tool: &Tool, arguments: &str) -> String {
    if arguments.is_empty() {
        format!("{} accepts no arguments", tool.name)
    } else {
        format!("{} accepts {arguments}", tool.name)
    }
}

fn arguments_of(schema: &Value) -> String {
    let required = |name: &str| schema["required"].as_array().is_some_and(|all| all.iter().any(|one| one == name));
    let one = |(name, schema): (&String, &Value)| {
        let optional = if required(name) { "" } else { " (optional)" };
        format!("{name}: {}{optional}", kind(schema))
    };
    let arguments: Vec<String> = schema["properties"].as_object().into_iter().flatten().map(one).collect();
    arguments.join(", ")
}

/// Returns the values that a schema allows, or its types, or `any`.
fn kind(schema: &Value) -> String {
    let joined = |parts: &[Value], show: fn(&Value) -> String| parts.iter().map(show).collect::<Vec<_>>().join(" | ");
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
    fn types_choices_and_alternatives_are_shown() {
        let schema = json!({"required": ["a"], "properties": {
            "a": {"type": "integer"}, "b": {"enum": ["+", "-"]}, "c": {"anyOf": [{"type": "string"}, {"type": "null"}]},
            "d": {"type": ["array", "null"]}, "e": {}}});
        let expected = "a: integer, b: \"+\" | \"-\" (optional), c: string | null (optional), \
            d: array | null (optional), e: any (optional)";
        assert_eq!(arguments_of(&schema), expected);
    }
}
