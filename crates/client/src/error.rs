//! Errors of connections and calls, sorted by what the caller can do about them.

mod crash_cause;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use wharf_auth::AuthRequired;
use wharf_io::{Exit, SpawnError};
use wharf_protocol::{Hints, Json, Outcome, RetrySafety, ServerName, ToolOutput};

use crate::{InvalidRemote, SchemaViolation};

/// A failed attempt to connect, with everything known about the cause.
#[derive(Clone, Debug, thiserror::Error)]
#[error("{server}: {kind}{evidence}")]
pub struct ConnectError {
    /// The server's name.
    pub server: ServerName,
    /// The cause.
    pub kind: ConnectErrorKind,
    /// The server's output before the failure.
    pub evidence: Evidence,
}

/// The cause of a failed connection.
#[derive(Clone, Debug, thiserror::Error)]
pub enum ConnectErrorKind {
    /// The server's process did not start: fix the configuration.
    #[error("{0}")]
    Spawn(Arc<SpawnError>),
    /// The transport could not be opened: retry later.
    #[error("{0}")]
    Transport(String),
    /// The transport cannot work as configured: fix the configuration.
    #[error("{0}")]
    Unusable(String),
    /// The server's TLS certificate is not trusted: fix the certificate, or trust its issuer.
    #[error("{0}")]
    Untrusted(String),
    /// The server ended before it was ready: read its last output.
    #[error("the server {0} before it was ready")]
    Ended(String),
    /// The server was not ready in time: raise the timeout, or find out what it waits for.
    #[error("the server was not ready within {}", seconds(*.0))]
    Timeout(Duration),
    /// The server requires authorization: sign in, or send other headers.
    #[error(transparent)]
    Auth(#[from] AuthRequired),
    /// The server, or a proxy before it, returned an HTTP error status.
    #[error(transparent)]
    Http(#[from] HttpStatus),
    /// The server refused the session: a retry would not change that.
    #[error("the server refused the session: {0}")]
    Refused(SessionRefusal),
    /// The server failed so often that the next attempt has to wait.
    #[error("the server failed {failures} times in a row; next attempt in {}; last error: {last}", seconds(*.wait))]
    Resting {
        /// The number of failures in a row.
        failures: u32,
        /// The time until the next attempt.
        wait: Duration,
        /// The last failure.
        last: Arc<ConnectErrorKind>,
    },
    /// The session was closed before the request was sent.
    #[error("the session was closed; nothing was sent")]
    Closed,
}

impl ConnectErrorKind {
    /// Whether a remote server is likely to accept a connection in a moment.
    pub(crate) fn is_transient(&self) -> bool {
        match self {
            Self::Transport(_) | Self::Ended(_) => true,
            Self::Http(status) => status.is_transient(),
            _ => false,
        }
    }
}

/// A refused session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SessionRefusal {
    /// What the caller can do about it.
    pub cause: RefusalCause,
    /// The reason as text.
    pub reason: String,
}

/// The cause of a refused session, by what the caller can do about it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RefusalCause {
    /// The server does not support the requested protocol mode: request another one.
    ProtocolMode,
    /// The server supports only protocol revisions that this client does not know: update the client.
    UnknownRevision,
    /// Any other cause: the server may not be an MCP server.
    Other,
}

impl SessionRefusal {
    pub(crate) fn new(cause: RefusalCause, reason: impl Into<String>) -> Self {
        Self { cause, reason: reason.into() }
    }
}

impl From<String> for SessionRefusal {
    fn from(reason: String) -> Self {
        Self { cause: RefusalCause::Other, reason }
    }
}

impl From<&str> for SessionRefusal {
    fn from(reason: &str) -> Self {
        Self::from(reason.to_owned())
    }
}

impl fmt::Display for SessionRefusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.reason)
    }
}

