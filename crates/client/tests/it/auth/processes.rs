//! Several processes share one sign-in: refreshes are exclusive, and a killed process loses nothing.
//!
//! The other processes run this test binary with a variable set.

use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use wharf_auth::{FileStore, OAuthOptions};
use wharf_testkit::provider::TokenFault;
use wharf_testkit::until;

use super::{Scene, look, session};
use crate::result_text as told;

/// The store directory, URL and number of calls of another process.
const TASK: &str = "WHARF_TEST_SHARES_A_SIGN_IN";

/// The work of another process. Run directly, it uses its own sign-in.
#[tokio::test]
async fn a_stored_sign_in_is_used_and_refreshed() {
    #[expect(clippy::disallowed_methods, reason = "there is no other way to tell a test something")]
    let Ok(task) = std::env::var(TASK) else {
        let folder = tempfile::tempdir().unwrap();
        let scene = scene(folder.path(), Duration::ZERO).await;
        call_often(folder.path().to_str().unwrap(), &scene.provider.url(), 3).await;
        assert_eq!((scene.provider.renewals() >= 3, scene.user.visits()), (true, 1));
        return;
    };
    let [folder, url, calls] = task.split('\n').collect::<Vec<_>>().try_into().unwrap();
    call_often(folder, url, calls.parse().unwrap()).await;
}

async fn call_often(folder: &str, url: &str, calls: u32) {
    let session = session(url, OAuthOptions::new(Arc::new(FileStore::at(folder))));
    for _ in 0..calls {
        assert_eq!(told(look(&session).await), "done with read");
    }
}

fn another(folder: &Path, url: &str, calls: u32) -> Child {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", "auth::processes::a_stored_sign_in_is_used_and_refreshed", "--nocapture"]);
    command.env(TASK, format!("{}\n{url}\n{calls}", folder.display()));
    command.stdin(Stdio::null()).stdout(Stdio::null()).spawn().unwrap()
}

/// Signs in so that every call refreshes the token.
async fn scene(folder: &Path, grace: Duration) -> Scene {
    let scene = Scene::with(|config| {
        config.announced_lifetime = Some(20);
        config.grace = grace;
    });
    let scene = Scene { store: Arc::new(FileStore::at(folder)), ..scene.await };
    assert_eq!(scene.call().await, "done with read");
    scene
}

#[tokio::test]
async fn two_processes_refresh_two_hundred_times_and_stay_signed_in() {
    let folder = tempfile::tempdir().unwrap();
    let scene = scene(folder.path(), Duration::ZERO).await;
    let mut rounds = 0;
    while scene.provider.renewals() < 200 {
        rounds += 1;
        assert!(rounds < 20, "they hardly ever renew");
        let mut both = [(); 2].map(|()| another(folder.path(), &scene.provider.url(), 100));
        for one in &mut both {
            until(async || one.try_wait().unwrap().is_some()).await;
            assert!(one.wait().unwrap().success());
        }
    }
    assert_eq!((scene.provider.reuses(), scene.user.visits()), (0, 1));
    assert_eq!(told(look(&scene.session_with(scene.without_user())).await), "done with read");
}

#[tokio::test]
async fn killing_a_process_during_a_refresh_does_not_lose_the_sign_in() {
    let folder = tempfile::tempdir().unwrap();
    // A process that is killed after the provider issued the next token, and before it is stored, leaves the previous
    // one. Providers accept that one again for a while, because connections can break at the same moment.
    let scene = scene(folder.path(), Duration::from_secs(30)).await;
    for kill in 0..20_u64 {
        let before = scene.provider.renewals();
        let unanswered = kill % 4 == 0;
        if unanswered {
            scene.provider.update(|config| config.tokens = TokenFault::Slow(Duration::from_secs(60)));
        }
        let mut process = another(folder.path(), &scene.provider.url(), u32::MAX);
        until(async || scene.provider.renewals() > before).await;
        // A refresh takes some milliseconds: over all kills, every moment of it is hit.
        tokio::time::sleep(Duration::from_micros(kill * 1700 % 13_000)).await;
        process.kill().unwrap();
        process.wait().unwrap();
        scene.provider.update(|config| config.tokens = TokenFault::None);
        let used_twice = scene.provider.grace_uses();
        assert_eq!(told(look(&scene.session_with(scene.without_user())).await), "done with read", "{kill}");
        assert!(!unanswered || scene.provider.grace_uses() > used_twice, "{kill}");
    }
    assert_eq!((scene.provider.reuses(), scene.user.visits()), (0, 1));
}
