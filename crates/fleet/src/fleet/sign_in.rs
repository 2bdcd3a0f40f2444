//! Sign-ins that a model requests.

use std::sync::Arc;

use wharf_client::{AuthRequired, BoxFuture};
use wharf_config::Server;

/// Guides the user through a sign-in. Returns when it is complete; the error is the reason why it is not.
pub type SignInPrompt = Arc<dyn Fn(SignInRequest) -> BoxFuture<'static, Result<(), String>> + Send + Sync>;

/// A requested sign-in.
#[derive(Clone, Debug)]
pub struct SignInRequest {
    /// The server to sign in to.
    pub server: Arc<Server>,
    /// The server's last refusal, if it is known.
    pub required: Option<AuthRequired>,
}
