//! However the binary ends, nothing it started is left. `/proc` is the judge.

use std::process::Child;
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use tokio::time::Instant;
use wharf_testkit::{Script, Step, alive, descendants_of};

use crate::{Ran, Server, done, wharf};

/// The binary, killed if its test fails half-way; its guard then ends what it had started.
struct Killed(Option<Child>);

impl Killed {
    fn id(&self) -> u32 {
        self.0.as_ref().unwrap().id()
    }

    fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(self.0.as_ref().unwrap()), signal).unwrap();
    }

    fn output(mut self) -> Ran {
        done(&self.0.take().unwrap().wait_with_output().unwrap())
    }
}

impl Drop for Killed {
    fn drop(&mut self) {
        if let Some(mut child) = self.0.take() {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

/// A call that never ends, on a server that ignores its end and has a grandchild that ignores SIGTERM.
fn stubborn_call(server: &Server) -> Killed {
    Killed(Some(wharf(&["call", "s", "dig_in", "--mcp", &server.mcp()]).spawn().unwrap()))
}

fn stubborn() -> Server {
    let steps = [Step::Grandchild("$/grandchild".into()), Step::IgnoreShutdown, Step::Hang];
    Server::new(&Script::good().any_tool("dig_in").on_call("dig_in", steps))
}

pub(crate) fn until(what: &str, condition: impl Fn() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(20);
    while !condition() {
        assert!(Instant::now() < deadline, "{what}");
        std::thread::yield_now();
    }
}

/// Sends a signal in the middle of the call and tells how the binary ended; everything it had started must be gone.
fn ends_by(kind: Signal) -> (i32, String) {
    let server = stubborn();
    let child = stubborn_call(&server);
    let grandchild = server.path().join("grandchild");
    until("the grandchild never came", || grandchild.exists());
    let mut family = descendants_of(child.id());
    family.push(std::fs::read_to_string(&grandchild).unwrap().trim().parse().unwrap());
    assert!(family.len() >= 3, "a guard, a server and a grandchild: {family:?}");
    assert!(family.iter().all(|pid| alive(*pid)));
    child.signal(kind);
    let ran = child.output();
    until("somebody is still alive", || !family.iter().any(|pid| alive(*pid)));
    (ran.code, ran.err)
}

#[test]
fn after_ctrl_c_nobody_is_alive() {
    let (code, err) = ends_by(Signal::INT);
    assert_eq!((code, err.as_str()), (130, "interrupted; closing servers (press Ctrl-C again to kill them)\n"));
}

#[test]
fn after_sigterm_nobody_is_alive() {
    assert_eq!(ends_by(Signal::TERM).0, 130);
}

#[test]
fn after_a_lost_terminal_nobody_is_alive() {
    assert_eq!(ends_by(Signal::HUP).0, 130);
}

#[test]
fn after_sigkill_nobody_is_alive() {
    assert_eq!(ends_by(Signal::KILL).0, -1);
}

#[test]
fn a_second_ctrl_c_does_not_wait_for_the_servers() {
    let server = stubborn();
    let mut child = stubborn_call(&server);
    let grandchild = server.path().join("grandchild");
    until("the grandchild never came", || grandchild.exists());
    let family = descendants_of(child.id());
    let began = Instant::now();
    child.signal(Signal::INT);
    // The first one is heard when the binary says so; only then does a second one mean something.
    let mut heard = [0; 11];
    std::io::Read::read_exact(child.0.as_mut().unwrap().stderr.as_mut().unwrap(), &mut heard).unwrap();
    assert_eq!(&heard, b"interrupted");
    child.signal(Signal::INT);
    assert_eq!(child.output().code, 130);
    assert!(began.elapsed() < Duration::from_secs(2));
    until("somebody is still alive", || !family.iter().any(|pid| alive(*pid)));
}

#[test]
fn after_a_good_end_nobody_is_alive() {
    let server = Server::new(
        &Script::good()
            .any_tool("spawn")
            .on_call("spawn", [Step::Grandchild("$/grandchild".into()), Step::Text("ok".into())]),
    );
    let ran = server.run(&["call", "s", "spawn"]);
    assert_eq!((ran.code, ran.out.as_str()), (0, "ok\n"));
    let grandchild = std::fs::read_to_string(server.path().join("grandchild")).unwrap().trim().parse().unwrap();
    assert!(!alive(grandchild));
}

#[test]
fn a_pipe_that_nobody_reads_does_not_keep_ctrl_c_away() {
    let server = Server::new(&Script::good().any_tool("big").on_call(
        "big",
        [Step::Flood(
            r#"{"jsonrpc":"2.0","id":{id},"result":{"content":[{"type":"text","text":""#.into(),
            5_000_000,
            "\"}]}}\n".into(),
        )],
    ));
    let child = Killed(Some(wharf(&["call", "s", "big", "--mcp", &server.mcp()]).spawn().unwrap()));
    // It writes once the pipe is full and can go no further; then it is interrupted.
    let waiting = || {
        std::fs::read_dir(format!("/proc/{}/task", child.id())).unwrap().flatten().any(|task| {
            std::fs::read_to_string(task.path().join("wchan")).is_ok_and(|place| place.contains("pipe_write"))
        })
    };
    until("it never got stuck", waiting);
    let family = descendants_of(child.id());
    child.signal(Signal::INT);
    let mut stuck = child;
    let mut process = stuck.0.take().unwrap();
    let deadline = Instant::now() + Duration::from_secs(20);
    let status = loop {
        if let Some(status) = process.try_wait().unwrap() {
            break status;
        }
        assert!(Instant::now() < deadline, "it does not hear Ctrl-C");
        std::thread::yield_now();
    };
    assert_eq!(status.code(), Some(130));
    until("somebody is still alive", || !family.iter().any(|pid| alive(*pid)));
}
