//! Prompting the user: for more scopes, once for all waiting calls, and not repeatedly.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use futures_util::future::{join, join_all};
use wharf_auth::{Account, AuthorizationFlow, AuthorizationUi, Callback, OAuth, OAuthOptions};
use wharf_client::{BoxFuture, CallErrorKind};
use wharf_testkit::provider::{ProviderConfig, TokenFault};
use wharf_testkit::{eventually, soon, until};

use super::{Scene, TestUser, get, look};
use crate::{none, result_text as told};

fn tools(tools: &[(&str, &str)]) -> impl FnOnce(&mut ProviderConfig) {
    let tools = tools.iter().map(|(tool, scope)| ((*tool).to_owned(), (*scope).to_owned())).collect();
    move |config| config.scopes_of_tools = tools
}

#[tokio::test]
async fn a_step_up_requests_more_scopes_and_keeps_earlier_ones() {
    let scene = Scene::with(tools(&[("write", "write"), ("admin", "admin")])).await;
    let session = scene.session();
    assert_eq!(told(look(&session).await), "done with read");
    assert_eq!(told(soon(session.call("write", &none())).await), "done with read write");
    assert_eq!(scene.user.parameter("scope").as_deref(), Some("read write"));
    assert_eq!(told(soon(session.call("admin", &none())).await), "done with read write admin");
    assert_eq!(scene.user.visits(), 3);
    // A later process requests the same scopes again.
    let oauth = OAuth::new(&scene.provider.url(), scene.options()).unwrap();
    soon(oauth.sign_in(None)).await.unwrap();
    assert_eq!(scene.user.parameter("scope").as_deref(), Some("read write admin"));
}

#[tokio::test]
async fn step_ups_are_limited() {
    let scene = Scene::with(tools(&[("write", "write")])).await;
    scene.provider.update(|config| config.grants_requested_scope = false);
    let session = scene.session();
    assert_eq!(told(look(&session).await), "done with read");
    for _ in 0..3 {
        let error = soon(session.call("write", &none())).await.unwrap_err();
        assert!(matches!(&error.kind, CallErrorKind::Connect(kind) if kind.to_string().contains("403")), "{error}");
    }
    assert_eq!(scene.user.visits(), 3);
    assert_eq!(told(look(&session).await), "done with read");
}

#[tokio::test]
async fn waiting_calls_share_one_sign_in() {
    let scene = Scene::new().await;
    let session = scene.session();
    look(&session).await.unwrap();
    scene.provider.revoke_all();
    let calls = join_all((0..64).map(|_| look(&session))).await;
    assert!(calls.into_iter().all(|call| told(call) == "done with read"));
    assert_eq!(scene.user.visits(), 2);
}

#[tokio::test]
async fn waiting_calls_share_a_failed_sign_in() {
    let scene = Scene::new().await;
    let session = scene.session();
    look(&session).await.unwrap();
    scene.provider.revoke_all();
    scene.provider.update(|config| config.authorize_error = Some("access_denied".to_owned()));
    let calls = join_all((0..64).map(|_| look(&session))).await;
    assert!(calls.into_iter().all(|call| told(call).contains("access_denied")));
    assert_eq!(scene.user.visits(), 2);
    // Later calls may try again.
    scene.provider.update(|config| config.authorize_error = None);
    assert_eq!(told(look(&session).await), "done with read");
}

#[tokio::test]
async fn signing_out_revokes_the_tokens_at_the_provider() {
    let scene = Scene::new().await;
    look(&scene.session()).await.unwrap();
    let oauth = OAuth::new(&scene.provider.url(), scene.options()).unwrap();
    assert!(soon(oauth.sign_out()).await.unwrap());
    assert!(!soon(oauth.sign_out()).await.unwrap());
    assert_eq!(scene.provider.requests_to("/revoke").len(), 1);
    let error = look(&scene.session_with(scene.without_user())).await.unwrap_err();
    assert!(error.to_string().contains("authorization required"), "{error}");
}

