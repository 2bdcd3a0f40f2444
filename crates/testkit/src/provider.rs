//! A fake OAuth authorization server and a protected MCP server, both at one local address.
//!
//! [`ProviderConfig`] defines its behavior and its faults, and can change while it runs. [`grants`] manages codes and
//! tokens, [`dpop`] checks proofs of possession, [`protected`] is the MCP server that requires tokens, and [`web`]
//! dispatches HTTP requests.

mod config;
mod dpop;
mod grants;
mod protected;
mod response;
mod state;
mod web;

use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::task::JoinSet;

use crate::seen_request::SeenRequest;
pub use config::{Document, DpopConfig, ISSUER, ProviderConfig, RESOURCE, Registration, SCOPE, TokenFault};
use grants::Grants;
use state::Shared;

/// A running provider. Dropping it closes the port and all connections.
pub struct Provider {
    address: SocketAddr,
    shared: Arc<Shared>,
    _accepting: JoinSet<()>,
}

impl Provider {
    /// Starts a provider on a free local port.
    ///
    /// # Panics
    /// If no port is free.
    pub async fn start(config: ProviderConfig) -> Self {
        let listener = tokio::net::TcpListener::bind(("127.0.0.1", 0)).await.expect("a port is free");
        let address = listener.local_addr().expect("a listener has an address");
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

    /// Returns the origin of both servers.
    pub fn origin(&self) -> &str {
        &self.shared.origin
    }

    /// Returns the port of both servers.
    pub fn port(&self) -> u16 {
        self.address.port()
    }

    /// Returns the URL of the protected MCP server.
    pub fn url(&self) -> String {
        format!("{}/mcp", self.shared.origin)
    }

    /// Changes the behavior, starting now.
    pub fn update(&self, change: impl FnOnce(&mut ProviderConfig)) {
        change(&mut self.shared.config.lock().unwrap_or_else(PoisonError::into_inner));
    }

    /// Adds a client.
    pub fn add_client(&self, id: &str, secret: Option<&str>, method: &str) {
        self.grants().add_client(id, secret, method);
    }

    /// Removes all clients.
    pub fn forget_clients(&self) {
        self.grants().forget_clients();
    }

    /// Expires all access tokens.
    pub fn expire(&self) {
        self.grants().expire();
    }

    /// Revokes all sign-ins.
    pub fn revoke_all(&self) {
        self.grants().revoke_all();
    }

    /// Returns all received requests.
    pub fn requests(&self) -> Vec<SeenRequest> {
        self.shared.requests.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Returns the received requests whose path starts with `path`.
    pub fn requests_to(&self, path: &str) -> Vec<SeenRequest> {
        self.requests().into_iter().filter(|seen| seen.path.starts_with(path)).collect()
    }

    /// Returns how often tokens were refreshed.
    pub fn renewals(&self) -> usize {
        self.grants().renewals
    }

    /// Returns how often a used refresh token was rejected.
    pub fn reuses(&self) -> usize {
        self.grants().reuses
    }

    /// Returns how often a used refresh token was accepted within its grace period.
    pub fn grace_uses(&self) -> usize {
        self.grants().grace_uses
    }

    /// Returns all issued or received secrets, which must not appear anywhere else.
    pub fn secrets(&self) -> Vec<String> {
        self.grants().secrets.clone()
    }

    fn grants(&self) -> MutexGuard<'_, Grants> {
        self.shared.grants()
    }
}
