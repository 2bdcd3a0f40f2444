//! Tool discovery: what a server lists, what of it cannot be offered, and what a model would wish were better.

use serde_json::Value;
use wharf::fleet::catalog::{Entry, NormalizedSchema, normalize};
use wharf::{CallErrorKind, Listed, Schema, Tool};

use super::Looked;
use super::finding::{Class, Finding};
use crate::exit::Exit;
use crate::render;

/// How many tools are named in one finding.
const NAMED: usize = 8;
/// How many tools that are left out are told one by one.
const ONE_BY_ONE: usize = 10;
/// What says what kind of thing an argument is.
const KINDS: [&str; 8] = ["type", "enum", "const", "$ref", "anyOf", "oneOf", "allOf", "properties"];

/// What came of listing the tools of a server.
pub(super) fn tools(looked: &Looked<'_>) -> Vec<Finding> {
    let (status, name) = (looked.status, looked.status.name.as_str());
    if let Some(error) = status.error().filter(|error| !matches!(error.kind, CallErrorKind::Connect(_))) {
        let message = format!("its tools cannot be listed: {}", error.kind);
        let fix = match &error.kind {
            CallErrorKind::Timeout { .. } => "give it longer with --timeout SECONDS, or look at what it waits for",
            _ => "the server has to answer `tools/list`; tell its authors, and look at its log",
        };
        return vec![Class::Discovery.problem(name, "list", Exit::Failed, message).mended_by(fix.to_owned())];
    }
    let Some(listed) = looked.fleet.listed(&status.name) else { return Vec::new() };
    let mut findings = vec![count(looked, &listed)];
    findings.extend(left_out(name, &listed));
    let catalog = looked.fleet.catalog();
    let offered = catalog.entries().iter().filter(|entry| entry.server.as_ref() == Some(&status.name));
    let offered: Vec<&Entry> = offered.map(AsRef::as_ref).collect();
    findings.extend(unchecked(name, &offered));
    findings.extend(undescribed(name, &offered));
    findings.extend(untyped(name, &offered));
    findings.extend(cut(name, &offered));
    findings.extend(odd(name, &offered));
    let notes = catalog.notes().filter(|note| note.server.as_ref() == Some(&status.name) && note.tool.is_none());
    findings.extend(notes.map(|note| Class::Discovery.advice(name, "list", note.summary())));
    findings
}

fn count(looked: &Looked<'_>, listed: &Listed<Tool>) -> Finding {
    let (name, all, offered) =
        (looked.status.name.as_str(), listed.items.len() + listed.quarantined.len(), looked.status.tools);
    match (all, offered) {
        (0, _) => Class::Discovery
            .advice(name, "list", "it has no tools")
            .mended_by("some servers have tools only after a login, or with a variable set".to_owned()),
        (_, 0) => Class::Discovery
            .advice(name, "list", format!("none of its {} is offered", tools_told(all)))
            .mended_by("look at `tools` in its entry: what `allow` and `deny` leave".to_owned()),
        _ if all == offered => Class::Discovery.fine(name, "list", format!("{} listed", tools_told(all))),
        _ => Class::Discovery.fine(name, "list", format!("{} listed, {offered} of them offered", tools_told(all))),
    }
}

fn tools_told(count: usize) -> String {
    if count == 1 { "1 tool".to_owned() } else { format!("{count} tools") }
}

/// Tools that cannot be offered at all.
fn left_out(name: &str, listed: &Listed<Tool>) -> Vec<Finding> {
    let malformed = listed.quarantined.iter().map(|odd| {
        let tool =
            odd.name.as_ref().map_or_else(|| format!("tool {}", odd.position + 1), |name| format!("tool `{name}`"));
        ("malformed", format!("the {tool} is left out: {}", render::about(&odd.reason)))
    });
    let unusable = listed.items.iter().filter_map(|tool| match normalize(&tool.input_schema) {
        NormalizedSchema::Unusable(reason) => {
            Some(("schema", format!("the tool `{}` is left out: its schema cannot be used: {reason}", tool.name)))
        }
        NormalizedSchema::Same | NormalizedSchema::Changed(..) => None,
    });
    let all: Vec<_> = malformed.chain(unusable).collect();
    let fix = "this is a fault of the server; tell its authors. Its other tools work".to_owned();
    let told = |(check, message): &(&'static str, String)| {
        Class::Discovery.problem(name, check, Exit::Failed, message.as_str()).mended_by(fix.clone())
    };
    let mut findings: Vec<Finding> = all.iter().take(ONE_BY_ONE).map(told).collect();
    if all.len() > ONE_BY_ONE {
        let message =
            format!("{} more are left out; `wharf tools {name} --json` tells why", tools_told(all.len() - ONE_BY_ONE));
        findings.push(Class::Discovery.problem(name, "malformed", Exit::Failed, message));
    }
    findings
}

