//! Child processes: groups, environment and shutdown.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::io::{AsyncBufReadExt as _, BufReader};
use wharf_io::{Child, ChildSpec, Environment, Exit, Grace, GroupWatcher, Pipes, SpawnError};
use wharf_testkit::{alive, until};

fn sh(script: &str) -> ChildSpec {
    ChildSpec {
        command: "/bin/sh".into(),
        args: vec!["-c".into(), script.into()],
        environment: Environment::default().with("PATH", "/usr/bin:/bin"),
        cwd: None,
        watcher: None,
    }
}

/// Waits until `pid` is dead. Another process reaps orphans, so a zombie counts as dead.
async fn dies(pid: u32) {
    until(async || !alive(pid)).await;
}

/// Returns whether a process is gone, without even a zombie.
fn reaped(pid: u32) -> bool {
    !std::path::Path::new(&format!("/proc/{pid}")).exists()
}

async fn first_line(pipes: &mut Pipes) -> String {
    let mut line = String::new();
    let read = async { BufReader::new(&mut pipes.stdout).read_line(&mut line).await };
    tokio::time::timeout(Duration::from_secs(10), read).await.expect("no line arrived").unwrap();
    line.trim().to_owned()
}

async fn first_number(pipes: &mut Pipes) -> u32 {
    first_line(pipes).await.parse().unwrap()
}

const BRIEF: Grace = Grace { after_eof: Duration::from_millis(100), after_term: Duration::from_millis(100) };

#[tokio::test]
async fn closing_stdin_ends_a_well_behaved_process() {
    let (child, pipes) = Child::spawn(&sh("cat >/dev/null; echo bye >&2; exit 3")).await.unwrap();
    drop(pipes.stdin);
    assert_eq!(child.stop(Grace::default()).await, Exit::Status(3));
    assert_eq!(child.stderr().lines(), ["bye"]);
    assert!(reaped(child.id()));
}

#[tokio::test]
async fn a_process_that_ignores_its_stdin_gets_sigterm() {
    let (child, mut pipes) =
        Child::spawn(&sh("trap 'exit 9' TERM; echo up; while :; do sleep 0.05; done")).await.unwrap();
    first_line(&mut pipes).await;
    assert_eq!(child.stop(Grace { after_term: Duration::from_secs(10), ..BRIEF }).await, Exit::Status(9));
}

#[tokio::test]
async fn a_process_that_ignores_everything_is_killed() {
    let (child, mut pipes) = Child::spawn(&sh("trap '' TERM; echo up; while :; do sleep 0.05; done")).await.unwrap();
    first_line(&mut pipes).await;
    assert_eq!(child.stop(BRIEF).await, Exit::Signal(9));
}

#[tokio::test]
async fn a_grandchild_dies_even_if_the_leader_exited_cleanly() {
    let (child, mut pipes) = Child::spawn(&sh("sleep 600 & echo $!; cat >/dev/null")).await.unwrap();
    let grandchild = first_number(&mut pipes).await;
    assert!(alive(grandchild));
    drop(pipes.stdin);
    assert_eq!(child.stop(Grace::default()).await, Exit::Status(0));
    dies(grandchild).await;
}

#[tokio::test]
async fn a_double_forked_grandchild_that_ignores_sigterm_dies_too() {
    let script = "(sh -c 'trap \"\" TERM; echo $$; while :; do sleep 0.05; done' &) ; cat >/dev/null";
    let (child, mut pipes) = Child::spawn(&sh(script)).await.unwrap();
    let grandchild = first_number(&mut pipes).await;
    drop(pipes.stdin);
    child.stop(BRIEF).await;
    dies(grandchild).await;
}

#[tokio::test]
async fn dropping_a_child_kills_its_whole_group_and_leaves_no_zombie() {
    let (child, mut pipes) = Child::spawn(&sh("trap '' TERM; sleep 600 & echo $!; wait")).await.unwrap();
    let leader = child.id();
    let grandchild = first_number(&mut pipes).await;
    drop(child);
    dies(grandchild).await;
    until(async || reaped(leader)).await;
}

#[tokio::test]
async fn a_crash_is_detected_while_a_grandchild_holds_the_pipes() {
    let (child, mut pipes) = Child::spawn(&sh("sleep 600 & echo $!; echo why >&2; kill -SEGV $$")).await.unwrap();
    let grandchild = first_number(&mut pipes).await;
    let exit = tokio::time::timeout(Duration::from_secs(5), child.exited()).await.unwrap();
    assert_eq!(exit, Exit::Signal(11));
    assert_eq!(exit.to_string(), "was killed by signal 11 (SIGSEGV)");
    assert_eq!(child.stderr().lines(), ["why"]);
    dies(grandchild).await;
}

