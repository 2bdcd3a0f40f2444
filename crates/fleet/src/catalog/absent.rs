//! Servers whose tools are not in the catalog, because they are not connected.

use std::fmt;
use std::sync::Arc;

use wharf_protocol::ServerName;
use wharf_protocol::naming::server_prefix;

/// A server that is not connected, and why.
#[derive(Clone, Debug)]
pub struct AbsentServer {
    /// The server's name.
    pub server: ServerName,
    /// Whether it is about to connect.
    pub prospect: Prospect,
    /// Why it is not connected, without the text of its output.
    pub reason: String,
    /// The full names of the tools that it offered before.
    pub tools: Arc<[Arc<str>]>,
}

/// Whether an absent server may come back by itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Prospect {
    /// It connects for the first time.
    Connecting,
    /// It was connected, or could not be; another attempt is made or scheduled.
    Reconnecting,
    /// The user has to sign in.
    NeedsSignIn,
    /// Nothing is tried until the user or the host does something about it.
    Down,
}

impl AbsentServer {
    /// Whether it is expected to connect without the user or the host doing something.
    pub fn is_expected(&self) -> bool {
        matches!(self.prospect, Prospect::Connecting | Prospect::Reconnecting)
    }

    /// Whether a name is that of a tool that the server offered before.
    pub(super) fn offered(&self, name: &str) -> bool {
        self.tools.iter().any(|tool| **tool == *name)
    }

    /// Returns the length of the server's prefix, if the name begins with it.
    pub(super) fn prefix_length(&self, name: &str) -> Option<usize> {
        prefix_length(&self.server, name)
    }
}

/// Returns the length of a server's prefix, if the name begins with it.
pub(super) fn prefix_length(server: &ServerName, name: &str) -> Option<usize> {
    let prefix = server_prefix(server);
    name.starts_with(&prefix).then_some(prefix.len())
}

impl fmt::Display for AbsentServer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { server, prospect, reason, .. } = self;
        match prospect {
            Prospect::Connecting => write!(f, "server `{server}` is not connected yet; {reason}"),
            Prospect::Reconnecting => write!(f, "server `{server}` is down: {reason}; reconnecting"),
            Prospect::NeedsSignIn => write!(f, "server `{server}` requires a sign-in: {reason}"),
            Prospect::Down => write!(f, "server `{server}` is down: {reason}"),
        }
    }
}
