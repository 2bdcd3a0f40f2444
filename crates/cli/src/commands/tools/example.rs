//! An example call of a tool, as a user types it.

use serde_json::{Map, Value};

use crate::term;

/// Ends a line that a shell continues.
const CONTINUATION: &str = " \\";

/// The words of a call with every required argument, quoted as a shell needs them.
pub(super) struct ExampleCall(Vec<String>);

impl ExampleCall {
    pub(super) fn line(&self) -> String {
        self.0.join(" ")
    }

    /// Returns rows of at most `width` columns, with a mark where the shell continues a line. A longer word has its own row.
    pub(super) fn rows(&self, width: usize) -> Vec<String> {
        let room = width.saturating_sub(CONTINUATION.len());
        let mut rows: Vec<String> = Vec::new();
        for word in &self.0 {
            match rows.last_mut() {
                Some(row) if term::columns(row) + 1 + term::columns(word) <= room => {
                    row.push(' ');
                    row.push_str(word);
                }
                _ => rows.push(word.clone()),
            }
        }
        let last = rows.len().saturating_sub(1);
        let continued = |(index, row): (usize, String)| if index < last { format!("{row}{CONTINUATION}") } else { row };
        rows.into_iter().enumerate().map(continued).collect()
    }
}

/// Returns a call with every required argument.
pub(super) fn example(server: &str, tool: &str, schema: &Value) -> ExampleCall {
    let required = schema["required"].as_array().into_iter().flatten().filter_map(Value::as_str);
    let arguments: Vec<(&str, Value)> = required.map(|name| (name, sample(&schema["properties"][name]))).collect();
    // A name that begins like an option would be read as one.
    let is_simple = |(name, value): &(&str, Value)| {
        !name.contains('=') && !name.is_empty() && !name.starts_with('-') && !value.is_object()
    };
    let words: Vec<String> = if arguments.iter().all(is_simple) {
        let text = |value: &Value| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
        arguments.iter().map(|(name, value)| format!("{name}={}", text(value))).collect()
    } else {
        let object: Map<String, Value> = arguments.into_iter().map(|(name, value)| (name.to_owned(), value)).collect();
        vec![Value::Object(object).to_string()]
    };
    let separator = if tool.starts_with('-') { Some("--") } else { None };
    let words = [Some(server), separator, Some(tool)].into_iter().flatten().map(str::to_owned).chain(words);
    let command = ["wharf", "call"].into_iter().map(str::to_owned);
    ExampleCall(command.chain(words.map(|word| quoted(&term::name(&word)))).collect())
}

/// Quotes a word as a shell needs it. `shlex` would quote every `=`.
fn quoted(word: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "-_=:./@,+".contains(c);
    if !word.is_empty() && word.chars().all(is_plain) {
        return word.to_owned();
    }
    shlex::try_quote(word).map_or_else(|_| "…".to_owned(), Into::into)
}

/// Returns a value that a schema is likely to accept.
fn sample(schema: &Value) -> Value {
    let given = [schema.get("default"), schema["examples"].get(0), schema["enum"].get(0), schema.get("const")];
    if let Some(value) = given.into_iter().flatten().next() {
        return value.clone();
    }
    let kind = match &schema["type"] {
        Value::String(one) => one.as_str(),
        Value::Array(several) => several.first().and_then(Value::as_str).unwrap_or_default(),
        _ => "",
    };
    match kind {
        "integer" | "number" => schema.get("minimum").cloned().unwrap_or_else(|| Value::from(1)),
        "boolean" => Value::Bool(true),
        "array" => Value::Array(vec![item_sample(&schema["items"])]),
        "object" => {
            let required = schema["required"].as_array().into_iter().flatten().filter_map(Value::as_str);
            // Only one level: the tree shows the rest.
            Value::Object(required.map(|name| (name.to_owned(), Value::from("…"))).collect())
        }
        _ => Value::from("text"),
    }
}

/// Like [`sample`], without items of items: a schema may nest them without an end.
fn item_sample(schema: &Value) -> Value {
    if schema["type"] == "array" { Value::Array(Vec::new()) } else { sample(schema) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn an_example_has_every_required_argument() {
        let schema = json!({"required": ["a", "op", "list"], "properties": {"a": {"type": "integer", "minimum": 3},
            "op": {"enum": ["*"]}, "list": {"type": "array", "items": {"type": "string"}}, "more": {}}});
        assert_eq!(example("s", "calc", &schema).line(), r#"wharf call s calc a=3 'op=*' 'list=["text"]'"#);
        let deep = json!({"required": ["o"], "properties": {"o": {"type": "object", "required": ["x"]}}});
        assert_eq!(example("s", "t", &deep).line(), r#"wharf call s t '{"o":{"x":"…"}}'"#);
        assert_eq!(example("s", "t", &json!({})).line(), "wharf call s t");
        let option = json!({"required": ["--env"], "properties": {"--env": {"default": "AWS_SECRET_ACCESS_KEY"}}});
        assert_eq!(example("s", "-t", &option).line(), r#"wharf call s -- -t '{"--env":"AWS_SECRET_ACCESS_KEY"}'"#);
    }

    #[test]
    fn a_long_example_continues_between_words() {
        let schema = json!({"required": ["a", "b"], "properties": {"a": {"default": "one two"}, "b": {"default": 2}}});
        let example = example("server", "tool", &schema);
        assert_eq!(example.rows(80), ["wharf call server tool 'a=one two' b=2"]);
        assert_eq!(example.rows(26), ["wharf call server tool \\", "'a=one two' b=2"]);
    }
}
