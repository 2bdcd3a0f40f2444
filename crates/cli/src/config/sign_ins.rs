//! Stored credentials: where they are, and how servers use them. Nothing here asks the user to sign in.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use wharf::auth::{FileStore, OAuth, OAuthOptions, RegisteredClient, Store, TokenProvider};
use wharf::config::OAuthSettings;
use wharf::fleet::TokenProviders;

use super::network;
use super::paths::{Paths, no_home};
use crate::error::{UsageError, usage_error};

/// Returns the token providers of a fleet; `None` without a directory for credentials.
pub(super) fn token_providers(paths: &Paths, connect: Duration) -> Option<TokenProviders> {
    paths.auth.as_ref()?;
    let paths = paths.clone();
    Some(Arc::new(move |url, known| {
        // The connection itself reports wrong network settings.
        let options = options(&paths, connect, url, known).ok()?;
        OAuth::new(&network::http_url(url), options).ok().map(|oauth| Arc::new(oauth) as Arc<dyn TokenProvider>)
    }))
}

/// Returns the options for a sign-in at a URL, with the settings of the server's entry.
pub(super) fn options(
    paths: &Paths,
    connect: Duration,
    url: &str,
    known: &OAuthSettings,
) -> Result<OAuthOptions, UsageError> {
    let folder = paths.auth.clone().ok_or_else(no_home)?;
    let http = network::settings(connect, &network::http_url(url))?;
    let client = known.client_id.as_ref().map(|id| match &known.client_secret {
        Some(secret) => RegisteredClient::with_secret(id, secret.clone()),
        None => RegisteredClient::public(id),
    });
    Ok(OAuthOptions {
        client,
        scopes: known.scopes.clone(),
        issuer_metadata_url: known.metadata_url.clone(),
        profile: paths.profile.clone(),
        http,
        ..OAuthOptions::new(store(folder))
    })
}

/// Returns the credential store: the system's keychain if it is available, otherwise a file.
#[cfg(feature = "keychain")]
fn store(folder: PathBuf) -> Arc<dyn Store> {
    match super::keychain::Keychain::of(&folder) {
        Ok(keychain) => Arc::new(wharf::auth::VaultStore::new(Arc::new(keychain), FileStore::at(folder))),
        Err(_) => Arc::new(FileStore::at(folder)),
    }
}

#[cfg(not(feature = "keychain"))]
fn store(folder: PathBuf) -> Arc<dyn Store> {
    Arc::new(FileStore::at(folder))
}

/// Returns a note for the user if credentials go to a file instead of a keychain.
#[cfg(feature = "keychain")]
pub(crate) fn storage_note(paths: &Paths) -> Option<String> {
    let folder = paths.auth.as_ref()?;
    let reason = super::keychain::Keychain::of(folder).err()?;
    let file = FileStore::at(folder).file();
    Some(format!("no keychain available ({reason}); storing credentials in {}, readable only by you", file.display()))
}

#[cfg(not(feature = "keychain"))]
pub(crate) fn storage_note(_: &Paths) -> Option<String> {
    None
}

/// Returns the OAuth client for a URL.
pub(crate) fn oauth(url: &str, options: OAuthOptions) -> Result<OAuth, UsageError> {
    OAuth::new(&network::http_url(url), options).map_err(|error| usage_error(error.to_string(), None))
}

/// Whether two URLs share credentials.
pub(super) fn is_shared(one: &str, other: &str) -> bool {
    let parsed = |url: &str| network::http_url(url).parse::<http::Uri>().ok();
    one == other || parsed(one).is_some_and(|one| Some(one) == parsed(other))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn credentials_belong_to_a_url_whatever_its_transport() {
        assert!(is_shared("https://a.test/mcp", "https://A.test/mcp"));
        assert!(is_shared("wss://a.test/mcp", "https://a.test/mcp"));
        for other in ["http://a.test/mcp", "https://a.test/other", "https://b.test/mcp", "https://a.test/mcp?b"] {
            assert!(!is_shared("https://a.test/mcp", other), "{other}");
        }
    }
}
