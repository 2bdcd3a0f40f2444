//! Client registration: a configured client, a client ID metadata document, or dynamic registration (RFC 7591).

use serde::{Deserialize, Serialize};
use wharf_protocol::Secret;

use wharf_io::unix_now;

use crate::discovery::IssuerMetadata;
use crate::error::OAuthError;
use crate::options::OAuthOptions;
use crate::store::RegisteredClient;
use crate::token::TokenClient;

/// The supported methods of client authentication, in order of preference.
const AUTH_METHODS: [&str; 3] = ["none", "client_secret_basic", "client_secret_post"];

#[derive(Serialize)]
struct RegistrationRequest<'a> {
    client_name: &'a str,
    redirect_uris: [&'a str; 1],
    grant_types: [&'a str; 2],
    response_types: [&'a str; 1],
    token_endpoint_auth_method: &'a str,
    application_type: &'a str,
}

#[derive(Deserialize)]
struct RegistrationResponse {
    client_id: String,
    client_secret: Option<String>,
    client_secret_expires_at: Option<u64>,
    token_endpoint_auth_method: Option<String>,
}

impl RegisteredClient {
    /// Creates a public client, which has no secret.
    pub fn public(id: &str) -> Self {
        Self { id: id.to_owned(), token_endpoint_auth_method: "none".to_owned(), ..Self::default() }
    }

    /// Creates a client with a secret. The authorization server determines how it is sent.
    pub fn with_secret(id: &str, secret: Secret) -> Self {
        Self { id: id.to_owned(), secret: Some(secret), ..Self::default() }
    }

    /// Creates a client that authenticates with a key (`private_key_jwt`).
    pub fn with_key(id: &str) -> Self {
        Self { id: id.to_owned(), token_endpoint_auth_method: "private_key_jwt".to_owned(), ..Self::default() }
    }

    fn is_expired(&self) -> bool {
        self.secret_expires_at.is_some_and(|at| at <= unix_now())
    }
}

/// Returns the client to sign in with, in the order that the protocol specifies.
pub(super) async fn client(
    token_client: &TokenClient<'_>,
    issuer: &IssuerMetadata,
    options: &OAuthOptions,
    redirect_uri: &str,
) -> Result<RegisteredClient, OAuthError> {
    if let Some(known) = &options.client {
        return Ok(RegisteredClient { token_endpoint_auth_method: auth_method(issuer, known), ..known.clone() });
    }
    if let Some(url) = &options.metadata_url
        && issuer.client_id_metadata_document_supported
    {
        return Ok(RegisteredClient::public(url));
    }
    if let Some(known) = options.store.client(&issuer.name, &options.profile).await?
        && !known.is_expired()
        && known.redirect_uri.as_deref() == Some(redirect_uri)
    {
        return Ok(known);
    }
    let Some(endpoint) = &issuer.registration_endpoint else {
        return Err(OAuthError::NoClient(issuer.name.clone()));
    };
    let registered = register(token_client, endpoint, issuer, options, redirect_uri).await?;
    options.store.keep_client(&issuer.name, &options.profile, registered.clone()).await?;
    Ok(registered)
}

async fn register(
    token_client: &TokenClient<'_>,
    endpoint: &str,
    issuer: &IssuerMetadata,
    options: &OAuthOptions,
    redirect_uri: &str,
) -> Result<RegisteredClient, OAuthError> {
    let supported = |method: &&&str| match &issuer.token_endpoint_auth_methods_supported {
        Some(supported) => supported.iter().any(|supported| supported == **method),
        None => true,
    };
    let method = AUTH_METHODS.iter().find(supported).copied().unwrap_or("none");
    let request = RegistrationRequest {
        client_name: &options.client_name,
        redirect_uris: [redirect_uri],
        grant_types: ["authorization_code", "refresh_token"],
        response_types: ["code"],
        token_endpoint_auth_method: method,
        application_type: "native",
    };
    let registered: RegistrationResponse = token_client.json(endpoint, &request).await?;
    let method = registered.token_endpoint_auth_method.unwrap_or_else(|| {
        // The default method for a client with a secret.
        if registered.client_secret.is_some() { "client_secret_basic".to_owned() } else { method.to_owned() }
    });
    Ok(RegisteredClient {
        id: registered.client_id,
        secret: registered.client_secret.map(Secret::from),
        secret_expires_at: registered.client_secret_expires_at.filter(|at| *at > 0),
        token_endpoint_auth_method: method,
        redirect_uri: Some(redirect_uri.to_owned()),
    })
}

/// Returns the authentication method of a configured client.
fn auth_method(issuer: &IssuerMetadata, client: &RegisteredClient) -> String {
    if !client.token_endpoint_auth_method.is_empty() {
        return client.token_endpoint_auth_method.clone();
    }
    let supports = |method: &str| match &issuer.token_endpoint_auth_methods_supported {
        Some(supported) => supported.iter().any(|supported| supported == method),
        None => method == "client_secret_basic",
    };
    match &client.secret {
        None => "none",
        Some(_) if supports("client_secret_basic") => "client_secret_basic",
        Some(_) if supports("client_secret_post") => "client_secret_post",
        Some(_) => "client_secret_basic",
    }
    .to_owned()
}
