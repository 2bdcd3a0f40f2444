//! The guard: a second process that ends our children's groups when we can no longer do it ourselves.
//!
//! We hold one end of a pipe and write to it which groups there are. When we die, however suddenly, the pipe closes; the
//! guard, which sits in a process group of its own, then kills every group that is left.

use std::collections::BTreeSet;
use std::io::{BufRead as _, Write as _};
use std::os::unix::process::CommandExt as _;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process_group};
use tokio::time::Instant;
use wharf::GroupWatcher;

/// What this program is started with to be a guard.
pub(crate) const COMMAND: &str = "__guard";
/// How long a guard may take to see that it is no longer needed.
const FAREWELL: Duration = Duration::from_millis(500);

/// Our end of the pipe. Without a guard, groups still die with us in every way but SIGKILL.
pub(crate) struct Guard {
    pipe: Mutex<Option<ChildStdin>>,
    process: Option<Child>,
}

impl Guard {
    /// The guard of this program; the first who needs one starts it.
    pub(crate) fn start() -> Arc<Self> {
        static CURRENT: Mutex<Weak<Guard>> = Mutex::new(Weak::new());
        let mut current = CURRENT.lock().unwrap_or_else(PoisonError::into_inner);
        current.upgrade().unwrap_or_else(|| {
            let guard = Self::spawn();
            *current = Arc::downgrade(&guard);
            guard
        })
    }

    /// Starts this very program, with a hidden command.
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

    fn tell(&self, line: &str) {
        let mut pipe = self.pipe.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(stdin) = pipe.as_mut()
            && writeln!(stdin, "{line}").is_err()
        {
            *pipe = None;
        }
    }
}

/// A guard that is no longer needed ends, and is reaped: where nobody reaps orphans it would stay a zombie.
impl Drop for Guard {
    fn drop(&mut self) {
        drop(self.pipe.lock().unwrap_or_else(PoisonError::into_inner).take());
        let Some(process) = &mut self.process else { return };
        let deadline = Instant::now() + FAREWELL;
        while matches!(process.try_wait(), Ok(None)) && Instant::now() < deadline {
            std::thread::yield_now();
        }
    }
}

impl GroupWatcher for Guard {
    fn started(&self, group: u32) {
        self.tell(&format!("+{group}"));
    }

    fn ended(&self, group: u32) {
        self.tell(&format!("-{group}"));
    }
}

/// The body of the guard: listens until the pipe closes, then kills what is left.
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
        // An error means that the group is gone already.
        let _ = kill_process_group(group, Signal::KILL);
    }
}
