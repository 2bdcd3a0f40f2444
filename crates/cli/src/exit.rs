//! Exit codes.

use std::process::ExitCode;

use wharf::fleet::{ServerState, ServerStatus};
use wharf::{CallErrorKind, ConnectErrorKind};

/// How the program ends. Of several, the greatest counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Exit {
    /// Success.
    Done = 0,
    /// The task failed: a tool reported an error, or an answer is missing.
    Failed = 1,
    /// The command line, the environment or the configuration is wrong.
    Usage = 2,
    /// A required server requires authorization.
    NeedsLogin = 3,
    /// A required server is unreachable.
    Unreachable = 4,
    /// A signal interrupted the program.
    Interrupted = 130,
}

impl Exit {
    /// Describes the end of a command that printed no reason.
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::Done => "done",
            Self::Failed => "failed",
            Self::Usage => "usage error",
            Self::NeedsLogin => "a server requires authorization",
            Self::Unreachable => "a server is unreachable",
            Self::Interrupted => "interrupted",
        }
    }
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        Self::from(exit as u8)
    }
}

impl From<&ConnectErrorKind> for Exit {
    fn from(kind: &ConnectErrorKind) -> Self {
        match kind {
            ConnectErrorKind::Auth(_) => Self::NeedsLogin,
            _ => Self::Unreachable,
        }
    }
}

impl From<&CallErrorKind> for Exit {
    fn from(kind: &CallErrorKind) -> Self {
        match kind {
            CallErrorKind::Connect(kind) => kind.into(),
            CallErrorKind::Arguments { .. } | CallErrorKind::Headers(_) => Self::Usage,
            _ => Self::Failed,
        }
    }
}

/// The exit code for a required server in this state.
impl From<&ServerStatus> for Exit {
    fn from(status: &ServerStatus) -> Self {
        match status.state {
            ServerState::Connected => Self::Done,
            ServerState::NeedsAuth => Self::NeedsLogin,
            ServerState::Failed | ServerState::Pending | ServerState::Disabled => {
                status.error().map_or(Self::Unreachable, |error| Self::from(&error.kind))
            }
        }
    }
}
