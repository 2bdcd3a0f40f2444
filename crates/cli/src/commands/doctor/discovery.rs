//! Tool discovery: a server's tools, which of them are invalid, and what they lack for models.

use std::time::Duration;

use serde_json::Value;
use wharf::fleet::catalog::{Entry, NormalizedSchema, normalize};
use wharf::{CallErrorKind, Listed, Schema, Tool};

use super::super::listing;
use super::finding::{Class, Finding};
use super::probe::Probe;
use crate::exit::Exit;
use crate::term::counted;

/// How many tools one finding names.
const MAX_NAMES: usize = 8;
/// How many invalid tools get their own finding.
const MAX_LEFT_OUT: usize = 10;
const REPORT_TO_AUTHORS: &str = "this is a bug in the server; report it to its authors";
const SIMPLER_SCHEMAS: &str = "the patterns of its schemas are very large; report it to its authors";
/// How long compiling all schemas of a server may take, at most.
const MAX_COMPILE_TIME: Duration = Duration::from_secs(10);
/// Keywords that define an argument's type.
const KINDS: [&str; 8] = ["type", "enum", "const", "$ref", "anyOf", "oneOf", "allOf", "properties"];

/// Returns findings about a server's list of tools.
pub(super) async fn tools(probe: &Probe<'_>) -> Vec<Finding> {
    let status = probe.status;
    let name = status.name.as_str();
    if let Some(error) = status.error().filter(|error| !matches!(error.kind, CallErrorKind::Connect(_))) {
        let message = format!("cannot list tools: {}", error.kind);
        let fix = match &error.kind {
            CallErrorKind::Timeout { .. } => {
                "raise the limit with --timeout SECONDS, or check what the server waits for"
            }
            _ => "the server must answer `tools/list`; check its log, and report it to its authors",
        };
        return vec![Class::Discovery.problem(name, "list", Exit::Failed, message).with_fix(fix.to_owned())];
    }
    let Some(listed) = probe.fleet.listed(&status.name) else { return Vec::new() };
    let mut findings = vec![count(probe, &listed)];
    findings.extend(left_out(name, &listed));
    let catalog = probe.fleet.catalog();
    let offered = catalog.entries().iter().filter(|entry| entry.server.as_ref() == Some(&status.name));
    let offered: Vec<&Entry> = offered.map(AsRef::as_ref).collect();
    findings.extend(unchecked(probe, &offered).await);
    findings.extend(undescribed(name, &offered));
    findings.extend(untyped(name, &offered));
    findings.extend(cut(name, &offered));
    findings.extend(odd(name, &offered));
    let notes = catalog.notes().filter(|note| note.server.as_ref() == Some(&status.name) && note.tool.is_none());
    findings.extend(notes.map(|note| Class::Discovery.advice(name, "list", note.summary())));
    findings
}

fn count(probe: &Probe<'_>, listed: &Listed<Tool>) -> Finding {
    let name = probe.status.name.as_str();
    let all = listed.items.len() + listed.quarantined.len();
    let offered = probe.status.tools;
    match (all, offered) {
        (0, _) => Class::Discovery
            .advice(name, "list", "no tools")
            .with_fix("some servers have tools only after a sign-in, or with a variable set".to_owned()),
        (_, 0) => Class::Discovery
            .advice(name, "list", format!("none of its {} is offered", counted(all, "tool")))
            .with_fix("check `allow` and `deny` of `tools` in its entry".to_owned()),
        _ if all == offered => Class::Discovery.fine(name, "list", counted(all, "tool")),
        _ => Class::Discovery.fine(name, "list", format!("{}, {offered} of them offered", counted(all, "tool"))),
    }
}

/// Reports tools that cannot be offered.
fn left_out(name: &str, listed: &Listed<Tool>) -> Vec<Finding> {
    let malformed = listed.quarantined.iter().map(|item| ("malformed", listing::left_out("tool", item)));
    let unusable = listed.items.iter().filter_map(|tool| match normalize(&tool.input_schema) {
        NormalizedSchema::Unusable(reason) => {
            Some(("schema", format!("tool `{}` left out: invalid schema: {reason}", tool.name)))
        }
        NormalizedSchema::Same | NormalizedSchema::Changed(..) => None,
    });
    let all: Vec<_> = malformed.chain(unusable).collect();
    let fix = format!("{REPORT_TO_AUTHORS}. Its other tools work");
    let finding = |(check, message): &(&'static str, String)| {
        Class::Discovery.problem(name, check, Exit::Failed, message.as_str()).with_fix(fix.clone())
    };
    let mut findings: Vec<Finding> = all.iter().take(MAX_LEFT_OUT).map(finding).collect();
    if all.len() > MAX_LEFT_OUT {
        let more = counted(all.len() - MAX_LEFT_OUT, "tool");
        let message = format!("{more} more left out; see `wharf tools {name} --json`");
        findings.push(Class::Discovery.problem(name, "malformed", Exit::Failed, message));
    }
    findings
}

