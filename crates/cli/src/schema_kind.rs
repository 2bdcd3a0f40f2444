//! The type of a value in one text, from its JSON Schema: `string`, `array of integer`, `"r" | "w"`.

use serde_json::Value;

/// Deeper values are not shown.
pub(crate) const MAX_DEPTH: usize = 8;
/// The most subschemas that are read for all types of a schema: alternatives may refer to each other without an end.
const MAX_READ: usize = 20_000;
/// How many values of an enumeration are shown.
const MAX_VALUES: usize = 30;
/// How much of one value is shown.
const MAX_VALUE_CHARS: usize = 100;

/// The types of the values of one schema.
pub(crate) struct Kinds<'a> {
    root: &'a Value,
    /// The subschemas that were read.
    read: usize,
}

impl<'a> Kinds<'a> {
    pub(crate) fn new(root: &'a Value) -> Self {
        Self { root, read: 0 }
    }

    /// Follows a reference into the same document.
    pub(crate) fn resolved(&self, schema: &'a Value) -> &'a Value {
        let pointer = schema["$ref"].as_str().and_then(|reference| reference.strip_prefix('#'));
        pointer.and_then(|pointer| self.root.pointer(pointer)).unwrap_or(schema)
    }

    /// Returns the values that a subschema allows, or its types, or `any`.
    pub(crate) fn kind(&mut self, schema: &'a Value) -> String {
        self.kind_at(schema, 0)
    }

    fn kind_at(&mut self, schema: &'a Value, depth: usize) -> String {
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
                let kind = self.kind_at(alternative, depth + 1);
                if !kinds.contains(&kind) {
                    kinds.push(kind);
                }
            }
            return kinds.join(" | ");
        }
        match &schema["type"] {
            Value::String(one) if one == "array" && schema["items"].is_object() => {
                format!("array of {}", self.kind_at(&schema["items"], depth + 1))
            }
            Value::String(one) => one.clone(),
            Value::Array(several) => several.iter().filter_map(Value::as_str).collect::<Vec<_>>().join(" | "),
            _ if schema["properties"].is_object() => "object".to_owned(),
            _ => "any".to_owned(),
        }
    }
}

/// Returns a value, shortened.
pub(crate) fn shown(value: &Value) -> String {
    let text = value.to_string();
    match text.char_indices().nth(MAX_VALUE_CHARS) {
        Some((at, _)) => format!("{}…", &text[..at]),
        None => text,
    }
}
