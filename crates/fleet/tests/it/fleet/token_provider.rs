//! Token providers and the cache of authorization failures.

use std::sync::{Arc, Mutex};

use futures_util::future::BoxFuture;
use wharf_auth::{AuthFailureCache, OAuthError, TokenProvider, TokenVersion};
use wharf_client::AuthRequired;
use wharf_config::{OAuthSettings, RemoteConfig};
use wharf_fleet::{Fleet, FleetOptions, HostEnvironment, Scope, Server, ServerSpec, ServerState, TransportConfig};
use wharf_protocol::{Redactor, Secret};
use wharf_testkit::{HttpScripted, Script, Step, soon};

use super::{name, over_http};

/// Always the same token.
struct Token;

impl TokenProvider for Token {
    fn token(&self) -> BoxFuture<'_, Result<(Option<Secret>, u64), OAuthError>> {
        Box::pin(async { Ok((Some(Secret::new("t0k3n")), 1)) })
    }

    fn refused<'a>(&'a self, _: TokenVersion, _: &'a AuthRequired) -> BoxFuture<'a, Result<bool, OAuthError>> {
        Box::pin(async { Ok(false) })
    }

    fn number(&self) -> u64 {
        1
    }
}

#[tokio::test]
async fn every_remote_transport_uses_the_token_provider() {
    let server = HttpScripted::new(Script::good());
    let listening = server.listen().await;
    let remote =
        |url: String| RemoteConfig { url, headers: Vec::new(), headers_helper: None, oauth: OAuthSettings::default() };
    let transports = [
        ("http", TransportConfig::Http(remote(listening.url()))),
        ("sse", TransportConfig::Sse(remote(listening.sse_url()))),
        ("ws", TransportConfig::WebSocket(remote(listening.ws_url()))),
    ];
    let servers = transports.map(|(text, transport)| ServerSpec::from(Server::new(name(text), Scope::User, transport)));
    let host_environment =
        HostEnvironment { sign_ins: Some(Arc::new(|_, _| Some(Arc::new(Token)))), ..HostEnvironment::default() };
    let fleet = Fleet::open(servers, FleetOptions { host_environment, ..FleetOptions::default() });
    soon(fleet.settled(std::time::Duration::from_secs(10))).await;
    assert!(fleet.statuses().iter().all(|status| status.state == ServerState::Connected), "{:?}", fleet.statuses());
    assert!(server.requests().iter().all(|seen| seen.headers["authorization"] == "Bearer t0k3n"));
    fleet.close().await;
}

#[tokio::test]
async fn an_authorization_header_overrides_the_token_provider() {
    let servers = [HttpScripted::new(Script::good()), HttpScripted::new(Script::good())];
    let (mut plain, _one) = over_http("plain", &servers[0]).await;
    let (mut fixed, _two) = over_http("fixed", &servers[1]).await;
    let remote = |server: &mut Server, change: &dyn Fn(&mut RemoteConfig)| match &mut server.transport {
        TransportConfig::Http(remote) => change(remote),
        _ => panic!("{server:?}"),
    };
    remote(&mut plain, &|remote| {
        remote.oauth = OAuthSettings { client_id: Some("me".to_owned()), ..OAuthSettings::default() };
    });
    remote(&mut fixed, &|remote| remote.headers = vec![("authorization".to_owned(), Secret::new("Bearer mine"))]);
    let asked = Arc::new(Mutex::new(Vec::<Option<String>>::new()));
    let asks = Arc::clone(&asked);
    let sign_ins = move |url: &str, oauth: &OAuthSettings| {
        assert!(url.ends_with("/mcp"), "{url}");
        asks.lock().unwrap().push(oauth.client_id.clone());
        Some(Arc::new(Token) as Arc<dyn TokenProvider>)
    };
    let host_environment = HostEnvironment { sign_ins: Some(Arc::new(sign_ins)), ..HostEnvironment::default() };
    let fleet =
        Fleet::open([plain, fixed].map(ServerSpec::from), FleetOptions { host_environment, ..FleetOptions::default() });
    soon(fleet.settled(std::time::Duration::from_secs(10))).await;
    let sent = |server: &HttpScripted| server.requests()[0].headers["authorization"].to_str().unwrap().to_owned();
    assert_eq!(servers.each_ref().map(sent), ["Bearer t0k3n", "Bearer mine"]);
    assert_eq!(*asked.lock().unwrap(), [Some("me".to_owned())]);
    fleet.close().await;
}

