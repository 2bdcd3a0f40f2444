//! Steps that only a child process can play, and inspection of processes.

use std::io::Write as _;
use std::path::PathBuf;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::script::Step;

static LOG: OnceLock<PathBuf> = OnceLock::new();
static IGNORES_SHUTDOWN: AtomicBool = AtomicBool::new(false);

/// Sets the file that [`log`] appends to.
pub(crate) fn log_to(path: PathBuf) {
    let _ = LOG.set(path);
}

pub(crate) fn log(line: &str) {
    if let Some(path) = LOG.get()
        && let Ok(mut file) = std::fs::OpenOptions::new().create(true).append(true).open(path)
    {
        let _ = writeln!(file, "{line}");
    }
}

pub(crate) async fn at_end_of_input() {
    if IGNORES_SHUTDOWN.load(Ordering::Relaxed) {
        std::future::pending::<()>().await;
    }
}

pub(crate) async fn step(step: &Step) {
    let mut stderr = std::io::stderr();
    match step {
        Step::Stderr(line) => {
            let _ = writeln!(stderr, "{line}");
        }
        Step::StderrFlood(bytes) => {
            let line = format!("{}\n", "flood ".repeat(170));
            for _ in 0..bytes / line.len() {
                let _ = stderr.write_all(line.as_bytes());
            }
        }
        Step::Touch(file) => {
            let _ = std::fs::write(file, "");
        }
        Step::AwaitFile(file) => await_file(file).await,
        Step::Exit(status) => std::process::exit(*status),
        Step::ExitOnce(status, marker) if !std::path::Path::new(marker).exists() => {
            let _ = std::fs::write(marker, "");
            std::process::exit(*status);
        }
        Step::ExitIfRunning(status, file) => {
            let other = std::fs::read_to_string(file).ok().and_then(|pid| pid.parse().ok());
            if other.is_some_and(alive) {
                std::process::exit(*status);
            }
            let _ = std::fs::write(file, std::process::id().to_string());
        }
        Step::Grandchild(file) => {
            // An ignored signal stays ignored in the program that replaces the shell.
            let script = "trap '' TERM; echo $$ >\"$0.part\"; mv \"$0.part\" \"$0\"; exec sleep 600";
            let mut shell = std::process::Command::new("/bin/sh");
            let _ = shell.arg("-c").arg(script).arg(file).stdin(std::process::Stdio::null()).spawn();
            // The server must not respond before the grandchild runs.
            await_file(file).await;
        }
        Step::IgnoreShutdown => {
            IGNORES_SHUTDOWN.store(true, Ordering::Relaxed);
            ignore_sigterm();
        }
        _ => {}
    }
}

async fn await_file(file: &str) {
    while !std::path::Path::new(file).exists() {
        tokio::time::sleep(std::time::Duration::from_millis(5)).await;
    }
}

/// Ignores SIGTERM with a handler that does nothing.
fn ignore_sigterm() {
    let stream = tokio::signal::unix::signal(tokio::signal::unix::SignalKind::terminate());
    // An installed handler replaces the default action permanently, even after the stream is dropped.
    drop(stream);
}

/// Kills a process with SIGKILL, like a crash.
///
/// # Panics
/// If the process does not exist.
pub fn kill(pid: u32) {
    let pid = i32::try_from(pid).ok().and_then(rustix::process::Pid::from_raw).expect("a process id");
    rustix::process::kill_process(pid, rustix::process::Signal::KILL).expect("the process exists");
}

/// Returns whether a process exists and is not a zombie.
pub fn alive(pid: u32) -> bool {
    stat(pid).is_some_and(|(state, _)| state != 'Z')
}

/// Returns the running children of a process.
pub fn children_of(parent: u32) -> Vec<u32> {
    let Ok(processes) = std::fs::read_dir("/proc") else { return Vec::new() };
    let ids = processes.flatten().filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    ids.filter(|pid| stat(*pid).is_some_and(|(state, its_parent)| its_parent == parent && state != 'Z')).collect()
}

/// Returns the running descendants of a process.
pub fn descendants_of(parent: u32) -> Vec<u32> {
    let children = children_of(parent);
    let deeper: Vec<u32> = children.iter().flat_map(|child| descendants_of(*child)).collect();
    children.into_iter().chain(deeper).collect()
}

fn stat(pid: u32) -> Option<(char, u32)> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let mut fields = stat.rsplit(')').next()?.split_whitespace();
    Some((fields.next()?.chars().next()?, fields.next()?.parse().ok()?))
}
