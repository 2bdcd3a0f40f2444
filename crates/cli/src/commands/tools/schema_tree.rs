//! A JSON Schema as a readable tree: one line per value, with its type, its limits and its description.

use serde_json::Value;

/// Deeper values are not shown.
const MAX_DEPTH: usize = 8;
/// The most lines of one schema.
const MAX_LINES: usize = 300;
/// The most subschemas that are read for the types of all lines: alternatives may refer to each other without an end.
const MAX_READ: usize = 20_000;
/// How many values of an enumeration are shown.
const MAX_VALUES: usize = 30;
/// How much of one value is shown.
const MAX_VALUE_CHARS: usize = 100;

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
    let mut tree = Tree { root: schema, lines: Vec::new(), read: 0 };
    tree.add_properties(schema, 0);
    tree.lines
}

struct Tree<'a> {
    root: &'a Value,
    lines: Vec<TreeLine>,
    /// The subschemas that were read for their types.
    read: usize,
}

impl<'a> Tree<'a> {
    fn add_properties(&mut self, schema: &'a Value, depth: usize) {
        let schema = self.resolved(schema);
        let required = schema["required"].as_array().into_iter().flatten().filter_map(Value::as_str);
        let required: Vec<&str> = required.collect();
        for (name, property) in schema["properties"].as_object().into_iter().flatten() {
            if self.lines.len() >= MAX_LINES {
                return;
            }
            let resolved = self.resolved(property);
            let is_required = required.contains(&name.as_str());
            let details = [Some(self.kind(property, 0)), is_required.then(|| "required".to_owned())];
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

    /// Follows a reference into the same document.
    fn resolved(&self, schema: &'a Value) -> &'a Value {
        let pointer = schema["$ref"].as_str().and_then(|reference| reference.strip_prefix('#'));
        pointer.and_then(|pointer| self.root.pointer(pointer)).unwrap_or(schema)
    }

    fn kind(&mut self, schema: &'a Value, depth: usize) -> String {
        let schema = self.resolved(schema);
        self.read += 1;
        if depth >= MAX_DEPTH || self.read > MAX_READ {
            return "any".to_owned();
        }
        if let Some(values) = schema["enum"].as_array() {
            let more = if values.len() > MAX_VALUES { " | …" } else { "" };
            let shown: Vec<String> = values.iter().take(MAX_VALUES).map(shown).collect();
            return format!("{}{more}", shown.join(" | "));
        }
        if let Some(value) = schema.get("const") {
            return shown(value);
        }
        if let Some(alternatives) = schema["anyOf"].as_array().or(schema["oneOf"].as_array()) {
            let mut kinds: Vec<String> = Vec::new();
            for alternative in alternatives.iter().take(MAX_VALUES) {
                let kind = self.kind(alternative, depth + 1);
                if !kinds.contains(&kind) {
                    kinds.push(kind);
                }
            }
            return kinds.join(" | ");
        }
        match &schema["type"] {
            Value::String(one) if one == "array" && schema["items"].is_object() => {
                format!("array of {}", self.kind(&schema["items"], depth + 1))
            }
            Value::String(one) => one.clone(),
            Value::Array(several) => several.iter().filter_map(Value::as_str).collect::<Vec<_>>().join(" | "),
            _ if schema["properties"].is_object() => "object".to_owned(),
            _ => "any".to_owned(),
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

fn shown(value: &Value) -> String {
    let text = value.to_string();
    match text.char_indices().nth(MAX_VALUE_CHARS) {
        Some((at, _)) => format!("{}…", &text[..at]),
        None => text,
    }
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