#[tokio::test]
async fn the_child_gets_its_environment_and_directory() {
    let directory = tempfile::tempdir().unwrap();
    let spec = ChildSpec {
        command: "sh".into(),
        args: vec!["-c".into(), "env | grep -v -e ^PWD= -e ^_= -e ^SHLVL= | sort | tr '\\n' ' '; pwd".into()],
        environment: Environment::default().with("PATH", "/usr/bin:/bin").with("TOKEN", "a b;$(c)"),
        cwd: Some(directory.path().to_owned()),
        watcher: None,
    };
    let (child, mut pipes) = Child::spawn(&spec).await.unwrap();
    let expected = format!("PATH=/usr/bin:/bin TOKEN=a b;$(c) {}", directory.path().display());
    assert_eq!(first_line(&mut pipes).await, expected);
    child.exited().await;
}

/// A program starts with default signal handlers, regardless of its parent's state, and dies with its parent.
#[cfg(target_os = "linux")]
#[tokio::test]
async fn a_program_starts_with_default_signals_and_dies_with_its_parent() {
    let seen = r"import ctypes, os, re
blocked = int(re.search(r'SigBlk:\s*(\w+)', open('/proc/self/status').read())[1], 16)
signal = ctypes.c_int()
ctypes.CDLL(None).prctl(2, ctypes.byref(signal))
print(blocked, signal.value, os.getpgrp() == os.getpid())";
    // Python ignores SIGPIPE itself, so a shell checks that.
    let python = ChildSpec { command: "python3".into(), args: vec!["-c".into(), seen.into()], ..sh("") };
    let (child, mut pipes) = Child::spawn(&python).await.unwrap();
    assert_eq!(first_line(&mut pipes).await, "0 9 True");
    child.exited().await;
    let (child, mut pipes) = Child::spawn(&sh("grep SigIgn /proc/self/status | cut -f2")).await.unwrap();
    let ignored = u64::from_str_radix(&first_line(&mut pipes).await, 16).unwrap();
    assert_eq!(ignored & (1 << 12), 0, "SIGPIPE is ignored");
    child.exited().await;
}

#[tokio::test]
async fn a_name_is_resolved_in_absolute_folders_of_the_childs_path_and_a_path_in_its_directory() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::create_dir(folder.path().join("tools")).unwrap();
    for (name, mode) in [("tools/hello", 0o755), ("tools/locked", 0o644)] {
        let file = folder.path().join(name);
        std::fs::write(&file, "#!/bin/sh\necho $0\n").unwrap();
        std::fs::set_permissions(file, std::os::unix::fs::PermissionsExt::from_mode(mode)).unwrap();
    }
    let within = |command: &str, path: &str| ChildSpec {
        command: command.into(),
        environment: Environment::default().with("PATH", path),
        cwd: Some(folder.path().to_owned()),
        ..sh("")
    };
    let hello = folder.path().join("tools/hello");
    let tools = hello.parent().unwrap().to_str().unwrap();
    for path in [tools.to_owned(), format!("/nowhere:{tools}"), format!(":.:{tools}")] {
        let (child, mut pipes) = Child::spawn(&within("hello", &path)).await.unwrap();
        assert_eq!(first_line(&mut pipes).await, hello.to_str().unwrap());
        child.exited().await;
    }
    let (child, mut pipes) = Child::spawn(&within("tools/hello", "/nowhere")).await.unwrap();
    assert_eq!(first_line(&mut pipes).await, "tools/hello");
    child.exited().await;
    let refused = Child::spawn(&within("locked", tools)).await.map(drop);
    assert!(matches!(refused, Err(SpawnError::NotExecutable(_))), "{refused:?}");
    let refused = Child::spawn(&within("tools", folder.path().to_str().unwrap())).await.map(drop);
    assert!(matches!(refused, Err(SpawnError::NotFound(_))), "{refused:?}");
}

/// The working directory is often a repository: its files must not run under the name of a command.
#[tokio::test]
async fn relative_and_empty_folders_of_the_path_are_skipped() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::create_dir(folder.path().join("bin")).unwrap();
    for name in ["node", "bin/node"] {
        let file = folder.path().join(name);
        std::fs::write(&file, "#!/bin/sh\necho from the repository\n").unwrap();
        std::fs::set_permissions(file, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    }
    // Each test is a process of its own.
    std::env::set_current_dir(folder.path()).unwrap();
    for path in ["", ".", "bin", "./bin", ":/nowhere", "/nowhere:", "/nowhere::/elsewhere"] {
        let spec = ChildSpec {
            command: "node".into(),
            environment: Environment::default().with("PATH", path),
            cwd: Some(folder.path().to_owned()),
            ..sh("")
        };
        let refused = Child::spawn(&spec).await.map(drop);
        assert!(matches!(refused, Err(SpawnError::NotFound(_))), "{path:?}: {refused:?}");
    }
}

