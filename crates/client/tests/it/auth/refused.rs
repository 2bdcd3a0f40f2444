//! What is refused: private addresses, and invalid responses.

use std::io;
use std::net::IpAddr;
use std::sync::Arc;

use serde_json::{Value, json};
use wharf_auth::{AuthRequired, Grant, NetworkZone, OAuth, OAuthError, OAuthOptions, RegisteredClient};
use wharf_client::{BoxFuture, CallErrorKind, ConnectErrorKind, Outcome};
use wharf_io::{HttpSettings, Resolve};
use wharf_protocol::Secret;
use wharf_testkit::provider::{Document, ISSUER, Provider, ProviderConfig, RESOURCE};
use wharf_testkit::soon;

use super::{REDIRECT_URI, Scene, TestUser, look};
use crate::result_text as told;

/// Checks that signing in fails with this text, without a token, and with `visits` prompts of the user.
async fn check(change: impl FnOnce(&mut ProviderConfig), text: &str, visits: usize) {
    let scene = Scene::with(change).await;
    let error = look(&scene.session()).await.unwrap_err();
    assert!(error.to_string().contains(text), "{error}");
    let kind = &error.kind;
    assert!(matches!(kind, CallErrorKind::Connect(ConnectErrorKind::Auth(_))), "{kind:?}");
    assert_eq!((error.outcome(), scene.user.visits()), (Outcome::NotRun, visits), "{error}");
    assert!(scene.provider.requests_to("/token").is_empty(), "{error}");
}

#[tokio::test]
async fn an_authorization_server_without_s256_is_not_used() {
    for methods in [None, Some(json!([])), Some(json!(["plain"])), Some(Value::Null)] {
        check(|config| config.change(ISSUER, "code_challenge_methods_supported", methods), "S256", 0).await;
    }
}

#[tokio::test]
async fn an_issuer_mismatch_is_refused() {
    for name in ["https://other.example", "{origin}/tenant", ""] {
        check(|config| config.change(ISSUER, "issuer", json!(name)), "claims to be", 0).await;
    }
}

#[tokio::test]
async fn a_resource_mismatch_is_refused() {
    for name in ["https://other.example/mcp", "{origin}/other", "{origin}/mc"] {
        check(|config| config.change(RESOURCE, "resource", json!(name)), "claims to be", 0).await;
    }
}

#[tokio::test]
async fn a_redirect_with_another_state_is_refused() {
    check(|config| config.state = Some("guessed".to_owned()), "`state` does not match", 1).await;
    check(|config| config.state = Some(String::new()), "`state` does not match", 1).await;
}

#[tokio::test]
async fn a_redirect_cannot_be_replayed() {
    let scene = Scene::new().await;
    look(&scene.session()).await.unwrap();
    let state = scene.user.parameter("state").unwrap();
    let back = format!("{REDIRECT_URI}?code=SECRET-code&state={state}&iss={}", scene.provider.origin());
    *scene.user.fixed_redirect.lock().unwrap() = Some(back);
    scene.provider.revoke_all();
    let error = look(&scene.session()).await.unwrap_err();
    assert!(error.to_string().contains("`state` does not match"), "{error}");
    let states: Vec<_> = scene.provider.requests_to("/token").iter().map(|seen| seen.body.contains("code=")).collect();
    assert_eq!(states.iter().filter(|code| **code).count(), 1);
}

#[tokio::test]
async fn a_redirect_with_another_iss_is_refused() {
    for iss in ["https://other.example", "{origin}/", "{origin}/tenant"] {
        check(|config| config.iss = Some(iss.to_owned()), "`iss` does not match", 1).await;
    }
    check(|config| config.iss = None, "`iss` is missing", 1).await;
    // `iss` is required only if the metadata promises it.
    let scene = Scene::with(|config| {
        config.iss = None;
        config.change(ISSUER, "authorization_response_iss_parameter_supported", None);
    });
    assert_eq!(scene.await.call().await, "done with read");
}

#[tokio::test]
async fn a_denied_authorization_is_an_error() {
    check(|config| config.authorize_error = Some("access_denied".to_owned()), "denied the request: access_denied", 1)
        .await;
}

#[tokio::test]
async fn unsafe_authorization_urls_are_not_opened() {
    for page in [
        "javascript:alert(1)",
        "JavaScript://example.com/%0Aalert(1)",
        "file:///etc/passwd",
        "data:text/html,x",
        "vbscript:x",
        "ms-msdt:/id",
        "//example.com/authorize",
        "https://example.com/authorize?a=$(id)",
        "https://example.com/authorize?a=`id`",
        "https://example.com/authorize;id",
        "https://example.com/authorize|id",
        "https://example.com/authorize?a='b'",
        "https://example.com/%PATH%",
        "https://example.com/a b",
        "https://user@example.com/authorize",
        "http://example.com/authorize",
        "-authorize",
        "",
    ] {
        check(|config| config.change(ISSUER, "authorization_endpoint", json!(page)), "refused", 0).await;
    }
}

