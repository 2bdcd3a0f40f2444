//! Refreshing tokens: in time, once for all waiting calls, and without loss on errors.

use std::time::Duration;

use futures_util::future::join_all;
use wharf_client::{CallErrorKind, ConnectErrorKind, Outcome};
use wharf_testkit::provider::TokenFault;
use wharf_testkit::{eventually, until};

use super::{Scene, look};
use crate::{none, result_text as told};

#[tokio::test]
async fn a_token_is_refreshed_before_it_expires() {
    let scene = Scene::with(|config| config.announced_lifetime = Some(20)).await;
    let session = scene.signed_in(scene.without_user()).await;
    let before = scene.provider.renewals();
    look(&session).await.unwrap();
    assert_eq!(scene.provider.renewals(), before + 1);
    // Only the very first request was rejected.
    scene.provider.update(|config| config.announced_lifetime = Some(3600));
    look(&session).await.unwrap();
    let renewed = scene.provider.renewals();
    look(&session).await.unwrap();
    assert_eq!((scene.provider.renewals(), scene.user.visits()), (renewed, 1));
}

#[tokio::test]
async fn a_rejected_token_is_refreshed_and_the_call_is_retried() {
    for announced_lifetime in [Some(3600), None] {
        let scene = Scene::with(|config| config.announced_lifetime = announced_lifetime).await;
        let session = scene.signed_in(scene.without_user()).await;
        scene.provider.expire();
        assert_eq!(told(look(&session).await), "done with read");
        assert_eq!((scene.provider.renewals(), scene.user.visits()), (1, 1));
    }
}

#[tokio::test]
async fn a_trailing_slash_does_not_change_the_issuer() {
    let scene = Scene::with(|config| {
        config.change(wharf_testkit::provider::RESOURCE, "authorization_servers", serde_json::json!(["{origin}/"]));
    });
    let scene = scene.await;
    let session = scene.signed_in(scene.without_user()).await;
    scene.provider.expire();
    assert_eq!(told(look(&session).await), "done with read");
    assert_eq!((scene.provider.renewals(), scene.user.visits()), (1, 1));
}

#[tokio::test]
async fn sixty_four_calls_with_a_rejected_token_refresh_it_once() {
    let scene = Scene::new().await;
    let session = scene.signed_in(scene.without_user()).await;
    scene.provider.expire();
    scene.provider.update(|config| config.tokens = TokenFault::Slow(Duration::from_millis(50)));
    let calls = join_all((0..64).map(|_| look(&session))).await;
    assert!(calls.into_iter().all(|call| told(call) == "done with read"));
    assert_eq!((scene.provider.renewals(), scene.provider.reuses()), (1, 0));
}

#[tokio::test]
async fn sixty_four_calls_with_an_expired_token_refresh_it_once() {
    let scene = Scene::with(|config| config.announced_lifetime = Some(0)).await;
    let session = scene.signed_in(scene.without_user()).await;
    scene.provider.update(|config| {
        config.announced_lifetime = Some(3600);
        config.tokens = TokenFault::Slow(Duration::from_millis(50));
    });
    let before = scene.provider.renewals();
    let calls = join_all((0..64).map(|_| look(&session))).await;
    assert!(calls.into_iter().all(|call| told(call) == "done with read"));
    assert_eq!((scene.provider.renewals(), scene.provider.reuses()), (before + 1, 0));
}

#[tokio::test]
async fn a_refresh_completes_after_its_caller_is_dropped() {
    let scene = Scene::new().await;
    let session = scene.signed_in(scene.without_user()).await;
    scene.provider.expire();
    scene.provider.update(|config| config.tokens = TokenFault::Slow(Duration::from_millis(300)));
    tokio::select! {
        result = look(&session) => panic!("it waits for the provider: {result:?}"),
        () = until(async || scene.provider.renewals() == 1) => {}
    }
    assert_eq!(told(look(&session).await), "done with read");
    assert_eq!((scene.provider.renewals(), scene.provider.reuses(), scene.user.visits()), (1, 0, 1));
    // So does the next process.
    assert_eq!(told(look(&scene.session_with(scene.without_user())).await), "done with read");
}

