//! What is asked of people: more where a server wants more, once for all who wait, and not again and again.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use futures_util::future::{join, join_all};
use wharf_auth::{Account, AuthorizationFlow, AuthorizationUi, Callback, OAuth, OAuthOptions};
use wharf_client::{BoxFuture, CallErrorKind};
use wharf_testkit::provider::{Manners, Trouble};
use wharf_testkit::{eventually, soon, until};

use super::{Person, Scene, get, look};
use crate::{none, told};

fn tools(tools: &[(&str, &str)]) -> impl FnOnce(&mut Manners) {
    let tools = tools.iter().map(|(tool, scope)| ((*tool).to_owned(), (*scope).to_owned())).collect();
    move |manners| manners.scopes_of_tools = tools
}

#[tokio::test]
async fn a_server_that_wants_more_gets_it_and_what_there_was_is_not_lost() {
    let scene = Scene::with(tools(&[("write", "write"), ("admin", "admin")])).await;
    let session = scene.session();
    assert_eq!(told(look(&session).await), "done with read");
    assert_eq!(told(soon(session.call("write", &none())).await), "done with read write");
    assert_eq!(scene.person.asked("scope").as_deref(), Some("read write"));
    assert_eq!(told(soon(session.call("admin", &none())).await), "done with read write admin");
    assert_eq!(scene.person.visits(), 3);
    // A later process knows what was asked for before.
    let oauth = OAuth::new(&scene.provider.url(), scene.options()).unwrap();
    soon(oauth.sign_in(None)).await.unwrap();
    assert_eq!(scene.person.asked("scope").as_deref(), Some("read write admin"));
}

#[tokio::test]
async fn a_server_that_never_has_enough_does_not_keep_a_person_busy() {
    let scene = Scene::with(tools(&[("write", "write")])).await;
    scene.provider.mend(|manners| manners.grants_all = false);
    let session = scene.session();
    assert_eq!(told(look(&session).await), "done with read");
    for _ in 0..3 {
        let error = soon(session.call("write", &none())).await.unwrap_err();
        assert!(matches!(&error.kind, CallErrorKind::Connect(kind) if kind.to_string().contains("403")), "{error}");
    }
    assert_eq!(scene.person.visits(), 3);
    assert_eq!(told(look(&session).await), "done with read");
}

#[tokio::test]
async fn all_who_wait_for_a_sign_in_share_it() {
    let scene = Scene::new().await;
    let session = scene.session();
    look(&session).await.unwrap();
    scene.provider.revoke_all();
    let calls = join_all((0..64).map(|_| look(&session))).await;
    assert!(calls.into_iter().all(|call| told(call) == "done with read"));
    assert_eq!(scene.person.visits(), 2);
}

#[tokio::test]
async fn all_who_wait_for_a_sign_in_that_fails_share_that_too() {
    let scene = Scene::new().await;
    let session = scene.session();
    look(&session).await.unwrap();
    scene.provider.revoke_all();
    scene.provider.mend(|manners| manners.denies = Some("access_denied".to_owned()));
    let calls = join_all((0..64).map(|_| look(&session))).await;
    assert!(calls.into_iter().all(|call| told(call).contains("access_denied")));
    assert_eq!(scene.person.visits(), 2);
    // Whoever comes later may try again.
    scene.provider.mend(|manners| manners.denies = None);
    assert_eq!(told(look(&session).await), "done with read");
}

#[tokio::test]
async fn who_has_signed_out_is_signed_out_at_the_provider_too() {
    let scene = Scene::new().await;
    look(&scene.session()).await.unwrap();
    let oauth = OAuth::new(&scene.provider.url(), scene.options()).unwrap();
    assert!(soon(oauth.sign_out()).await.unwrap());
    assert!(!soon(oauth.sign_out()).await.unwrap());
    assert_eq!(scene.provider.requests_to("/revoke").len(), 1);
    let error = look(&scene.session_with(scene.without_person())).await.unwrap_err();
    assert!(error.to_string().contains("wants authorization"), "{error}");
}

#[tokio::test]
async fn a_sign_in_that_another_process_made_is_found_when_it_is_needed() {
    let scene = Scene::new().await;
    let session = scene.session_with(scene.without_person());
    assert!(look(&session).await.is_err());
    soon(OAuth::new(&scene.provider.url(), scene.options()).unwrap().sign_in(None)).await.unwrap();
    assert_eq!(told(look(&session).await), "done with read");
    // Also when the old one has ended.
    scene.provider.revoke_all();
    soon(OAuth::new(&scene.provider.url(), scene.options()).unwrap().sign_in(None)).await.unwrap();
    assert_eq!(told(look(&session).await), "done with read");
    assert_eq!(scene.person.visits.load(Ordering::Relaxed), 2);
}

#[tokio::test]
async fn a_sign_in_is_completed_when_nobody_waits_for_it_any_more() {
    let scene = Scene::with(|manners| manners.tokens = Trouble::Slow(Duration::from_millis(200))).await;
    let oauth = OAuth::new(&scene.provider.url(), scene.options()).unwrap();
    tokio::select! {
        result = oauth.sign_in(None) => panic!("it waits for the provider: {result:?}"),
        () = until(async || scene.provider.requests_to("/token").len() == 1) => {}
    }
    let account = Account { endpoint: scene.provider.url(), profile: "default".to_owned() };
    until(async || scene.store.sign_in(&account).await.unwrap().is_some()).await;
    assert_eq!(told(look(&scene.session_with(scene.without_person())).await), "done with read");
    assert_eq!(scene.person.visits(), 1);
}

/// A browser: it comes back to the listener by itself.
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
                // Another page tries its luck first.
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
async fn a_browser_comes_back_to_where_it_is_waited_for() {
    let scene = Scene::new().await;
    let options = OAuthOptions { visitor: Some(Arc::new(Browser)), ..scene.options() };
    assert_eq!(told(look(&scene.session_with(options)).await), "done with read");
}

#[tokio::test]
async fn a_person_who_takes_longer_than_the_call_waits_is_signed_in_for_the_next() {
    let scene = Scene::new().await;
    let person = Person { thinks: Some(Duration::from_secs(40)), ..Person::default() };
    let scene = Scene { person, ..scene };
    let session = scene.session();
    let error = eventually(session.call("look", &none())).await.unwrap_err();
    assert!(error.to_string().contains("not ready within"), "{error}");
    assert_eq!(told(eventually(session.call("look", &none())).await), "done with read");
    assert_eq!(scene.person.visits(), 1);
}
