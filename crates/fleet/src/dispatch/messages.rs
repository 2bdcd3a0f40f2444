//! What a model is told when a call does not go as it meant: which tool, what is wrong, and what it can do about it.

use wharf_client::{CallError, CallErrorKind, SchemaViolation};
use wharf_protocol::{CallFailed, Content, Json, Tool, ToolOutput};

use crate::catalog::{Catalog, Entry, NormalizedSchema, normalize};

/// The most of a schema, or of what a server sends along with an error, that is quoted, in characters.
const QUOTED: usize = 4000;

pub(super) fn not_offered(catalog: &Catalog, name: &str) -> String {
    let name: String = name.chars().take(200).collect();
    let near: Vec<String> = catalog.nearest(&name).iter().map(|near| format!("`{near}`")).collect();
    match near[..] {
        [] => format!("There is no tool `{name}`. Use only tools that are offered, by their whole names."),
        _ => format!("There is no tool `{name}`. Did you mean {}?", near.join(" or ")),
    }
}

pub(super) fn misfit(entry: &Entry, fault: &SchemaViolation) -> String {
    format!(
        "`{}` was not called: its arguments do not fit its schema: {fault}. Mend them and call it again. It takes: {}",
        entry.name,
        quoted(&entry.input_schema)
    )
}

pub(super) fn rewritten_misfit(entry: &Entry, hook: &str, fault: &SchemaViolation) -> String {
    format!("`{}` was not called: the hook `{hook}` wrote arguments that do not fit its schema: {fault}.", entry.name)
}

pub(super) fn drifted(entry: &Entry, new: &Tool, what: &str) -> String {
    let schema = match normalize(&new.input_schema) {
        NormalizedSchema::Changed(schema, _) => schema,
        NormalizedSchema::Same | NormalizedSchema::Unusable(_) => new.input_schema.clone(),
    };
    let schema = entry.without_bound_properties(&schema);
    format!(
        "`{}` was not called: it has changed on its server since it was offered: {what}. It takes now: {}",
        entry.name,
        quoted(&schema)
    )
}

pub(super) fn gone(entry: &Entry) -> String {
    format!("`{}` was not called: its server does not offer it any more. Do not call it again.", entry.name)
}

pub(super) fn blocked(entry: &Entry, reason: &str) -> String {
    format!("`{}` was not called: {reason}", entry.name)
}

pub(super) fn denied(entry: &Entry, by: &str) -> String {
    format!("`{}` was not called: the policy forbids it ({by}). Do not try again.", entry.name)
}

pub(super) fn refused(entry: &Entry, words: &str) -> String {
    match words.trim() {
        "" => format!("`{}` was not called: the person who was asked said no.", entry.name),
        words => format!("`{}` was not called: {words}", entry.name),
    }
}

pub(super) fn withheld(entry: &Entry, reason: &str) -> String {
    format!("`{}` was called, and its output is withheld: {reason}", entry.name)
}

/// What comes of a call that the client could not complete: what the server answered is for the model, the rest for the
/// host.
pub(super) fn unanswered(entry: &Entry, error: CallError) -> Result<ToolOutput, CallFailed> {
    let outcome = error.outcome();
    match error.kind {
        CallErrorKind::Server { code, message, data } => {
            let data = data.map(|data| format!("\n{}", quoted(&data))).unwrap_or_default();
            let name = &entry.name;
            Ok(ToolOutput::error(format!("`{name}`: the server answered with error {code}: {message}{data}")))
        }
        CallErrorKind::Arguments { fault, .. } => Ok(ToolOutput::error(misfit(entry, &fault))),
        CallErrorKind::Output { fault, output, .. } => {
            let mut output = *output;
            let words =
                format!("`{}` answered with what does not fit its own output schema: {fault}. It said:", entry.name);
            if output.content.is_empty() {
                output
                    .content
                    .extend(output.structured.as_ref().map(|structured| Content::text(structured.to_string())));
            }
            output.content.insert(0, Content::text(words));
            output.is_error = true;
            Ok(output.rebuilt())
        }
        kind => {
            // Without the server's stderr, which may hold what no model should see.
            let reason = format!("{}: {kind}", error.server);
            Err(CallFailed { name: entry.name.to_string(), reason, outcome })
        }
    }
}

fn quoted(json: &Json) -> String {
    let text = json.as_str();
    match text.char_indices().nth(QUOTED) {
        Some((at, _)) => format!("{}… [cut]", &text[..at]),
        None => text.to_owned(),
    }
}
