//! What servers offer besides tools: prompts, which become commands, and resources.

use std::sync::Arc;

use futures_util::future::join_all;
use wharf_client::{CallError, ServerInfo, Session};
use wharf_protocol::{Fields, Json, Listed, Prompt, Resource, ResourceTemplate, ServerName, ToolRef};

use super::{Fleet, ServerState};
use wharf_protocol::visible_name;

/// One server's list, or why there is none.
pub type ServerListing<T> = (ServerName, Result<Listed<T>, CallError>);

/// Why something could not be fetched.
#[derive(Clone, Debug, thiserror::Error)]
pub enum ListingError {
    /// There is no such server, or it is not connected.
    #[error("the server `{name}` {why}")]
    Server {
        /// The server.
        name: ServerName,
        /// What is the matter with it.
        why: String,
    },
    /// There is no such command.
    #[error("there is no command `{0}`")]
    Command(String),
    /// The server did not give it.
    #[error(transparent)]
    Call(#[from] Box<CallError>),
}

/// A prompt as a command: what people and agents call it by.
#[derive(Clone, Debug)]
pub struct PromptCommand {
    /// Its name, made like a tool's.
    pub name: Arc<str>,
    /// The server.
    pub server: ServerName,
    /// The prompt.
    pub prompt: Arc<Prompt>,
}

impl Fleet {
    /// The prompts of all connected servers that have any, asked for at the same time.
    pub async fn prompts(&self) -> Vec<ServerListing<Prompt>> {
        self.each("prompts", |session| async move { session.list_prompts().await }).await
    }

    /// The resources of all connected servers that have any.
    pub async fn resources(&self) -> Vec<ServerListing<Resource>> {
        self.each("resources", |session| async move { session.list_resources().await }).await
    }

    /// The templates of resources of all connected servers that have any.
    pub async fn resource_templates(&self) -> Vec<ServerListing<ResourceTemplate>> {
        self.each("resources", |session| async move { session.list_resource_templates().await }).await
    }

    /// The commands that servers contribute: their prompts, under names like those of tools.
    pub async fn commands(&self) -> Vec<PromptCommand> {
        let mut commands = Vec::new();
        for (server, listed) in self.prompts().await {
            for prompt in listed.map(|listed| listed.items).unwrap_or_default() {
                let identity = ToolRef { server: server.clone(), tool: prompt.name.as_str().into() };
                commands.push(PromptCommand { name: visible_name(&identity), server: server.clone(), prompt });
            }
        }
        commands
    }

    /// Runs a command: the messages of its prompt, filled in, in the protocol's own shape.
    pub async fn run_command(&self, name: &str, arguments: &Json) -> Result<Json, ListingError> {
        let command = self.commands().await.into_iter().find(|command| *command.name == *name);
        let command = command.ok_or_else(|| ListingError::Command(name.to_owned()))?;
        self.prompt(&command.server, &command.prompt.name, arguments).await
    }

    /// A prompt of a server, filled in, in the protocol's own shape.
    pub async fn prompt(&self, server: &ServerName, name: &str, arguments: &Json) -> Result<Json, ListingError> {
        let session = self.connected(server)?;
        Ok(session.get_prompt(name, arguments).await.map_err(Box::new)?)
    }

    /// The content of a resource, in the protocol's own shape.
    pub async fn read(&self, server: &ServerName, uri: &str) -> Result<Json, ListingError> {
        let session = self.connected(server)?;
        Ok(session.read_resource(uri).await.map_err(Box::new)?)
    }

    fn connected(&self, name: &ServerName) -> Result<Session, ListingError> {
        self.session(name).ok_or_else(|| {
            let why = match self.status(name) {
                None => "is not configured".to_owned(),
                Some(status) => {
                    let reason = status.reason.map(|reason| format!(": {reason}")).unwrap_or_default();
                    format!("is {}{reason}", status.state)
                }
            };
            ListingError::Server { name: name.clone(), why }
        })
    }

    /// Asks every connected server that says it has such a thing; nobody else hears of it.
    async fn each<T, F>(&self, capability: &str, ask: impl Fn(Session) -> F) -> Vec<ServerListing<T>>
    where
        F: Future<Output = Result<Listed<T>, CallError>>,
    {
        let connected = self.statuses().into_iter().filter(|status| status.state == ServerState::Connected);
        let asked = connected.filter_map(|status| {
            let has = status.info.as_deref().is_some_and(|info| offers(info, capability));
            let session = self.session(&status.name).filter(|_| has)?;
            let asking = ask(session);
            Some(async move { (status.name, asking.await) })
        });
        join_all(asked).await
    }
}

fn offers(info: &ServerInfo, capability: &str) -> bool {
    Fields::of(&info.capabilities).is_ok_and(|fields| fields.json(capability).is_some())
}