/// Every descriptor of ours is closed on exec; one that was inherited may not be.
#[cfg(target_os = "linux")]
#[tokio::test]
async fn a_child_gets_no_descriptors_but_its_streams() {
    use std::os::fd::AsRawFd as _;
    let file = tempfile::tempfile().unwrap();
    // As a shell would pass it on: without the flag.
    let inherited = rustix::io::dup(&file).unwrap();
    rustix::io::fcntl_setfd(&inherited, rustix::io::FdFlags::empty()).unwrap();
    let number = inherited.as_raw_fd();
    let (child, mut pipes) =
        Child::spawn(&sh(&format!("test -e /proc/$$/fd/{number} && echo open || echo closed"))).await.unwrap();
    assert_eq!(first_line(&mut pipes).await, "closed");
    child.exited().await;
    // The parent keeps it.
    assert!(rustix::io::fcntl_getfd(&inherited).is_ok());
    // Marked, it is closed in programs that are started by other means too.
    wharf_io::close_descriptors_on_exec();
    assert!(rustix::io::fcntl_getfd(&inherited).unwrap().contains(rustix::io::FdFlags::CLOEXEC));
}

/// A child shares our memory until it executes its program. Other threads must not notice.
#[tokio::test]
async fn many_children_start_while_other_threads_work() {
    let done = Arc::new(AtomicBool::new(false));
    let stop = Arc::clone(&done);
    let work = std::thread::spawn(move || {
        let mut held: Vec<String> = Vec::new();
        for round in (0_usize..).take_while(|_| !stop.load(Ordering::Relaxed)) {
            held.push(round.to_string().repeat(round % 97));
            if held.len() > 500 {
                assert!(held.drain(..).all(|text| text.bytes().all(|byte| byte.is_ascii_digit())));
            }
        }
    });
    let mut children = tokio::task::JoinSet::new();
    for number in 0..120 {
        children.spawn(async move {
            let (child, mut pipes) = Child::spawn(&sh(&format!("echo {number}"))).await.unwrap();
            let printed = first_number(&mut pipes).await;
            let missing = ChildSpec { command: "/no/such/program".into(), ..sh("") };
            assert!(matches!(Child::spawn(&missing).await, Err(SpawnError::NotFound(_))));
            (printed, child.exited().await) == (number, Exit::Status(0))
        });
    }
    assert!(children.join_all().await.into_iter().all(|good| good));
    done.store(true, Ordering::Relaxed);
    work.join().unwrap();
}

#[tokio::test]
async fn a_failed_start_reports_the_reason() {
    let refusal = async |spec: ChildSpec| Child::spawn(&spec).await.map(|_| ()).unwrap_err();
    let missing = ChildSpec { command: "no-such-command".into(), ..sh("") };
    assert!(matches!(refusal(missing).await, SpawnError::NotFound(command) if command == "no-such-command"));
    let locked = ChildSpec { command: "/etc/passwd".into(), ..sh("") };
    assert!(matches!(refusal(locked).await, SpawnError::NotExecutable(_)));
    let nowhere = ChildSpec { cwd: Some("/no/such/place".into()), ..sh("") };
    assert_eq!(refusal(nowhere).await.to_string(), "the working directory `/no/such/place` does not exist");
}

#[tokio::test]
async fn a_watcher_is_notified_of_every_group_that_starts_and_ends() {
    #[derive(Default)]
    struct Recorder(Mutex<Vec<String>>);
    impl GroupWatcher for Recorder {
        fn started(&self, group: u32) {
            self.0.lock().unwrap().push(format!("started {group}"));
        }
        fn ended(&self, group: u32) {
            self.0.lock().unwrap().push(format!("ended {group}"));
        }
    }
    let recorder = Arc::new(Recorder::default());
    let watcher: Arc<dyn GroupWatcher> = Arc::<Recorder>::clone(&recorder);
    let spec = ChildSpec { watcher: Some(watcher), ..sh("cat >/dev/null") };
    let (stopped, pipes) = Child::spawn(&spec).await.unwrap();
    drop(pipes);
    stopped.stop(Grace::default()).await;
    let (dropped, _pipes) = Child::spawn(&spec).await.unwrap();
    let one = stopped.id();
    let two = dropped.id();
    drop(dropped);
    let expected = [format!("started {one}"), format!("ended {one}"), format!("started {two}"), format!("ended {two}")];
    assert_eq!(*recorder.0.lock().unwrap(), expected);
}

#[test]
fn a_child_outlives_the_thread_that_spawned_it() {
    // The parent-death signal belongs to the thread that spawned; threads of a runtime come and go.
    let spawn = || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let spawned = runtime.block_on(Child::spawn(&sh("trap '' HUP; sleep 600"))).unwrap();
        (runtime, spawned)
    };
    let (runtime, (child, _pipes)) = std::thread::spawn(spawn).join().unwrap();
    let ended = runtime.block_on(async { tokio::time::timeout(Duration::from_millis(300), child.exited()).await });
    assert!(ended.is_err(), "it died with the thread: {ended:?}");
}