#[tokio::test]
async fn invalid_endpoints_are_refused_before_the_user_is_prompted() {
    for endpoint in ["token_endpoint", "registration_endpoint", "revocation_endpoint"] {
        for url in ["file:///etc/passwd", "http://example.com/x", "https://user:word@example.com/x", "x"] {
            check(|config| config.change(ISSUER, endpoint, json!(url)), "refused", 0).await;
        }
    }
}

#[tokio::test]
async fn metadata_that_redirects_to_another_origin_is_refused() {
    let other = Provider::start(ProviderConfig::default()).await;
    for path in [RESOURCE, ISSUER] {
        let to = format!("{}{path}", other.origin());
        let moved = |config: &mut ProviderConfig| {
            config.documents.insert(path.to_owned(), Document::Redirect(302, to.clone()));
        };
        check(moved, "another origin", 0).await;
    }
    assert!(other.requests().is_empty());
}

#[tokio::test]
async fn token_requests_do_not_follow_redirects() {
    let other = Provider::start(ProviderConfig::default()).await;
    for status in [301, 302, 303, 307, 308] {
        let scene = Scene::new().await;
        let to = format!("{}/token", other.origin());
        scene.provider.update(|config| {
            config.documents.insert("/token".to_owned(), Document::Redirect(status, to));
        });
        let error = look(&scene.session()).await.unwrap_err();
        assert!(matches!(error.kind, CallErrorKind::Connect(ConnectErrorKind::Auth(_))), "{error}");
    }
    assert!(other.requests().is_empty());
}

/// Resolves names to chosen addresses.
#[derive(Clone)]
struct Names;

impl Resolve for Names {
    fn resolve(&self, name: &str) -> BoxFuture<'static, io::Result<Vec<IpAddr>>> {
        let found: Option<IpAddr> = match name {
            "server.test" => Some([8, 8, 8, 8].into()),
            "loopback.test" | "127.1" | "2130706433" | "0x7f.1" | "017700000001" => Some([127, 0, 0, 1].into()),
            "private.test" => Some([10, 0, 0, 1].into()),
            "metadata.test" => Some([169, 254, 169, 254].into()),
            _ => None,
        };
        Box::pin(async move { found.map(|found| vec![found]).ok_or(io::ErrorKind::NotFound.into()) })
    }
}

#[tokio::test]
async fn a_public_server_cannot_name_a_private_address() {
    let provider = Provider::start(ProviderConfig::default()).await;
    let port = provider.port();
    for host in [
        "127.0.0.1",
        "127.1",
        "2130706433",
        "0x7f.1",
        "017700000001",
        "localhost",
        "LocalHost.",
        "x.localhost",
        "0.0.0.0",
        "[::1]",
        "[::]",
        "[::ffff:127.0.0.1]",
        "[::ffff:7f00:1]",
        "[64:ff9b::7f00:1]",
        "[fe80::1]",
        "[fd00::1]",
        "10.0.0.1",
        "192.168.0.1",
        "169.254.169.254",
        "loopback.test",
        "private.test",
        "metadata.test",
    ] {
        for scheme in ["http", "https"] {
            let user = TestUser::default();
            let store: Arc<dyn wharf_auth::Store> = Arc::new(wharf_auth::MemoryStore::default());
            let http = HttpSettings::default().resolving(Names);
            let ui: Arc<dyn wharf_auth::AuthorizationUi> = Arc::new(user.clone());
            let options = OAuthOptions { http, ui: Some(ui), ..OAuthOptions::new(store) };
            let oauth = OAuth::new("https://server.test/mcp", options).unwrap();
            let challenge = format!("Bearer resource_metadata=\"{scheme}://{host}:{port}{RESOURCE}\"");
            let required = refusal(&challenge, None);
            let error = soon(oauth.sign_in(Some(&required))).await.unwrap_err().to_string();
            assert!(error.contains("private network") || error.contains("not https"), "{host}: {error}");
            assert_eq!(user.visits(), 0);
        }
    }
    assert!(provider.requests().is_empty());
}

fn refusal(challenge: &str, peer: Option<IpAddr>) -> AuthRequired {
    let zone = peer.map(NetworkZone::of);
    AuthRequired { status: 401, challenge: Some(challenge.into()), zone, reason: None }
}

