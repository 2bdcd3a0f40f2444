//! Settings of [`OAuth`](crate::OAuth).

use std::sync::Arc;

use wharf_io::HttpSettings;

use crate::assertion::SigningKey;
use crate::grant::Grant;
use crate::store::{RegisteredClient, Store};
use crate::ui::AuthorizationUi;

/// How to sign in to a server.
#[derive(Clone)]
pub struct OAuthOptions {
    /// Where credentials are stored.
    pub store: Arc<dyn Store>,
    /// The profile of the user. Each profile has its own credentials.
    pub profile: String,
    /// The client name for dynamic registration.
    pub client_name: String,
    /// A client that is registered with the authorization server. Its secret is sent only to the issuer of
    /// `issuer_metadata_url`, or to one that the user confirms.
    pub client: Option<RegisteredClient>,
    /// The URL of the client ID metadata document, for authorization servers that support it.
    pub metadata_url: Option<String>,
    /// The URL of the authorization server metadata, instead of the one that the server announces.
    pub issuer_metadata_url: Option<String>,
    /// The scopes to request, instead of those that the server announces.
    pub scopes: Option<Vec<String>>,
    /// The key for client authentication with `private_key_jwt`.
    pub key: Option<Arc<SigningKey>>,
    /// How tokens are obtained.
    pub grant: Grant,
    /// Opens the authorization page. Without it, users cannot sign in.
    pub ui: Option<Arc<dyn AuthorizationUi>>,
    /// HTTP settings of all requests.
    pub http: HttpSettings,
}

impl OAuthOptions {
    /// Creates options with only a store: stored credentials are used and refreshed, but users cannot sign in.
    pub fn new(store: Arc<dyn Store>) -> Self {
        Self {
            store,
            profile: "default".to_owned(),
            client_name: "Wharf".to_owned(),
            client: None,
            metadata_url: None,
            issuer_metadata_url: None,
            scopes: None,
            key: None,
            grant: Grant::Person,
            ui: None,
            http: HttpSettings::default(),
        }
    }
}
