//! What can go wrong with a server, sorted by what the caller can do about it.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use wharf_auth::AuthRequired;
use wharf_io::{Exit, SpawnError};
use wharf_protocol::{Json, Outcome, ServerName, ToolOutput};

use crate::{InvalidRemote, SchemaViolation};

/// A connection that did not come about, or a call that did not get its answer, and all we know about why.
#[derive(Clone, Debug, thiserror::Error)]
#[error("{server}: {kind}{evidence}")]
pub struct ConnectError {
    /// The server.
    pub server: ServerName,
    /// What happened.
    pub kind: ConnectErrorKind,
    /// What the server said before.
    pub evidence: Evidence,
}

/// Why a server cannot be connected.
#[derive(Clone, Debug, thiserror::Error)]
pub enum ConnectErrorKind {
    /// Its process could not be started: mend the configuration.
    #[error("{0}")]
    Spawn(Arc<SpawnError>),
    /// Its transport could not be opened: try again later.
    #[error("{0}")]
    Transport(String),
    /// Its transport cannot be used as it is configured: fix the configuration.
    #[error("{0}")]
    Unusable(String),
    /// Its TLS certificate is not trusted: fix the certificate, or trust its issuer.
    #[error("{0}")]
    Untrusted(String),
    /// It went away before it was ready: look at its last words.
    #[error("the server {0} before it was ready")]
    Ended(String),
    /// It was not ready in time: give it more, or look at what it waits for.
    #[error("the server was not ready within {}", seconds(*.0))]
    Timeout(Duration),
    /// It wants to know who we are: sign in, or send other headers.
    #[error(transparent)]
    Auth(#[from] AuthRequired),
    /// It, or something before it, answered with an HTTP status that is no success.
    #[error(transparent)]
    Http(#[from] HttpStatus),
    /// It refused us: nothing a retry would change.
    #[error("the server refused the session: {0}")]
    Refused(SessionRefusal),
    /// It has failed so often that it is left alone for a while.
    #[error("the server has failed {failures} times in a row and is left alone for another {}; it last said: {last}", seconds(*.wait))]
    Resting {
        /// How often it failed.
        failures: u32,
        /// How long it is left alone from now.
        wait: Duration,
        /// The last failure.
        last: Arc<ConnectErrorKind>,
    },
    /// The session was closed meanwhile.
    #[error("the session was closed meanwhile; nothing was sent")]
    Closed,
}

impl ConnectErrorKind {
    /// Whether a remote server may well be there in a moment.
    pub(crate) fn may_pass(&self) -> bool {
        match self {
            Self::Transport(_) | Self::Ended(_) => true,
            Self::Http(status) => status.may_pass(),
            _ => false,
        }
    }
}

/// Why no session came about with a server that answers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SessionRefusal {
    /// What the caller can do about it.
    pub cause: RefusalCause,
    /// The reason as text.
    pub reason: String,
}

/// What the caller can do about a refused session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RefusalCause {
    /// The server does not support the requested protocol mode: request another one.
    ProtocolMode,
    /// The server supports only protocol revisions that this client does not know: update the client.
    UnknownRevision,
    /// Anything else: perhaps it is not an MCP server.
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

/// A call without an answer.
#[derive(Clone, Debug, thiserror::Error)]
#[error("{server}: {kind}{}", self.quoted())]
pub struct CallError {
    /// The server.
    pub server: ServerName,
    /// What happened.
    pub kind: CallErrorKind,
    /// What the server said before.
    pub evidence: Evidence,
}

/// Why a call has no answer.
#[derive(Clone, Debug, thiserror::Error)]
pub enum CallErrorKind {
    /// There is no connection.
    #[error("{0}")]
    Connect(ConnectErrorKind),
    /// The arguments do not fit the tool's schema; nothing was sent.
    #[error("the arguments of `{tool}` do not fit its schema: {fault}")]
    Arguments {
        /// The tool.
        tool: String,
        /// Where and why.
        fault: SchemaViolation,
    },
    /// A header of this call cannot be sent; nothing was.
    #[error("{0}")]
    Headers(InvalidRemote),
    /// The server answered with an error of the protocol.
    #[error("the server answered with error {code}: {message}")]
    Server {
        /// The JSON-RPC code.
        code: i64,
        /// The server's words.
        message: String,
        /// What else it sent along.
        data: Option<Json>,
    },
    /// The server, or something before it, answered with an HTTP status that is no success.
    #[error(transparent)]
    Http(#[from] HttpStatus),
    /// The server no longer knows our session, and did not run the call. Either a new session was made, and lost again, or
    /// the caller wants to know before there is one.
    #[error("the server lost the session (code {code}: {message}); the call did not run")]
    SessionLost {
        /// The server's code; 32600 where it answered with a bare HTTP status.
        code: i64,
        /// Its words.
        message: String,
    },
    /// The server answered with something that is no answer.
    #[error("the server's answer is malformed: {0}")]
    Malformed(String),
    /// The structured result does not fit the tool's output schema.
    #[error("the result of `{tool}` does not fit its output schema: {fault}")]
    Output {
        /// The tool.
        tool: String,
        /// Where and why.
        fault: SchemaViolation,
        /// The result, for a host that wants it all the same.
        output: Box<ToolOutput>,
    },
    /// The server needs something of the host to go on, and does not get it.
    #[error("the server needs an answer to `{method}` to go on: {reason}")]
    Input {
        /// What it asked for.
        method: String,
        /// Why it does not get it.
        reason: String,
    },
    /// The server keeps needing something of the host, however often it gets it.
    #[error("the server still needs something to go on after {0} rounds")]
    Rounds(u32),
    /// The server gave up the task that it had made of the call.
    #[error("the server cancelled the task it had made of the call{}", after_colon(.0))]
    TaskCancelled(String),
    /// The server does not offer this; nothing was sent.
    #[error("the server does not offer {0}")]
    Unsupported(String),
    /// The server sent something that named no request, and then nothing; the call may have been what it was about.
    #[error("without naming a request the server sent {0}, and then no answer; whether the call ran is unknown")]
    Unanswered(String),
    /// A deadline passed; the server was told that nobody waits any more.
    #[error("no answer within {} ({deadline}); whether the call ran is unknown", seconds(*.after))]
    Timeout {
        /// Which deadline.
        deadline: Deadline,
        /// How long that was.
        after: Duration,
    },
    /// The connection ended after the request had been sent: it may have run or not.
    #[error("the server {0} before it answered; whether the call ran is unknown")]
    Lost(String),
    /// The session was closed while the call was under way.
    #[error("the session was closed before the answer came; whether the call ran is unknown")]
    Closed,
    /// Too many calls are waiting on this one connection; nothing was sent.
    #[error("too many calls are under way; the request was not sent")]
    Busy,
}

/// An answer with an HTTP status that is no success.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the server answered with HTTP {status}{}", self.quoted())]
pub struct HttpStatus {
    /// The status.
    pub status: u16,
    /// How its content begins.
    pub body: String,
    /// When it wants to be asked again, from then on.
    pub retry_after: Option<Duration>,
}

/// The code that a lost session has where the server gave none.
const SESSION_TERMINATED: i64 = 32600;
/// How much of a server's words an error shows.
const QUOTED: usize = 200;

impl HttpStatus {
    fn quoted(&self) -> String {
        let after = self.retry_after.map(|after| format!(", to be asked again after {}", seconds(after)));
        let body: String = self.body.split_whitespace().collect::<Vec<_>>().join(" ").chars().take(QUOTED).collect();
        let body = if body.is_empty() { body } else { format!(": {body}") };
        format!("{}{body}", after.unwrap_or_default())
    }

