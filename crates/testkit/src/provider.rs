//! An authorization server, and beside it a server that wants its tokens, both at one address of this machine.
//!
//! What it says, and what it does wrong, is in [`ProviderConfig`], which can change while it runs. [`grants`] knows codes and
//! tokens, [`guarded`] is the server they are for, [`web`] speaks HTTP.

mod grants;
mod guarded;
mod web;

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use serde_json::{Value, json};
use tokio::task::JoinSet;

use crate::SeenRequest;
use grants::Grants;

/// Where the server describes who lets one in.
pub const RESOURCE: &str = "/.well-known/oauth-protected-resource/mcp";
/// Where the authorization server describes itself.
pub const ISSUER: &str = "/.well-known/oauth-authorization-server";
/// What every call needs.
pub const SCOPE: &str = "read";

/// A running provider. Dropping it closes everything.
pub struct Provider {
    address: SocketAddr,
    shared: Arc<Shared>,
    _accepting: JoinSet<()>,
}

/// How it behaves. In all texts `{origin}` stands for where it is.
#[derive(Clone, Debug)]
pub struct ProviderConfig {
    /// What lies at which path.
    pub documents: BTreeMap<String, Document>,
    /// What the server asks for with status 401, if it says so at all.
    pub challenge: Option<String>,
    /// What the tools need besides [`SCOPE`].
    pub scopes_of_tools: BTreeMap<String, String>,
    /// Whether what is asked for is granted; else only [`SCOPE`] is.
    pub grants_requested_scope: bool,
    /// How long tokens are said to be good, if anything is said.
    pub announced_lifetime: Option<u64>,
    /// How long they are.
    pub lifetime: Duration,
    /// Whether each refresh token is good for one use; a second use ends the sign-in.
    pub rotates: bool,
    /// How long after it was used one is still taken.
    pub grace: Duration,
    /// What becomes of those who ask for tokens.
    pub tokens: TokenFault,
    /// What clients are given when they register.
    pub registration: Registration,
    /// The `iss` that people are sent back with.
    pub iss: Option<String>,
    /// The state that they are sent back with, where it is not their own.
    pub state: Option<String>,
    /// Why nobody is let in.
    pub authorize_error: Option<String>,
    /// Whether complaints quote all that was sent.
    pub errors_quote_request: bool,
}

/// What lies at a path.
#[derive(Clone, Debug)]
pub enum Document {
    /// A description.
    Json(Value),
    /// The way to another place, with this status.
    Redirect(u16, String),
    /// Whatever this is, with this status.
    Raw(u16, String),
}

/// What becomes of a request for tokens.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TokenFault {
    /// It is answered.
    None,
    /// It is answered with this status and content, and nothing is given out.
    Raw(u16, String),
    /// It is never answered, and nothing is given out.
    Hang,
    /// What is asked for is done at once, and the answer takes its time.
    Slow(Duration),
    /// What is asked for is done, and the connection ends without an answer.
    HangUp,
}

/// What clients are given when they register.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Registration {
    /// An id.
    Public,
    /// An id and a secret, to be shown in the way of this name.
    Secret(&'static str),
}

struct Shared {
    origin: String,
    config: Mutex<ProviderConfig>,
    grants: Mutex<Grants>,
    requests: Mutex<Vec<SeenRequest>>,
}

