//! Negotiation with processes: how many are started, and that none are left.

use std::path::PathBuf;

use wharf_client::{NoHost, ProtocolMode, Session, Stdio};
use wharf_io::Environment;
use wharf_testkit::{Script, Step, WireLog, children_of, scripted_server, soon, until};

use super::{LEGACY, MODERN, negotiated_revision, protocol};
struct Child {
    session: Session,
    folder: tempfile::TempDir,
}

/// `$` in the script's texts stands for its own folder.
fn child(script: &Script) -> Child {
    let folder = tempfile::tempdir().unwrap();
    let text = serde_json::to_string(script).unwrap().replace('$', folder.path().to_str().unwrap());
    std::fs::write(folder.path().join("script"), text).unwrap();
    let args = [folder.path().join("script"), folder.path().join("log")];
    let transport = Stdio::new(scripted_server(), args, Environment::default().with("PATH", "/usr/bin:/bin"));
    Child { session: Session::new("child".parse().unwrap(), transport, NoHost, protocol(ProtocolMode::Auto)), folder }
}

impl Child {
    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// How many `server/discover` and `initialize` requests it received.
    fn request_counts(&self) -> (usize, usize) {
        let log = WireLog::from_file(&self.path("log"));
        (log.count("server/discover"), log.count("initialize"))
    }
}

fn ours() -> usize {
    children_of(std::process::id()).len()
}

#[tokio::test]
async fn a_server_that_answers_is_started_once() {
    let started = |script: Script| script.at_start([Step::Touch("$/started".into())]);
    for (script, expected, request_counts) in
        [(Script::good(), LEGACY, (1, 1)), (Script::modern(), MODERN, (1, 0)), (Script::dual_era(), MODERN, (1, 0))]
    {
        let child = child(&started(script));
        assert_eq!(soon(negotiated_revision(&child.session)).await, expected);
        assert_eq!((ours(), child.request_counts(), child.session.health().connections), (1, request_counts, 1));
        soon(child.session.close()).await;
        assert_eq!(ours(), 0);
    }
}

#[tokio::test]
async fn a_server_that_exits_on_discover_is_restarted_without_it() {
    let child_that = |steps: Vec<Step>| child(&Script::good().on("server/discover", steps));
    for steps in [
        vec![Step::Exit(1)],
        vec![Step::Stderr("panic: unexpected message".into()), Step::Exit(101)],
        vec![Step::Error(-32601, "no".into()), Step::Exit(0)],
    ] {
        let child = child_that(steps);
        assert_eq!(soon(negotiated_revision(&child.session)).await, LEGACY);
        assert_eq!((ours(), child.request_counts().0), (1, 1));
        soon(child.session.close()).await;
    }
    // It exits without reading the request.
    let child = child(&Script::good().at_start([Step::ExitOnce(9, "$/crashed".into())]));
    assert_eq!(soon(negotiated_revision(&child.session)).await, LEGACY);
    assert_eq!(child.request_counts(), (0, 1));
}

#[tokio::test]
async fn a_server_that_always_exits_is_reported_with_the_reason() {
    let crash = [Step::Stderr("no licence".into()), Step::Exit(3)];
    let child = child(&Script::good().at_start(crash));
    let error = soon(child.session.connect()).await.unwrap_err();
    let expected = "child: the server exited with status 3 before it was ready; stderr: no licence";
    assert_eq!((error.to_string().as_str(), ours()), (expected, 0));
}

#[tokio::test]
async fn only_the_process_that_answered_keeps_running() {
    let child = child(&Script::good().on("server/discover", [Step::Hang]));
    assert_eq!(soon(negotiated_revision(&child.session)).await, LEGACY);
    assert_eq!(child.request_counts(), (1, 1));
    until(async || ours() == 1).await;
    soon(child.session.close()).await;
    assert_eq!(ours(), 0);
}

#[tokio::test]
async fn a_process_that_allows_no_second_instance_connects() {
    let exclusive = [Step::ExitIfRunning(5, "$/lock".into())];
    let child_that = |steps: Vec<Step>| {
        let script = Script::good().at_start(exclusive.clone()).on("server/discover", [Step::Hang]);
        child(&script.on("initialize", steps))
    };
    let put_out = vec![Step::ExitOnce(1, "$/put-out".into()), Step::Normally];
    // One answers where it is; the other must be restarted.
    let first = child_that(vec![Step::Normally]);
    let second = child_that(put_out);
    let both =
        futures_util::future::join_all([negotiated_revision(&first.session), negotiated_revision(&second.session)]);
    assert_eq!(soon(both).await, [LEGACY, LEGACY]);
    until(async || ours() == 2).await;
}

#[tokio::test]
async fn dropping_and_closing_during_the_race_kill_both_processes() {
    let silent = || child(&Script::good().on("server/discover", [Step::Hang]).on("initialize", [Step::Hang]));
    let dropped = silent();
    let closed = silent();
    tokio::select! {
        _ = dropped.session.connect() => panic!("the server must not answer"),
        _ = closed.session.connect() => panic!("the server must not answer"),
        () = until(async || ours() == 4) => {}
    }
    drop(dropped.session);
    soon(closed.session.close()).await;
    until(async || ours() == 0).await;
}
