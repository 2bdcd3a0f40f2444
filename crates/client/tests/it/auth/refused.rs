//! What is refused: addresses that are not everybody's, and answers that are not what was asked for.

use std::io;
use std::net::IpAddr;
use std::sync::Arc;

use serde_json::{Value, json};
use wharf_auth::{OAuth, OAuthOptions, RegisteredClient};
use wharf_client::{BoxFuture, CallErrorKind, ConnectErrorKind, Outcome};
use wharf_io::{HttpSettings, Resolve};
use wharf_protocol::Secret;
use wharf_testkit::provider::{Document, ISSUER, Provider, ProviderConfig, RESOURCE};
use wharf_testkit::soon;

use super::{BACK, Person, Scene, look};
use crate::result_text as told;

/// Signing in fails with these words, no token is had, and nobody is asked for one more than `visits` times.
async fn check(change: impl FnOnce(&mut ProviderConfig), words: &str, visits: usize) {
    let scene = Scene::with(change).await;
    let error = look(&scene.session()).await.unwrap_err();
    assert!(error.to_string().contains(words), "{error}");
    let kind = &error.kind;
    assert!(matches!(kind, CallErrorKind::Connect(ConnectErrorKind::Auth(_))), "{kind:?}");
    assert_eq!((error.outcome(), scene.person.visits()), (Outcome::NotRun, visits), "{error}");
    assert!(scene.provider.requests_to("/token").is_empty(), "{error}");
}

#[tokio::test]
async fn an_authorization_server_without_s256_is_not_used() {
    for methods in [None, Some(json!([])), Some(json!(["plain"])), Some(Value::Null)] {
        check(|config| config.change(ISSUER, "code_challenge_methods_supported", methods), "S256", 0).await;
    }
}

#[tokio::test]
async fn an_authorization_server_that_says_it_is_another_is_not_used() {
    for name in ["https://other.example", "{origin}/tenant", ""] {
        check(|config| config.change(ISSUER, "issuer", json!(name)), "claims to be", 0).await;
    }
}

#[tokio::test]
async fn a_server_that_says_it_is_another_gets_no_token() {
    for name in ["https://other.example/mcp", "{origin}/other", "{origin}/mc"] {
        check(|config| config.change(RESOURCE, "resource", json!(name)), "claims to be", 0).await;
    }
}

#[tokio::test]
async fn an_answer_for_another_sign_in_is_not_taken() {
    check(|config| config.state = Some("guessed".to_owned()), "its state is not ours", 1).await;
    check(|config| config.state = Some(String::new()), "its state is not ours", 1).await;
}

#[tokio::test]
async fn an_answer_that_was_used_is_not_taken_again() {
    let scene = Scene::new().await;
    look(&scene.session()).await.unwrap();
    let state = scene.person.asked("state").unwrap();
    let back = format!("{BACK}?code=SECRET-code&state={state}&iss={}", scene.provider.origin());
    *scene.person.comes_back_to.lock().unwrap() = Some(back);
    scene.provider.revoke_all();
    let error = look(&scene.session()).await.unwrap_err();
    assert!(error.to_string().contains("its state is not ours"), "{error}");
    let states: Vec<_> = scene.provider.requests_to("/token").iter().map(|seen| seen.body.contains("code=")).collect();
    assert_eq!(states.iter().filter(|code| **code).count(), 1);
}

#[tokio::test]
async fn an_answer_of_another_authorization_server_is_not_taken() {
    for iss in ["https://other.example", "{origin}/", "{origin}/tenant"] {
        check(|config| config.iss = Some(iss.to_owned()), "another authorization server", 1).await;
    }
    check(|config| config.iss = None, "does not say which authorization server", 1).await;
    // Who does not promise to say it need not.
    let scene = Scene::with(|config| {
        config.iss = None;
        config.change(ISSUER, "authorization_response_iss_parameter_supported", None);
    });
    assert_eq!(scene.await.call().await, "done with read");
}

#[tokio::test]
async fn a_person_who_says_no_is_understood() {
    check(|config| config.authorize_error = Some("access_denied".to_owned()), "says no: access_denied", 1).await;
}

#[tokio::test]
async fn pages_that_are_no_pages_are_shown_to_nobody() {
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
async fn other_endpoints_that_are_none_are_refused_before_a_person_is_asked() {
    for endpoint in ["token_endpoint", "registration_endpoint", "revocation_endpoint"] {
        for url in ["file:///etc/passwd", "http://example.com/x", "https://user:word@example.com/x", "x"] {
            check(|config| config.change(ISSUER, endpoint, json!(url)), "refused", 0).await;
        }
    }
}

#[tokio::test]
async fn a_description_that_moves_elsewhere_is_not_followed() {
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
async fn tokens_are_not_asked_for_elsewhere_than_where_that_was_said_to_be() {
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

/// Names for addresses, as somebody chose them.
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
async fn a_server_that_is_not_here_leads_us_to_no_address_that_is() {
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
            let person = Person::default();
            let store: Arc<dyn wharf_auth::Store> = Arc::new(wharf_auth::MemoryStore::default());
            let http = HttpSettings::default().resolving(Names);
            let visitor: Arc<dyn wharf_auth::AuthorizationUi> = Arc::new(person.clone());
            let options = OAuthOptions { http, visitor: Some(visitor), ..OAuthOptions::new(store) };
            let oauth = OAuth::new("https://server.test/mcp", options).unwrap();
            let challenge = format!("Bearer resource_metadata=\"{scheme}://{host}:{port}{RESOURCE}\"");
            let error = soon(oauth.sign_in(Some(&challenge))).await.unwrap_err().to_string();
            assert!(error.contains("private network") || error.contains("not https"), "{host}: {error}");
            assert_eq!(person.visits(), 0);
        }
    }
    assert!(provider.requests().is_empty());
}

/// Somebody has signed in; then the server names another authorization server.
async fn turned(options: impl FnOnce(&Scene) -> OAuthOptions) -> (Scene, Provider, String) {
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
async fn a_server_that_names_another_authorization_server_does_not_get_our_token_sent_there() {
    let (scene, evil, _) = turned(Scene::options).await;
    let secrets = scene.provider.secrets();
    for seen in evil.requests() {
        let sent = format!("{} {} {:?}", seen.path, seen.body, seen.headers);
        assert!(!secrets.iter().any(|secret| sent.contains(secret.as_str())), "{sent}");
    }
}

#[tokio::test]
async fn a_secret_goes_to_no_other_authorization_server_than_the_first() {
    let known = RegisteredClient::with_secret("known", Secret::new("SECRET-known"));
    let (scene, evil, told) = turned(|scene| OAuthOptions { client: Some(known), ..scene.options() }).await;
    assert!(told.contains("the client's secret belongs to"), "{told}");
    assert!(evil.requests_to("/token").is_empty() && evil.requests_to("/authorize").is_empty());
    assert_eq!(scene.person.visits(), 1);
}
