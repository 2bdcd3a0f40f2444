//! What is behind a call that came to no answer of its tool: for hosts that show it to a person, not to a model.

use wharf_client::{CallError, SchemaViolation};

/// Why a tool gave no answer. It may hold what no model should see, such as the last lines of a server's stderr.
#[derive(Clone, Debug)]
pub enum CallFailure {
    /// There is no such tool.
    NotOffered,
    /// The arguments do not fit the tool's schema; nothing was sent.
    Arguments(SchemaViolation),
    /// It was not called, and why: a rule, a hook or a person says so, or the tool is another one now.
    Refused(String),
    /// It was called, and a hook keeps its output back, and why.
    Withheld(String),
    /// The server answered with an error, or with what is no answer, or not at all.
    Error(Box<CallError>),
}
