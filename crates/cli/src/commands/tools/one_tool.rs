//! `wharf tools SERVER TOOL`: one tool in full, and an example call.

use std::sync::Arc;

use serde::Serialize;
use serde_json::{Map, Value};
use wharf::fleet::{Entry, Fleet};
use wharf::{Hints, Json, nearest};

use super::schema_tree::{TreeLine, tree};
use crate::error::{UsageError, usage_error};
use crate::exit::Exit;
use crate::failure::Subject;
use crate::globals::Globals;
use crate::one_shot::connected_server;
use crate::{lint, term};

/// The width of lines in a pipe, where no terminal breaks them.
const PIPE_WIDTH: usize = 100;
/// The smallest width for a text.
const MIN_TEXT_WIDTH: usize = 20;
/// Columns per level of the tree.
const INDENT: usize = 2;

/// The layout of `--json`.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct JsonTool<'a> {
    version: u32,
    server: &'a str,
    /// The tool as its server sent it.
    tool: &'a Json,
    /// The name that models use.
    name: &'a str,
    /// The description and the arguments that models see.
    description: &'a str,
    input_schema: &'a Json,
    hints: Hints,
    example: String,
}

/// Shows one tool of the only server of a fleet.
pub(in crate::commands) async fn show(fleet: &Fleet, globals: &Globals, server: &str, tool: &str) -> Exit {
    if let Err(exit) = connected_server(fleet, globals, Subject::tool(server, tool)).await {
        return exit;
    }
    let catalog = fleet.catalog();
    let has_name = |entry: &&Arc<Entry>| *entry.tool.name == *tool || *entry.name == *tool;
    let Some(entry) = catalog.entries().iter().find(has_name) else {
        let names = catalog.entries().iter().map(|entry| &*entry.tool.name);
        return term::usage_error(&unknown(server, tool, nearest(tool, names)));
    };
    let schema = entry.input_schema.to_value().unwrap_or_default();
    let example = example(server, &entry.tool.name, &schema);
    if globals.json {
        let Entry { tool, name, description, input_schema, hints, .. } = &**entry;
        let tool = &tool.raw;
        let shown = JsonTool { version: 1, server, tool, name, description, input_schema, hints: *hints, example };
        return term::redacted_json(&shown, &fleet.redactor()).await;
    }
    let width = term::terminal_width().map_or(PIPE_WIDTH, usize::from);
    term::out(page(entry, &schema, &example, width)).await
}

fn unknown(server: &str, tool: &str, near: Option<&str>) -> UsageError {
    let hint = match near {
        Some(near) => format!("did you mean `{near}`?"),
        None => format!("list the tools: wharf tools {server}"),
    };
    usage_error(format!("{server}: unknown tool `{tool}`"), Some(&hint))
}

fn page(entry: &Entry, schema: &Value, example: &str, width: usize) -> String {
    let title = entry.tool.title.as_ref().filter(|title| **title != entry.tool.name);
    let title = title.map(|title| format!(" ({})", term::name(title))).unwrap_or_default();
    let mut lines = vec![format!("{}{title}", term::name(&entry.tool.name))];
    lines.push(format!("name for models: {}", entry.name));
    let hints = super::hints(entry.hints);
    if !hints.is_empty() {
        lines.push(format!("hints: {hints}"));
    }
    if !lint::is_undescribed(entry) {
        lines.push(String::new());
        lines.extend(paragraphs(&entry.description, width));
    }
    lines.push(String::new());
    lines.extend(section("arguments", &tree(schema), width));
    let output = entry.tool.output_schema.as_ref().and_then(|schema| schema.to_value().ok());
    let output = output.map(|schema| tree(&schema)).filter(|lines| !lines.is_empty());
    if let Some(output) = output {
        lines.push(String::new());
        lines.extend(section("output", &output, width));
    }
    lines.push(String::new());
    lines.push(format!("example: {example}"));
    lines.join("\n")
}

fn section(title: &str, tree: &[TreeLine], width: usize) -> Vec<String> {
    if tree.is_empty() {
        return vec![format!("{title}: none")];
    }
    let mut lines = vec![format!("{title}:")];
    for TreeLine { depth, name, details, description } in tree {
        let indent = INDENT * (depth + 1);
        let head = format!("{}: {}", term::name(name), term::name(details));
        lines.extend(indented(&head, indent, width));
        let description = description.as_deref().map(str::trim).filter(|text| !text.is_empty());
        lines.extend(description.into_iter().flat_map(|text| indented(text, indent + 2 * INDENT, width)));
    }
    lines
}

/// Wraps a text with its paragraphs. Every row is indented, so that none begins like a line of ours.
fn paragraphs(text: &str, width: usize) -> Vec<String> {
    let indent = |line: &str| INDENT + line.chars().take_while(|c| *c == ' ').count();
    text.trim().lines().flat_map(|line| indented(line, indent(line), width)).collect()
}

fn indented(text: &str, indent: usize, width: usize) -> Vec<String> {
    let room = width.saturating_sub(indent).max(MIN_TEXT_WIDTH);
    let rows = term::wrapped(&term::plain(text), room);
    rows.into_iter().map(|row| format!("{:indent$}{row}", "").trim_end().to_owned()).collect()
}

/// Returns a call with every required argument.
fn example(server: &str, tool: &str, schema: &Value) -> String {
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
    format!("wharf call {}", words.map(|word| quoted(&term::name(&word))).collect::<Vec<_>>().join(" "))
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
        assert_eq!(example("s", "calc", &schema), r#"wharf call s calc a=3 'op=*' 'list=["text"]'"#);
        let deep = json!({"required": ["o"], "properties": {"o": {"type": "object", "required": ["x"]}}});
        assert_eq!(example("s", "t", &deep), r#"wharf call s t '{"o":{"x":"…"}}'"#);
        assert_eq!(example("s", "t", &json!({})), "wharf call s t");
        let option = json!({"required": ["--env"], "properties": {"--env": {"default": "AWS_SECRET_ACCESS_KEY"}}});
        assert_eq!(example("s", "-t", &option), r#"wharf call s -- -t '{"--env":"AWS_SECRET_ACCESS_KEY"}'"#);
    }
}
