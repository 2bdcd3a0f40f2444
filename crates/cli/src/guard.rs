//! The guard: a second process that kills our children's process groups if we die without doing so.
//!
//! We write the process groups to a pipe. When we die, however suddenly, the pipe closes; the guard, which has its own
//! process group, then kills every group that is left.

use std::collections::BTreeSet;
use std::io::{BufRead as _, Write as _};
use std::os::unix::process::CommandExt as _;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process_group};
use tokio::time::Instant;
use wharf::GroupWatcher;

/// The argument that makes this program a guard.
pub(crate) const COMMAND: &str = "__guard";
/// How long a guard may take to exit.
const EXIT_TIMEOUT: Duration = Duration::from_millis(500);

/// Our end of the pipe. Without a guard, groups still die with us unless we get SIGKILL.
pub(crate) struct Guard {
    pipe: Mutex<Option<ChildStdin>>,
    process: Option<Child>,
}

impl Guard {
    /// Returns the guard of this program, and starts it if necessary.
    pub(crate) fn start() -> Arc<Self> {
        static CURRENT: Mutex<Weak<Guard>> = Mutex::new(Weak::new());
        let mut current = CURRENT.lock().unwrap_or_else(PoisonError::into_inner);
        current.upgrade().unwrap_or_else(|| {
            let guard = Self::spawn();
            *current = Arc::downgrade(&guard);
            guard
        })
    }

    /// Starts this program with a hidden command.
    fn spawn() -> Arc<Self> {
        let started = std::env::current_exe().and_then(|program| {
            Command::new(program)
                .arg(COMMAND)
                .env_clear()
                .process_group(0)
                .stdin(Stdio::piped())
                .stdout(Stdio::null())
                .stderr(Stdio::null())
                .spawn()
        });
        let mut process = started.ok();
        let pipe = process.as_mut().and_then(|guard| guard.stdin.take());
        Arc::new(Self { pipe: Mutex::new(pipe), process })
    }

    fn send(&self, line: &str) {
        let mut pipe = self.pipe.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(stdin) = pipe.as_mut()
            && writeln!(stdin, "{line}").is_err()
        {
            *pipe = None;
        }
    }
}

/// Ends the guard and reaps it: in a container without an init process it would stay a zombie.
impl Drop for Guard {
    fn drop(&mut self) {
        drop(self.pipe.lock().unwrap_or_else(PoisonError::into_inner).take());
        let Some(process) = &mut self.process else { return };
        let deadline = Instant::now() + EXIT_TIMEOUT;
        while matches!(process.try_wait(), Ok(None)) && Instant::now() < deadline {
            std::thread::yield_now();
        }
    }
}

impl GroupWatcher for Guard {
    fn started(&self, group: u32) {
        self.send(&format!("+{group}"));
    }

    fn ended(&self, group: u32) {
        self.send(&format!("-{group}"));
    }
}

/// Runs the guard: reads until the pipe closes, then kills the remaining groups.
pub(crate) fn watch() {
    let mut groups = BTreeSet::new();
    for line in std::io::stdin().lock().lines() {
        let Ok(line) = line else { break };
        match line.split_at_checked(1).map(|(sign, group)| (sign, group.parse::<i32>())) {
            Some(("+", Ok(group))) => groups.insert(group),
            Some(("-", Ok(group))) => groups.remove(&group),
            _ => false,
        };
    }
    for group in groups.into_iter().filter_map(Pid::from_raw) {
        // An error means that the group has ended.
        let _ = kill_process_group(group, Signal::KILL);
    }
}
