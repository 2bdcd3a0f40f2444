//! From a refusal to a token: who lets us in, who we are to them, and what is asked for.

use serde_json::{Value, json};
use wharf_auth::{OAuthOptions, RegisteredClient};
use wharf_protocol::Secret;
use wharf_testkit::provider::{Document, ISSUER, ProviderConfig, RESOURCE, Registration};

use super::Scene;

/// The paths that were asked for on the way to a token, with repetitions taken out.
fn way(scene: &Scene) -> Vec<String> {
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
    assert_eq!(way(&scene), expected);
    assert_eq!(scene.person.visits(), 1);
}

#[tokio::test]
async fn a_refusal_leads_over_both_descriptions_to_a_token() {
    let usual = ["/mcp", RESOURCE, ISSUER, "/register", "/authorize", "/token", "/mcp"];
    check(|_| {}, &usual).await;
    // Many servers do not say where to look.
    check(|config| config.challenge = None, &usual).await;
    check(|config| config.challenge = Some("Basic realm=\"x\", Bearer".to_owned()), &usual).await;
}

#[tokio::test]
async fn what_describes_a_server_is_found_where_the_challenge_says_or_at_the_root() {
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
async fn a_server_that_describes_nothing_is_its_own_authorization_server() {
    let root = "/.well-known/oauth-protected-resource";
    let undescribed = |config: &mut ProviderConfig| {
        config.documents.remove(RESOURCE);
        config.challenge = Some("Bearer scope=read".to_owned());
    };
    check(undescribed, &["/mcp", RESOURCE, root, ISSUER, "/register", "/authorize", "/token", "/mcp"]).await;
    // And one that says nothing at all has its pages where the first revision put them.
    let silent = |config: &mut ProviderConfig| {
        config.documents.clear();
        config.challenge = Some("Bearer scope=read".to_owned());
    };
    let openid = "/.well-known/openid-configuration";
    check(silent, &["/mcp", RESOURCE, root, ISSUER, openid, "/register", "/authorize", "/token", "/mcp"]).await;
}

#[tokio::test]
async fn an_issuer_is_looked_for_in_the_order_of_the_protocol() {
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
async fn entries_that_are_null_are_entries_that_are_not_there() {
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
async fn a_page_that_says_sorry_with_a_good_status_is_no_description() {
    let sorry = |config: &mut ProviderConfig| {
        config.challenge = Some("Bearer scope=read".to_owned());
        config.documents.insert(RESOURCE.to_owned(), Document::Raw(200, "<html>Not found</html>".to_owned()));
    };
    let root = "/.well-known/oauth-protected-resource";
    check(sorry, &["/mcp", RESOURCE, root, ISSUER, "/register", "/authorize", "/token", "/mcp"]).await;
}

#[tokio::test]
async fn a_description_may_move_within_its_origin() {
    let moved = |config: &mut ProviderConfig| {
        let document =
            config.documents.insert(RESOURCE.to_owned(), Document::Redirect(302, "/moved".to_owned())).unwrap();
        config.documents.insert("/moved".to_owned(), document);
    };
    check(moved, &["/mcp", RESOURCE, "/moved", ISSUER, "/register", "/authorize", "/token", "/mcp"]).await;
}

#[tokio::test]
async fn what_the_token_is_for_is_said_on_every_leg() {
    let scene = Scene::with(|config| config.announced_lifetime = Some(1)).await;
    let session = scene.session();
    for _ in 0..2 {
        super::look(&session).await.unwrap();
    }
    assert!(scene.provider.renewals() > 0);
    let resource = scene.provider.url();
    assert_eq!(scene.person.asked("resource"), Some(resource.clone()));
    let encoded = format!("resource={}", resource.replace(':', "%3A").replace('/', "%2F"));
    let tokens = scene.provider.requests_to("/token");
    assert!(tokens.len() > 1 && tokens.iter().all(|seen| seen.body.contains(&encoded)));
    assert_eq!(scene.person.asked("code_challenge_method").as_deref(), Some("S256"));
}

#[tokio::test]
async fn a_client_that_is_known_comes_before_one_that_describes_itself_and_that_before_a_new_one() {
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
        assert_eq!(scene.person.asked("client_id").as_deref(), Some(expected));
        assert_eq!(scene.provider.requests_to("/register").len(), registered);
    }
}

#[tokio::test]
async fn where_nobody_can_register_the_person_is_told_to_get_a_client() {
    let scene = Scene::with(|config| config.change(ISSUER, "registration_endpoint", None)).await;
    let said = scene.call().await;
    assert!(said.contains("lets nobody register"), "{said}");
    assert_eq!(scene.person.visits(), 0);
}

#[tokio::test]
async fn a_secret_is_shown_as_it_was_agreed_and_kept_for_the_next_time() {
    for method in ["client_secret_basic", "client_secret_post"] {
        let scene = Scene::with(|config| config.registration = Registration::Secret(method)).await;
        assert_eq!(scene.call().await, "done with read");
        // The next process renews with it.
        scene.provider.expire();
        assert_eq!(scene.call().await, "done with read");
        assert_eq!((scene.provider.renewals(), scene.person.visits()), (1, 1));
        // And the next sign-in does not register again.
        scene.provider.revoke_all();
        assert_eq!(scene.call().await, "done with read");
        assert_eq!((scene.person.visits(), scene.provider.requests_to("/register").len()), (2, 1));
    }
}

#[tokio::test]
async fn a_client_that_was_forgotten_registers_again() {
    let scene = Scene::with(|config| config.registration = Registration::Secret("client_secret_basic")).await;
    assert_eq!(scene.call().await, "done with read");
    scene.provider.forget_clients();
    scene.provider.expire();
    assert_eq!(scene.call().await, "done with read");
    assert_eq!((scene.person.visits(), scene.provider.requests_to("/register").len()), (2, 2));
}

#[tokio::test]
async fn scopes_are_those_of_the_challenge_else_those_of_the_description() {
    for (challenge, options, expected) in [
        (Some("Bearer scope=\"read more\""), None, Some("read more")),
        (Some("Bearer"), None, Some("read")),
        (Some("Bearer scope=\"read more\""), Some(vec!["read".to_owned()]), Some("read")),
    ] {
        let scene = Scene::with(|config| config.challenge = challenge.map(str::to_owned)).await;
        let session = scene.session_with(OAuthOptions { scopes: options, ..scene.options() });
        super::look(&session).await.unwrap();
        assert_eq!(scene.person.asked("scope").as_deref(), expected);
        assert_eq!(scene.person.asked("prompt"), None);
    }
    let scene = Scene::with(|config| config.change(ISSUER, "scopes_supported", json!(["offline_access"]))).await;
    super::look(&scene.session()).await.unwrap();
    assert_eq!(scene.person.asked("scope").as_deref(), Some("read offline_access"));
    assert_eq!(scene.person.asked("prompt").as_deref(), Some("consent"));
}

#[tokio::test]
async fn a_client_that_nobody_asks_signs_in_nobody() {
    let scene = Scene::new().await;
    let session = scene.session_with(OAuthOptions { visitor: None, ..scene.options() });
    let error = super::look(&session).await.unwrap_err();
    assert!(error.to_string().contains("wants authorization"), "{error}");
    assert!(scene.provider.requests_to("/.well-known").is_empty());
}

#[tokio::test]
async fn who_lets_us_in_is_looked_for_where_the_host_says() {
    let place = "/odd/issuer";
    let scene = Scene::with(|config| {
        // The server itself would lead elsewhere.
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
    assert_eq!(way(&scene), ["/mcp", RESOURCE, place, "/register", "/authorize", "/token", "/mcp"]);
    // A token that ended is renewed there, too.
    scene.provider.expire();
    assert_eq!(call(at(place)).await, "done with read");
    assert_eq!((scene.provider.renewals(), scene.person.visits()), (1, 1));
    scene.provider.revoke_all();
    let told = call(at("/nothing")).await;
    assert!(told.contains("/nothing"), "{told}");
    let told = call(Some("http://10.0.0.1/issuer".to_owned())).await;
    assert!(told.contains("10.0.0.1"), "{told}");
    scene.provider.update(|config| config.change(place, "issuer", json!("https://elsewhere.example")));
    let told = call(at(place)).await;
    assert!(told.contains("https://elsewhere.example"), "{told}");
    assert_eq!(scene.person.visits(), 1);
}
