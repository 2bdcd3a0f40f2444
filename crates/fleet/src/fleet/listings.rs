//! Fetches what servers offer besides tools: prompts, which become commands, and resources.

use futures_util::future::join_all;
use wharf_client::{CallError, ServerInfo, Session};
use wharf_protocol::{Fields, Json, Listed, Prompt, Resource, ResourceTemplate, ServerName, command_name};

use super::Fleet;
use super::listing::{ListingError, PromptCommand, ServerListing};
use super::status::ServerState;

impl Fleet {
    /// Lists the prompts of all connected servers that have any, at the same time.
    pub async fn prompts(&self) -> Vec<ServerListing<Prompt>> {
        self.list_all("prompts", |session| async move { session.list_prompts().await }).await
    }

    /// Lists the resources of all connected servers that have any.
    pub async fn resources(&self) -> Vec<ServerListing<Resource>> {
        self.list_all("resources", |session| async move { session.list_resources().await }).await
    }

    /// Lists the resource templates of all connected servers that have any.
    pub async fn resource_templates(&self) -> Vec<ServerListing<ResourceTemplate>> {
        self.list_all("resources", |session| async move { session.list_resource_templates().await }).await
    }

    /// Returns the servers' prompts as commands.
    pub async fn commands(&self) -> Vec<PromptCommand> {
        let mut commands = Vec::new();
        for (server, listed) in self.prompts().await {
            for prompt in listed.map(|listed| listed.items).unwrap_or_default() {
                commands.push(PromptCommand {
                    name: command_name(&server, &prompt.name),
                    server: server.clone(),
                    prompt,
                });
            }
        }
        commands
    }

    /// Runs a command: fetches the messages of its prompt, as the protocol defines them.
    pub async fn run_command(&self, name: &str, arguments: &Json) -> Result<Json, ListingError> {
        let command = self.commands().await.into_iter().find(|command| *command.name == *name);
        let command = command.ok_or_else(|| ListingError::Command(name.to_owned()))?;
        self.prompt(&command.server, &command.prompt.name, arguments).await
    }

    /// Fetches the messages of a prompt, as the protocol defines them.
    pub async fn prompt(&self, server: &ServerName, name: &str, arguments: &Json) -> Result<Json, ListingError> {
        let session = self.connected_session(server)?;
        Ok(session.get_prompt(name, arguments).await.map_err(Box::new)?)
    }

    /// Fetches the content of a resource, as the protocol defines it.
    pub async fn read(&self, server: &ServerName, uri: &str) -> Result<Json, ListingError> {
        let session = self.connected_session(server)?;
        Ok(session.read_resource(uri).await.map_err(Box::new)?)
    }

    fn connected_session(&self, name: &ServerName) -> Result<Session, ListingError> {
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

    /// Sends a list request to every connected server that declares the capability, and to no other.
    async fn list_all<T, F>(&self, capability: &str, list: impl Fn(Session) -> F) -> Vec<ServerListing<T>>
    where
        F: Future<Output = Result<Listed<T>, CallError>>,
    {
        let mut requests = Vec::new();
        for status in self.statuses() {
            let is_connected = status.state == ServerState::Connected;
            if !is_connected || !status.info.as_deref().is_some_and(|info| declares(info, capability)) {
                continue;
            }
            if let Some(session) = self.session(&status.name) {
                let request = list(session);
                requests.push(async move { (status.name, request.await) });
            }
        }
        join_all(requests).await
    }
}

fn declares(info: &ServerInfo, capability: &str) -> bool {
    Fields::of(&info.capabilities).is_ok_and(|fields| fields.json(capability).is_some())
}