    /// Whether the same may well work in a moment. A server that said when to come back means it.
    fn may_pass(&self) -> bool {
        self.status >= 500 && self.retry_after.is_none()
    }

    /// Whether the server refused before it did anything. What a server, or a proxy before it, says of its own trouble
    /// leaves that open.
    pub fn refused(&self) -> bool {
        matches!(self.status, 300..=407 | 410..=499) || (self.status == 503 && self.retry_after.is_some())
    }
}

/// The deadlines a call can miss.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Deadline {
    /// The answer did not begin in time.
    FirstByte,
    /// No answer and no progress for too long.
    Idle,
    /// The whole call took too long.
    Total,
}

/// What the server said before things went wrong.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Evidence {
    /// How its process ended, if it did.
    pub exit: Option<Exit>,
    /// The last lines of its stderr.
    pub stderr: Vec<String>,
    /// The last line on its stdout that was no message.
    pub noise: Option<String>,
}

impl CallErrorKind {
    /// There is another session than the one that the caller meant.
    pub(crate) fn replaced() -> Self {
        Self::SessionLost { code: SESSION_TERMINATED, message: "another session has taken its place".to_owned() }
    }

    /// Whether the call may have had an effect.
    pub(crate) fn outcome(&self) -> Outcome {
        match self {
            CallErrorKind::Connect(_)
            | CallErrorKind::Arguments { .. }
            | CallErrorKind::Headers(_)
            | CallErrorKind::SessionLost { .. }
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

    /// The same failure of a request that the server has begun to work on: that it met with this one does not undo that.
    pub(crate) fn once_begun(self) -> Self {
        match self.outcome() {
            Outcome::NotRun => Self::Lost(format!("had begun with it and then could not be asked ({self})")),
            Outcome::Answered | Outcome::Unknown => self,
        }
    }
}

impl CallError {
    /// Whether the call may have had an effect.
    pub fn outcome(&self) -> Outcome {
        self.kind.outcome()
    }

    /// Whether the same may well work in a moment, where asking twice does no harm.
    pub(crate) fn may_pass(&self) -> bool {
        match &self.kind {
            CallErrorKind::Lost(_) => true,
            CallErrorKind::Http(status) => status.may_pass(),
            _ => false,
        }
    }

    /// The JSON-RPC code, if the server's answer had one or stands for one.
    pub fn code(&self) -> Option<i64> {
        match &self.kind {
            CallErrorKind::Server { code, .. } | CallErrorKind::SessionLost { code, .. } => Some(*code),
            _ => None,
        }
    }

    /// The server's last words, where they may say why.
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
            Self::FirstByte => "the beginning of an answer",
            Self::Idle => "neither an answer nor progress",
            Self::Total => "the limit for the whole call",
        })
    }
}

/// The last of the server's own words; the whole of them is in the fields.
impl fmt::Display for Evidence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(line) = self.stderr.iter().rev().find(|line| !line.trim().is_empty()) {
            write!(f, "; its last line on stderr: {line}")?;
        } else if let Some(line) = &self.noise {
            write!(f, "; on stdout it wrote: {line}")?;
        }
        Ok(())
    }
}

fn after_colon(words: &str) -> String {
    if words.is_empty() { String::new() } else { format!(": {words}") }
}

fn seconds(duration: Duration) -> String {
    match duration.as_secs() {
        0 => format!("{} ms", duration.as_millis()),
        whole if duration.subsec_millis() == 0 => format!("{whole} s"),
        _ => format!("{:.1} s", duration.as_secs_f64()),
    }
}
