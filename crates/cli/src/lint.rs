//! Missing descriptions and types of tools: models choose tools by descriptions, and write arguments by types.

use serde_json::Value;
use wharf::Tool;
use wharf::fleet::Entry;

/// Keywords that define a value's type. One of them is enough.
const TYPES: [&str; 8] = ["type", "enum", "const", "anyOf", "oneOf", "allOf", "$ref", "not"];

/// Describes what a tool lacks. Its description may come from the configuration, too.
pub(crate) fn lacks(entry: &Entry) -> Vec<String> {
    let mut lacks: Vec<String> = is_undescribed(entry).then(|| "no description".to_owned()).into_iter().collect();
    lacks.extend(untyped(&entry.tool));
    lacks
}

/// Whether models see only the default description.
pub(crate) fn is_undescribed(entry: &Entry) -> bool {
    let has_none = entry.tool.description.as_ref().is_none_or(|text| text.trim().is_empty());
    has_none && *entry.description == entry.tool.description_or_default()
}

/// Describes the arguments without a type.
fn untyped(tool: &Tool) -> Option<String> {
    let schema = tool.input_schema.to_value().unwrap_or_default();
    let untyped =
        |schema: &Value| schema.as_object().is_some_and(|schema| !TYPES.iter().any(|key| schema.contains_key(*key)));
    let properties = schema["properties"].as_object().into_iter().flatten();
    let names: Vec<String> =
        properties.filter(|(_, schema)| untyped(schema)).map(|(name, _)| format!("`{name}`")).collect();
    match &names[..] {
        [] => None,
        [one] => Some(format!("argument {one} has no type")),
        several => Some(format!("arguments {} have no types", several.join(", "))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;
    use wharf::{Item as _, Json};

    #[test]
    fn arguments_without_a_type_are_named() {
        let lacking = |properties: Value| {
            let tool = json!({"name": "t", "inputSchema": {"properties": properties}});
            untyped(&Tool::from_json(&Json::from(tool)).unwrap()).unwrap_or_default()
        };
        let several = json!({"a": {}, "b": {"description": "b"}, "c": {"type": "string"}});
        assert_eq!(lacking(several), "arguments `a`, `b` have no types");
        assert_eq!(lacking(json!({"a": {"title": "A"}})), "argument `a` has no type");
        assert_eq!(lacking(json!({"a": {"$ref": "#/$defs/a"}, "b": true, "c": {"enum": [1]}})), "");
    }
}
