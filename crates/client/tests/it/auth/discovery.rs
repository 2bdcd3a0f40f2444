//! From a 401 response to a token: discovery, registration and scopes.

use serde_json::{Value, json};
use wharf_auth::{OAuthOptions, RegisteredClient};
use wharf_protocol::Secret;
use wharf_testkit::provider::{Document, ISSUER, ProviderConfig, RESOURCE, Registration};

use super::Scene;

/// Returns the paths that were requested, without repetitions.
fn requested_paths(scene: &Scene) -> Vec<String> {
    let mut paths: Vec<String> = Vec::new();
    for seen in scene.provider.requests() {
        let path = seen.path.split('?').next().unwrap_or_default().to_owned();
        if paths.last() != Some(&path) {
            paths.push(path);
        }
    }
    paths
}

async fn check(change: impl FnOnce(&mut ProviderConfig), expected: &[&str]) {
    let scene = Scene::with(change).await;
    assert_eq!(scene.call().await, "done with read");
    assert_eq!(requested_paths(&scene), expected);
    assert_eq!(scene.user.visits(), 1);
}

#[tokio::test]
async fn a_401_response_leads_to_a_token_through_discovery() {
    let usual = ["/mcp", RESOURCE, ISSUER, "/register", "/authorize", "/token", "/mcp"];
    check(|_| {}, &usual).await;
    // Many servers do not send the metadata URL.
    check(|config| config.challenge = None, &usual).await;
    check(|config| config.challenge = Some("Basic realm=\"x\", Bearer".to_owned()), &usual).await;
}

#[tokio::test]
async fn resource_metadata_is_found_by_challenge_or_at_the_root() {
    let elsewhere = |config: &mut ProviderConfig| {
        let document = config.documents.remove(RESOURCE).unwrap();
        config.documents.insert("/odd/place".to_owned(), document);
        config.challenge = Some("Bearer resource_metadata=\"{origin}/odd/place\"".to_owned());
    };
    check(elsewhere, &["/mcp", "/odd/place", ISSUER, "/register", "/authorize", "/token", "/mcp"]).await;
    let root = "/.well-known/oauth-protected-resource";
    let at_root = |config: &mut ProviderConfig| {
        let document = config.documents.remove(RESOURCE).unwrap();
        config.documents.insert(root.to_owned(), document);
        config.challenge = None;
    };
    check(at_root, &["/mcp", RESOURCE, root, ISSUER, "/register", "/authorize", "/token", "/mcp"]).await;
}

#[tokio::test]
async fn a_server_without_metadata_is_its_own_authorization_server() {
    let root = "/.well-known/oauth-protected-resource";
    let undescribed = |config: &mut ProviderConfig| {
        config.documents.remove(RESOURCE);
        config.challenge = Some("Bearer scope=read".to_owned());
    };
    check(undescribed, &["/mcp", RESOURCE, root, ISSUER, "/register", "/authorize", "/token", "/mcp"]).await;
    // Without any metadata, the endpoints of the first protocol revision are used.
    let silent = |config: &mut ProviderConfig| {
        config.documents.clear();
        config.challenge = Some("Bearer scope=read".to_owned());
    };
    let openid = "/.well-known/openid-configuration";
    check(silent, &["/mcp", RESOURCE, root, ISSUER, openid, "/register", "/authorize", "/token", "/mcp"]).await;
}

#[tokio::test]
async fn issuer_metadata_is_requested_in_protocol_order() {
    let places = [
        "/.well-known/oauth-authorization-server/tenant",
        "/.well-known/openid-configuration/tenant",
        "/tenant/.well-known/openid-configuration",
    ];
    for found in 0..places.len() {
        let mut expected = vec!["/mcp", RESOURCE];
        expected.extend(&places[..=found]);
        expected.extend(["/register", "/authorize", "/token", "/mcp"]);
        let tenant = |config: &mut ProviderConfig| {
            config.documents.remove(ISSUER);
            config.describe(places[found], ProviderConfig::issuer("{origin}/tenant"));
            config.change(RESOURCE, "authorization_servers", json!(["{origin}/tenant"]));
            config.iss = Some("{origin}/tenant".to_owned());
        };
        check(tenant, &expected).await;
    }
    let openid = "/.well-known/openid-configuration";
    let only_openid = |config: &mut ProviderConfig| {
        let document = config.documents.remove(ISSUER).unwrap();
        config.documents.insert(openid.to_owned(), document);
    };
    check(only_openid, &["/mcp", RESOURCE, ISSUER, openid, "/register", "/authorize", "/token", "/mcp"]).await;
}

