//! What the commands for prompts and resources share: a server's state, and problems with its lists.

use serde::Serialize;
use wharf::fleet::{ServerStatus, StateReason};
use wharf::{CallError, Quarantined, ServerName};

use crate::exit::Exit;
use crate::failure::{self, JsonError};
use crate::globals::Globals;
use crate::{hints, term};

/// How much of a description a table on a terminal shows without `--verbose`.
const DESCRIPTION_CHARS: usize = 100;

/// Returns a description in one line: whole in a pipe and with `--verbose`, otherwise its beginning.
pub(super) fn description(text: &str, globals: &Globals) -> String {
    if globals.is_verbose() || term::terminal_width().is_none() {
        return term::visible(&text.split_whitespace().collect::<Vec<_>>().join(" "));
    }
    term::brief(text, DESCRIPTION_CHARS)
}

/// A server's state, as `--json` prints it.
#[derive(Serialize)]
pub(super) struct JsonServerState<'a> {
    name: &'a ServerName,
    state: &'static str,
    reason: Option<String>,
    /// Why a connected server returned no list.
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<JsonError<'a>>,
}

impl<'a> JsonServerState<'a> {
    pub(super) fn new(status: &'a ServerStatus, error: Option<&'a CallError>) -> Self {
        let reason = status.reason.as_ref().map(StateReason::to_string);
        Self { name: &status.name, state: status.state.as_str(), reason, error: error.map(JsonError::from) }
    }
}

/// Reports a connected server that returned no list: an error if it is required, otherwise a warning.
pub(super) fn report_failure(status: &ServerStatus, error: &CallError, globals: &Globals) -> Exit {
    if status.required {
        let hint = hints::for_denied_access(error, status.scope, globals);
        failure::print(error, hint, status.transport.is_remote());
    } else if !globals.quiet {
        term::warning(&format!("{}: {}", status.name, error.kind));
    }
    exit_code(status, error)
}

/// Returns the exit code for a connected server that returned no list.
pub(super) fn exit_code(status: &ServerStatus, error: &CallError) -> Exit {
    if status.required { Exit::from(&error.kind) } else { Exit::Done }
}

/// Prints the invalid items of a list, and notes about the list.
pub(super) fn print_list_problems(server: &ServerName, noun: &str, quarantined: &[Quarantined], notes: &[String]) {
    for item in quarantined {
        term::warning(&format!("{server}: {}", left_out(noun, item)));
    }
    for note in notes {
        term::warning(&format!("{server}: {note}"));
    }
}

/// Describes an invalid item of a list.
pub(super) fn left_out(noun: &str, item: &Quarantined) -> String {
    let which = match &item.name {
        Some(name) => format!("`{name}`"),
        None => (item.position + 1).to_string(),
    };
    format!("{noun} {which} left out: {}", item.reason)
}
