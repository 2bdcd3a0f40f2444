//! The same with servers that are processes: how many there are, and what is left of them.

use std::path::PathBuf;

use wharf_client::{NoHost, ProtocolMode, Session, Stdio};
use wharf_io::Environment;
use wharf_testkit::{Script, Step, WireLog, children_of, scripted_server, soon, until};

use super::{LEGACY, MODERN, protocol, spoken};
struct Child {
    session: Session,
    folder: tempfile::TempDir,
}

/// `$` in the script's texts stands for a folder of its own.
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

    /// How often it was asked, and how often it was greeted.
    fn told(&self) -> (usize, usize) {
        let log = WireLog::from_file(&self.path("log"));
        (log.count("server/discover"), log.count("initialize"))
    }
}

fn ours() -> usize {
    children_of(std::process::id()).len()
}

#[tokio::test]
async fn whoever_answers_is_started_once() {
    let started = |script: Script| script.at_start([Step::Touch("$/started".into())]);
    for (script, expected, told) in
        [(Script::good(), LEGACY, (1, 1)), (Script::modern(), MODERN, (1, 0)), (Script::dual_era(), MODERN, (1, 0))]
    {
        let child = child(&started(script));
        assert_eq!(soon(spoken(&child.session)).await, expected);
        assert_eq!((ours(), child.told(), child.session.health().connections), (1, told, 1));
        soon(child.session.close()).await;
        assert_eq!(ours(), 0);
    }
}

#[tokio::test]
async fn a_server_that_ends_over_the_question_is_started_again_without_it() {
    let child_that = |steps: Vec<Step>| child(&Script::good().on("server/discover", steps));
    for steps in [
        vec![Step::Exit(1)],
        vec![Step::Stderr("panic: unexpected message".into()), Step::Exit(101)],
        vec![Step::Error(-32601, "no".into()), Step::Exit(0)],
    ] {
        let child = child_that(steps);
        assert_eq!(soon(spoken(&child.session)).await, LEGACY);
        assert_eq!((ours(), child.told().0), (1, 1));
        soon(child.session.close()).await;
    }
    // Without even having read it.
    let child = child(&Script::good().at_start([Step::ExitOnce(9, "$/crashed".into())]));
    assert_eq!(soon(spoken(&child.session)).await, LEGACY);
    assert_eq!(child.told(), (0, 1));
}

#[tokio::test]
async fn a_server_that_ends_whatever_it_is_told_says_why() {
    let crash = [Step::Stderr("no licence".into()), Step::Exit(3)];
    let child = child(&Script::good().at_start(crash));
    let error = soon(child.session.connect()).await.unwrap_err();
    let expected = "child: the server exited with status 3 before it was ready; its last line on stderr: no licence";
    assert_eq!((error.to_string().as_str(), ours()), (expected, 0));
}

#[tokio::test]
async fn of_two_processes_only_the_one_that_answered_is_left() {
    let child = child(&Script::good().on("server/discover", [Step::Hang]));
    assert_eq!(soon(spoken(&child.session)).await, LEGACY);
    assert_eq!(child.told(), (1, 1));
    until(async || ours() == 1).await;
    soon(child.session.close()).await;
    assert_eq!(ours(), 0);
}

#[tokio::test]
async fn a_process_that_lets_no_other_run_beside_it_is_connected_all_the_same() {
    let alone = [Step::ExitIfRunning(5, "$/lock".into())];
    let child_that = |steps: Vec<Step>| {
        let script = Script::good().at_start(alone.clone()).on("server/discover", [Step::Hang]);
        child(&script.on("initialize", steps))
    };
    let put_out = vec![Step::ExitOnce(1, "$/put-out".into()), Step::Normally];
    // Once it answers where it is; once it has to be started again.
    let (first, second) = (child_that(vec![Step::Normally]), child_that(put_out));
    let both = futures_util::future::join_all([spoken(&first.session), spoken(&second.session)]);
    assert_eq!(soon(both).await, [LEGACY, LEGACY]);
    until(async || ours() == 2).await;
}

#[tokio::test]
async fn dropping_and_closing_while_two_are_asked_end_both() {
    let silent = || child(&Script::good().on("server/discover", [Step::Hang]).on("initialize", [Step::Hang]));
    let (dropped, closed) = (silent(), silent());
    tokio::select! {
        _ = dropped.session.connect() => panic!("nobody answers"),
        _ = closed.session.connect() => panic!("nobody answers"),
        () = until(async || ours() == 4) => {}
    }
    drop(dropped.session);
    soon(closed.session.close()).await;
    until(async || ours() == 0).await;
}
