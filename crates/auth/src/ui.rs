//! How the user gets to the authorization page and back.

use futures_util::future::BoxFuture;

/// Opens authorization pages for the user.
pub trait AuthorizationUi: Send + Sync + 'static {
    /// Starts an authorization: from now on the redirect URI is reachable. `before` is the one that was registered
    /// earlier; using it again avoids a new registration.
    fn begin<'a>(&'a self, before: Option<&'a str>) -> BoxFuture<'a, Result<Box<dyn AuthorizationFlow>, String>>;

    /// Asks the user whether the configured client secret may be sent to an issuer that only the server named. The
    /// default is no.
    fn confirm_secret<'a>(&'a self, recipient: SecretRecipient<'a>) -> BoxFuture<'a, Result<bool, String>> {
        let _ = recipient;
        Box::pin(std::future::ready(Ok(false)))
    }
}

/// An issuer that would receive the configured client secret.
#[derive(Clone, Copy, Debug)]
pub struct SecretRecipient<'a> {
    /// The issuer.
    pub issuer: &'a str,
    /// The client that the secret belongs to.
    pub client_id: &'a str,
}

/// One authorization of a user.
pub trait AuthorizationFlow: Send {
    /// Returns the redirect URI.
    fn redirect_uri(&self) -> &str;

    /// Opens the authorization page at `url`, and waits for the redirect with this `state`. Returns the complete URL of
    /// the redirect.
    fn go(self: Box<Self>, url: String, state: String) -> BoxFuture<'static, Result<String, String>>;
}
