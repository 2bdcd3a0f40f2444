//! What the commands for prompts and resources have in common: how a server stands, and what is wrong with its list.

use serde::Serialize;
use wharf::fleet::{ServerStatus, StateReason};
use wharf::{CallError, Quarantined, ServerName};

use crate::args::Globals;
use crate::exit::Exit;
use crate::failure::ShownError;
use crate::render;

/// How a server stands, as `--json` shows it.
#[derive(Serialize)]
pub(super) struct ShownStanding<'a> {
    name: &'a ServerName,
    state: &'static str,
    reason: Option<String>,
    /// Why a connected server gave no list.
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<ShownError<'a>>,
}

impl<'a> ShownStanding<'a> {
    pub(super) fn new(status: &'a ServerStatus, error: Option<&'a CallError>) -> Self {
        let reason = status.reason.as_ref().map(StateReason::to_string);
        Self { name: &status.name, state: status.state.as_str(), reason, error: error.map(ShownError::from) }
    }
}

/// A connected server that gave no list: an error if the server is needed, a warning if it is not.
pub(super) fn tell_failure(status: &ServerStatus, error: &CallError, globals: &Globals) -> Exit {
    if status.required {
        render::call_error(error, render::advice_for(error, status.scope, globals), status.transport != "stdio");
    } else if !globals.quiet {
        render::warning(&format!("{}: {}", status.name, error.kind));
    }
    failure(status, error)
}

/// How the program ends because of it.
pub(super) fn failure(status: &ServerStatus, error: &CallError) -> Exit {
    if status.required { Exit::from(&error.kind) } else { Exit::Done }
}

/// What a list holds that cannot be used, and what is odd about it.
pub(super) fn tell_odd(name: &ServerName, what: &str, quarantined: &[Quarantined], notes: &[String]) {
    for odd in quarantined {
        let which = odd.name.as_ref().map_or_else(|| (odd.position + 1).to_string(), |name| format!("`{name}`"));
        render::warning(&format!("{name}: the {what} {which} was left out: {}", render::about(&odd.reason)));
    }
    for note in notes {
        render::warning(&format!("{name}: {note}"));
    }
}
