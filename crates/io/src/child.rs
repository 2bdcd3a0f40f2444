//! A child process in its own process group, from spawn to the exit of its last descendant.
//!
//! The group is killed whenever the leader ends, even after a clean exit, because processes that it left behind have no
//! owner. That happens before the leader is reaped: until then its id cannot be reused.

mod descriptors;
mod exit;
mod launch;
mod spawner;
mod spec;
#[cfg(target_os = "linux")]
mod start;
mod stderr;

use std::fs::File;
use std::io;
use std::os::fd::AsFd;
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use rustix::process::{Pid, Signal, test_kill_process_group};
use tokio::net::unix::pipe;
use tokio::task::JoinSet;

pub use descriptors::close_descriptors_on_exec;
pub use exit::Exit;
use exit::ExitWatch;
use launch::Launch;
use spawner::Leader;
pub use spec::{ChildSpec, Grace, GroupWatcher, SpawnError};
pub use stderr::{LastLines, LineObserver};

/// Time from closing stdin to SIGTERM if the process is known not to end by itself. One that does after all needs less.
const HURRIED_AFTER_EOF: Duration = Duration::from_millis(200);
/// How long to wait for a killed process to exit.
const KILL_TIMEOUT: Duration = Duration::from_secs(5);
/// Capacity of a pipe. Four times the default, and far below the limit per user even with many servers.
#[cfg(target_os = "linux")]
const PIPE_BYTES: usize = 256 * 1024;
/// How long to wait for the killed rest of a group to exit.
const GROUP_EXIT_TIMEOUT: Duration = Duration::from_millis(300);
/// How long to wait for the rest of stderr after the process has ended.
const STDERR_TIMEOUT: Duration = Duration::from_millis(500);

/// A running child process. Dropping it kills its whole group, because that drops its leader.
#[derive(Debug)]
pub struct Child {
    pid: Pid,
    /// `Some` until the leader has been reaped.
    leader: Mutex<Option<Leader>>,
    watch: ExitWatch,
    exit: OnceLock<Exit>,
    stderr: LastLines,
    _drain: JoinSet<()>,
}

/// The pipes of a new child.
#[derive(Debug)]
pub struct Pipes {
    /// Writes to the child.
    pub stdin: pipe::Sender,
    /// Reads from the child.
    pub stdout: pipe::Receiver,
}

impl Child {
    /// Starts a process with piped stdin and stdout. Its stderr is read into a bounded buffer.
    pub async fn spawn(spec: &ChildSpec) -> Result<(Self, Pipes), SpawnError> {
        let failed = |error| SpawnError::new(spec, error);
        spec.check_directory()?;
        let (launch, ends) = Launch::piped(spec).map_err(failed)?;
        let leader = spawner::spawn(launch, spec.watcher.clone()).await.map_err(failed)?;
        // On an error, for example without file descriptors left, dropping the leader kills the process.
        let piped = || {
            widen(&ends.stdin);
            widen(&ends.stdout);
            let pipes = Pipes {
                stdin: pipe::Sender::from_owned_fd(ends.stdin)?,
                stdout: pipe::Receiver::from_owned_fd(ends.stdout)?,
            };
            Ok((Self::adopt(leader, Some(pipe::Receiver::from_owned_fd(ends.stderr)?))?, pipes))
        };
        piped().map_err(failed)
    }

    /// Starts a process without input whose stdout and stderr go to a file.
    pub async fn spawn_logged(spec: &ChildSpec, log: File) -> Result<Self, SpawnError> {
        let failed = |error| SpawnError::new(spec, error);
        spec.check_directory()?;
        let launch = Launch::logged(spec, log).map_err(failed)?;
        let leader = spawner::spawn(launch, spec.watcher.clone()).await.map_err(failed)?;
        Self::adopt(leader, None).map_err(failed)
    }

