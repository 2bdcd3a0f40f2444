//! A response that requires authorization.

use crate::zone::NetworkZone;

/// A response with status 401, or 403 with a challenge.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("authorization required (HTTP {status}){}", self.details())]
pub struct AuthRequired {
    /// The HTTP status: 401 or 403.
    pub status: u16,
    /// The value of `WWW-Authenticate`. Many servers send none.
    pub challenge: Option<Box<str>>,
    /// Where the server that sent the response is, if its address is known. What the server may name is judged by it.
    pub zone: Option<NetworkZone>,
    /// Why signing in failed, if it was attempted.
    pub reason: Option<Box<str>>,
}

impl AuthRequired {
    fn details(&self) -> String {
        match (&self.reason, &self.challenge) {
            (Some(reason), _) => format!(": {reason}"),
            (None, Some(challenge)) => format!(": challenge `{challenge}`"),
            (None, None) => String::new(),
        }
    }
}