impl Default for ProviderConfig {
    fn default() -> Self {
        let resource = json!({
            "resource": "{origin}/mcp",
            "authorization_servers": ["{origin}"],
            "scopes_supported": [SCOPE],
        });
        let documents = [(RESOURCE, resource), (ISSUER, Self::issuer("{origin}"))];
        Self {
            documents: documents.map(|(path, value)| (path.to_owned(), Document::Json(value))).into(),
            challenge: Some(format!(r#"Bearer resource_metadata="{{origin}}{RESOURCE}""#)),
            scopes_of_tools: BTreeMap::new(),
            grants_requested_scope: true,
            announced_lifetime: Some(3600),
            lifetime: Duration::from_secs(3600),
            rotates: true,
            grace: Duration::ZERO,
            tokens: TokenFault::None,
            registration: Registration::Public,
            iss: Some("{origin}".to_owned()),
            state: None,
            authorize_error: None,
            errors_quote_request: false,
        }
    }
}

impl ProviderConfig {
    /// How an authorization server of that name describes itself.
    pub fn issuer(name: &str) -> Value {
        json!({
            "issuer": name,
            "authorization_endpoint": "{origin}/authorize",
            "token_endpoint": "{origin}/token",
            "registration_endpoint": "{origin}/register",
            "revocation_endpoint": "{origin}/revoke",
            "response_types_supported": ["code"],
            "grant_types_supported": ["authorization_code", "refresh_token"],
            "token_endpoint_auth_methods_supported": ["none", "client_secret_basic", "client_secret_post"],
            "code_challenge_methods_supported": ["S256"],
            "authorization_response_iss_parameter_supported": true,
        })
    }

    /// Puts a description there.
    pub fn describe(&mut self, path: &str, value: Value) {
        self.documents.insert(path.to_owned(), Document::Json(value));
    }

    /// Changes one entry of the description there, or takes it out.
    ///
    /// # Panics
    /// If there is no description.
    pub fn change(&mut self, path: &str, entry: &str, value: impl Into<Option<Value>>) {
        let Some(Document::Json(Value::Object(object))) = self.documents.get_mut(path) else {
            panic!("nothing is described at {path}");
        };
        match value.into() {
            Some(value) => object.insert(entry.to_owned(), value),
            None => object.remove(entry),
        };
    }
}

impl Provider {
    /// Serves on a free port of this machine.
    ///
    /// # Panics
    /// If no port is free.
    pub async fn start(config: ProviderConfig) -> Self {
        let listener = tokio::net::TcpListener::bind(("127.0.0.1", 0)).await.expect("a port is free");
        let address = listener.local_addr().expect("it listens");
        let shared = Arc::new(Shared {
            origin: format!("http://{address}"),
            config: Mutex::new(config),
            grants: Mutex::default(),
            requests: Mutex::default(),
        });
        let mut accepting = JoinSet::new();
        accepting.spawn(web::accept(Arc::clone(&shared), listener));
        Self { address, shared, _accepting: accepting }
    }

    /// Where both are.
    pub fn origin(&self) -> &str {
        &self.shared.origin
    }

    /// The port.
    pub fn port(&self) -> u16 {
        self.address.port()
    }

    /// Where the server is.
    pub fn url(&self) -> String {
        format!("{}/mcp", self.shared.origin)
    }

    /// Changes how it behaves from now on.
    pub fn update(&self, change: impl FnOnce(&mut ProviderConfig)) {
        change(&mut self.shared.config.lock().unwrap_or_else(PoisonError::into_inner));
    }

    /// Makes a client known.
    pub fn add_client(&self, id: &str, secret: Option<&str>, method: &str) {
        self.grants().add_client(id, secret, method);
    }

    /// Forgets all clients.
    pub fn forget_clients(&self) {
        self.grants().forget_clients();
    }

    /// Ends what the access tokens that are out are good for.
    pub fn expire(&self) {
        self.grants().expire();
    }

    /// Ends all sign-ins.
    pub fn revoke_all(&self) {
        self.grants().revoke_all();
    }

    /// All requests so far.
    pub fn requests(&self) -> Vec<SeenRequest> {
        self.shared.requests.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// The requests whose path begins so.
    pub fn requests_to(&self, path: &str) -> Vec<SeenRequest> {
        self.requests().into_iter().filter(|seen| seen.path.starts_with(path)).collect()
    }

    /// How often tokens were renewed.
    pub fn renewals(&self) -> usize {
        self.grants().renewals
    }

    /// How often a refresh token came that was used before, and was not taken any more.
    pub fn reuses(&self) -> usize {
        self.grants().reuses
    }

    /// How often one came that was used before, and was taken once more.
    pub fn grace_uses(&self) -> usize {
        self.grants().grace_uses
    }

    /// All it gave out or was sent that nobody else may see.
    pub fn secrets(&self) -> Vec<String> {
        self.grants().secrets.clone()
    }

    fn grants(&self) -> MutexGuard<'_, Grants> {
        self.shared.grants()
    }
}

impl Shared {
    fn config(&self) -> ProviderConfig {
        self.config.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn grants(&self) -> MutexGuard<'_, Grants> {
        self.grants.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn here(&self, text: &str) -> String {
        text.replace("{origin}", &self.origin)
    }
}
