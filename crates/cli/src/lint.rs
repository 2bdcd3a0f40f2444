//! What the author of a tool could do better: models choose by descriptions, and write what types tell them to.

use serde_json::Value;
use wharf::Tool;
use wharf::fleet::Entry;

/// What says what a value is. One of them is enough.
const TYPES: [&str; 8] = ["type", "enum", "const", "anyOf", "oneOf", "allOf", "$ref", "not"];

/// What a tool lacks that a model is offered, in words. A description may come from the configuration, too.
pub(crate) fn lacks(entry: &Entry) -> Vec<String> {
    let mut lacks: Vec<String> =
        is_undescribed(entry).then(|| "it has no description".to_owned()).into_iter().collect();
    lacks.extend(untyped(&entry.tool));
    lacks
}

/// Whether a model gets nothing but the words that stand in for a description.
pub(crate) fn is_undescribed(entry: &Entry) -> bool {
    let silent = entry.tool.description.as_ref().is_none_or(|text| text.trim().is_empty());
    silent && *entry.description == entry.tool.description_or_default()
}

/// The arguments of which nothing says what they are.
fn untyped(tool: &Tool) -> Option<String> {
    let schema = tool.input_schema.to_value().unwrap_or_default();
    let untyped =
        |schema: &Value| schema.as_object().is_some_and(|schema| !TYPES.iter().any(|key| schema.contains_key(*key)));
    let properties = schema["properties"].as_object().into_iter().flatten();
    let names: Vec<String> =
        properties.filter(|(_, schema)| untyped(schema)).map(|(name, _)| format!("`{name}`")).collect();
    match &names[..] {
        [] => None,
        [one] => Some(format!("its argument {one} has no type")),
        several => Some(format!("its arguments {} have no types", several.join(", "))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;
    use wharf::{Item as _, Json};

    #[test]
    fn arguments_that_could_be_anything_are_named() {
        let told = |properties: Value| {
            let tool = json!({"name": "t", "inputSchema": {"properties": properties}});
            untyped(&Tool::from_json(&Json::from(tool)).unwrap()).unwrap_or_default()
        };
        let several = json!({"a": {}, "b": {"description": "b"}, "c": {"type": "string"}});
        assert_eq!(told(several), "its arguments `a`, `b` have no types");
        assert_eq!(told(json!({"a": {"title": "A"}})), "its argument `a` has no type");
        assert_eq!(told(json!({"a": {"$ref": "#/$defs/a"}, "b": true, "c": {"enum": [1]}})), "");
    }
}
