//! Tokens that are bound to a key (`DPoP`): the provider checks every proof.

use serde_json::json;
use wharf_auth::{Account, OAuthOptions, SignIn};
use wharf_testkit::SeenRequest;
use wharf_testkit::provider::{DpopConfig, ISSUER, ProviderConfig, RESOURCE, TokenFault};

use super::{Scene, look};
use crate::result_text as told;

async fn bound(dpop: DpopConfig) -> Scene {
    Scene::with(|config| config.require_dpop(dpop)).await
}

async fn stored(scene: &Scene) -> Option<SignIn> {
    let account = Account { endpoint: scene.provider.url(), profile: "default".to_owned() };
    scene.store.sign_in(&account).await.unwrap()
}

fn schemes(seen: &[SeenRequest]) -> Vec<String> {
    let scheme = |seen: &SeenRequest| {
        let value = seen.headers.get("authorization")?.to_str().ok()?.split(' ').next()?;
        Some(value.to_owned())
    };
    seen.iter().filter_map(scheme).collect()
}

#[tokio::test]
async fn tokens_are_bound_to_a_key_where_the_server_asks_for_it() {
    let scene = bound(DpopConfig::default()).await;
    let session = scene.session();
    for _ in 0..2 {
        assert_eq!(told(look(&session).await), "done with read");
    }
    session.close().await;
    let seen = scene.provider.requests_to("/mcp");
    let schemes = schemes(&seen);
    assert!(schemes.len() > 3 && schemes.iter().all(|scheme| scheme == "DPoP"), "{schemes:?}");
    // The first request has no token yet.
    assert_eq!(seen.iter().filter(|seen| !seen.headers.contains_key("dpop")).count(), 1);
    assert_eq!(scene.provider.requests_to("/token").len(), 1);
    assert!(scene.user.parameter("dpop_jkt").is_some());
    assert!(stored(&scene).await.unwrap().dpop_key.is_some());
    assert_eq!(scene.user.visits(), 1);
}

#[tokio::test]
async fn the_metadata_of_a_server_can_ask_for_bound_tokens() {
    let scene = Scene::with(|config| {
        config.dpop = Some(DpopConfig::default());
        config.change(RESOURCE, "dpop_bound_access_tokens_required", json!(true));
    });
    let scene = scene.await;
    assert_eq!(scene.call().await, "done with read");
    assert!(stored(&scene).await.unwrap().dpop_key.is_some());
}