#[tokio::test]
async fn a_server_is_judged_by_the_address_that_it_responded_from() {
    let provider = Provider::start(ProviderConfig::default()).await;
    let challenge = format!("Bearer resource_metadata=\"{}{RESOURCE}\"", provider.origin());
    // The name resolves to this machine by now, although the response came from elsewhere.
    for (peer, is_refused) in [([8, 8, 8, 8], true), ([10, 0, 0, 1], true), ([127, 0, 0, 1], false)] {
        let http = HttpSettings::default().resolving(Names);
        let options = OAuthOptions { http, ..OAuthOptions::new(Arc::new(wharf_auth::MemoryStore::default())) };
        let options = OAuthOptions { ui: Some(Arc::new(TestUser::default())), ..options };
        let oauth = OAuth::new("http://loopback.test/mcp", options).unwrap();
        let error = soon(oauth.sign_in(Some(&refusal(&challenge, Some(peer.into()))))).await.unwrap_err().to_string();
        assert_eq!(error.contains("private network"), is_refused, "{peer:?}: {error}");
        assert_eq!(provider.requests().is_empty(), is_refused, "{peer:?}");
    }
    // A server that once responded from a public address stays public.
    let oauth = OAuth::new(
        "http://loopback.test/mcp",
        OAuthOptions { http: HttpSettings::default().resolving(Names), ..Scene::new().await.options() },
    );
    let oauth = oauth.unwrap();
    for peer in [[8, 8, 8, 8], [127, 0, 0, 1]] {
        let error = soon(oauth.sign_in(Some(&refusal(&challenge, Some(peer.into()))))).await.unwrap_err().to_string();
        assert!(error.contains("private network"), "{peer:?}: {error}");
    }
}

#[tokio::test]
async fn a_refusal_names_the_zone_of_the_server() {
    let scene = Scene::new().await;
    let error = look(&scene.session_with(scene.without_user())).await.unwrap_err();
    let CallErrorKind::Connect(ConnectErrorKind::Auth(required)) = error.kind else { panic!("{error}") };
    assert_eq!(required.zone, Some(NetworkZone::Loopback));
}

#[tokio::test]
async fn a_client_secret_is_sent_only_to_a_configured_or_confirmed_issuer() {
    let known = RegisteredClient::with_secret("known", Secret::new("SECRET-known"));
    let mut scene = Scene::new().await;
    scene.provider.add_client("known", Some("SECRET-known"), "client_secret_basic");
    scene.user.refuses_secret = true;
    let options = OAuthOptions { client: Some(known.clone()), ..scene.options() };
    let refused = told(look(&scene.session_with(options)).await);
    assert!(refused.contains("refused to send the client secret to"), "{refused}");
    // Without a user, no secret is sent to an issuer that the server names.
    let machine = OAuthOptions { client: Some(known.clone()), grant: Grant::Client, ..scene.without_user() };
    let refused = told(look(&scene.session_with(machine)).await);
    assert!(refused.contains("refused to send the client secret to"), "{refused}");
    assert!(scene.provider.requests_to("/token").is_empty() && scene.user.visits() == 0);
    assert_eq!(scene.user.asked_issuers.lock().unwrap().as_slice(), [scene.provider.origin()]);
    // The issuer is configured.
    let issuer_metadata_url = Some(format!("{}{ISSUER}", scene.provider.origin()));
    let pinned = OAuthOptions { client: Some(known.clone()), issuer_metadata_url, ..scene.options() };
    assert_eq!(told(look(&scene.session_with(pinned)).await), "done with read");
    // An earlier sign-in with the same secret counts, another one does not.
    let sign_in = async |client: RegisteredClient| {
        let options = OAuthOptions { client: Some(client), ..scene.options() };
        soon(OAuth::new(&scene.provider.url(), options).unwrap().sign_in(None)).await
    };
    sign_in(known).await.unwrap();
    let refused = sign_in(RegisteredClient::with_secret("known", Secret::new("SECRET-other"))).await.unwrap_err();
    assert!(matches!(refused, OAuthError::UnconfirmedIssuer { .. }), "{refused}");
}

/// Signs in; then the server names another authorization server.
async fn with_changed_issuer(options: impl FnOnce(&Scene) -> OAuthOptions) -> (Scene, Provider, String) {
    let evil = Provider::start(ProviderConfig::default()).await;
    evil.add_client("known", Some("SECRET-known"), "client_secret_basic");
    let scene = Scene::new().await;
    scene.provider.add_client("known", Some("SECRET-known"), "client_secret_basic");
    let options = options(&scene);
    look(&scene.session_with(options.clone())).await.unwrap();
    scene.provider.expire();
    let named = json!([evil.origin()]);
    scene.provider.update(|config| config.change(RESOURCE, "authorization_servers", named));
    let told = told(look(&scene.session_with(options)).await);
    (scene, evil, told)
}

#[tokio::test]
async fn tokens_are_not_sent_to_another_authorization_server() {
    let (scene, evil, _) = with_changed_issuer(Scene::options).await;
    let secrets = scene.provider.secrets();
    for seen in evil.requests() {
        let sent = format!("{} {} {:?}", seen.path, seen.body, seen.headers);
        assert!(!secrets.iter().any(|secret| sent.contains(secret.as_str())), "{sent}");
    }
}

#[tokio::test]
async fn a_client_secret_is_not_sent_to_another_authorization_server() {
    let known = RegisteredClient::with_secret("known", Secret::new("SECRET-known"));
    let (scene, evil, told) =
        with_changed_issuer(|scene| OAuthOptions { client: Some(known), ..scene.options() }).await;
    assert!(told.contains("the client secret belongs to"), "{told}");
    assert!(evil.requests_to("/token").is_empty() && evil.requests_to("/authorize").is_empty());
    assert_eq!(scene.user.visits(), 1);
}
