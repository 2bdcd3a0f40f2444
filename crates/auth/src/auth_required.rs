//! A response that requires authorization.

/// An answer that asks who we are: 401, or 403 with a challenge.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the server wants authorization (HTTP {status}){}", self.quoted())]
pub struct AuthRequired {
    /// The status.
    pub status: u16,
    /// What it asks for in `WWW-Authenticate`; many servers say nothing.
    pub challenge: Option<Box<str>>,
    /// Why we could not sign in, where that was tried.
    pub reason: Option<Box<str>>,
}

impl AuthRequired {
    fn quoted(&self) -> String {
        match (&self.reason, &self.challenge) {
            (Some(reason), _) => format!("; {reason}"),
            (None, Some(challenge)) => format!("; it asks for: {challenge}"),
            (None, None) => String::new(),
        }
    }
}