/// A call without a response.
#[derive(Clone, Debug, thiserror::Error)]
#[error("{server}: {kind}{}", self.quoted())]
pub struct CallError {
    /// The server's name.
    pub server: ServerName,
    /// The cause.
    pub kind: CallErrorKind,
    /// The server's output before the failure.
    pub evidence: Evidence,
}

/// The cause of a failed call.
#[derive(Clone, Debug, thiserror::Error)]
pub enum CallErrorKind {
    /// The server is not connected; nothing was sent.
    #[error("{0}")]
    Connect(ConnectErrorKind),
    /// The arguments do not match the tool's schema; nothing was sent.
    #[error("the arguments of `{tool}` do not match its schema: {fault}")]
    Arguments {
        /// The tool's name.
        tool: String,
        /// The path and the reason.
        fault: SchemaViolation,
    },
    /// Checking the arguments against the tool's schema took too long; nothing was sent.
    #[error("checking the arguments of `{tool}` against its schema took too long")]
    CheckTimedOut {
        /// The tool's name.
        tool: String,
    },
    /// A header of this call is invalid; nothing was sent.
    #[error("{0}")]
    Headers(InvalidRemote),
    /// The server returned a JSON-RPC error.
    #[error("the server answered with error {code}: {message}")]
    Server {
        /// The JSON-RPC code.
        code: i64,
        /// The server's message.
        message: String,
        /// The error's `data`.
        data: Option<Json>,
    },
    /// The server, or a proxy before it, returned an HTTP error status.
    #[error(transparent)]
    Http(#[from] HttpStatus),
    /// The server no longer knows the session and did not run the call. Either the new session was lost too, or the caller
    /// chose [`OnLoss::Report`](crate::OnLoss::Report).
    #[error("the server lost the session (code {code}: {message}); the call did not run")]
    SessionLost {
        /// The server's code; 32600 if it answered with a bare HTTP 404.
        code: i64,
        /// The server's message.
        message: String,
    },
    /// The session that the call was bound to by [`CallOptions::generation`](crate::CallOptions::generation) is gone;
    /// nothing was sent.
    #[error("a new session has replaced the one the call was meant for; the call did not run")]
    SessionReplaced,
    /// The server's response is not a valid response.
    #[error("the server's response is malformed: {0}")]
    Malformed(String),
    /// The structured result does not match the tool's output schema.
    #[error("the result of `{tool}` does not match its output schema: {fault}")]
    Output {
        /// The tool's name.
        tool: String,
        /// The path and the reason.
        fault: SchemaViolation,
        /// The result, for hosts that use it anyway.
        output: Box<ToolOutput>,
    },
    /// The server requested input that the host did not provide.
    #[error("the server needs an answer to `{method}` to continue: {reason}")]
    Input {
        /// The method that the server requested.
        method: String,
        /// The reason for not answering it.
        reason: InputFailure,
    },
    /// The server kept requesting input, however often it got some.
    #[error("the server still requests input after {0} rounds")]
    Rounds(u32),
    /// The server canceled the task that it had created for the call.
    #[error("the server canceled the task of the call{}", after_colon(.0))]
    TaskCancelled(String),
    /// The server does not support the feature; nothing was sent.
    #[error("the server does not support {0}")]
    Unsupported(String),
    /// The server sent a message without a request id, and then nothing. The message may have been about this call.
    #[error("the server sent {0} without a request id and then no response; whether the call ran is unknown")]
    Unanswered(String),
    /// A deadline passed; the call was canceled on the wire.
    #[error("no response within {} ({deadline}); whether the call ran is unknown", seconds(*.after))]
    Timeout {
        /// The deadline that passed.
        deadline: Deadline,
        /// Its duration.
        after: Duration,
    },
    /// The connection ended after the request was sent; the call may have run.
    #[error("the server {0} before it answered; whether the call ran is unknown")]
    Lost(String),
    /// The session was closed while the call was in flight.
    #[error("the session was closed before the response arrived; whether the call ran is unknown")]
    Closed,
    /// The connection has too many calls in flight; nothing was sent.
    #[error("too many calls in flight; the request was not sent")]
    Busy,
}

/// An HTTP response with an error status.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the server answered with HTTP {status}{}", self.quoted())]
pub struct HttpStatus {
    /// The status code.
    pub status: u16,
    /// The beginning of the body.
    pub body: String,
    /// The delay of its `Retry-After` header.
    pub retry_after: Option<Duration>,
}

/// The maximum length of a body in an error message, in characters.
const MAX_QUOTED_CHARS: usize = 200;

impl HttpStatus {
    fn quoted(&self) -> String {
        let after = self.retry_after.map(|after| format!(", retry after {}", seconds(after)));
        let body = self.body.split_whitespace().collect::<Vec<_>>().join(" ");
        let body: String = body.chars().take(MAX_QUOTED_CHARS).collect();
        let body = if body.is_empty() { body } else { format!(": {body}") };
        format!("{}{body}", after.unwrap_or_default())
    }

