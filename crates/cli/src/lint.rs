//! What the author of a tool could do better: models choose by descriptions, and write what types tell them to.

use serde_json::Value;
use wharf::Tool;

/// What says what a value is. One of them is enough.
const TYPES: [&str; 8] = ["type", "enum", "const", "anyOf", "oneOf", "allOf", "$ref", "not"];

/// What a tool lacks, in words.
pub(crate) fn lacks(tool: &Tool) -> Vec<String> {
    let mut lacks = Vec::new();
    if tool.description.as_ref().is_none_or(|text| text.trim().is_empty()) {
        lacks.push("it has no description".to_owned());
    }
    let schema = tool.input_schema.to_value().unwrap_or_default();
    let untyped =
        |schema: &Value| schema.as_object().is_some_and(|schema| !TYPES.iter().any(|key| schema.contains_key(*key)));
    let properties = schema["properties"].as_object().into_iter().flatten();
    let names: Vec<String> =
        properties.filter(|(_, schema)| untyped(schema)).map(|(name, _)| format!("`{name}`")).collect();
    match &names[..] {
        [] => {}
        [one] => lacks.push(format!("its argument {one} has no type")),
        several => lacks.push(format!("its arguments {} have no types", several.join(", "))),
    }
    lacks
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;
    use wharf::{Item as _, Json};

    #[test]
    fn a_tool_without_words_and_types_is_told_what_it_lacks() {
        let told = |tool: Value| lacks(&Tool::from_json(&Json::from(tool)).unwrap()).join("; ");
        let bare = json!({"name": "t", "inputSchema": {"properties": {"a": {}, "b": {"description": "b"}, "c": {"type": "string"}}}});
        assert_eq!(told(bare), "it has no description; its arguments `a`, `b` have no types");
        let one = json!({"name": "t", "description": " ", "inputSchema": {"properties": {"a": {"title": "A"}}}});
        assert_eq!(told(one), "it has no description; its argument `a` has no type");
        let good = json!({"name": "t", "description": "does it", "inputSchema": {"properties": {"a": {"$ref": "#/$defs/a"}, "b": true}}});
        assert_eq!(told(good), "");
    }
}