#[tokio::test]
async fn null_values_in_metadata_count_as_absent() {
    let nulls = |config: &mut ProviderConfig| {
        config.change(RESOURCE, "scopes_supported", Value::Null);
        config.challenge = Some("Bearer scope=read".to_owned());
        for entry in ["scopes_supported", "client_id_metadata_document_supported", "revocation_endpoint"] {
            config.change(ISSUER, entry, Value::Null);
        }
    };
    check(nulls, &["/mcp", RESOURCE, ISSUER, "/register", "/authorize", "/token", "/mcp"]).await;
}

#[tokio::test]
async fn an_error_page_with_status_200_is_not_metadata() {
    let sorry = |config: &mut ProviderConfig| {
        config.challenge = Some("Bearer scope=read".to_owned());
        config.documents.insert(RESOURCE.to_owned(), Document::Raw(200, "<html>Not found</html>".to_owned()));
    };
    let root = "/.well-known/oauth-protected-resource";
    check(sorry, &["/mcp", RESOURCE, root, ISSUER, "/register", "/authorize", "/token", "/mcp"]).await;
}

#[tokio::test]
async fn metadata_may_redirect_within_its_origin() {
    let moved = |config: &mut ProviderConfig| {
        let document =
            config.documents.insert(RESOURCE.to_owned(), Document::Redirect(302, "/moved".to_owned())).unwrap();
        config.documents.insert("/moved".to_owned(), document);
    };
    check(moved, &["/mcp", RESOURCE, "/moved", ISSUER, "/register", "/authorize", "/token", "/mcp"]).await;
}

#[tokio::test]
async fn the_resource_indicator_is_sent_with_every_request() {
    let scene = Scene::with(|config| config.announced_lifetime = Some(1)).await;
    let session = scene.session();
    for _ in 0..2 {
        super::look(&session).await.unwrap();
    }
    assert!(scene.provider.renewals() > 0);
    let resource = scene.provider.url();
    assert_eq!(scene.user.parameter("resource"), Some(resource.clone()));
    let encoded = format!("resource={}", resource.replace(':', "%3A").replace('/', "%2F"));
    let tokens = scene.provider.requests_to("/token");
    assert!(tokens.len() > 1 && tokens.iter().all(|seen| seen.body.contains(&encoded)));
    assert_eq!(scene.user.parameter("code_challenge_method").as_deref(), Some("S256"));
}

#[tokio::test]
async fn a_configured_client_precedes_a_metadata_document_and_registration() {
    let described = "https://wharf.example/client.json";
    let describing =
        |config: &mut ProviderConfig| config.change(ISSUER, "client_id_metadata_document_supported", json!(true));
    let known = RegisteredClient::with_secret("known", Secret::new("SECRET-known"));
    for (client, metadata_url, supported, expected, registered) in [
        (Some(known.clone()), Some(described), true, "known", 0),
        (None, Some(described), true, described, 0),
        (None, Some(described), false, "client-00001", 1),
        (None, None, true, "client-00001", 1),
    ] {
        let scene = Scene::with(|config| {
            if supported {
                describing(config);
            }
        })
        .await;
        scene.provider.add_client("known", Some("SECRET-known"), "client_secret_basic");
        let metadata_url = metadata_url.map(str::to_owned);
        let session = scene.session_with(OAuthOptions { client, metadata_url, ..scene.options() });
        super::look(&session).await.unwrap();
        assert_eq!(scene.user.parameter("client_id").as_deref(), Some(expected));
        assert_eq!(scene.provider.requests_to("/register").len(), registered);
    }
}

#[tokio::test]
async fn without_registration_the_error_asks_for_a_client_id() {
    let scene = Scene::with(|config| config.change(ISSUER, "registration_endpoint", None)).await;
    let said = scene.call().await;
    assert!(said.contains("does not support dynamic client registration"), "{said}");
    assert_eq!(scene.user.visits(), 0);
}