#[tokio::test]
async fn a_provider_error_fails_the_call_and_keeps_the_sign_in() {
    for trouble in [
        TokenFault::Raw(500, String::new()),
        TokenFault::Raw(500, r#"{"error": "server_error"}"#.to_owned()),
        TokenFault::Raw(503, r#"{"error": "invalid_grant"}"#.to_owned()),
        TokenFault::Raw(502, "<html>".to_owned()),
        TokenFault::Raw(429, String::new()),
        TokenFault::Raw(400, r#"{"error": "temporarily_unavailable"}"#.to_owned()),
        TokenFault::Raw(200, "<html>".to_owned()),
        TokenFault::Raw(200, "{}".to_owned()),
        TokenFault::Raw(200, r#"{"access_token": 7}"#.to_owned()),
        TokenFault::Raw(200, r#"{"access_token": "", "token_type": "Bearer"}"#.to_owned()),
        TokenFault::Raw(200, r#"{"access_token": "a\nb", "token_type": "Bearer"}"#.to_owned()),
        TokenFault::Raw(200, r#"{"access_token": "x", "token_type": "mac"}"#.to_owned()),
        TokenFault::Raw(400, "<html>".to_owned()),
        TokenFault::Raw(400, r#"{"error": "invalid_request"}"#.to_owned()),
    ] {
        let scene = Scene::new().await;
        let session = scene.signed_in(scene.without_user()).await;
        scene.provider.expire();
        scene.provider.update(|config| config.tokens = trouble.clone());
        let error = look(&session).await.unwrap_err();
        assert_eq!(error.outcome(), Outcome::NotRun, "{trouble:?}: {error}");
        if let TokenFault::Raw(429 | 500.., _) = trouble {
            let kind = &error.kind;
            assert!(matches!(kind, CallErrorKind::Connect(ConnectErrorKind::Transport(_))), "{trouble:?}: {kind:?}");
        }
        scene.provider.update(|config| config.tokens = TokenFault::None);
        assert_eq!(told(look(&session).await), "done with read", "{trouble:?}");
        assert_eq!(scene.user.visits(), 1);
    }
}

#[tokio::test]
async fn an_unreachable_provider_fails_the_call_and_keeps_the_sign_in() {
    let scene = Scene::with(|config| config.grace = Duration::from_secs(60)).await;
    let session = scene.signed_in(scene.without_user()).await;
    scene.provider.expire();
    scene.provider.update(|config| config.tokens = TokenFault::HangUp);
    let error = look(&session).await.unwrap_err();
    assert_eq!(error.outcome(), Outcome::NotRun, "{error}");
    scene.provider.update(|config| config.tokens = TokenFault::None);
    assert_eq!(told(look(&session).await), "done with read");
    assert_eq!(scene.user.visits(), 1);
}

#[tokio::test]
async fn a_valid_token_is_used_while_the_provider_fails() {
    let scene = Scene::with(|config| config.announced_lifetime = Some(20)).await;
    let session = scene.signed_in(scene.without_user()).await;
    scene.provider.update(|config| config.tokens = TokenFault::Raw(500, String::new()));
    assert_eq!(told(look(&session).await), "done with read");
}

#[tokio::test]
async fn an_invalid_refresh_token_deletes_the_sign_in() {
    for error in ["invalid_grant", "unauthorized_client", "bad_refresh_token"] {
        for status in [200, 400] {
            let scene = Scene::new().await;
            let session = scene.signed_in(scene.without_user()).await;
            scene.provider.expire();
            scene
                .provider
                .update(|config| config.tokens = TokenFault::Raw(status, format!(r#"{{"error": "{error}"}}"#)));
            let refused = look(&session).await.unwrap_err();
            let kind = &refused.kind;
            assert!(matches!(kind, CallErrorKind::Connect(ConnectErrorKind::Auth(_))), "{kind:?}");
            assert_eq!(refused.outcome(), Outcome::NotRun);
            scene.provider.update(|config| config.tokens = TokenFault::None);
            // Until the user signs in again.
            assert!(look(&session).await.is_err());
            assert_eq!(scene.call().await, "done with read");
            assert_eq!(scene.user.visits(), 2);
        }
    }
}

#[tokio::test]
async fn a_refresh_token_that_is_not_rotated_is_reused() {
    let scene = Scene::with(|config| config.rotates = false).await;
    let session = scene.signed_in(scene.without_user()).await;
    for renewals in 1..4 {
        scene.provider.expire();
        assert_eq!(told(look(&session).await), "done with read");
        assert_eq!(scene.provider.renewals(), renewals);
    }
}

#[tokio::test]
async fn a_refresh_times_out() {
    let scene = Scene::with(|config| config.announced_lifetime = Some(0)).await;
    let session = scene.signed_in(scene.without_user()).await;
    scene.provider.update(|config| config.tokens = TokenFault::Hang);
    tokio::time::pause();
    let error = eventually(session.call("look", &none())).await.unwrap_err();
    assert_eq!(error.outcome(), Outcome::NotRun, "{error}");
    tokio::time::resume();
    scene.provider.update(|config| config.tokens = TokenFault::None);
    assert_eq!(told(look(&session).await), "done with read");
}

#[tokio::test]
async fn a_server_that_rejects_every_token_does_not_cause_endless_refreshes() {
    let scene = Scene::new().await;
    let session = scene.signed_in(scene.options()).await;
    scene.provider.expire();
    scene.provider.update(|config| config.lifetime = Duration::ZERO);
    let error = look(&session).await.unwrap_err();
    assert!(matches!(error.kind, CallErrorKind::Connect(ConnectErrorKind::Auth(_))), "{error}");
    assert!((1..=5).contains(&scene.provider.renewals()), "{}", scene.provider.renewals());
    assert_eq!((scene.provider.reuses(), scene.user.visits()), (0, 1));
}
