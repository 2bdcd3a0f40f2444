//! Failed calls and connections: a message for people, JSON for programs.

use serde::Serialize;
use wharf::fleet::{ServerState, ServerStatus};
use wharf::{CallError, CallErrorKind, ConnectErrorKind, Evidence, Json, Redactor};

use crate::exit::Exit;
use crate::globals::Globals;
use crate::term::QuotedLine;
use crate::{hints, term};

/// How much of a server's own reason fits into a warning.
const CAUSE_CHARS: usize = 160;
/// How many of a server's last lines are quoted.
const QUOTED_LINES: usize = 10;

/// Prints a failed call or connection. Without a hint of the caller's, prints the hint for the error.
pub(crate) fn print(failed: &CallError, hint: Option<String>, remote: bool) {
    let hint = hint.or_else(|| hints::for_error(failed, remote));
    term::error(&format!("{}: {}", failed.server, failed.kind), &evidence_lines(failed), hint.as_deref());
}

/// Prints why a server is not connected: an error for a required server, a warning for any other, and for a disabled
/// server a note with `--verbose`.
pub(crate) fn print_status(status: &ServerStatus, globals: &Globals) {
    let ServerStatus { name, state, transport, required, .. } = status;
    let remote = transport.is_remote();
    let reason = status.reason.as_ref().map(ToString::to_string).unwrap_or_default();
    let access_hint = |error: &CallError| hints::for_denied_access(error, status.scope, globals);
    match status.error() {
        Some(error) if *required => print(error, access_hint(error), remote),
        None if *state == ServerState::Disabled => {
            if globals.is_verbose() {
                term::note(&format!("{name}: {reason}"));
            }
        }
        None if *required => term::error(&format!("{name}: {state}: {reason}"), &[], None),
        _ if globals.quiet => {}
        None => term::warning(&format!("{name}: {state}: {reason}")),
        Some(error) if globals.is_verbose() => {
            term::warning(&format!("{name}: {state}: {reason}"));
            term::quote(&evidence_lines(error));
            print_hint(access_hint(error).or_else(|| hints::for_error(error, remote)));
        }
        Some(error) => {
            term::warning(&format!("{name}: {state}: {}", reason_with_cause(status).unwrap_or_default()));
            print_hint(access_hint(error).or_else(|| hints::for_error(error, remote)));
        }
    }
}

fn print_hint(hint: Option<String>) {
    if let Some(hint) = hint {
        term::hint(&hint);
    }
}

/// Returns why a server is not connected, with its own reason on stderr.
pub(crate) fn reason_with_cause(status: &ServerStatus) -> Option<String> {
    let reason = status.reason.as_ref()?;
    let cause = status.error().and_then(crash_cause).map(|line| format!("; stderr: {line}"));
    Some(format!("{reason}{}", cause.unwrap_or_default()))
}

/// Returns the line on a server's stderr that says why it failed, shortened.
pub(crate) fn crash_cause(failed: &CallError) -> Option<String> {
    failed.evidence.cause().map(|line| term::brief(line, CAUSE_CHARS))
}

/// Returns what the server wrote before it failed: why, and its last lines.
fn evidence_lines(failed: &CallError) -> Vec<QuotedLine> {
    let Evidence { stderr, noise, .. } = &failed.evidence;
    if stderr.is_empty() {
        return noise.iter().map(|line| QuotedLine::new("stdout", line)).collect();
    }
    let lines = failed.evidence.explaining_lines(QUOTED_LINES);
    lines.into_iter().map(|line| QuotedLine::new("stderr", line)).collect()
}

/// What a command acts on. `--json` prints it first.
#[derive(Clone, Copy, Serialize)]
pub(crate) struct Subject<'a> {
    version: u32,
    server: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    tool: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    prompt: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    uri: Option<&'a str>,
}

/// An error with what its report needs.
pub(crate) struct Failure<'a> {
    pub(crate) remote: bool,
    pub(crate) error: &'a CallError,
    /// A better hint than the one for the error alone.
    pub(crate) hint: Option<String>,
    /// Removes the secrets of the server from JSON: its stderr may contain its environment.
    pub(crate) redactor: Redactor,
}

impl<'a> Subject<'a> {
    pub(crate) fn server(server: &'a str) -> Self {
        Self { version: 1, server, tool: None, prompt: None, uri: None }
    }

    pub(crate) fn tool(server: &'a str, tool: &'a str) -> Self {
        Self { tool: Some(tool), ..Self::server(server) }
    }

    pub(crate) fn prompt(server: &'a str, prompt: &'a str) -> Self {
        Self { prompt: Some(prompt), ..Self::server(server) }
    }

    pub(crate) fn uri(server: &'a str, uri: &'a str) -> Self {
        Self { uri: Some(uri), ..Self::server(server) }
    }

    /// Reports a call that policy, a hook or the catalog stopped. `what` completes the sentence "the tool …".
    pub(crate) async fn refused(self, globals: &Globals, what: &str, outcome: &'static str) -> Exit {
        let name = self.tool.or(self.prompt).or(self.uri).unwrap_or_default();
        let message = format!("the tool `{name}` {what}");
        self.failed(globals, message, outcome).await
    }

    /// Reports an error that no server caused.
    pub(crate) async fn failed(self, globals: &Globals, message: String, outcome: &'static str) -> Exit {
        term::error(&format!("{}: {message}", self.server), &[], None);
        if globals.json {
            let error = JsonError { message, outcome, ..JsonError::default() };
            term::json(&JsonFailure { subject: self, error }).await;
        }
        Exit::Failed
    }
}

impl Failure<'_> {
    /// Prints the failure and returns its exit code.
    pub(crate) async fn report(self, globals: &Globals, subject: Subject<'_>) -> Exit {
        let Self { remote, error, hint, redactor } = self;
        print(error, hint, remote);
        if globals.json {
            term::redacted_json(&JsonFailure { subject, error: JsonError::from(error) }, &redactor).await;
        }
        Exit::from(&error.kind)
    }
}

#[derive(Serialize)]
struct JsonFailure<'a> {
    #[serde(flatten)]
    subject: Subject<'a>,
    error: JsonError<'a>,
}

/// An error as `--json` prints it.
#[derive(Default, Serialize)]
pub(crate) struct JsonError<'a> {
    message: String,
    /// Whether the call may have run.
    outcome: &'static str,
    /// The HTTP status, where that is the answer.
    #[serde(skip_serializing_if = "Option::is_none")]
    status: Option<u16>,
    #[serde(skip_serializing_if = "Option::is_none")]
    code: Option<i64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    data: Option<&'a Json>,
    /// A result that does not fit its schema.
    #[serde(skip_serializing_if = "Option::is_none")]
    result: Option<&'a Json>,
    stderr: &'a [String],
}

impl<'a> From<&'a CallError> for JsonError<'a> {
    fn from(error: &'a CallError) -> Self {
        let data = match &error.kind {
            CallErrorKind::Server { data, .. } => data.as_ref(),
            _ => None,
        };
        let result = match &error.kind {
            CallErrorKind::Output { output, .. } => Some(&output.raw),
            _ => None,
        };
        let status = match &error.kind {
            CallErrorKind::Http(status) | CallErrorKind::Connect(ConnectErrorKind::Http(status)) => Some(status.status),
            CallErrorKind::Connect(ConnectErrorKind::Auth(auth)) => Some(auth.status),
            _ => None,
        };
        Self {
            message: error.kind.to_string(),
            outcome: error.outcome().as_str(),
            status,
            code: error.code(),
            data,
            result,
            stderr: &error.evidence.stderr,
        }
    }
}