    /// Whether the same request is likely to succeed in a moment. A `Retry-After` is taken at its word.
    fn is_transient(&self) -> bool {
        self.status >= 500 && self.retry_after.is_none()
    }

    /// Whether the server rejected the request before it did anything. A 5xx of the server, or of a proxy before it,
    /// leaves that open.
    pub fn refused(&self) -> bool {
        matches!(self.status, 300..=407 | 410..=499) || (self.status == 503 && self.retry_after.is_some())
    }
}

/// Why a host did not answer a request of a server.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum InputFailure {
    /// The host does not support the request.
    #[error("this host does not support it")]
    Unsupported,
    /// The host took too long.
    #[error("the host did not answer in time")]
    TimedOut,
    /// The host refused, for this reason.
    #[error("{0}")]
    Refused(String),
}

/// The deadlines of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Deadline {
    /// The response has to begin within this time.
    FirstByte,
    /// A response or progress has to arrive within this time.
    Idle,
    /// The whole call has to complete within this time.
    Total,
}

/// The output of a server before a failure.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Evidence {
    /// The exit status of its process, if it exited.
    pub exit: Option<Exit>,
    /// The last lines of its stderr.
    pub stderr: Vec<String>,
    /// The last line on its stdout that was not a message.
    pub noise: Option<Box<str>>,
    /// The names of the host's variables that its process did not get and may have needed, if any. In one pointer,
    /// because every error has the size of its evidence.
    pub missing_variables: Option<Arc<Vec<String>>>,
}

impl Evidence {
    /// Returns the line on stderr that says why the server ended: an error message, or the last line.
    pub fn cause(&self) -> Option<&str> {
        crash_cause::find(&self.stderr).map(|index| self.stderr[index].trim())
    }

    /// Returns the last `count` lines on stderr. The line that says why comes first, if it is not among them.
    pub fn explaining_lines(&self, count: usize) -> Vec<&str> {
        let start = self.stderr.len().saturating_sub(count);
        let cause = crash_cause::find(&self.stderr).filter(|index| *index < start);
        cause.into_iter().chain(start..self.stderr.len()).map(|index| self.stderr[index].as_str()).collect()
    }
}

impl CallErrorKind {
    /// Whether the call may have had an effect.
    pub(crate) fn outcome(&self) -> Outcome {
        match self {
            CallErrorKind::Connect(_)
            | CallErrorKind::Arguments { .. }
            | CallErrorKind::CheckTimedOut { .. }
            | CallErrorKind::Headers(_)
            | CallErrorKind::SessionLost { .. }
            | CallErrorKind::SessionReplaced
            | CallErrorKind::Unsupported(_)
            | CallErrorKind::Busy => Outcome::NotRun,
            CallErrorKind::Http(status) if status.refused() => Outcome::NotRun,
            CallErrorKind::Server { .. } | CallErrorKind::Malformed(_) | CallErrorKind::Output { .. } => {
                Outcome::Answered
            }
            CallErrorKind::Timeout { .. }
            | CallErrorKind::Http(_)
            | CallErrorKind::Unanswered(_)
            | CallErrorKind::Input { .. }
            | CallErrorKind::Rounds(_)
            | CallErrorKind::TaskCancelled(_)
            | CallErrorKind::Lost(_)
            | CallErrorKind::Closed => Outcome::Unknown,
        }
    }

