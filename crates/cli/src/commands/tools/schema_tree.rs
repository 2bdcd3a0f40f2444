//! A JSON Schema as a readable tree: one line per value, with its type, its limits and its description.

use serde_json::Value;

use crate::schema_kind::{Kinds, MAX_DEPTH, shown};

/// The most lines of one schema.
const MAX_LINES: usize = 300;

/// One value of a schema.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct TreeLine {
    pub(super) depth: usize,
    pub(super) name: String,
    /// The type, the limits, and whether it is required.
    pub(super) details: String,
    pub(super) description: Option<String>,
}

/// Returns the properties of an object schema, and theirs.
pub(super) fn tree(schema: &Value) -> Vec<TreeLine> {
    let mut tree = Tree { kinds: Kinds::new(schema), lines: Vec::new() };
    tree.add_properties(schema, 0);
    tree.lines
}

struct Tree<'a> {
    kinds: Kinds<'a>,
    lines: Vec<TreeLine>,
}

impl<'a> Tree<'a> {
    fn add_properties(&mut self, schema: &'a Value, depth: usize) {
        let schema = self.kinds.resolved(schema);
        let required = schema["required"].as_array().into_iter().flatten().filter_map(Value::as_str);
        let required: Vec<&str> = required.collect();
        for (name, property) in schema["properties"].as_object().into_iter().flatten() {
            if self.lines.len() >= MAX_LINES {
                return;
            }
            let resolved = self.kinds.resolved(property);
            let is_required = required.contains(&name.as_str());
            let details = [Some(self.kinds.kind(property)), is_required.then(|| "required".to_owned())];
            let details = details.into_iter().flatten().chain(limits(resolved)).collect::<Vec<_>>().join(", ");
            let text = property["description"].as_str().or(resolved["description"].as_str());
            let description = text.or(resolved["title"].as_str()).map(str::to_owned);
            self.lines.push(TreeLine { depth, name: name.clone(), details, description });
            if depth + 1 < MAX_DEPTH {
                self.add_parts(resolved, depth + 1);
            }
        }
    }

    /// Adds what a value consists of: its properties, or those of its items or alternatives.
    fn add_parts(&mut self, schema: &'a Value, depth: usize) {
        self.add_properties(schema, depth);
        let parts = [&schema["items"], &schema["additionalProperties"]];
        let alternatives = ["anyOf", "oneOf", "allOf"].into_iter().filter_map(|key| schema[key].as_array()).flatten();
        for part in parts.into_iter().filter(|part| part.is_object()).chain(alternatives) {
            self.add_properties(part, depth);
        }
    }
}

/// Returns the limits and the default of a value.
fn limits(schema: &Value) -> Vec<String> {
    let with_text = |key: &str, text: &str| schema.get(key).map(|value| format!("{text} {}", shown(value)));
    let texts = [
        with_text("format", "format"),
        with_text("pattern", "pattern"),
        with_text("minimum", "at least"),
        with_text("exclusiveMinimum", "more than"),
        with_text("maximum", "at most"),
        with_text("exclusiveMaximum", "less than"),
        with_text("minLength", "length at least"),
        with_text("maxLength", "length at most"),
        with_text("minItems", "items at least"),
        with_text("maxItems", "items at most"),
        with_text("default", "default"),
    ];
    texts.into_iter().flatten().collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn drawn(schema: &Value) -> String {
        let line = |line: &TreeLine| {
            let description = line.description.as_ref().map(|text| format!(": {text}")).unwrap_or_default();
            format!("{}{} ({}){description}", "  ".repeat(line.depth), line.name, line.details)
        };
        tree(schema).iter().map(line).collect::<Vec<_>>().join("\n")
    }

    #[test]
    fn nested_values_references_and_limits_are_shown() {
        let schema = json!({
            "required": ["path"],
            "properties": {
                "path": {"type": "string", "description": "Where", "minLength": 1},
                "mode": {"enum": ["r", "w"], "default": "r"},
                "edits": {"type": "array", "items": {"$ref": "#/$defs/edit"}, "maxItems": 9},
                "who": {"anyOf": [{"type": "null"}, {"type": "object", "properties": {"age": {"type": "integer"}}}]},
                "any": {},
            },
            "$defs": {"edit": {"type": "object", "required": ["old"], "properties": {"old": {"type": "string"}}}},
        });
        let lines = drawn(&schema);
        let mut lines: Vec<&str> = lines.lines().collect();
        lines.sort_unstable();
        insta::assert_snapshot!(lines.join("\n"), @r#"
          age (integer)
          old (string, required)
        any (any)
        edits (array of object, items at most 9)
        mode ("r" | "w", default "r")
        path (string, required, length at least 1): Where
        who (null | object)
        "#);
    }

    #[test]
    fn a_schema_that_contains_itself_ends() {
        let schema = json!({"properties": {"a": {"$ref": "#"}, "b": {"$ref": "#"}}});
        assert!(tree(&schema).len() <= MAX_LINES);
        let array = json!({"type": "array", "items": {"$ref": "#/$defs/a"}});
        let items = json!({"properties": {"a": {"$ref": "#/$defs/a"}}, "$defs": {"a": array}});
        assert!(!tree(&items).is_empty());
        let circle = json!({"properties": {"a": {"$ref": "#/$defs/a"}}, "$defs": {"a": {"$ref": "#/$defs/a"}}});
        assert_eq!(tree(&circle).len(), 1);
        // Without a limit on the whole, this would be 30 to the power of 8.
        let alternatives = vec![json!({"$ref": "#/$defs/a"}); 30];
        let circles = json!({"properties": {"x": {"$ref": "#/$defs/a"}}, "$defs": {"a": {"anyOf": alternatives}}});
        assert_eq!(drawn(&circles), "x (any)");
    }
}
