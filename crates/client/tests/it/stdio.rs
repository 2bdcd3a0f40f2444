//! Servers as child processes: real processes, real crashes, and `/proc` to check what is left of them.

use std::path::PathBuf;
use std::time::Duration;

use rustix::process::{Resource, Rlimit, setrlimit};
use serde_json::json;
use wharf_client::{ConnectErrorKind, Deadlines, NoHost, Outcome, Session, SessionOptions, SessionStatus, Stdio};
use wharf_io::{Environment, Grace, SpawnError};
use wharf_testkit::{Script, Step, WireLog, alive, children_of, scripted_server, soon, until};

use crate::{json, legacy, none, result_text};

struct Child {
    session: Session,
    folder: tempfile::TempDir,
}

impl Child {
    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn log(&self) -> WireLog {
        WireLog::from_file(&self.path("log"))
    }
}

/// A session with a scripted server as a child process. `$` in the script's texts stands for its own folder.
fn child(script: &Script) -> Child {
    child_with(script, |stdio| stdio, Deadlines::default())
}

fn child_with(script: &Script, change: impl FnOnce(Stdio) -> Stdio, deadlines: Deadlines) -> Child {
    let folder = tempfile::tempdir().unwrap();
    let text = serde_json::to_string(script).unwrap().replace('$', folder.path().to_str().unwrap());
    std::fs::write(folder.path().join("script"), text).unwrap();
    let args = [folder.path().join("script"), folder.path().join("log")];
    let environment = Environment::default().with("PATH", "/usr/bin:/bin");
    let transport = change(Stdio::new(scripted_server(), args, environment));
    let options = SessionOptions { deadlines, ..legacy() };
    Child { session: Session::new("child".parse().unwrap(), transport, NoHost, options), folder }
}

fn number(path: PathBuf) -> u32 {
    std::fs::read_to_string(path).unwrap().trim().parse().unwrap()
}

#[tokio::test]
async fn a_child_process_is_listed_called_and_closed() {
    let child = child(&Script::good());
    assert_eq!(soon(child.session.list_tools()).await.unwrap().items.len(), 2);
    assert_eq!(result_text(soon(child.session.call("add", &json(json!({"a": 2, "b": 3})))).await), "5");
    assert_eq!(children_of(std::process::id()).len(), 1);
    soon(child.session.close()).await;
    assert_eq!(children_of(std::process::id()), Vec::<u32>::new());
    assert_eq!(child.log().methods(), ["initialize", "notifications/initialized", "tools/list", "tools/call"]);
}

#[tokio::test]
async fn a_crash_reports_its_status_and_stderr_and_the_next_call_restarts_the_server() {
    let crash = [Step::Stderr("disk on fire".into()), Step::Exit(7)];
    let child = child(&Script::good().any_tool("crash").on_call("crash", crash));
    let error = soon(child.session.call("crash", &none())).await.unwrap_err();
    let expected = "child: the server exited with status 7 before it answered; whether the call ran is unknown; stderr: disk on fire";
    assert_eq!((error.to_string().as_str(), error.outcome()), (expected, Outcome::Unknown));
    assert!(matches!(&*child.session.status().borrow(), SessionStatus::Failed(_)));
    assert_eq!(result_text(soon(child.session.call("add", &json(json!({"a": 2, "b": 3})))).await), "5");
    assert_eq!(child.session.health().connections, 2);
}

#[tokio::test]
async fn all_calls_in_flight_fail_on_a_crash() {
    let script = Script::good().any_tool("hang").any_tool("crash");
    let child = child(&script.on_call("hang", [Step::Hang]).on_call("crash", [Step::Exit(1)]));
    soon(child.session.connect()).await.unwrap();
    let arguments = none();
    let hanging = futures_util::future::join_all((0..20).map(|_| child.session.call("hang", &arguments)));
    let crash = child.session.call("crash", &arguments);
    let (hanging, crash) = soon(async { tokio::join!(hanging, crash) }).await;
    for result in hanging.into_iter().chain([crash]) {
        assert!(result_text(result).starts_with("child: the server exited with status 1 before it answered"));
    }
}

#[tokio::test]
async fn a_server_that_exits_before_the_handshake_is_reported_with_its_reason() {
    let child = child(&Script::good().at_start([Step::Stderr("no licence".into()), Step::Exit(3)]));
    let error = soon(child.session.connect()).await.unwrap_err();
    let expected = "child: the server exited with status 3 before it was ready; stderr: no licence";
    assert_eq!(error.to_string(), expected);
    assert!(matches!(error.kind, ConnectErrorKind::Ended(_)));
}

