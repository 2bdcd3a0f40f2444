//! The nonces that servers require in proofs, each replaced by the latest that its server sent.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use http::{HeaderMap, HeaderName};

/// The header in which a server sends the nonce of the next proof.
const NONCE: HeaderName = HeaderName::from_static("dpop-nonce");

/// The latest nonces of one MCP server and of its authorization servers. The two are separate, even at one origin.
#[derive(Default)]
struct Known {
    server: Option<Arc<str>>,
    /// Incremented with every new nonce of the server.
    number: u64,
    issuers: BTreeMap<String, Arc<str>>,
}

/// The latest nonces, shared by all requests.
#[derive(Default)]
pub(crate) struct Nonces(Mutex<Known>);

impl Nonces {
    /// Returns the nonce for the next request to the MCP server, and its number.
    pub(crate) fn server(&self) -> (Option<Arc<str>>, u64) {
        let known = self.known();
        (known.server.clone(), known.number)
    }

    /// Stores the nonce in a response of the MCP server.
    pub(crate) fn server_responded(&self, headers: &HeaderMap) {
        let Some(nonce) = nonce(headers) else { return };
        let mut known = self.known();
        if known.server.as_deref() != Some(nonce) {
            known.server = Some(nonce.into());
            known.number += 1;
        }
    }

    /// Returns the nonce for the next request to an authorization server.
    pub(crate) fn issuer(&self, origin: &str) -> Option<Arc<str>> {
        self.known().issuers.get(origin).cloned()
    }

    /// Stores the nonce in a response of an authorization server.
    pub(crate) fn issuer_responded(&self, origin: &str, headers: &HeaderMap) {
        if let Some(nonce) = nonce(headers) {
            self.known().issuers.insert(origin.to_owned(), nonce.into());
        }
    }

    fn known(&self) -> MutexGuard<'_, Known> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn nonce(headers: &HeaderMap) -> Option<&str> {
    headers.get(NONCE)?.to_str().ok().filter(|nonce| !nonce.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with(nonce: &str) -> HeaderMap {
        HeaderMap::from_iter([(NONCE, nonce.parse().unwrap())])
    }

    #[test]
    fn the_latest_nonce_of_each_server_counts_once() {
        let nonces = Nonces::default();
        assert_eq!(nonces.server(), (None, 0));
        nonces.server_responded(&with("one"));
        nonces.server_responded(&with("one"));
        nonces.server_responded(&HeaderMap::new());
        assert_eq!(nonces.server(), (Some("one".into()), 1));
        nonces.server_responded(&with("two"));
        assert_eq!(nonces.server(), (Some("two".into()), 2));
        nonces.issuer_responded("https://as.example", &with("three"));
        assert_eq!(nonces.issuer("https://as.example").as_deref(), Some("three"));
        assert_eq!(nonces.issuer("https://other.example"), None);
        assert_eq!(nonces.server().0.as_deref(), Some("two"));
    }
}
