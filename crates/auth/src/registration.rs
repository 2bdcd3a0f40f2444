//! Who we are to an authorization server: a client that it knows already, one that describes itself at an address of its
//! own, or one that registers now.

use serde::{Deserialize, Serialize};
use wharf_protocol::Secret;

use super::discovery::{Found, Issuer};
use super::store::RegisteredClient;
use super::token::Posts;
use super::{OAuthError, OAuthOptions};
use wharf_io::unix_now;

/// The ways to prove who we are that we know, the best first.
const METHODS: [&str; 3] = ["none", "client_secret_basic", "client_secret_post"];

#[derive(Serialize)]
struct Wanted<'a> {
    client_name: &'a str,
    redirect_uris: [&'a str; 1],
    grant_types: [&'a str; 2],
    response_types: [&'a str; 1],
    token_endpoint_auth_method: &'a str,
    application_type: &'a str,
}

#[derive(Deserialize)]
struct Registered {
    client_id: String,
    client_secret: Option<String>,
    client_secret_expires_at: Option<u64>,
    token_endpoint_auth_method: Option<String>,
}

impl RegisteredClient {
    /// One that has no secret.
    pub fn public(id: &str) -> Self {
        Self { id: id.to_owned(), token_endpoint_auth_method: "none".to_owned(), ..Self::default() }
    }

    /// One that has, and shows it as the authorization server wants it.
    pub fn with_secret(id: &str, secret: Secret) -> Self {
        Self { id: id.to_owned(), secret: Some(secret), ..Self::default() }
    }

    /// One that proves who it is with a key.
    pub fn with_key(id: &str) -> Self {
        Self { id: id.to_owned(), token_endpoint_auth_method: "private_key_jwt".to_owned(), ..Self::default() }
    }

    fn is_expired(&self) -> bool {
        self.secret_expires_at.is_some_and(|at| at <= unix_now())
    }
}

/// The client to sign in as, in the order the protocol asks for.
pub(super) async fn client(
    posts: &Posts<'_>,
    found: &Found,
    options: &OAuthOptions,
    redirect_uri: &str,
) -> Result<RegisteredClient, OAuthError> {
    let issuer = &found.issuer;
    if let Some(known) = &options.client {
        return Ok(RegisteredClient { token_endpoint_auth_method: method_for(issuer, known), ..known.clone() });
    }
    if let Some(url) = options.metadata_url.as_ref().filter(|_| issuer.client_id_metadata_document_supported) {
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
    let registered = register(posts, endpoint, issuer, options, redirect_uri).await?;
    options.store.keep_client(&issuer.name, &options.profile, registered.clone()).await?;
    Ok(registered)
}

async fn register(
    posts: &Posts<'_>,
    endpoint: &str,
    issuer: &Issuer,
    options: &OAuthOptions,
    redirect_uri: &str,
) -> Result<RegisteredClient, OAuthError> {
    let supported = |method: &&&str| match &issuer.token_endpoint_auth_methods_supported {
        Some(supported) => supported.iter().any(|supported| supported == **method),
        None => true,
    };
    let method = METHODS.iter().find(supported).copied().unwrap_or("none");
    let wanted = Wanted {
        client_name: &options.client_name,
        redirect_uris: [redirect_uri],
        grant_types: ["authorization_code", "refresh_token"],
        response_types: ["code"],
        token_endpoint_auth_method: method,
        application_type: "native",
    };
    let registered: Registered = posts.json(endpoint, &wanted).await?;
    let method = registered.token_endpoint_auth_method.unwrap_or_else(|| {
        // A client that got a secret and was not told how to use it uses it the usual way.
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

/// How a client proves who it is, where that was not agreed.
fn method_for(issuer: &Issuer, client: &RegisteredClient) -> String {
    if !client.token_endpoint_auth_method.is_empty() {
        return client.token_endpoint_auth_method.clone();
    }
    let takes = |method: &str| match &issuer.token_endpoint_auth_methods_supported {
        Some(supported) => supported.iter().any(|supported| supported == method),
        None => method == "client_secret_basic",
    };
    match &client.secret {
        None => "none",
        Some(_) if takes("client_secret_basic") => "client_secret_basic",
        Some(_) if takes("client_secret_post") => "client_secret_post",
        Some(_) => "client_secret_basic",
    }
    .to_owned()
}