    fn adopt(leader: Leader, source: Option<pipe::Receiver>) -> io::Result<Self> {
        let pid = leader.pid;
        let watch = ExitWatch::new(pid)?;
        let stderr = LastLines::default();
        let mut drain = JoinSet::new();
        match source {
            Some(source) => drop(drain.spawn(stderr.clone().drain(source))),
            None => stderr.mark_finished(),
        }
        let leader = Mutex::new(Some(leader));
        Ok(Self { pid, leader, watch, exit: OnceLock::new(), stderr, _drain: drain })
    }

    /// Returns the process id, which is also the id of the group.
    pub fn id(&self) -> u32 {
        spawner::number(self.pid)
    }

    /// Returns the last lines of stderr.
    pub fn stderr(&self) -> &LastLines {
        &self.stderr
    }

    /// Returns how the process ended, if it has.
    pub fn exit(&self) -> Option<Exit> {
        self.exit.get().copied()
    }

    /// Waits until the process has ended, kills its group and reads the rest of stderr. Cancel safe and repeatable.
    pub async fn exited(&self) -> Exit {
        if self.exit.get().is_none() {
            self.watch.ended().await;
            self.sweep_and_reap();
            self.group_gone().await;
            self.stderr.finished(STDERR_TIMEOUT).await;
        }
        self.exit.get().copied().unwrap_or(Exit::Unknown)
    }

    /// Stops the process, whose stdin the caller has closed: waits, then sends SIGTERM, then SIGKILL.
    pub async fn stop(&self, grace: Grace) -> Exit {
        self.stop_hurried(grace, std::future::pending()).await
    }

    /// Like [`Child::stop`], but does not wait long for the process to end by itself once `hurried` has completed.
    pub async fn stop_hurried(&self, grace: Grace, hurried: impl Future<Output = ()>) -> Exit {
        let hurried = async {
            hurried.await;
            tokio::time::sleep(HURRIED_AFTER_EOF).await;
        };
        tokio::select! {
            biased;
            exit = self.exited() => return exit,
            () = tokio::time::sleep(grace.after_eof) => {}
            () = hurried => {}
        }
        self.signal(Signal::TERM);
        if let Ok(exit) = tokio::time::timeout(grace.after_term, self.exited()).await {
            return exit;
        }
        self.signal(Signal::KILL);
        tokio::time::timeout(KILL_TIMEOUT, self.exited()).await.unwrap_or_else(|_| {
            tracing::warn!(pid = self.id(), "killed process has not ended");
            Exit::Unknown
        })
    }

    /// Kills the whole group without waiting; the leader is reaped in the background.
    pub fn kill(&self) {
        drop(self.leader().take());
    }

    fn signal(&self, signal: Signal) {
        // The id is certain to be that of the group only until the leader is reaped.
        if let Some(leader) = &*self.leader() {
            leader.signal(signal);
        }
    }

    fn sweep_and_reap(&self) {
        if let Some(leader) = self.leader().take() {
            // Only one caller takes the leader, so this is set once.
            let _ = self.exit.set(leader.sweep());
        }
    }

    /// Waits until all killed processes of the group have exited.
    async fn group_gone(&self) {
        let gone = async {
            let mut pause = tokio::time::interval(Duration::from_millis(1));
            while test_kill_process_group(self.pid).is_ok() {
                pause.tick().await;
            }
        };
        // Without a process that reaps orphans they stay in the group as zombies, so the wait is limited.
        let _ = tokio::time::timeout(GROUP_EXIT_TIMEOUT, gone).await;
    }

    fn leader(&self) -> MutexGuard<'_, Option<Leader>> {
        self.leader.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Increases the capacity of a pipe, so that a large message needs fewer context switches. If the system refuses, the pipe
/// keeps its default capacity.
#[cfg(target_os = "linux")]
fn widen(pipe: &impl AsFd) {
    let _ = rustix::pipe::fcntl_setpipe_size(pipe, PIPE_BYTES);
}

#[cfg(not(target_os = "linux"))]
fn widen(_pipe: &impl AsFd) {}