#[tokio::test]
async fn a_client_secret_is_sent_as_registered_and_stored() {
    for method in ["client_secret_basic", "client_secret_post"] {
        let scene = Scene::with(|config| config.registration = Registration::Secret(method)).await;
        assert_eq!(scene.call().await, "done with read");
        // The next process refreshes with it.
        scene.provider.expire();
        assert_eq!(scene.call().await, "done with read");
        assert_eq!((scene.provider.renewals(), scene.user.visits()), (1, 1));
        // The next sign-in does not register again.
        scene.provider.revoke_all();
        assert_eq!(scene.call().await, "done with read");
        assert_eq!((scene.user.visits(), scene.provider.requests_to("/register").len()), (2, 1));
    }
}

#[tokio::test]
async fn a_client_unknown_to_the_provider_registers_again() {
    let scene = Scene::with(|config| config.registration = Registration::Secret("client_secret_basic")).await;
    assert_eq!(scene.call().await, "done with read");
    scene.provider.forget_clients();
    scene.provider.expire();
    assert_eq!(scene.call().await, "done with read");
    assert_eq!((scene.user.visits(), scene.provider.requests_to("/register").len()), (2, 2));
}

#[tokio::test]
async fn scopes_come_from_the_challenge_or_the_metadata() {
    for (challenge, options, expected) in [
        (Some("Bearer scope=\"read more\""), None, Some("read more")),
        (Some("Bearer"), None, Some("read")),
        (Some("Bearer scope=\"read more\""), Some(vec!["read".to_owned()]), Some("read")),
    ] {
        let scene = Scene::with(|config| config.challenge = challenge.map(str::to_owned)).await;
        let session = scene.session_with(OAuthOptions { scopes: options, ..scene.options() });
        super::look(&session).await.unwrap();
        assert_eq!(scene.user.parameter("scope").as_deref(), expected);
        assert_eq!(scene.user.parameter("prompt"), None);
    }
    let scene = Scene::with(|config| config.change(ISSUER, "scopes_supported", json!(["offline_access"]))).await;
    super::look(&scene.session()).await.unwrap();
    assert_eq!(scene.user.parameter("scope").as_deref(), Some("read offline_access"));
    assert_eq!(scene.user.parameter("prompt").as_deref(), Some("consent"));
}

#[tokio::test]
async fn without_a_user_interface_nobody_is_signed_in() {
    let scene = Scene::new().await;
    let session = scene.session_with(OAuthOptions { ui: None, ..scene.options() });
    let error = super::look(&session).await.unwrap_err();
    assert!(error.to_string().contains("authorization required"), "{error}");
    assert!(scene.provider.requests_to("/.well-known").is_empty());
}

#[tokio::test]
async fn a_configured_issuer_metadata_url_is_used() {
    let place = "/odd/issuer";
    let scene = Scene::with(|config| {
        // The server names another authorization server.
        config.change(RESOURCE, "authorization_servers", json!(["https://elsewhere.example"]));
        let document = config.documents.remove(ISSUER).unwrap();
        config.documents.insert(place.to_owned(), document);
    })
    .await;
    let at = |place: &str| Some(format!("{}{place}", scene.provider.origin()));
    let call = async |issuer_metadata_url: Option<String>| {
        let options = OAuthOptions { issuer_metadata_url, ..scene.options() };
        crate::result_text(super::look(&scene.session_with(options)).await)
    };
    assert_eq!(call(at(place)).await, "done with read");
    assert_eq!(requested_paths(&scene), ["/mcp", RESOURCE, place, "/register", "/authorize", "/token", "/mcp"]);
    // A token that ended is renewed there, too.
    scene.provider.expire();
    assert_eq!(call(at(place)).await, "done with read");
    assert_eq!((scene.provider.renewals(), scene.user.visits()), (1, 1));
    scene.provider.revoke_all();
    let told = call(at("/nothing")).await;
    assert!(told.contains("/nothing"), "{told}");
    let told = call(Some("http://10.0.0.1/issuer".to_owned())).await;
    assert!(told.contains("10.0.0.1"), "{told}");
    scene.provider.update(|config| config.change(place, "issuer", json!("https://elsewhere.example")));
    let told = call(at(place)).await;
    assert!(told.contains("https://elsewhere.example"), "{told}");
    assert_eq!(scene.user.visits(), 1);
}
