//! The tool `authenticate`: a model may have a person sign in to a server that wants it.
//!
//! It is in the catalog while there is such a server, and is called as every tool is; a person is asked before. Its clock
//! stands still while they sign in: only connecting, before and after, has deadlines. How a person signs in is for the
//! host to say.

use std::sync::{Arc, Weak};
use std::time::Duration;

use serde::Deserialize;
use serde_json::json;
use wharf_client::{BoxFuture, CallError, CallErrorKind, CallOptions, ConnectErrorKind};
use wharf_protocol::{Hints, Json, ServerName, Tool, ToolOutput};

use super::{Fleet, FleetError, Inner, ServerState, ServerStatus};
use crate::catalog::{Entry, OwnTool, ToolExecutor, ToolFreshness};
use wharf_config::Server;

/// How long is waited for a server that is tried: it has its own deadlines, this is for the queue before it.
const PATIENCE: Duration = Duration::from_secs(5 * 60);

/// Brings a person to a sign-in, and returns when they have signed in; if they have not, why not.
pub type SignInPrompt = Arc<dyn Fn(SignInRequest) -> BoxFuture<'static, Result<(), String>> + Send + Sync>;

/// A sign-in that is wanted.
#[derive(Clone, Debug)]
pub struct SignInRequest {
    /// The server.
    pub server: Arc<Server>,
    /// What it said that it wants, if it did.
    pub challenge: Option<String>,
}

#[derive(Deserialize)]
struct Wanted {
    server: ServerName,
}

impl Fleet {
    /// The tool, if there is a server to sign in to and somebody who does.
    pub(super) fn authenticate(&self) -> Option<Arc<Entry>> {
        self.inner.options.sign_in_prompt.as_ref()?;
        let waiting: Vec<ServerName> = {
            let crew = self.inner.crew();
            let members = crew.members.values().map(|mate| &mate.member);
            let waits = members.filter(|member| member.authority.is_some() && member.state() == ServerState::NeedsAuth);
            waits.map(|member| member.server.name.clone()).collect()
        };
        if waiting.is_empty() {
            return None;
        }
        let schema = json!({"type": "object", "required": ["server"], "additionalProperties": false, "properties": {
            "server": {"type": "string", "enum": waiting, "description": "The server to sign in to."}}});
        let names = waiting.iter().map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", ");
        let description = format!(
            "Asks the person to sign in to a server whose tools are not there because it wants to know who they are \
            ({names}). If they do, its tools can be called from the next turn on."
        );
        let hints =
            Hints { read_only: Some(false), destructive: Some(false), idempotent: Some(true), open_world: Some(true) };
        let mut tool = OwnTool::new("authenticate", description, schema).with_hints(hints);
        tool.needs_person = true;
        let callee = Authenticate { fleet: Arc::downgrade(&self.inner) };
        Some(tool.carried_out_by(Arc::new(callee)).expect("its name and its schema are valid"))
    }

    /// Tries a server now, and waits for what comes of it.
    async fn tried(&self, name: &ServerName) -> Result<ServerStatus, FleetError> {
        self.retry(name).await?;
        let mut changes = self.changes();
        let trying = async {
            loop {
                changes.mark_unchanged();
                let done = |status: ServerStatus| status.settled || status.state == ServerState::Connected;
                if self.status(name).is_none_or(done) || changes.changed().await.is_err() {
                    return;
                }
            }
        };
        let _ = tokio::time::timeout(PATIENCE, trying).await;
        self.status(name).ok_or_else(|| FleetError::Unknown(name.clone()))
    }
}

/// Carries the tool out.
struct Authenticate {
    fleet: Weak<Inner>,
}

impl Authenticate {
    async fn run(&self, arguments: &Json) -> Result<String, String> {
        let Wanted { server: name } = arguments.decode().map_err(|error| error.to_string())?;
        let inner = self.fleet.upgrade().ok_or("the fleet is closed")?;
        let (fleet, signs_in) = (Fleet { inner: Arc::clone(&inner) }, inner.options.sign_in_prompt.clone());
        let (Some(signs_in), Some(member)) = (signs_in, inner.member(&name)) else {
            return Err(format!("there is no server `{name}`"));
        };
        // Whoever waited for somebody else finds the sign-in they made.
        let _turn = inner.signing.acquire().await;
        let status = fleet.tried(&name).await.map_err(|error| error.to_string())?;
        match status.state {
            ServerState::Connected => return Ok(format!("`{name}` lets us in already. {}", there(&status))),
            ServerState::NeedsAuth => {}
            _ => return Err(told(&status)),
        }
        let wanted = SignInRequest { server: Arc::clone(&member.server), challenge: challenge(&status) };
        signs_in(wanted).await.map_err(|reason| format!("Nobody has signed in to `{name}`: {reason}"))?;
        if let Some(authority) = &member.authority {
            authority.has_newer_token().await;
        }
        let status = fleet.tried(&name).await.map_err(|error| error.to_string())?;
        match status.state {
            ServerState::Connected => Ok(format!("Signed in to `{name}`. {}", there(&status))),
            _ => Err(told(&status)),
        }
    }
}

impl ToolExecutor for Authenticate {
    fn glance(&self, _tool: &Arc<Tool>) -> Option<ToolFreshness> {
        Some(ToolFreshness::Same)
    }

    fn look<'a>(&'a self, _tool: &'a Arc<Tool>) -> BoxFuture<'a, ToolFreshness> {
        Box::pin(std::future::ready(ToolFreshness::Same))
    }

    fn call<'a>(
        &'a self,
        _tool: &'a Arc<Tool>,
        arguments: &'a Json,
        _options: CallOptions<'a>,
    ) -> BoxFuture<'a, Result<ToolOutput, CallError>> {
        Box::pin(async move { Ok(self.run(arguments).await.map_or_else(ToolOutput::error, ToolOutput::said)) })
    }
}

fn there(ServerStatus { tools, .. }: &ServerStatus) -> String {
    format!("Its tools ({tools}) can be called from the next turn on.")
}

fn told(ServerStatus { name, state, reason, .. }: &ServerStatus) -> String {
    let reason = reason.as_ref().map(|reason| format!(": {reason}")).unwrap_or_default();
    format!("`{name}` is {state}{reason}")
}

/// What the server said that it wants.
fn challenge(status: &ServerStatus) -> Option<String> {
    match &status.error()?.kind {
        CallErrorKind::Connect(ConnectErrorKind::Auth(required)) => required.challenge.as_deref().map(str::to_owned),
        _ => None,
    }
}
