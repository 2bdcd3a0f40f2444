//! Prompts, commands and resources of the servers.

use std::sync::Arc;

use wharf_client::CallError;
use wharf_protocol::{Listed, Prompt, ServerName};

/// The list of one server, or the error of its request.
pub type ServerListing<T> = (ServerName, Result<Listed<T>, CallError>);

/// Why a prompt or a resource could not be fetched.
#[derive(Clone, Debug, thiserror::Error)]
pub enum ListingError {
    /// The server is unknown or not connected.
    #[error("server `{name}` {why}")]
    Server {
        /// The server's name.
        name: ServerName,
        /// Its state and the reason.
        why: String,
    },
    /// No server offers the command.
    #[error("unknown command `{0}`")]
    Command(String),
    /// The request failed.
    #[error(transparent)]
    Call(#[from] Box<CallError>),
}

/// A prompt as a command of an agent.
#[derive(Clone, Debug)]
pub struct PromptCommand {
    /// The command's name, built like a tool's name.
    pub name: Arc<str>,
    /// The prompt's server.
    pub server: ServerName,
    /// The prompt.
    pub prompt: Arc<Prompt>,
}