#[tokio::test]
async fn a_server_that_crashed_at_its_first_start_connects_the_next_time() {
    let child = child(&Script::good().at_start([Step::ExitOnce(9, "$/crashed".into())]));
    soon(child.session.connect()).await.unwrap_err();
    soon(child.session.connect()).await.unwrap();
}

#[tokio::test]
async fn a_gigabyte_on_stderr_blocks_nothing_and_leaves_a_few_lines() {
    let flood = [Step::StderrFlood(1_000_000_000), Step::Stderr("the end".into()), Step::Text("dry".into())];
    let child = child(&Script::good().any_tool("flood").on_call("flood", flood));
    assert_eq!(result_text(soon(child.session.call("flood", &none())).await), "dry");
    let error = soon(child.session.request("no/such", &none())).await.unwrap_err();
    let lines = &error.evidence.stderr;
    assert_eq!((lines.len(), lines[39].as_str()), (40, "the end"));
    assert!(lines.iter().all(|line| line.len() < 1_200));
}

#[tokio::test]
async fn a_three_hundred_megabyte_line_fails_its_call_in_bounded_memory() {
    let before = r#"{"jsonrpc":"2.0","id":{id},"result":{"content":[{"type":"text","text":""#;
    let flood = Step::Flood(before.into(), 300_000_000, "\"}]}}\n".into());
    let child = child(&Script::good().any_tool("huge").on_call("huge", [flood]));
    soon(child.session.connect()).await.unwrap();
    let peak_before = peak_memory();
    let error = soon(child.session.call("huge", &none())).await.unwrap_err();
    assert_eq!(error.to_string(), "child: the server's response is malformed: it is longer than 32 MiB");
    assert_eq!(result_text(soon(child.session.call("add", &json(json!({"a": 2, "b": 3})))).await), "5");
    let grown = peak_memory() - peak_before;
    assert!(grown < 80_000, "memory grew by {grown} KiB");
}

/// The peak memory of this process, in KiB.
fn peak_memory() -> u64 {
    memory("VmHWM")
}

/// The current memory of this process, in KiB.
fn resident_memory() -> u64 {
    memory("VmRSS")
}

fn memory(key: &str) -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|line| line.starts_with(key)).unwrap();
    line.split_whitespace().nth(1).unwrap().parse().unwrap()
}

#[tokio::test]
async fn closing_kills_grandchildren_and_servers_that_ignore_signals() {
    let stubborn = [Step::Grandchild("$/grandchild".into()), Step::IgnoreShutdown, Step::Text("ready".into())];
    let brief = Grace { after_eof: Duration::from_millis(200), after_term: Duration::from_millis(200) };
    let script = Script::good().any_tool("dig_in").on_call("dig_in", stubborn);
    let child = child_with(&script, |stdio| stdio.with_grace(brief), Deadlines::default());
    assert_eq!(result_text(soon(child.session.call("dig_in", &none())).await), "ready");
    let grandchild = number(child.path("grandchild"));
    assert!(alive(grandchild));
    soon(child.session.close()).await;
    assert_eq!(children_of(std::process::id()), Vec::<u32>::new());
    assert!(!alive(grandchild));
}

#[tokio::test]
async fn the_grandchild_of_a_server_that_exited_is_killed_too() {
    let script = Script::good().any_tool("spawn");
    let spawn = [Step::Grandchild("$/grandchild".into()), Step::Text("ready".into())];
    let child = child(&script.on_call("spawn", spawn));
    soon(child.session.call("spawn", &none())).await.unwrap();
    let grandchild = number(child.path("grandchild"));
    soon(child.session.close()).await;
    assert!(!alive(grandchild));
}

#[tokio::test]
async fn dropping_the_session_kills_the_process_group() {
    let spawn = [Step::Grandchild("$/grandchild".into()), Step::Text("ready".into())];
    let child = child(&Script::good().any_tool("spawn").on_call("spawn", spawn));
    soon(child.session.call("spawn", &none())).await.unwrap();
    let grandchild = number(child.path("grandchild"));
    drop(child.session);
    until(async || !alive(grandchild) && children_of(std::process::id()).is_empty()).await;
}

