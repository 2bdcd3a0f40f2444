//! The tool `authenticate`, by which a model requests that the user signs in to a server.
//!
//! It is in the catalog while a server needs a sign-in, and is called like every tool, after the user's approval. Timeouts
//! apply only to connecting, before and after the sign-in. The host decides how the user signs in.

use std::sync::{Arc, Weak};

use serde::Deserialize;
use serde_json::json;
use wharf_client::{AuthRequired, BoxFuture, CallErrorKind, CallOptions, ConnectErrorKind};
use wharf_protocol::{Hints, Json, ServerName, Tool, ToolOutput};

use super::sign_in::SignInRequest;
use super::status::{ServerState, ServerStatus};
use super::{Fleet, Inner};
use crate::catalog::{Entry, ExecutionError, OwnTool, ToolExecutor, ToolFreshness};

#[derive(Deserialize)]
struct SignInArguments {
    server: ServerName,
}

impl Fleet {
    /// Returns the tool if a server needs a sign-in and the host supports it.
    pub(super) fn authenticate_tool(&self) -> Option<Arc<Entry>> {
        self.inner.options.sign_in_prompt.as_ref()?;
        let waiting: Vec<ServerName> = {
            let members = self.inner.members();
            let servers = members.slots.values().map(|slot| &slot.server);
            let waiting = servers.filter(|server| server.token_provider.is_some());
            let waiting = waiting.filter(|server| server.state() == ServerState::NeedsAuth);
            waiting.map(|server| server.server.name.clone()).collect()
        };
        if waiting.is_empty() {
            return None;
        }
        let schema = json!({"type": "object", "required": ["server"], "additionalProperties": false, "properties": {
            "server": {"type": "string", "enum": waiting, "description": "The server to sign in to."}}});
        let names = waiting.iter().map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", ");
        let description = format!(
            "Asks the user to sign in to a server whose tools are unavailable until then ({names}). After the sign-in, its \
            tools can be called from the next turn on."
        );
        let hints =
            Hints { read_only: Some(false), destructive: Some(false), idempotent: Some(true), open_world: Some(true) };
        let mut tool = OwnTool::new("authenticate", description, schema).with_hints(hints);
        tool.requires_user = true;
        let executor = Authenticate { fleet: Arc::downgrade(&self.inner) };
        Some(tool.with_executor(Arc::new(executor)).expect("a valid name and schema"))
    }
}

/// Executes the tool.
struct Authenticate {
    fleet: Weak<Inner>,
}

impl Authenticate {
    async fn run(&self, arguments: &Json) -> Result<String, String> {
        let SignInArguments { server: name } = arguments.decode().map_err(|error| error.to_string())?;
        let inner = self.fleet.upgrade().ok_or("the fleet is closed")?;
        let fleet = Fleet { inner: Arc::clone(&inner) };
        let prompt = inner.options.sign_in_prompt.as_ref().ok_or("the host does not support sign-ins")?;
        let server = inner.server(&name).ok_or_else(|| format!("unknown server `{name}`"))?;
        // A caller that waited for another one may find the server signed in.
        let _permit = inner.sign_in.acquire().await;
        let status = fleet.connect(&name).await.map_err(|error| error.to_string())?;
        match status.state {
            ServerState::Connected => {
                return Ok(format!("Already signed in to `{name}`. {}", available_tools(&status)));
            }
            ServerState::NeedsAuth => {}
            _ => return Err(summary(&status)),
        }
        let request = SignInRequest { server: Arc::clone(&server.server), required: refusal(&status) };
        prompt(request).await.map_err(|reason| format!("The sign-in to `{name}` failed: {reason}"))?;
        if let Some(token_provider) = &server.token_provider {
            token_provider.has_newer_token().await;
        }
        let status = fleet.connect(&name).await.map_err(|error| error.to_string())?;
        match status.state {
            ServerState::Connected => Ok(format!("Signed in to `{name}`. {}", available_tools(&status))),
            _ => Err(summary(&status)),
        }
    }
}

impl ToolExecutor for Authenticate {
    fn cached_freshness(&self, _tool: &Arc<Tool>) -> Option<ToolFreshness> {
        Some(ToolFreshness::Same)
    }

    fn freshness<'a>(&'a self, _tool: &'a Arc<Tool>) -> BoxFuture<'a, ToolFreshness> {
        Box::pin(std::future::ready(ToolFreshness::Same))
    }

    fn call<'a>(
        &'a self,
        _tool: &'a Arc<Tool>,
        arguments: &'a Json,
        _options: CallOptions<'a>,
    ) -> BoxFuture<'a, Result<ToolOutput, ExecutionError>> {
        Box::pin(async move { Ok(self.run(arguments).await.map_or_else(ToolOutput::error, ToolOutput::said)) })
    }
}

fn available_tools(ServerStatus { tools, .. }: &ServerStatus) -> String {
    format!("Its tools ({tools}) can be called from the next turn on.")
}

fn summary(ServerStatus { name, state, reason, .. }: &ServerStatus) -> String {
    let reason = reason.as_ref().map(|reason| format!(": {reason}")).unwrap_or_default();
    format!("`{name}` is {state}{reason}")
}

/// Returns the server's last refusal.
fn refusal(status: &ServerStatus) -> Option<AuthRequired> {
    match &status.error()?.kind {
        CallErrorKind::Connect(ConnectErrorKind::Auth(required)) => Some(required.clone()),
        _ => None,
    }
}