/// After a refusal, attempts with the same credentials are skipped for a while, unless the user requests one.
#[tokio::test]
async fn a_recent_authorization_failure_is_cached() {
    let refuse = Step::Http { status: 401, headers: Vec::new(), body: String::new() };
    let server = HttpScripted::new(Script::good().on("initialize", [refuse.clone()]).on("server/discover", [refuse]));
    let (plain, _listening) = over_http("plain", &server).await;
    let folder = tempfile::tempdir().unwrap();
    let open = |server: &Server, file: &str| {
        let refusals = Some(Arc::new(AuthFailureCache::with_file(folder.path().join(file))));
        let host_environment = HostEnvironment { refusals, ..HostEnvironment::default() };
        Fleet::open([server.clone().into()], FleetOptions { host_environment, ..FleetOptions::default() })
    };
    let state = async |fleet: &Fleet| {
        soon(fleet.settled(std::time::Duration::from_secs(10))).await;
        fleet.statuses()[0].state
    };
    let first = open(&plain, "refusals.json");
    assert_eq!(state(&first).await, ServerState::NeedsAuth);
    first.close().await;
    let asked = server.requests().len();

    let second = open(&plain, "refusals.json");
    assert_eq!((state(&second).await, server.requests().len()), (ServerState::NeedsAuth, asked));
    let status = &second.statuses()[0];
    let reason = status.reason.as_ref().unwrap().to_string();
    let words = ["(HTTP 401): cached from ", " s ago; without a sign-in the next attempt is in ", " min"];
    assert!(words.iter().all(|words| reason.contains(words)), "{reason}");
    // The user requests an attempt.
    second.retry(&plain.name).await.unwrap();
    wharf_testkit::until(async || server.requests().len() > asked).await;
    second.close().await;

    let asked = server.requests().len();
    let mut other = plain.clone();
    if let TransportConfig::Http(remote) = &mut other.transport {
        remote.headers = vec![("authorization".to_owned(), Secret::new("Bearer new"))];
    }
    let third = open(&other, "refusals.json");
    assert_eq!(state(&third).await, ServerState::NeedsAuth);
    assert!(server.requests().len() > asked, "other credentials were not tried");
    third.close().await;
    let asked = server.requests().len();
    let fourth = open(&plain, "of another profile.json");
    assert_eq!(state(&fourth).await, ServerState::NeedsAuth);
    assert!(server.requests().len() > asked);
    fourth.close().await;
}

/// A token that is long enough to be redacted.
struct LongToken;

impl TokenProvider for LongToken {
    fn token(&self) -> BoxFuture<'_, Result<(Option<Secret>, u64), OAuthError>> {
        Box::pin(async { Ok((Some(Secret::new("issued-token")), 1)) })
    }

    fn refused<'a>(&'a self, _: TokenVersion, _: &'a AuthRequired) -> BoxFuture<'a, Result<bool, OAuthError>> {
        Box::pin(async { Ok(false) })
    }

    fn number(&self) -> u64 {
        1
    }
}

#[tokio::test]
async fn the_redactor_learns_tokens_headers_and_variables_of_servers() {
    let servers = [(); 3].map(|()| HttpScripted::new(Script::good()));
    let (signed_in, _one) = over_http("signed-in", &servers[0]).await;
    let (mut fixed, _two) = over_http("fixed", &servers[1]).await;
    let (mut printed, _three) = over_http("printed", &servers[2]).await;
    if let TransportConfig::Http(remote) = &mut fixed.transport {
        remote.headers = vec![("authorization".to_owned(), Secret::new("Bearer fixed-token"))];
    }
    if let TransportConfig::Http(remote) = &mut printed.transport {
        let words = ["/bin/sh", "-c", r#"printf '{"Authorization": "Bearer printed-token"}'"#].map(str::to_owned);
        remote.headers_helper = Some(wharf_config::HeadersHelper { words: words.to_vec(), cwd: None });
    }
    let env = [("PASSWORD".to_owned(), Secret::new("hunter2"))].into_iter().collect();
    let stdio = wharf_config::StdioConfig { command: "no-such-command".to_owned(), args: Vec::new(), env, cwd: None };
    let local = Server::new(name("local"), Scope::User, TransportConfig::Stdio(stdio));
    let redactor = Redactor::default();
    let host_environment = HostEnvironment {
        sign_ins: Some(Arc::new(|_, _| Some(Arc::new(LongToken)))),
        redactor: Some(redactor.clone()),
        ..HostEnvironment::default()
    };
    let specs = [signed_in, fixed, printed, local].map(ServerSpec::from);
    let fleet = Fleet::open(specs, FleetOptions { host_environment, ..FleetOptions::default() });
    soon(fleet.settled(std::time::Duration::from_secs(10))).await;
    let said = "issued-token fixed-token printed-token hunter2";
    assert_eq!(redactor.redact(said), "[secret] [secret] [secret] [secret]");
    fleet.close().await;
}
