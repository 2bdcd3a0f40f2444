//! Accounts, their credentials, and registered clients.

use wharf_protocol::Secret;

/// Identifies the credentials of a user for a server.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Account {
    /// The canonical URL of the server.
    pub endpoint: String,
    /// The profile of the user, for several accounts on one server.
    pub profile: String,
}

/// The credentials of an account: issuer, client and tokens.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SignIn {
    /// The issuer of the tokens. They must not be sent to any other: compare it before use.
    pub issuer: String,
    /// The client that the tokens were issued to.
    pub client: RegisteredClient,
    /// The access token.
    pub access: Secret,
    /// The refresh token.
    pub refresh: Option<Secret>,
    /// When the access token expires, in seconds since 1970.
    pub expires_at: Option<u64>,
    /// The granted scopes.
    pub scopes: Vec<String>,
    /// All scopes that were ever requested, so that a step-up does not lose earlier ones.
    pub asked: Vec<String>,
    /// The resource indicator that was sent to the issuer.
    pub resource: Option<String>,
    /// The token endpoint, for refreshing.
    pub token_endpoint: String,
    /// The revocation endpoint.
    pub revocation_endpoint: Option<String>,
    /// The private key that the tokens are bound to (`DPoP`); `None` for bearer tokens.
    pub dpop_key: Option<Secret>,
}

/// A client that is registered with an issuer.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RegisteredClient {
    /// The client ID.
    pub id: String,
    /// The client secret; public clients have none.
    pub secret: Option<Secret>,
    /// When the secret expires, in seconds since 1970.
    pub secret_expires_at: Option<u64>,
    /// The authentication method: `none`, `client_secret_basic`, `client_secret_post` or `private_key_jwt`.
    pub token_endpoint_auth_method: String,
    /// The registered redirect URI.
    pub redirect_uri: Option<String>,
}