#[tokio::test]
async fn a_sign_in_of_another_process_is_adopted() {
    let scene = Scene::new().await;
    let session = scene.session_with(scene.without_user());
    assert!(look(&session).await.is_err());
    soon(OAuth::new(&scene.provider.url(), scene.options()).unwrap().sign_in(None)).await.unwrap();
    assert_eq!(told(look(&session).await), "done with read");
    // Also if the old one has expired.
    scene.provider.revoke_all();
    soon(OAuth::new(&scene.provider.url(), scene.options()).unwrap().sign_in(None)).await.unwrap();
    assert_eq!(told(look(&session).await), "done with read");
    assert_eq!(scene.user.visits.load(Ordering::Relaxed), 2);
}

#[tokio::test]
async fn a_sign_in_completes_after_its_caller_is_dropped() {
    let scene = Scene::with(|config| config.tokens = TokenFault::Slow(Duration::from_millis(200))).await;
    let oauth = OAuth::new(&scene.provider.url(), scene.options()).unwrap();
    tokio::select! {
        result = oauth.sign_in(None) => panic!("it waits for the provider: {result:?}"),
        () = until(async || scene.provider.requests_to("/token").len() == 1) => {}
    }
    let account = Account { endpoint: scene.provider.url(), profile: "default".to_owned() };
    until(async || scene.store.sign_in(&account).await.unwrap().is_some()).await;
    assert_eq!(told(look(&scene.session_with(scene.without_user())).await), "done with read");
    assert_eq!(scene.user.visits(), 1);
}

/// A browser that follows the redirect to the listener.
struct Browser;

struct Tab(Callback);

impl AuthorizationUi for Browser {
    fn begin<'a>(&'a self, _before: Option<&'a str>) -> BoxFuture<'a, Result<Box<dyn AuthorizationFlow>, String>> {
        Box::pin(async {
            let callback = Callback::listen(None).await.map_err(|error| error.to_string())?;
            Ok(Box::new(Tab(callback)) as Box<dyn AuthorizationFlow>)
        })
    }
}

impl AuthorizationFlow for Tab {
    fn redirect_uri(&self) -> &str {
        self.0.redirect_uri()
    }

    fn go(self: Box<Self>, url: String, state: String) -> BoxFuture<'static, Result<String, String>> {
        Box::pin(async move {
            let coming_back = self.0.came_back(&state, Duration::from_secs(20));
            let browsing = async {
                let location = get(&url).await?.headers()["location"].to_str().unwrap_or_default().to_owned();
                // Another page sends a forged redirect first.
                let other = location.replace(&state, "another-state");
                let refused = get(&other).await?.status();
                get(&location).await.map(|page| (refused, page.status()))
            };
            let (back, pages) = join(coming_back, browsing).await;
            assert_eq!(pages.map(|(one, other)| (one.as_u16(), other.as_u16())), Ok((400, 200)));
            back.map_err(|error| error.to_string())
        })
    }
}

#[tokio::test]
async fn a_browser_redirect_reaches_the_listener() {
    let scene = Scene::new().await;
    let options = OAuthOptions { ui: Some(Arc::new(Browser)), ..scene.options() };
    assert_eq!(told(look(&scene.session_with(options)).await), "done with read");
}

#[tokio::test]
async fn a_sign_in_that_outlasts_its_call_is_used_by_the_next_one() {
    let scene = Scene::new().await;
    let user = TestUser { delay: Some(Duration::from_secs(40)), ..TestUser::default() };
    let scene = Scene { user, ..scene };
    let session = scene.session();
    let error = eventually(session.call("look", &none())).await.unwrap_err();
    assert!(error.to_string().contains("not ready within"), "{error}");
    assert_eq!(told(eventually(session.call("look", &none())).await), "done with read");
    assert_eq!(scene.user.visits(), 1);
}
