//! The sign-ins of this person: where they are kept, and how a server's is used. Nobody is asked for one here: only
//! `wharf login` brings a person to a page.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use wharf::auth::{FileStore, OAuth, OAuthError, OAuthOptions, RegisteredClient, Store, TokenProvider};
use wharf::config::{ConfiguredServer, OAuthSettings, RemoteConfig};
use wharf::fleet::TokenProviders;

use crate::network;
use crate::places::{Places, homeless};
use crate::servers::{Misuse, misuse, remote};
use crate::setup::Setup;

/// Who signs in to servers, for a fleet; `None` where there is no place to keep anything.
pub(crate) fn quietly(places: &Places, connect: Duration) -> Option<TokenProviders> {
    places.auth.as_ref()?;
    let places = places.clone();
    Some(Arc::new(move |url, known| {
        // What is wrong with the network is told by the connection itself.
        let options = options(&places, connect, url, known).ok()?;
        OAuth::new(&endpoint(url), options).ok().map(|oauth| Arc::new(oauth) as Arc<dyn TokenProvider>)
    }))
}

/// How one signs in to the server at a URL, with what its entry says about that.
pub(crate) fn options(
    places: &Places,
    connect: Duration,
    url: &str,
    known: &OAuthSettings,
) -> Result<OAuthOptions, Misuse> {
    let folder = places.auth.clone().ok_or_else(homeless)?;
    let http = network::settings(connect, &endpoint(url))?;
    let client = known.client_id.as_ref().map(|id| match &known.client_secret {
        Some(secret) => RegisteredClient::with_secret(id, secret.clone()),
        None => RegisteredClient::public(id),
    });
    let (scopes, issuer_metadata_url) = (known.scopes.clone(), known.metadata_url.clone());
    let profile = places.profile.clone();
    Ok(OAuthOptions { client, scopes, issuer_metadata_url, profile, http, ..OAuthOptions::new(store(folder)) })
}

/// Where sign-ins are kept: in the keychain if there is one and this binary knows it, otherwise in a file.
#[cfg(feature = "keychain")]
fn store(folder: PathBuf) -> Arc<dyn Store> {
    match crate::keychain::Keychain::of(&folder) {
        Ok(keychain) => Arc::new(wharf::auth::VaultStore::new(Arc::new(keychain), FileStore::at(folder))),
        Err(_) => Arc::new(FileStore::at(folder)),
    }
}

#[cfg(not(feature = "keychain"))]
fn store(folder: PathBuf) -> Arc<dyn Store> {
    Arc::new(FileStore::at(folder))
}

/// What is to be said about where a sign-in will be kept.
#[cfg(feature = "keychain")]
pub(crate) fn note(places: &Places) -> Option<String> {
    let folder = places.auth.as_ref()?;
    let reason = crate::keychain::Keychain::of(folder).err()?;
    let file = FileStore::at(folder).file();
    let place = file.display();
    Some(format!("there is no keychain here ({reason}); the sign-in is kept in {place}, readable by you only"))
}

#[cfg(not(feature = "keychain"))]
pub(crate) fn note(_: &Places) -> Option<String> {
    None
}

/// The sign-in of the server at a URL.
pub(crate) fn of(url: &str, options: OAuthOptions) -> Result<OAuth, Misuse> {
    OAuth::new(&endpoint(url), options).map_err(|error| misuse(error.to_string(), None))
}

/// Forgets the sign-in of a server that is not configured any more, and has it taken back; `false` if there was none, or
/// if another server has the same.
pub(crate) async fn forget(setup: &Setup, gone: &RemoteConfig) -> Result<bool, OAuthError> {
    setup.forget_refusals(&gone.url).await;
    let is_used =
        |found: &ConfiguredServer| remote(&found.server.reach).is_some_and(|remote| is_shared(&remote.url, &gone.url));
    if setup.places.auth.is_none() || setup.loaded.servers.iter().any(is_used) {
        return Ok(false);
    }
    let oauth = setup.sign_in_options(&gone.url, &gone.oauth).and_then(|options| of(&gone.url, options));
    match oauth {
        Ok(oauth) => oauth.sign_out().await,
        // One that could never be signed in to has no sign-in.
        Err(_) => Ok(false),
    }
}

/// Whether two addresses have one sign-in.
fn is_shared(one: &str, other: &str) -> bool {
    let parsed = |url: &str| endpoint(url).parse::<http::Uri>().ok();
    one == other || parsed(one).is_some_and(|one| Some(one) == parsed(other))
}

/// Where a server is asked who lets us in: a web socket begins as HTTP, and what is said about signing in stays HTTP.
fn endpoint(url: &str) -> String {
    match url.split_once("://") {
        Some((scheme, rest)) if scheme.eq_ignore_ascii_case("ws") => format!("http://{rest}"),
        Some((scheme, rest)) if scheme.eq_ignore_ascii_case("wss") => format!("https://{rest}"),
        _ => url.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_place_has_one_sign_in_however_it_is_reached() {
        assert!(is_shared("https://a.test/mcp", "https://A.test/mcp"));
        assert!(is_shared("wss://a.test/mcp", "https://a.test/mcp"));
        for other in ["http://a.test/mcp", "https://a.test/other", "https://b.test/mcp", "https://a.test/mcp?b"] {
            assert!(!is_shared("https://a.test/mcp", other), "{other}");
        }
    }
}