#[tokio::test]
async fn tokens_are_bearer_tokens_where_no_server_asks_for_more() {
    let supported =
        |config: &mut ProviderConfig| config.change(ISSUER, "dpop_signing_alg_values_supported", json!(["ES256"]));
    let both = |config: &mut ProviderConfig| {
        config.challenge = Some(format!(r#"Bearer resource_metadata="{{origin}}{RESOURCE}", DPoP algs="ES256""#));
    };
    for change in [&supported as &dyn Fn(&mut ProviderConfig), &both] {
        let scene = Scene::with(change).await;
        assert_eq!(scene.call().await, "done with read");
        assert!(scene.provider.requests().iter().all(|seen| !seen.headers.contains_key("dpop")));
        assert_eq!(stored(&scene).await.unwrap().dpop_key, None);
    }
}

#[tokio::test]
async fn a_request_is_repeated_once_with_each_nonce_that_a_server_requires() {
    let dpop = DpopConfig {
        issuer_nonce: Some("issuer-1".to_owned()),
        server_nonce: Some("server-1".to_owned()),
        ..DpopConfig::default()
    };
    let scene = bound(dpop).await;
    let session = scene.session();
    assert_eq!(told(look(&session).await), "done with read");
    // One without a nonce and one with it.
    assert_eq!(scene.provider.requests_to("/token").len(), 2);
    assert_eq!(scene.user.visits(), 1);
    let before = scene.provider.requests_to("/mcp").len();
    look(&session).await.unwrap();
    assert_eq!(scene.provider.requests_to("/mcp").len(), before + 1, "the nonce is still valid");
    scene.provider.update(|config| {
        let dpop = config.dpop.as_mut().unwrap();
        dpop.server_nonce = Some("server-2".to_owned());
        dpop.issuer_nonce = Some("issuer-2".to_owned());
    });
    assert_eq!(told(look(&session).await), "done with read");
    assert_eq!(scene.provider.requests_to("/mcp").len(), before + 3, "one refusal and one retry");
    scene.provider.expire();
    assert_eq!(told(look(&session).await), "done with read");
    assert_eq!(scene.provider.requests_to("/token").len(), 4);
}

#[tokio::test]
async fn the_nonce_of_every_response_is_used_for_the_next_request() {
    let dpop = DpopConfig { server_nonce: Some("server".to_owned()), rotates_nonces: true, ..DpopConfig::default() };
    let scene = bound(dpop).await;
    let session = scene.session();
    look(&session).await.unwrap();
    let before = scene.provider.requests_to("/mcp").len();
    for _ in 0..5 {
        assert_eq!(told(look(&session).await), "done with read");
    }
    assert_eq!(scene.provider.requests_to("/mcp").len(), before + 5, "no request was refused");
}

#[tokio::test]
async fn a_nonce_error_without_a_new_nonce_is_final() {
    let scene = bound(DpopConfig::default()).await;
    scene.provider.update(|config| config.tokens = TokenFault::Raw(400, r#"{"error": "use_dpop_nonce"}"#.to_owned()));
    let error = scene.call().await;
    assert!(error.contains("use_dpop_nonce"), "{error}");
    assert_eq!(scene.provider.requests_to("/token").len(), 1);
}

#[tokio::test]
async fn a_refresh_keeps_the_key_also_in_another_process() {
    let scene = bound(DpopConfig::default()).await;
    let session = scene.signed_in(scene.without_user()).await;
    let key = stored(&scene).await.unwrap().dpop_key;
    scene.provider.expire();
    assert_eq!(told(look(&session).await), "done with read");
    let renewed = stored(&scene).await.unwrap();
    assert!(key.is_some() && renewed.dpop_key == key);
    assert_eq!((scene.provider.renewals(), scene.user.visits()), (1, 1));
    assert_eq!(told(look(&scene.session_with(scene.without_user())).await), "done with read");
}

#[tokio::test]
async fn a_token_without_a_binding_is_not_used_where_one_is_required() {
    let scene = bound(DpopConfig { binds_tokens: false, ..DpopConfig::default() }).await;
    let error = scene.call().await;
    assert!(error.contains("not bound to the client's key"), "{error}");
    assert!(schemes(&scene.provider.requests_to("/mcp")).is_empty());
    assert_eq!(stored(&scene).await, None);
}

#[tokio::test]
async fn an_issuer_without_the_algorithm_is_an_error() {
    let scene = bound(DpopConfig::default()).await;
    scene.provider.update(|config| config.change(ISSUER, "dpop_signing_alg_values_supported", json!(["RS256"])));
    let error = scene.call().await;
    assert!(error.contains("does not support DPoP with ES256"), "{error}");
    assert_eq!(scene.user.visits(), 0);
}

#[tokio::test]
async fn a_stored_bearer_token_is_replaced_when_the_server_requires_a_bound_one() {
    let scene = Scene::new().await;
    assert_eq!(scene.call().await, "done with read");
    scene.provider.update(|config| config.require_dpop(DpopConfig::default()));
    let stuck = told(look(&scene.session_with(OAuthOptions { ui: None, ..scene.options() })).await);
    assert!(stuck.contains("authorization required"), "{stuck}");
    assert_eq!(scene.provider.renewals(), 0, "another bearer token is of no use");
    assert_eq!(scene.call().await, "done with read");
    assert_eq!(scene.user.visits(), 2);
}
