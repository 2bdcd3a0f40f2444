//! The cause of a call without an output of its tool, for hosts that show it to the user rather than a model.

use wharf_client::{CallError, SchemaViolation};

/// Why a tool returned no output. May contain what no model should see, such as the last lines of a server's stderr.
#[derive(Clone, Debug)]
pub enum CallFailure {
    /// The catalog has no such tool.
    NotOffered,
    /// The tool's server is not connected. Contains its name and the reason.
    ServerDown(String),
    /// The arguments do not match the tool's schema; nothing was sent.
    Arguments(Box<SchemaViolation>),
    /// Checking the arguments took longer than the call may take; nothing was sent.
    CheckTimedOut,
    /// The call was not made because of a rule, a hook, the user or a changed tool. Contains the reason.
    Refused(String),
    /// The call requires approval, and no user can be asked.
    ApprovalUnavailable,
    /// The call was made, and a hook withholds its output. Contains the reason.
    Withheld(String),
    /// The server returned an error, an invalid response or none.
    Error(Box<CallError>),
}