/// Tools that are offered, though nobody can say what fits them.
fn unchecked(name: &str, offered: &[&Entry]) -> Option<Finding> {
    let told = |entry: &&Entry| {
        let reason = Schema::compile(&entry.tool.input_schema).err()?;
        Some(format!("{} ({reason})", entry.tool.name))
    };
    let odd: Vec<String> = offered.iter().filter_map(told).collect();
    let fix = "this is a fault of the server, which has to check arguments by itself; tell its authors".to_owned();
    let message = format!("schemas that arguments cannot be checked against: {}", names(&odd));
    (!odd.is_empty()).then(|| Class::Discovery.advice(name, "schema", message).mended_by(fix))
}

/// Tools that say nothing about themselves, and about which nobody else says anything.
fn undescribed(name: &str, offered: &[&Entry]) -> Option<Finding> {
    let is_bare = |entry: &&&Entry| {
        let own = entry.tool.description.as_deref().unwrap_or_default();
        own.trim().is_empty() && *entry.description == *entry.tool.description_or_default()
    };
    let bare: Vec<String> = offered.iter().filter(is_bare).map(|entry| entry.tool.name.to_string()).collect();
    let message = format!("no description: {}", names(&bare));
    let fix = "say what it does, or a model has only its name: in the server, or in its entry with \
        \"tools\": {\"descriptions\": {…}}"
        .to_owned();
    (!bare.is_empty()).then(|| Class::Discovery.advice(name, "descriptions", message).mended_by(fix))
}

fn untyped(name: &str, offered: &[&Entry]) -> Option<Finding> {
    let untyped: Vec<String> = offered.iter().flat_map(|entry| untyped_arguments(&entry.tool)).collect();
    let message = format!("arguments without a type: {}", names(&untyped));
    let fix = "give each a `type` in the server's schema, or a model has to guess".to_owned();
    (!untyped.is_empty()).then(|| Class::Discovery.advice(name, "types", message).mended_by(fix))
}

fn untyped_arguments(tool: &Tool) -> Vec<String> {
    let schema = tool.input_schema.to_value().unwrap_or_default();
    let is_typed = |schema: &Value| KINDS.iter().any(|kind| schema.get(kind).is_some());
    let arguments = schema["properties"].as_object().into_iter().flatten();
    arguments.filter(|(_, schema)| !is_typed(schema)).map(|(argument, _)| format!("{}.{argument}", tool.name)).collect()
}

fn cut(name: &str, offered: &[&Entry]) -> Option<Finding> {
    let told = |entry: &&Entry| Some(format!("{} ({} characters)", entry.tool.name, entry.tool.cut_from?));
    let cut: Vec<String> = offered.iter().filter_map(told).collect();
    let message = format!("descriptions that are too long, and were cut: {}", names(&cut));
    let fix = "what matters has to stand at their beginning; `wharf context` tells what they cost".to_owned();
    (!cut.is_empty()).then(|| Class::Discovery.advice(name, "descriptions", message).mended_by(fix))
}

/// Optional fields of tools that were passed over.
fn odd(name: &str, offered: &[&Entry]) -> Option<Finding> {
    let told = |entry: &&Entry| {
        let tool = &entry.tool;
        // The last note of a description that was cut is about that.
        let notes = tool.notes.len().saturating_sub(usize::from(tool.cut_from.is_some()));
        tool.notes[..notes].iter().map(|note| format!("{}: {note}", tool.name)).collect::<Vec<_>>()
    };
    let odd: Vec<String> = offered.iter().flat_map(told).collect();
    let message = format!("fields that were passed over: {}", names(&odd));
    let fix = "this is a fault of the server, and does no harm; tell its authors".to_owned();
    (!odd.is_empty()).then(|| Class::Discovery.advice(name, "fields", message).mended_by(fix))
}

/// Some names, and how many more there are.
fn names(all: &[String]) -> String {
    let shown = all[..all.len().min(NAMED)].join(", ");
    match all.len().saturating_sub(NAMED) {
        0 => shown,
        more => format!("{shown} and {more} more"),
    }
}