#[test]
fn a_runtime_that_ends_first_leaves_no_process_behind() {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    let child =
        child(&Script::good().any_tool("dig_in").on_call("dig_in", [Step::IgnoreShutdown, Step::Text("in".into())]));
    runtime.block_on(soon(child.session.call("dig_in", &none()))).unwrap();
    let pids = children_of(std::process::id());
    assert_eq!(pids.len(), 1);
    drop(runtime);
    drop(child);
    let deadline = tokio::time::Instant::now() + Duration::from_secs(10);
    while alive(pids[0]) {
        assert!(tokio::time::Instant::now() < deadline, "the server is still alive");
        std::thread::yield_now();
    }
}

#[tokio::test]
async fn a_server_that_does_not_read_fails_its_calls_at_the_write_deadline() {
    let deadlines = Deadlines { write: Duration::from_millis(300), ..Deadlines::default() };
    let script = Script::good().any_tool("deaf").on_call("deaf", [Step::StopReading]);
    let child = child_with(&script, |stdio| stdio, deadlines);
    soon(child.session.connect()).await.unwrap();
    let arguments = none();
    let big = json(json!({"text": "x".repeat(8_000_000)}));
    let (deaf, big) =
        soon(async { tokio::join!(child.session.call("deaf", &arguments), child.session.call("echo", &big)) }).await;
    for result in [deaf, big] {
        assert!(result_text(result).contains("has not read its input"));
    }
}

#[tokio::test]
async fn a_server_that_closes_stdout_but_keeps_running_is_killed() {
    let initialize_result = r#"{"jsonrpc":"2.0","id":1,"result":{"protocolVersion":"2025-11-25","capabilities":{}}}"#;
    let script = format!("read x; echo '{initialize_result}'; read x; read x; exec >&-; sleep 600");
    let transport = Stdio::new("/bin/sh", ["-c", &script], Environment::default().with("PATH", "/usr/bin:/bin"));
    let session = Session::new("mute".parse().unwrap(), transport, NoHost, legacy());
    let error = soon(session.call("any", &none())).await.unwrap_err();
    let expected = "mute: the server closed the connection before it answered; whether the call ran is unknown";
    assert_eq!(error.to_string(), expected);
    until(async || children_of(std::process::id()).is_empty()).await;
}

#[tokio::test]
async fn a_server_that_waits_for_an_answer_while_it_is_closed_is_not_waited_for() {
    let initialize_result = r#"{"jsonrpc":"2.0","id":1,"result":{"protocolVersion":"2025-11-25","capabilities":{}}}"#;
    let question = r#"{"jsonrpc":"2.0","id":"q","method":"roots/list"}"#;
    // Asks when its input ends, and would wait for the answer.
    let script = format!("read x; echo '{initialize_result}'; while read x; do :; done; echo '{question}'; sleep 600");
    let transport = Stdio::new("/bin/sh", ["-c", &script], Environment::default().with("PATH", "/usr/bin:/bin"));
    let transport = transport.with_grace(Grace { after_eof: Duration::from_secs(600), ..Grace::default() });
    let session = Session::new("asking".parse().unwrap(), transport, NoHost, legacy());
    soon(session.connect()).await.unwrap();
    soon(session.close()).await;
    assert_eq!(children_of(std::process::id()), Vec::<u32>::new());
}

#[tokio::test]
async fn a_missing_command_is_named_in_the_error() {
    let transport = Stdio::new("no-such-server", ["--stdio"], Environment::default().with("PATH", "/usr/bin"));
    let session = Session::new("ghost".parse().unwrap(), transport, NoHost, legacy());
    assert_eq!(
        soon(session.connect()).await.unwrap_err().to_string(),
        "ghost: the command `no-such-server` was not found"
    );
}

#[tokio::test]
async fn the_child_gets_only_the_given_environment_and_working_directory() {
    let folder = tempfile::tempdir().unwrap();
    let script = "env | cut -d= -f1 | sort | tr '\\n' ' ' >&2; pwd >&2; exit 1";
    let environment =
        Environment::allowed_from([("PATH", "/usr/bin:/bin"), ("SECRET", "s")].map(|(n, v)| (n.into(), v.into())));
    let transport = Stdio::new("sh", ["-c", script], environment.with("TOKEN", "t")).in_directory(folder.path());
    let session = Session::new("env".parse().unwrap(), transport, NoHost, legacy());
    let error = soon(session.connect()).await.unwrap_err();
    let seen = error.evidence.stderr.join("");
    assert!(!seen.contains("SECRET") && seen.contains("PATH") && seen.contains("TOKEN"), "{seen}");
    assert!(seen.ends_with(folder.path().to_str().unwrap()), "{seen}");
}

