//! No process that the binary started survives it, checked in `/proc`.

use std::process::Child;
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use serde_json::json;
use tokio::time::Instant;
use wharf_testkit::{Script, Step, alive, descendants_of};

use crate::{RunOutput, Server, run_output, wharf};

/// The binary, killed if its test fails; its guard then ends the processes it started.
struct KillOnDrop(Option<Child>);

impl KillOnDrop {
    fn id(&self) -> u32 {
        self.0.as_ref().unwrap().id()
    }

    fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(self.0.as_ref().unwrap()), signal).unwrap();
    }

    fn output(mut self) -> RunOutput {
        run_output(&self.0.take().unwrap().wait_with_output().unwrap())
    }
}

impl Drop for KillOnDrop {
    fn drop(&mut self) {
        if let Some(mut child) = self.0.take() {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

/// Starts a call that never ends, on a server that ignores shutdown and has a grandchild that ignores SIGTERM.
fn stubborn_call(server: &Server) -> KillOnDrop {
    KillOnDrop(Some(wharf(&["call", "s", "dig_in", "--mcp", &server.mcp()]).spawn().unwrap()))
}

fn stubborn_server() -> Server {
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

/// Sends a signal during the call and returns the exit code and stderr. No process may survive.
fn exit_after(kind: Signal) -> (i32, String) {
    let server = stubborn_server();
    let child = stubborn_call(&server);
    let grandchild = server.path().join("grandchild");
    until("the grandchild did not start", || grandchild.exists());
    let mut processes = descendants_of(child.id());
    processes.push(std::fs::read_to_string(&grandchild).unwrap().trim().parse().unwrap());
    assert!(processes.len() >= 3, "a guard, a server and a grandchild: {processes:?}");
    assert!(processes.iter().all(|pid| alive(*pid)));
    child.signal(kind);
    let ran = child.output();
    until("a process is still alive", || !processes.iter().any(|pid| alive(*pid)));
    (ran.code, ran.err)
}

#[test]
fn no_process_survives_ctrl_c() {
    let (code, err) = exit_after(Signal::INT);
    assert_eq!((code, err.as_str()), (130, "interrupted; closing servers (press Ctrl-C again to kill them)\n"));
}

#[test]
fn no_process_survives_sigterm() {
    assert_eq!(exit_after(Signal::TERM).0, 130);
}

#[test]
fn no_process_survives_sighup() {
    assert_eq!(exit_after(Signal::HUP).0, 130);
}

#[test]
fn no_process_survives_sigkill() {
    assert_eq!(exit_after(Signal::KILL).0, -1);
}

#[test]
fn a_run_with_64_calls_in_flight_ends_within_its_time_after_sigterm() {
    let look = json!({"name": "look", "inputSchema": {"type": "object"}, "annotations": {"readOnlyHint": true}});
    let steps = [Step::Touch("$/looking".into()), Step::IgnoreShutdown, Step::Hang];
    let server = Server::new(&Script::good().tool(look).on_call("look", steps));
    let turns = server.path().join("turns.yaml");
    let call = |number: u32| format!("    - {{name: mcp__s__look, arguments: {{n: {number}}}}}");
    let calls = (0..64).map(call).collect::<Vec<_>>().join("\n");
    std::fs::write(&turns, format!("- tools:\n{calls}\n- text: done\n")).unwrap();
    let model = format!("scripted:{}", turns.display());
    let child = KillOnDrop(Some(
        wharf(&["run", "-m", &model, "--max-tool-calls", "99", "--json", "go", "--mcp", &server.mcp()])
            .spawn()
            .unwrap(),
    ));
    until("no call has started", || server.path().join("looking").exists());
    let processes = descendants_of(child.id());
    let began = Instant::now();
    child.signal(Signal::TERM);
    let ran = child.output();
    assert_eq!(ran.code, 130, "{}", ran.err);
    assert!(began.elapsed() < Duration::from_secs(15), "{:?}", began.elapsed());
    until("a process is still alive", || !processes.iter().any(|pid| alive(*pid)));
    let shown: serde_json::Value = serde_json::from_str(&ran.out).unwrap_or_else(|_| panic!("{} {}", ran.out, ran.err));
    let answers = &shown["trace_messages"].as_array().unwrap()[1..];
    assert_eq!(answers.len(), 64);
    let is_canceled = |answer: &serde_json::Value| answer["content"].as_str().unwrap().contains("was canceled");
    assert!(answers.iter().all(is_canceled), "{shown}");
}

#[test]
fn a_second_ctrl_c_kills_the_servers_immediately() {
    let server = stubborn_server();
    let mut child = stubborn_call(&server);
    let grandchild = server.path().join("grandchild");
    until("the grandchild did not start", || grandchild.exists());
    let processes = descendants_of(child.id());
    let began = Instant::now();
    child.signal(Signal::INT);
    // A second signal has a meaning only after the binary has handled the first one.
    let mut message = [0; 11];
    std::io::Read::read_exact(child.0.as_mut().unwrap().stderr.as_mut().unwrap(), &mut message).unwrap();
    assert_eq!(&message, b"interrupted");
    child.signal(Signal::INT);
    assert_eq!(child.output().code, 130);
    assert!(began.elapsed() < Duration::from_secs(2));
    until("a process is still alive", || !processes.iter().any(|pid| alive(*pid)));
}

#[test]
fn no_process_survives_a_successful_call() {
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
fn ctrl_c_works_while_stdout_is_blocked() {
    let server = Server::new(&Script::good().any_tool("big").on_call(
        "big",
        [Step::Flood(
            r#"{"jsonrpc":"2.0","id":{id},"result":{"content":[{"type":"text","text":""#.into(),
            5_000_000,
            "\"}]}}\n".into(),
        )],
    ));
    let child = KillOnDrop(Some(wharf(&["call", "s", "big", "--mcp", &server.mcp()]).spawn().unwrap()));
    // The signal is sent once the pipe is full and the write blocks.
    let waiting = || {
        std::fs::read_dir(format!("/proc/{}/task", child.id())).unwrap().flatten().any(|task| {
            std::fs::read_to_string(task.path().join("wchan")).is_ok_and(|place| place.contains("pipe_write"))
        })
    };
    until("stdout was never blocked", waiting);
    let processes = descendants_of(child.id());
    child.signal(Signal::INT);
    let mut stuck = child;
    let mut process = stuck.0.take().unwrap();
    let deadline = Instant::now() + Duration::from_secs(20);
    let status = loop {
        if let Some(status) = process.try_wait().unwrap() {
            break status;
        }
        assert!(Instant::now() < deadline, "Ctrl-C was ignored");
        std::thread::yield_now();
    };
    assert_eq!(status.code(), Some(130));
    until("a process is still alive", || !processes.iter().any(|pid| alive(*pid)));
}
