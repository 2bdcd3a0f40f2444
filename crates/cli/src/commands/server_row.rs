//! A server's row in `list` and `get`, and in their JSON.

use serde::Serialize;
use wharf::config::{ConfiguredServer, Eligibility, InvalidEntry, Problem, SourceLocation, TransportKind};
use wharf::fleet::{Scope, ServerState, ServerStatus, StateReason};

use crate::config::describe::{self, disabled_by};
use crate::config::servers::has_authorization;
use crate::{failure, term};

/// One server, used or not.
#[derive(Clone, Serialize)]
pub(super) struct ServerRow {
    pub(super) name: String,
    pub(super) scope: Scope,
    /// `None` for an invalid entry.
    pub(super) transport: Option<TransportKind>,
    pub(super) state: ServerState,
    pub(super) reason: Option<String>,
    /// How many tools are offered; only a connected server has any.
    pub(super) tools: usize,
    pub(super) required: bool,
    /// What the configuration says about it, whatever its state.
    pub(super) standing: &'static str,
    /// Its command or URL, without secrets.
    pub(super) target: Option<String>,
    pub(super) origin: Option<SourceLocation>,
    #[serde(skip)]
    pub(super) usability: Usability,
    /// The line on stderr in which a server says why it failed; `tools --json` has all of them.
    #[serde(skip)]
    pub(super) crash_cause: Option<String>,
    /// How many of its tools are not offered.
    #[serde(skip)]
    pub(super) hidden_tools: usize,
    /// Whether a sign-in would be used.
    #[serde(skip)]
    pub(super) accepts_sign_in: bool,
}

/// Whether the configuration lets a server be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Usability {
    Ready,
    NeedsApproval,
    /// Disabled.
    Unused,
    /// Shadowed, or a duplicate: another server is used in its place.
    Replaced,
    Refused,
    Invalid,
}

impl From<&Eligibility> for Usability {
    fn from(standing: &Eligibility) -> Self {
        match standing {
            Eligibility::Ready => Self::Ready,
            Eligibility::NeedsApproval(_) | Eligibility::ApprovalChanged(_) => Self::NeedsApproval,
            Eligibility::Disabled(_) => Self::Unused,
            Eligibility::Shadowed { .. } | Eligibility::Duplicate { .. } => Self::Replaced,
            Eligibility::Refused(_) => Self::Refused,
        }
    }
}

impl ServerRow {
    /// A configured server. Its status counts only if no other server replaces it.
    pub(super) fn new(found: &ConfiguredServer, status: Option<&ServerStatus>) -> Self {
        let server = &found.server;
        let is_replaced = matches!(found.eligibility, Eligibility::Shadowed { .. } | Eligibility::Duplicate { .. });
        let status = if is_replaced { None } else { status };
        let state = status.map_or_else(|| initial_state(&found.eligibility), |status| status.state);
        let reason = match status {
            Some(status) => status.reason.as_ref().map(StateReason::to_string),
            None => describe::reason(found).or(Some("not connected".to_owned())),
        };
        Self {
            name: server.name.to_string(),
            scope: server.scope,
            transport: Some(server.transport.kind()),
            state,
            reason,
            tools: status.map_or(0, |status| status.tools),
            required: status.map_or(server.settings.required, |status| status.required),
            standing: found.eligibility.as_str(),
            target: Some(describe::target(&found.written, &server.transport)),
            origin: server.origin.clone(),
            usability: Usability::from(&found.eligibility),
            crash_cause: status.and_then(ServerStatus::error).and_then(failure::crash_cause),
            hidden_tools: 0,
            accepts_sign_in: !has_authorization(&server.transport),
        }
    }

    /// A server whose entry is invalid.
    pub(super) fn invalid(entry: &InvalidEntry) -> Self {
        let state = if entry.disabled.is_some() { ServerState::Disabled } else { ServerState::Failed };
        let reason = match entry.disabled {
            Some(by) => Some(format!("disabled {}", disabled_by(by))),
            None => invalid_because(entry),
        };
        Self {
            name: entry.name.clone(),
            scope: entry.scope,
            transport: None,
            state,
            reason,
            tools: 0,
            required: entry.required,
            standing: if entry.disabled.is_some() { "disabled" } else { "broken" },
            target: describe::written_targets(&entry.target).into_iter().next().map(|target| target.text),
            origin: Some(entry.origin.clone()),
            usability: if entry.disabled.is_some() { Usability::Unused } else { Usability::Invalid },
            crash_cause: None,
            hidden_tools: 0,
            accepts_sign_in: false,
        }
    }

    /// Returns the state with its mark. A server that another one replaces is not disabled: it is shadowed, or a duplicate.
    pub(super) fn marked_state(&self) -> String {
        if self.usability == Usability::Replaced { format!("- {}", self.standing) } else { marked(self.state) }
    }

    /// Returns the reason for a server's state, short enough for a table: hints below it say how to approve a server, and
    /// a server that exited says why on stderr.
    pub(super) fn short_reason(&self) -> Option<String> {
        if self.usability == Usability::NeedsApproval {
            return Some(self.standing.to_owned());
        }
        let reason = self.reason.as_ref().map(|reason| first_line(reason))?;
        Some(match &self.crash_cause {
            Some(line) => format!("{reason}: {line}"),
            None => reason,
        })
    }
}

pub(super) fn first_line(text: &str) -> String {
    term::name(text.lines().next().unwrap_or_default())
}

/// Returns a state with its mark.
fn marked(state: ServerState) -> String {
    let mark = match state {
        ServerState::Connected => "✓",
        ServerState::Failed => "✗",
        ServerState::NeedsAuth => "!",
        ServerState::Pending => "·",
        ServerState::Disabled => "-",
    };
    format!("{mark} {state}")
}

/// The state of a server before anything is tried.
fn initial_state(standing: &Eligibility) -> ServerState {
    match Usability::from(standing) {
        Usability::Ready | Usability::NeedsApproval => ServerState::Pending,
        Usability::Unused | Usability::Replaced => ServerState::Disabled,
        Usability::Refused | Usability::Invalid => ServerState::Failed,
    }
}

/// Returns what is wrong with an entry, in one line.
pub(super) fn invalid_because(entry: &InvalidEntry) -> Option<String> {
    let problem = first_error(entry)?;
    let key = last_key(problem);
    // A message that names the key needs no key before it.
    let names_key = problem.message.split(|c: char| !(c.is_alphanumeric() || c == '_')).any(|word| word == key);
    let message = if names_key { problem.message.clone() } else { format!("{key}: {}", problem.message) };
    Some(match &problem.hint {
        Some(hint) => format!("{message}; {hint}"),
        None => message,
    })
}

/// Returns the error that makes an entry invalid.
pub(super) fn first_error(entry: &InvalidEntry) -> Option<&Problem> {
    entry.problems.iter().find(|problem| problem.is_error())
}

/// Returns the last key of a problem's path.
fn last_key(problem: &Problem) -> &str {
    problem.path.rsplit('.').next().unwrap_or(&problem.path)
}
