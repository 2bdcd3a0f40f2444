//! Texts for the model about calls that did not go as it meant: which tool, what is wrong, and what it can do.

use wharf_client::{CallError, CallErrorKind, ConnectErrorKind, SchemaViolation};
use wharf_protocol::{CallFailed, Content, Json, Tool, ToolOutput};

use crate::catalog::{AbsentServer, Catalog, Entry, NormalizedSchema, NotAdmitted, normalize};

/// The maximum length of a quoted schema or error data, in characters.
const MAX_QUOTED_CHARS: usize = 4000;
/// The maximum length of a quoted tool name, in characters.
const MAX_NAME_CHARS: usize = 200;

/// The answer to an approval request that no user can answer.
pub(super) const APPROVAL_UNAVAILABLE: &str = "it requires approval, and no user can be asked";

pub(super) fn not_offered(catalog: &Catalog, name: &str) -> String {
    let name: String = name.chars().take(MAX_NAME_CHARS).collect();
    let near: Vec<String> = catalog.nearest(&name).iter().map(|near| format!("`{near}`")).collect();
    match near[..] {
        [] => format!("Unknown tool `{name}`. Use only the offered tools, by their full names."),
        _ => format!("Unknown tool `{name}`. Did you mean {}?", near.join(" or ")),
    }
}

pub(super) fn server_down(absent: &AbsentServer, name: &str) -> String {
    let name: String = name.chars().take(MAX_NAME_CHARS).collect();
    format!("`{name}` was not called: {absent}")
}

pub(super) fn not_called(entry: &Entry, reason: &str) -> String {
    format!("`{}` was not called: {reason}", entry.name)
}

pub(super) fn invalid_arguments(entry: &Entry, fault: &SchemaViolation) -> String {
    let schema = quoted(&entry.input_schema);
    not_called(
        entry,
        &format!("its arguments do not match its schema: {fault}. Fix them and call it again. Its schema: {schema}"),
    )
}

pub(super) fn invalid_rewrite(hook: &str, fault: &NotAdmitted) -> String {
    match fault {
        NotAdmitted::Violation(fault) => {
            format!("the hook `{hook}` wrote arguments that do not match its schema: {fault}")
        }
        NotAdmitted::TimedOut => {
            format!("checking the arguments that the hook `{hook}` wrote against its schema took too long")
        }
    }
}

pub(super) fn changed(entry: &Entry, new: &Tool, what: &str) -> String {
    let schema = match normalize(&new.input_schema) {
        NormalizedSchema::Changed(schema, _) => schema,
        NormalizedSchema::Same | NormalizedSchema::Unusable(_) => new.input_schema.clone(),
    };
    let schema = quoted(&entry.without_bound_properties(&schema));
    not_called(entry, &format!("it has changed on its server since it was offered: {what}. Its schema now: {schema}"))
}

pub(super) fn removed(entry: &Entry) -> String {
    not_called(entry, "its server no longer offers it. Do not call it again.")
}

pub(super) fn unlisted(entry: &Entry) -> String {
    let reason = "the tools of its server may have changed, and the server has not listed them since. It may be another \
        tool now. Try again later.";
    not_called(entry, reason)
}

pub(super) fn check_timed_out(entry: &Entry) -> String {
    not_called(entry, "checking its arguments against its schema took too long. Simpler arguments may help.")
}

pub(super) fn blocked(entry: &Entry, reason: &str) -> String {
    not_called(entry, reason)
}

pub(super) fn denied(entry: &Entry, by: &str) -> String {
    not_called(entry, &format!("denied by the policy ({by}). Do not try again."))
}

pub(super) fn rejected(entry: &Entry, reason: &str) -> String {
    match reason.trim() {
        "" => not_called(entry, "the user rejected the call."),
        reason => not_called(entry, reason),
    }
}

pub(super) fn withheld(entry: &Entry, reason: &str) -> String {
    format!("`{}` was called, but its output is withheld: {reason}", entry.name)
}

/// Converts the error of a call: what the server answered is for the model, everything else for the host.
pub(super) fn of_error(entry: &Entry, error: CallError) -> Result<ToolOutput, CallFailed> {
    let outcome = error.outcome();
    match error.kind {
        CallErrorKind::Server { code, message, data } => {
            let data = data.map(|data| format!("\n{}", quoted(&data))).unwrap_or_default();
            let name = &entry.name;
            Ok(ToolOutput::error(format!("`{name}`: the server answered with error {code}: {message}{data}")))
        }
        CallErrorKind::Arguments { fault, .. } => Ok(ToolOutput::error(invalid_arguments(entry, &fault))),
        CallErrorKind::CheckTimedOut { .. } => Ok(ToolOutput::error(check_timed_out(entry))),
        CallErrorKind::Output { fault, output, .. } => {
            let mut output = *output;
            let text = format!("The result of `{}` does not match its output schema: {fault}. The result:", entry.name);
            if output.content.is_empty() {
                let structured = output.structured.as_ref().map(|structured| Content::text(structured.to_string()));
                output.content.extend(structured);
            }
            output.content.insert(0, Content::text(text));
            output.is_error = true;
            Ok(output.rebuilt())
        }
        kind => {
            // Without the server's stderr, which may contain what no model should see.
            let reason = match &kind {
                CallErrorKind::Connect(ConnectErrorKind::Auth(_)) => format!("{}: {kind}", error.server),
                CallErrorKind::Connect(_) => format!("server `{}` is down: {kind}", error.server),
                _ => format!("{}: {kind}", error.server),
            };
            Err(CallFailed { name: entry.name.to_string(), reason, outcome })
        }
    }
}

fn quoted(json: &Json) -> String {
    let text = json.as_str();
    match text.char_indices().nth(MAX_QUOTED_CHARS) {
        Some((at, _)) => format!("{}… [cut]", &text[..at]),
        None => text.to_owned(),
    }
}
