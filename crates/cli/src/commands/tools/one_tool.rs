//! `wharf tools SERVER TOOL`: one tool in full, and an example call.

use serde::Serialize;
use serde_json::Value;
use wharf::fleet::catalog::CatalogNote;
use wharf::fleet::{Entry, Fleet};
use wharf::{Hints, Json};

use super::super::tool_lookup;
use super::example::{ExampleCall, example};
use super::schema_tree::{TreeLine, tree};
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
    let catalog = fleet.catalog();
    let status = match connected_server(fleet, globals, Subject::tool(server, tool)).await {
        Ok(status) => status,
        Err(exit) => return exit,
    };
    let entry = match tool_lookup::find(fleet, &catalog, &status.name, tool) {
        Ok(entry) => entry,
        Err(error) => return term::usage_error(&error),
    };
    let schema = entry.input_schema.to_value().unwrap_or_default();
    let example = example(server, &entry.tool.name, &schema);
    if globals.json {
        let Entry { tool, name, description, input_schema, hints, .. } = &*entry;
        let (tool, example) = (&tool.raw, example.line());
        let shown = JsonTool { version: 1, server, tool, name, description, input_schema, hints: *hints, example };
        return term::redacted_json(&shown, &fleet.redactor()).await;
    }
    let width = term::terminal_width().map(usize::from);
    let changes: Vec<&CatalogNote> =
        super::notes(&status.name, &catalog).filter(|note| note.tool.as_deref() == Some(&*entry.tool.name)).collect();
    let page = page(&entry, &schema, &changes, width.unwrap_or(PIPE_WIDTH));
    let example = example_lines(&example, width.unwrap_or(usize::MAX));
    // Names of the server begin lines here.
    term::out(term::unlabeled(&format!("{page}\n\n{example}"), width)).await
}

fn page(entry: &Entry, schema: &Value, changes: &[&CatalogNote], width: usize) -> String {
    let title = entry.tool.title.as_ref().filter(|title| **title != entry.tool.name);
    let title = title.map(|title| format!(" ({})", term::name(title))).unwrap_or_default();
    let mut lines = hanging(&format!("{}{title}", term::name(&entry.tool.name)), width);
    lines.extend(hanging(&format!("name for models: {}", entry.name), width));
    let hints = super::hints(entry.hints);
    if !hints.is_empty() {
        lines.extend(hanging(&format!("hints: {hints}"), width));
    }
    if !lint::is_undescribed(entry) {
        lines.push(String::new());
        lines.extend(paragraphs(entry.whole_description(), width));
    }
    if !changes.is_empty() {
        lines.push(String::new());
    }
    for change in changes {
        lines.extend(hanging(&format!("changed for models: {}", term::name(&change.summary())), width));
    }
    lines.push(String::new());
    lines.extend(section("arguments", &tree(schema), width));
    let output = entry.tool.output_schema.as_ref().and_then(|schema| schema.to_value().ok());
    let output = output.map(|schema| tree(&schema)).filter(|lines| !lines.is_empty());
    if let Some(output) = output {
        lines.push(String::new());
        lines.extend(section("output", &output, width));
    }
    lines.join("\n")
}

/// Returns the example, in one line if it fits.
fn example_lines(example: &ExampleCall, width: usize) -> String {
    let line = format!("example: {}", example.line());
    if term::columns(&line) <= width {
        return line;
    }
    let rows = example.rows(width.saturating_sub(2 * INDENT).max(MIN_TEXT_WIDTH));
    let indent =
        |(index, row): (usize, &String)| format!("{:1$}{row}", "", if index == 0 { INDENT } else { 2 * INDENT });
    let rows: Vec<String> = rows.iter().enumerate().map(indent).collect();
    format!("example:\n{}", rows.join("\n"))
}

/// Wraps one line of ours. All rows but the first are indented.
fn hanging(text: &str, width: usize) -> Vec<String> {
    let rows = term::wrapped(text, width.saturating_sub(INDENT).max(MIN_TEXT_WIDTH));
    let indent = |(index, row): (usize, String)| if index == 0 { row } else { format!("{:INDENT$}{row}", "") };
    rows.into_iter().enumerate().map(indent).collect()
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
