//! Who signs in to which server.

use std::sync::{Arc, Mutex};

use futures_util::future::BoxFuture;
use wharf_client::AuthRequired;
use wharf_client::auth::{Authority, OAuthError};
use wharf_fleet::config::{OAuthSettings, Remote};
use wharf_fleet::{Enlisted, Fleet, FleetOptions, Outfit, Reach, Scope, Server, State};
use wharf_protocol::Secret;
use wharf_testkit::{HttpScripted, Script, soon};

use super::{name, over_http};

/// Always the same token.
struct Token;

impl Authority for Token {
    fn token(&self) -> BoxFuture<'_, Result<(Option<Secret>, u64), OAuthError>> {
        Box::pin(async { Ok((Some(Secret::new("t0k3n")), 1)) })
    }

    fn refused<'a>(&'a self, _: u64, _: &'a AuthRequired) -> BoxFuture<'a, Result<bool, OAuthError>> {
        Box::pin(async { Ok(false) })
    }

    fn number(&self) -> u64 {
        1
    }
}

#[tokio::test]
async fn every_transport_to_a_url_is_signed_in_to() {
    let server = HttpScripted::new(Script::good());
    let listening = server.listen().await;
    let remote =
        |url: String| Remote { url, headers: Vec::new(), headers_helper: None, oauth: OAuthSettings::default() };
    let reaches = [
        ("http", Reach::Http(remote(listening.url()))),
        ("sse", Reach::Sse(remote(listening.sse_url()))),
        ("ws", Reach::WebSocket(remote(listening.ws_url()))),
    ];
    let servers = reaches.map(|(text, reach)| Enlisted::from(Server::new(name(text), Scope::User, reach)));
    let outfit = Outfit { sign_ins: Some(Arc::new(|_, _| Some(Arc::new(Token)))), ..Outfit::default() };
    let fleet = Fleet::open(servers, FleetOptions { outfit, ..FleetOptions::default() });
    soon(fleet.settled(std::time::Duration::from_secs(10))).await;
    assert!(fleet.statuses().iter().all(|status| status.state == State::Connected), "{:?}", fleet.statuses());
    assert!(server.requests().iter().all(|seen| seen.headers["authorization"] == "Bearer t0k3n"));
    fleet.close().await;
}

#[tokio::test]
async fn a_server_at_a_url_is_signed_in_to_unless_it_has_a_header_for_that() {
    let servers = [HttpScripted::new(Script::good()), HttpScripted::new(Script::good())];
    let (mut plain, _one) = over_http("plain", &servers[0]).await;
    let (mut fixed, _two) = over_http("fixed", &servers[1]).await;
    let remote = |server: &mut Server, change: &dyn Fn(&mut Remote)| match &mut server.reach {
        Reach::Http(remote) => change(remote),
        _ => panic!("{server:?}"),
    };
    remote(&mut plain, &|remote| {
        remote.oauth = OAuthSettings { client_id: Some("me".to_owned()), ..OAuthSettings::default() };
    });
    remote(&mut fixed, &|remote| remote.headers = vec![("authorization".to_owned(), Secret::new("Bearer mine"))]);
    let asked: Arc<Mutex<Vec<Option<String>>>> = Arc::default();
    let asks = Arc::clone(&asked);
    let sign_ins = move |url: &str, oauth: &OAuthSettings| {
        assert!(url.ends_with("/mcp"), "{url}");
        asks.lock().unwrap().push(oauth.client_id.clone());
        Some(Arc::new(Token) as Arc<dyn Authority>)
    };
    let outfit = Outfit { sign_ins: Some(Arc::new(sign_ins)), ..Outfit::default() };
    let fleet = Fleet::open([plain, fixed].map(Enlisted::from), FleetOptions { outfit, ..FleetOptions::default() });
    soon(fleet.settled(std::time::Duration::from_secs(10))).await;
    let sent = |server: &HttpScripted| server.requests()[0].headers["authorization"].to_str().unwrap().to_owned();
    assert_eq!(servers.each_ref().map(sent), ["Bearer t0k3n", "Bearer mine"]);
    assert_eq!(*asked.lock().unwrap(), [Some("me".to_owned())]);
    fleet.close().await;
}