/// Reports tools whose schema cannot check arguments. A server's schemas may take long to compile, so all of them
/// together have a deadline.
async fn unchecked(probe: &Probe<'_>, offered: &[&Entry]) -> Vec<Finding> {
    let name = probe.status.name.as_str();
    let limit = probe.globals.timeout.map_or(MAX_COMPILE_TIME, |seconds| {
        MAX_COMPILE_TIME.mul_f64((seconds / MAX_COMPILE_TIME.as_secs_f64()).min(1.0))
    });
    let mut compiled = 0;
    let mut odd = Vec::new();
    let compile_all = async {
        for entry in offered {
            // Small schemas are compiled at once. The deadline and signals apply between them too.
            tokio::task::yield_now().await;
            let schema = Schema::compile_in_background(&entry.tool.input_schema, entry.server.as_ref()).await;
            odd.extend(schema.err().map(|reason| format!("{} ({reason})", entry.tool.name)));
            compiled += 1;
        }
    };
    let _ = tokio::time::timeout(limit, compile_all).await;
    let mut findings = Vec::new();
    if !odd.is_empty() {
        let fix = format!("{REPORT_TO_AUTHORS}. The server must check the arguments itself");
        let message = format!("schemas that cannot check arguments: {}", names(&odd));
        findings.push(Class::Discovery.advice(name, "schema", message).with_fix(fix));
    }
    if compiled < offered.len() {
        let rest = counted(offered.len() - compiled, "schema");
        let message = format!("{rest} not compiled: all schemas together took longer than {} s", limit.as_secs_f64());
        findings.push(Class::Discovery.advice(name, "schema", message).with_fix(SIMPLER_SCHEMAS.to_owned()));
    }
    findings
}

/// Reports tools without a description.
fn undescribed(name: &str, offered: &[&Entry]) -> Option<Finding> {
    let is_bare = |entry: &&&Entry| {
        let own = entry.tool.description.as_deref().unwrap_or_default();
        own.trim().is_empty() && *entry.description == *entry.tool.description_or_default()
    };
    let bare: Vec<String> = offered.iter().filter(is_bare).map(|entry| entry.tool.name.to_string()).collect();
    let message = format!("no description: {}", names(&bare));
    let fix = "describe each tool in the server, or in its entry with \
        \"tools\": {\"descriptions\": {…}}"
        .to_owned();
    (!bare.is_empty()).then(|| Class::Discovery.advice(name, "descriptions", message).with_fix(fix))
}

fn untyped(name: &str, offered: &[&Entry]) -> Option<Finding> {
    let untyped: Vec<String> = offered.iter().flat_map(|entry| untyped_arguments(&entry.tool)).collect();
    let message = format!("arguments without a type: {}", names(&untyped));
    let fix = "give each a `type` in the server's schema, so that models need not guess".to_owned();
    (!untyped.is_empty()).then(|| Class::Discovery.advice(name, "types", message).with_fix(fix))
}

fn untyped_arguments(tool: &Tool) -> Vec<String> {
    let schema = tool.input_schema.to_value().unwrap_or_default();
    let is_typed = |schema: &Value| KINDS.iter().any(|kind| schema.get(kind).is_some());
    let arguments = schema["properties"].as_object().into_iter().flatten();
    arguments.filter(|(_, schema)| !is_typed(schema)).map(|(argument, _)| format!("{}.{argument}", tool.name)).collect()
}

fn cut(name: &str, offered: &[&Entry]) -> Option<Finding> {
    let describe = |entry: &&Entry| Some(format!("{} ({} characters)", entry.tool.name, entry.tool.cut_from?));
    let cut: Vec<String> = offered.iter().filter_map(describe).collect();
    let message = format!("descriptions cut because they are too long: {}", names(&cut));
    let fix = "put the important part first; see what descriptions cost with `wharf context`".to_owned();
    (!cut.is_empty()).then(|| Class::Discovery.advice(name, "descriptions", message).with_fix(fix))
}

/// Reports optional fields that were ignored because they are invalid.
fn odd(name: &str, offered: &[&Entry]) -> Option<Finding> {
    let describe = |entry: &&Entry| {
        let tool = &entry.tool;
        // The last note of a tool with a cut description is about the cut.
        let notes = tool.notes.len().saturating_sub(usize::from(tool.cut_from.is_some()));
        tool.notes[..notes].iter().map(|note| format!("{}: {note}", tool.name)).collect::<Vec<_>>()
    };
    let odd: Vec<String> = offered.iter().flat_map(describe).collect();
    let message = format!("ignored fields: {}", names(&odd));
    let fix = format!("{REPORT_TO_AUTHORS}. It does no harm");
    (!odd.is_empty()).then(|| Class::Discovery.advice(name, "fields", message).with_fix(fix))
}

/// Lists some names, and how many more exist.
fn names(all: &[String]) -> String {
    let shown = all[..all.len().min(MAX_NAMES)].join(", ");
    match all.len().saturating_sub(MAX_NAMES) {
        0 => shown,
        more => format!("{shown} and {more} more"),
    }
}
