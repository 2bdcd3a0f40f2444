//! The behavior of a provider, and its faults.

use std::collections::BTreeMap;
use std::time::Duration;

use serde_json::{Value, json};

/// Path of the protected resource metadata.
pub const RESOURCE: &str = "/.well-known/oauth-protected-resource/mcp";
/// Path of the authorization server metadata.
pub const ISSUER: &str = "/.well-known/oauth-authorization-server";
/// The scope that every call requires.
pub const SCOPE: &str = "read";

/// The behavior of a provider. `{origin}` in any text is replaced by the provider's origin.
#[derive(Clone, Debug)]
pub struct ProviderConfig {
    /// Documents by path.
    pub documents: BTreeMap<String, Document>,
    /// The `WWW-Authenticate` header of status 401, if any.
    pub challenge: Option<String>,
    /// The scopes that tools require besides [`SCOPE`].
    pub scopes_of_tools: BTreeMap<String, String>,
    /// Whether the requested scope is granted; otherwise only [`SCOPE`].
    pub grants_requested_scope: bool,
    /// `expires_in` of tokens in seconds, if present.
    pub announced_lifetime: Option<u64>,
    /// Actual lifetime of tokens.
    pub lifetime: Duration,
    /// Whether each refresh token is valid for one use; a second use revokes the sign-in.
    pub rotates: bool,
    /// How long a used refresh token is still accepted.
    pub grace: Duration,
    /// The fault of the token endpoint.
    pub tokens: TokenFault,
    /// The kind of client that registration creates.
    pub registration: Registration,
    /// The `iss` parameter of the authorization response.
    pub iss: Option<String>,
    /// The `state` parameter of the authorization response, if not the requested one.
    pub state: Option<String>,
    /// The error of the authorization response.
    pub authorize_error: Option<String>,
    /// Whether token errors quote the whole request.
    pub errors_quote_request: bool,
    /// How tokens are bound to keys (`DPoP`); bearer tokens if absent.
    pub dpop: Option<DpopConfig>,
}

/// How a provider binds tokens to keys.
#[derive(Clone, Debug)]
pub struct DpopConfig {
    /// The nonce that proofs for the token endpoint must contain.
    pub issuer_nonce: Option<String>,
    /// The nonce that proofs for the MCP server must contain.
    pub server_nonce: Option<String>,
    /// Whether each nonce of the MCP server is valid for one request, whose response contains the next one.
    pub rotates_nonces: bool,
    /// Whether tokens are bound to the key of the proof. Otherwise the token endpoint issues bearer tokens.
    pub binds_tokens: bool,
}

impl Default for DpopConfig {
    fn default() -> Self {
        Self { issuer_nonce: None, server_nonce: None, rotates_nonces: false, binds_tokens: true }
    }
}

/// A document of the provider.
#[derive(Clone, Debug)]
pub enum Document {
    /// A metadata document.
    Json(Value),
    /// A redirect with this status.
    Redirect(u16, String),
    /// Any content with this status.
    Raw(u16, String),
}

/// A fault of the token endpoint.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TokenFault {
    /// No fault.
    None,
    /// Responds with this status and content; issues no tokens.
    Raw(u16, String),
    /// Never responds; issues no tokens.
    Hang,
    /// Issues tokens immediately, but delays the response.
    Slow(Duration),
    /// Issues tokens, but closes the connection without a response.
    HangUp,
}

/// The kind of client that registration creates.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Registration {
    /// A public client, with only an id.
    Public,
    /// A confidential client with a secret, which authenticates with this method.
    Secret(&'static str),
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
            dpop: None,
        }
    }
}

impl ProviderConfig {
    /// Returns the metadata of an authorization server with this issuer.
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

    /// Requires tokens that are bound to keys: in the challenge, and in the metadata of the authorization server.
    pub fn require_dpop(&mut self, dpop: DpopConfig) {
        self.challenge = Some(format!(r#"DPoP algs="ES256", resource_metadata="{{origin}}{RESOURCE}""#));
        self.change(ISSUER, "dpop_signing_alg_values_supported", json!(["ES256"]));
        self.dpop = Some(dpop);
    }

    /// Sets the metadata document at `path`.
    pub fn describe(&mut self, path: &str, value: Value) {
        self.documents.insert(path.to_owned(), Document::Json(value));
    }

    /// Changes or removes one field of the metadata document at `path`.
    ///
    /// # Panics
    /// If there is no such document.
    pub fn change(&mut self, path: &str, entry: &str, value: impl Into<Option<Value>>) {
        let Some(Document::Json(Value::Object(object))) = self.documents.get_mut(path) else {
            panic!("no metadata document at {path}");
        };
        match value.into() {
            Some(value) => object.insert(entry.to_owned(), value),
            None => object.remove(entry),
        };
    }
}