#[tokio::test]
async fn five_hundred_starts_and_stops_leak_nothing() {
    let child = child(&Script::good());
    let cycle = async || {
        soon(child.session.ping()).await.unwrap();
        soon(child.session.close()).await;
    };
    for _ in 0..50 {
        cycle().await;
    }
    let before = (open_files(), tasks());
    let memory_before = resident_memory();
    for _ in 0..450 {
        cycle().await;
    }
    assert_eq!((open_files(), tasks()), before);
    assert_eq!(children_of(std::process::id()), Vec::<u32>::new());
    let grown = resident_memory().saturating_sub(memory_before);
    assert!(grown < 2_000, "memory grew by {grown} KiB");
}

fn open_files() -> usize {
    std::fs::read_dir("/proc/self/fd").unwrap().count()
}

fn tasks() -> usize {
    tokio::runtime::Handle::current().metrics().num_alive_tasks()
}

#[tokio::test]
async fn running_out_of_file_descriptors_is_a_typed_error_and_recovers() {
    let limit = Rlimit { current: Some(64), maximum: Some(64) };
    setrlimit(Resource::Nofile, limit).unwrap();
    let children: Vec<Child> = (0..30).map(|_| child(&Script::good())).collect();
    let mut refused = None;
    for child in &children {
        if let Err(error) = soon(child.session.connect()).await {
            refused = Some((child, error));
            break;
        }
    }
    let (unlucky, error) = refused.expect("the limit was never reached");
    let ConnectErrorKind::Spawn(reason) = &error.kind else { panic!("{error}") };
    assert!(matches!(&**reason, SpawnError::Exhausted(_)), "{error}");
    for child in &children[..3] {
        soon(child.session.close()).await;
    }
    soon(unlucky.session.connect()).await.unwrap();
    for child in &children {
        soon(child.session.close()).await;
    }
    assert_eq!(children_of(std::process::id()), Vec::<u32>::new());
}

#[tokio::test]
async fn a_crash_in_the_middle_of_an_answer_is_reported_as_a_crash() {
    let half = Step::Bytes(br#"{"jsonrpc":"2.0","id":2,"result":{"content":[{"ty"#.to_vec());
    let child = child(&Script::good().any_tool("half").on_call("half", [half, Step::Exit(7)]));
    let error = soon(child.session.call("half", &none())).await.unwrap_err();
    assert!(error.to_string().starts_with("child: the server exited with status 7 before it answered"), "{error}");
    assert_eq!(error.outcome(), Outcome::Unknown);
}

#[tokio::test]
async fn a_hundred_servers_start_concurrently() {
    let children: Vec<Child> = (0..100).map(|_| child(&Script::good())).collect();
    let started = soon(futures_util::future::join_all(children.iter().map(|child| child.session.connect()))).await;
    assert!(started.iter().all(Result::is_ok), "{:?}", started.iter().find(|one| one.is_err()));
    soon(futures_util::future::join_all(children.iter().map(|child| child.session.close()))).await;
    assert_eq!(children_of(std::process::id()), Vec::<u32>::new());
}

#[tokio::test]
async fn closing_fails_calls_in_flight_before_waiting_for_a_stubborn_server() {
    let script = Script::good()
        .any_tool("dig_in")
        .on_call("dig_in", [Step::IgnoreShutdown, Step::Touch("$/in".into()), Step::Hang]);
    let child = child(&script);
    let nothing = none();
    let began = tokio::time::Instant::now();
    let call = async {
        let answer = result_text(child.session.call("dig_in", &nothing).await);
        (answer, began.elapsed())
    };
    let close = async {
        until(async || child.path("in").exists()).await;
        child.session.close().await;
        began.elapsed()
    };
    let ((answer, failed_after), closed_after) = soon(async { tokio::join!(call, close) }).await;
    assert!(answer.starts_with("child: the session was closed before the response arrived"), "{answer}");
    assert!(failed_after + Duration::from_secs(3) < closed_after, "{failed_after:?} {closed_after:?}");
}

#[tokio::test]
async fn a_model_never_sees_the_servers_stderr() {
    let crash = [Step::Stderr("password=hunter2".into()), Step::Exit(7)];
    let child = child(&Script::good().any_tool("crash").on_call("crash", crash));
    let result = soon(child.session.use_tool("1", "crash", &none())).await;
    let shown = serde_json::to_string(&result).unwrap();
    assert!(shown.contains("exited with status 7") && !shown.contains("hunter2"), "{shown}");
}
