//! Several processes with one sign-in: they renew it in turns, and one that is killed takes nothing with it.
//!
//! The other processes are this test binary once more, told by a variable to be one.

use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use wharf_auth::{FileStore, OAuthOptions};
use wharf_testkit::provider::TokenFault;
use wharf_testkit::until;

use super::{Scene, look, session};
use crate::result_text as told;

/// Where another process finds the sign-in, whom it calls, and how often.
const TASK: &str = "WHARF_TEST_SHARES_A_SIGN_IN";

/// What another process does. By itself, with nothing to do for others, it uses a sign-in of its own.
#[tokio::test]
async fn a_sign_in_from_the_disk_is_used_and_renewed() {
    #[expect(clippy::disallowed_methods, reason = "there is no other way to tell a test something")]
    let Ok(task) = std::env::var(TASK) else {
        let folder = tempfile::tempdir().unwrap();
        let scene = scene(folder.path(), Duration::ZERO).await;
        call_often(folder.path().to_str().unwrap(), &scene.provider.url(), 3).await;
        assert_eq!((scene.provider.renewals() >= 3, scene.person.visits()), (true, 1));
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
    command.args(["--exact", "auth::processes::a_sign_in_from_the_disk_is_used_and_renewed", "--nocapture"]);
    command.env(TASK, format!("{}\n{url}\n{calls}", folder.display()));
    command.stdin(Stdio::null()).stdout(Stdio::null()).spawn().unwrap()
}

/// Somebody has signed in, in a way that has every call renew the token.
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
async fn two_processes_renew_two_hundred_times_and_stay_signed_in() {
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
    assert_eq!((scene.provider.reuses(), scene.person.visits()), (0, 1));
    assert_eq!(told(look(&scene.session_with(scene.without_person())).await), "done with read");
}

#[tokio::test]
async fn a_process_that_is_killed_while_it_renews_does_not_take_the_sign_in_with_it() {
    let folder = tempfile::tempdir().unwrap();
    // Whoever is killed after the provider has given out the next token, and before it is on the disk, leaves the one
    // before. Providers take that once more for a while, because connections can break in the same moment.
    let scene = scene(folder.path(), Duration::from_secs(30)).await;
    for kill in 0..20_u64 {
        let before = scene.provider.renewals();
        let unanswered = kill % 4 == 0;
        if unanswered {
            scene.provider.update(|config| config.tokens = TokenFault::Slow(Duration::from_secs(60)));
        }
        let mut process = another(folder.path(), &scene.provider.url(), u32::MAX);
        until(async || scene.provider.renewals() > before).await;
        // A renewal takes some milliseconds: over the kills, all of its moments have their turn.
        tokio::time::sleep(Duration::from_micros(kill * 1700 % 13_000)).await;
        process.kill().unwrap();
        process.wait().unwrap();
        scene.provider.update(|config| config.tokens = TokenFault::None);
        let used_twice = scene.provider.grace_uses();
        assert_eq!(told(look(&scene.session_with(scene.without_person())).await), "done with read", "{kill}");
        assert!(!unanswered || scene.provider.grace_uses() > used_twice, "{kill}");
    }
    assert_eq!((scene.provider.reuses(), scene.person.visits()), (0, 1));
}
