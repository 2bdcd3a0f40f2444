//! What only a process can do, and looking at processes from outside.

use std::io::Write as _;
use std::path::PathBuf;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::{Script, Scripted, Step};

static LOG: OnceLock<PathBuf> = OnceLock::new();
static IGNORES_END: AtomicBool = AtomicBool::new(false);

/// The body of `scripted-server`: serves the script in the file `script` over stdio, logging to the file `log`.
///
/// # Panics
/// If the script cannot be read.
pub async fn child_server(script: PathBuf, log: Option<PathBuf>) {
    if let Some(log) = log {
        let _ = LOG.set(log);
    }
    let text = std::fs::read_to_string(script).expect("the script can be read");
    let script: Script = serde_json::from_str(&text).expect("the script is one");
    Scripted::new(script).serve_streams(tokio::io::stdin(), tokio::io::stdout()).await;
}

pub(crate) fn log(line: &str) {
    if let Some(path) = LOG.get()
        && let Ok(mut file) = std::fs::OpenOptions::new().create(true).append(true).open(path)
    {
        let _ = writeln!(file, "{line}");
    }
}

pub(crate) async fn at_end_of_input() {
    if IGNORES_END.load(Ordering::Relaxed) {
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
            // A signal that is ignored stays ignored in the program that takes the shell's place.
            let script = "trap '' TERM; echo $$ >\"$0.part\"; mv \"$0.part\" \"$0\"; exec sleep 600";
            let mut shell = std::process::Command::new("/bin/sh");
            let _ = shell.arg("-c").arg(script).arg(file).stdin(std::process::Stdio::null()).spawn();
            // The client may only hear of the grandchild once it is there.
            while !std::path::Path::new(file).exists() {
                tokio::time::sleep(std::time::Duration::from_millis(5)).await;
            }
        }
        Step::IgnoreShutdown => {
            IGNORES_END.store(true, Ordering::Relaxed);
            ignore_sigterm();
        }
        _ => {}
    }
}

/// Blocks SIGTERM by taking it: a handler that does nothing.
fn ignore_sigterm() {
    let stream = tokio::signal::unix::signal(tokio::signal::unix::SignalKind::terminate());
    // Once a handler is installed the default action is gone for good, whether or not anybody listens.
    drop(stream);
}

/// Kills one process, as a crash would.
///
/// # Panics
/// If there is no such process.
pub fn kill(pid: u32) {
    let pid = i32::try_from(pid).ok().and_then(rustix::process::Pid::from_raw).expect("a process id");
    rustix::process::kill_process(pid, rustix::process::Signal::KILL).expect("the process is there");
}

/// Whether a process is there and is no zombie.
pub fn alive(pid: u32) -> bool {
    stat(pid).is_some_and(|(state, _)| state != 'Z')
}

/// The living children of a process.
pub fn children_of(parent: u32) -> Vec<u32> {
    let Ok(processes) = std::fs::read_dir("/proc") else { return Vec::new() };
    let ids = processes.flatten().filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    ids.filter(|pid| stat(*pid).is_some_and(|(state, its_parent)| its_parent == parent && state != 'Z')).collect()
}

/// The living children of a process, their children, and so on.
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