    /// Converts the error of a request that the server had already started: the failure does not undo its effects.
    pub(crate) fn once_begun(self) -> Self {
        match self.outcome() {
            Outcome::NotRun => Self::Lost(format!("started the call and then could not be reached ({self})")),
            Outcome::Answered | Outcome::Unknown => self,
        }
    }
}

impl CallError {
    /// Whether the call may have had an effect.
    pub fn outcome(&self) -> Outcome {
        self.kind.outcome()
    }

    /// Whether and why the call may be sent again, given the hints of its tool.
    ///
    /// Adds to [`Outcome::retry_safety`] which failures are transient: a request that was not sent, a lost session or
    /// connection, and a gateway that lost the server behind it. Everything else would fail the same way again.
    pub fn retry_safety(&self, hints: Option<Hints>) -> RetrySafety {
        let is_transient = match &self.kind {
            CallErrorKind::Http(status) => matches!(status.status, 502 | 504),
            _ => self.needs_reconnect(),
        };
        if is_transient { self.outcome().retry_safety(hints) } else { RetrySafety::Never }
    }

    /// Whether the session or its connection is gone, so that a retry needs a new one.
    pub fn needs_reconnect(&self) -> bool {
        matches!(
            self.kind,
            CallErrorKind::SessionLost { .. }
                | CallErrorKind::SessionReplaced
                | CallErrorKind::Lost(_)
                | CallErrorKind::Connect(ConnectErrorKind::Transport(_))
        )
    }

    /// Whether a request that only reads is likely to succeed in a moment.
    pub(crate) fn is_transient(&self) -> bool {
        match &self.kind {
            CallErrorKind::Lost(_) => true,
            CallErrorKind::Http(status) => status.is_transient(),
            _ => false,
        }
    }

    /// The JSON-RPC code of the server's error; for a lost session, the code that stands for it.
    pub fn code(&self) -> Option<i64> {
        match &self.kind {
            CallErrorKind::Server { code, .. } | CallErrorKind::SessionLost { code, .. } => Some(*code),
            _ => None,
        }
    }

    /// The server's last output, for failures that it may explain.
    fn quoted(&self) -> String {
        match &self.kind {
            CallErrorKind::Connect(_)
            | CallErrorKind::Lost(_)
            | CallErrorKind::Timeout { .. }
            | CallErrorKind::Unanswered(_)
            | CallErrorKind::Malformed(_) => self.evidence.to_string(),
            _ => String::new(),
        }
    }
}

impl From<ConnectError> for CallError {
    fn from(error: ConnectError) -> Self {
        Self { server: error.server, kind: CallErrorKind::Connect(error.kind), evidence: error.evidence }
    }
}

impl fmt::Display for Deadline {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::FirstByte => "first-byte timeout",
            Self::Idle => "idle timeout",
            Self::Total => "total timeout",
        })
    }
}

/// The line of the output that says why; the fields hold all of it.
impl fmt::Display for Evidence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(line) = self.cause() {
            write!(f, "; stderr: {line}")?;
        } else if let Some(line) = &self.noise {
            write!(f, "; on stdout it wrote: {line}")?;
        }
        Ok(())
    }
}

fn after_colon(text: &str) -> String {
    if text.is_empty() { String::new() } else { format!(": {text}") }
}

fn seconds(duration: Duration) -> String {
    match duration.as_secs() {
        0 => format!("{} ms", duration.as_millis()),
        whole if duration.subsec_millis() == 0 => format!("{whole} s"),
        _ => format!("{:.1} s", duration.as_secs_f64()),
    }
}
