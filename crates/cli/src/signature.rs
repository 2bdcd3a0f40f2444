//! A tool's arguments in one line.

use serde_json::Value;
use wharf::Tool;
use wharf::fleet::Entry;

use crate::schema_kind::Kinds;

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
    let mut kinds = Kinds::new(schema);
    let one = |(name, property): (&String, _)| {
        let optional = if required(name) { "" } else { " (optional)" };
        format!("{name}: {}{optional}", kinds.kind(property))
    };
    let arguments: Vec<String> = schema["properties"].as_object().into_iter().flatten().map(one).collect();
    arguments.join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn types_choices_and_alternatives_are_shown() {
        let schema = json!({"required": ["a"], "properties": {
            "a": {"type": "integer"}, "b": {"enum": ["+", "-"]}, "c": {"anyOf": [{"type": "string"}, {"type": "null"}]},
            "d": {"$ref": "#/$defs/names"}, "e": {}},
            "$defs": {"names": {"type": "array", "items": {"type": "string"}}}});
        let expected = "a: integer, b: \"+\" | \"-\" (optional), c: string | null (optional), \
            d: array of string (optional), e: any (optional)";
        assert_eq!(arguments_of(&schema), expected);
    }
}
