//! Several sessions that share a store, and stores that fail.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use futures_util::future::join;
use wharf_auth::{Account, FileStore, MemoryStore, OAuth, RegisteredClient, RenewalGuard, SignIn, Store, StoreError};
use wharf_client::BoxFuture;
use wharf_testkit::provider::{ISSUER, TokenFault};
use wharf_testkit::{soon, until};

use super::{Scene, look};
use crate::result_text as told;

/// A store whose writes fail for a while.
#[derive(Default)]
struct Full {
    inner: MemoryStore,
    full: AtomicBool,
}

impl Store for Full {
    fn sign_in(&self, account: &Account) -> BoxFuture<'_, Result<Option<SignIn>, StoreError>> {
        self.inner.sign_in(account)
    }

    fn keep(&self, account: &Account, sign_in: SignIn) -> BoxFuture<'_, Result<(), StoreError>> {
        if self.full.load(Ordering::Relaxed) {
            return Box::pin(async { Err(StoreError::Full { file: "store".into(), largest: 0 }) });
        }
        self.inner.keep(account, sign_in)
    }

    fn remove(&self, account: &Account) -> BoxFuture<'_, Result<Option<SignIn>, StoreError>> {
        self.inner.remove(account)
    }

    fn client(&self, issuer: &str, profile: &str) -> BoxFuture<'_, Result<Option<RegisteredClient>, StoreError>> {
        self.inner.client(issuer, profile)
    }

    fn keep_client(
        &self,
        issuer: &str,
        profile: &str,
        client: RegisteredClient,
    ) -> BoxFuture<'_, Result<(), StoreError>> {
        self.inner.keep_client(issuer, profile, client)
    }

    fn forget_client(&self, issuer: &str, profile: &str) -> BoxFuture<'_, Result<(), StoreError>> {
        self.inner.forget_client(issuer, profile)
    }

    fn turn(&self, account: &Account) -> BoxFuture<'_, Result<RenewalGuard, StoreError>> {
        self.inner.turn(account)
    }
}

#[tokio::test]
async fn tokens_that_cannot_be_stored_are_used_and_stored_later() {
    let store = Arc::new(Full::default());
    let scene = Scene { store: Arc::<Full>::clone(&store), ..Scene::new().await };
    let session = scene.signed_in(scene.without_user()).await;
    store.full.store(true, Ordering::Relaxed);
    for _ in 0..2 {
        scene.provider.expire();
        assert_eq!(told(look(&session).await), "done with read");
    }
    assert_eq!((scene.provider.renewals(), scene.provider.reuses()), (2, 0));
    store.full.store(false, Ordering::Relaxed);
    assert_eq!(told(look(&session).await), "done with read");
    // The next process finds the latest tokens.
    scene.provider.expire();
    assert_eq!(told(look(&scene.session_with(scene.without_user())).await), "done with read");
    assert_eq!((scene.provider.reuses(), scene.user.visits()), (0, 1));
}

#[tokio::test]
async fn two_sessions_refresh_a_shared_sign_in_one_after_the_other() {
    let folder = tempfile::tempdir().unwrap();
    let scene = Scene { store: Arc::new(FileStore::at(folder.path())), ..Scene::new().await };
    let one = scene.signed_in(scene.without_user()).await;
    let other = scene.session_with(scene.without_user());
    look(&other).await.unwrap();
    for renewals in 1..=10 {
        scene.provider.expire();
        let (one, other) = join(look(&one), look(&other)).await;
        assert_eq!((told(one).as_str(), told(other).as_str()), ("done with read", "done with read"));
        assert_eq!((scene.provider.renewals(), scene.provider.reuses()), (renewals, 0));
    }
    assert_eq!(scene.user.visits(), 1);
}

#[tokio::test]
async fn a_token_refreshed_by_another_session_and_expired_since_is_refreshed_again() {
    let scene = Scene::with(|config| config.announced_lifetime = Some(0)).await;
    let one = scene.signed_in(scene.without_user()).await;
    let other = scene.session_with(scene.without_user());
    look(&other).await.unwrap();
    scene.provider.expire();
    let refused = || scene.provider.requests_to("/mcp").len();
    let before = refused();
    assert_eq!(told(look(&one).await), "done with read");
    assert_eq!(refused(), before + 1, "no request was sent with an expired token");
    assert_eq!(scene.provider.reuses(), 0);
}

/// Runs `happens` while another session refreshes the sign-in.
async fn while_renewing(happens: impl AsyncFnOnce(&Scene)) -> Scene {
    let folder = tempfile::tempdir().unwrap();
    // Tokens that are deleted here must stay deleted.
    let scene = Scene::with(|config| config.change(ISSUER, "revocation_endpoint", None)).await;
    let scene = Scene { store: Arc::new(FileStore::at(folder.path())), ..scene };
    let session = scene.signed_in(scene.without_user()).await;
    scene.provider.expire();
    scene.provider.update(|config| config.tokens = TokenFault::Slow(Duration::from_millis(200)));
    let then = async {
        until(async || scene.provider.renewals() == 1).await;
        scene.provider.update(|config| config.tokens = TokenFault::None);
        happens(&scene).await;
    };
    let _ = join(Box::pin(look(&session)), then).await;
    let account = Account { endpoint: scene.provider.url(), profile: "default".to_owned() };
    let kept = scene.store.sign_in(&account).await.unwrap();
    assert_eq!(kept.is_some(), scene.user.visits() == 2, "{kept:?}");
    let after = look(&scene.session_with(scene.without_user())).await;
    assert_eq!(after.is_ok(), scene.user.visits() == 2, "{after:?}");
    scene
}

#[tokio::test]
async fn signing_out_during_a_refresh_signs_out() {
    while_renewing(async |scene| {
        let oauth = OAuth::new(&scene.provider.url(), scene.options()).unwrap();
        assert!(soon(oauth.sign_out()).await.unwrap());
    })
    .await;
}

#[tokio::test]
async fn signing_in_during_a_refresh_signs_in() {
    let scene = while_renewing(async |scene| {
        scene.provider.revoke_all();
        soon(OAuth::new(&scene.provider.url(), scene.options()).unwrap().sign_in(None)).await.unwrap();
    })
    .await;
    assert_eq!(scene.user.visits(), 2);
}

#[tokio::test]
async fn profiles_do_not_share_credentials() {
    let scene = Scene::new().await;
    look(&scene.session()).await.unwrap();
    let work = wharf_auth::OAuthOptions { profile: "work".to_owned(), ..scene.without_user() };
    assert!(look(&scene.session_with(work)).await.is_err());
    assert_eq!(told(look(&scene.session_with(scene.without_user())).await), "done with read");
}
