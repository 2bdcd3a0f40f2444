//! The exit codes, and what each of them means.

use std::process::ExitCode;

use wharf::fleet::{ServerState, ServerStatus};
use wharf::{CallErrorKind, ConnectErrorKind};

/// How the program ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Exit {
    /// All is well.
    Done = 0,
    /// The task failed: a tool said so, or there was no answer.
    Failed = 1,
    /// What was asked for makes no sense.
    Usage = 2,
    /// A server wants to know who we are.
    NeedsLogin = 3,
    /// A server that was asked for cannot be reached.
    Unreachable = 4,
    /// Somebody interrupted us.
    Interrupted = 130,
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

/// What it means that a server which is needed is in this state.
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
