//! One child process in a process group of its own, from spawn to the last of its descendants.
//!
//! The group is swept whenever the leader ends, also after a clean exit, because helpers it left behind are nobody's.
//! The sweep happens before the leader is reaped: until then its id cannot belong to anybody else.

mod exit;
mod launch;
mod spawner;
#[cfg(target_os = "linux")]
mod start;
mod stderr;

use std::ffi::OsString;
use std::fmt;
use std::fs::File;
use std::io;
use std::os::fd::AsFd;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use rustix::process::{Pid, Signal, test_kill_process_group};
use tokio::net::unix::pipe;
use tokio::task::JoinSet;

use crate::Environment;
pub use exit::Exit;
use exit::ExitWatch;
use launch::Launch;
use spawner::Leader;
pub use stderr::LastLines;

/// How long a killed process may take to disappear before we stop waiting for it.
const KILLED: Duration = Duration::from_secs(5);
/// How much a pipe holds. Four times the usual, and far from what one user may have in all with many servers.
#[cfg(target_os = "linux")]
const PIPE: usize = 256 * 1024;
/// How long the killed rest of a group may take to disappear.
const DYING: Duration = Duration::from_millis(300);
/// How long the rest of stderr is waited for once the process has ended.
const LAST_WORDS: Duration = Duration::from_millis(500);

/// What to start. Nothing goes through a shell; arguments arrive as they stand here.
#[derive(Clone)]
pub struct ChildSpec {
    /// The program: a path, or a name looked up in the child's own `PATH`.
    pub command: OsString,
    /// Its arguments.
    pub args: Vec<OsString>,
    /// Its whole environment.
    pub environment: Environment,
    /// Where it runs; our own directory if absent.
    pub cwd: Option<PathBuf>,
    /// Who hears of its group.
    pub watcher: Option<Arc<dyn GroupWatcher>>,
}

/// Hears of every process group that starts and ends, so that somebody outside this process can end what we no longer
/// can: a parent that is killed with SIGKILL sweeps nothing.
pub trait GroupWatcher: Send + Sync + 'static {
    /// A group has started. Called before anybody can use it, and must not take long.
    fn started(&self, group: u32);

    /// A group has been swept.
    fn ended(&self, group: u32);
}

/// Why a process could not be started, sorted by what can be done about it.
#[derive(Debug, thiserror::Error)]
pub enum SpawnError {
    /// The program is not there.
    #[error("the command `{0}` was not found")]
    NotFound(String),
    /// The program may not be run.
    #[error("the command `{0}` may not be executed")]
    NotExecutable(String),
    /// The directory is not there.
    #[error("the working directory `{0}` does not exist")]
    NoDirectory(String),
    /// The system is out of file descriptors, processes or memory.
    #[error("the system has no room for another process: {0}")]
    Exhausted(io::Error),
    /// Anything else.
    #[error("the process could not be started: {0}")]
    Other(io::Error),
}

/// How patient [`Child::stop`] is before each stronger means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Grace {
    /// From the closing of stdin to SIGTERM.
    pub after_eof: Duration,
    /// From SIGTERM to SIGKILL.
    pub after_term: Duration,
}

impl fmt::Debug for ChildSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ChildSpec")
            .field("command", &self.command)
            .field("args", &self.args)
            .field("environment", &self.environment)
            .field("cwd", &self.cwd)
            .finish_non_exhaustive()
    }
}

impl Default for Grace {
    fn default() -> Self {
        Self { after_eof: Duration::from_secs(2), after_term: Duration::from_secs(2) }
    }
}

/// A running child process. Dropping it kills its whole group at once, because that drops its leader.
#[derive(Debug)]
pub struct Child {
    pid: Pid,
    /// Present until the leader has been reaped.
    leader: Mutex<Option<Leader>>,
    watch: ExitWatch,
    exit: OnceLock<Exit>,
    stderr: LastLines,
    _drain: JoinSet<()>,
}

/// The pipes of a new child.
#[derive(Debug)]
pub struct Pipes {
    /// What the child reads.
    pub stdin: pipe::Sender,
    /// What the child writes.
    pub stdout: pipe::Receiver,
}

impl Child {
    /// Starts a process with piped stdin and stdout; its stderr is drained into a bounded ring.
    pub async fn spawn(spec: &ChildSpec) -> Result<(Self, Pipes), SpawnError> {
        let failed = |error| SpawnError::new(spec, error);
        spec.check_directory()?;
        let (launch, ends) = Launch::piped(spec).map_err(failed)?;
        let leader = spawner::spawn(launch, spec.watcher.clone()).await.map_err(failed)?;
        // On an error, for example out of descriptors half-way, dropping the leader kills what was started.
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
        let (pid, watch, stderr) = (leader.pid, ExitWatch::new(leader.pid)?, LastLines::default());
        let mut drain = JoinSet::new();
        match source {
            Some(source) => drop(drain.spawn(stderr.clone().drain(source))),
            None => stderr.nothing_to_drain(),
        }
        let leader = Mutex::new(Some(leader));
        Ok(Self { pid, leader, watch, exit: OnceLock::new(), stderr, _drain: drain })
    }

    /// The process id, which is also the id of the group.
    pub fn id(&self) -> u32 {
        spawner::number(self.pid)
    }

    /// The last lines the process wrote to stderr.
    pub fn stderr(&self) -> &LastLines {
        &self.stderr
    }

    /// How the process ended, if it has.
    pub fn exit(&self) -> Option<Exit> {
        self.exit.get().copied()
    }

    /// Waits until the process has ended, sweeps its group and hears its last words. Safe to drop and to call again.
    pub async fn exited(&self) -> Exit {
        if self.exit.get().is_none() {
            self.watch.ended().await;
            self.sweep_and_reap();
            self.group_gone().await;
            self.stderr.finished(LAST_WORDS).await;
        }
        self.exit.get().copied().unwrap_or(Exit::Unknown)
    }

    /// Ends the process: the caller has closed its stdin; it gets time, then SIGTERM, then SIGKILL.
    pub async fn stop(&self, grace: Grace) -> Exit {
        if let Ok(exit) = tokio::time::timeout(grace.after_eof, self.exited()).await {
            return exit;
        }
        self.signal(Signal::TERM);
        if let Ok(exit) = tokio::time::timeout(grace.after_term, self.exited()).await {
            return exit;
        }
        self.signal(Signal::KILL);
        tokio::time::timeout(KILLED, self.exited()).await.unwrap_or_else(|_| {
            tracing::warn!(pid = self.id(), "a killed process has not ended; the kernel holds it");
            Exit::Unknown
        })
    }

    /// Kills the whole group now, without waiting; the leader is reaped in the background.
    pub fn kill(&self) {
        drop(self.leader().take());
    }

    fn signal(&self, signal: Signal) {
        // Only while the leader is unreaped does the id surely belong to our group.
        if let Some(leader) = &*self.leader() {
            leader.signal(signal);
        }
    }

    fn sweep_and_reap(&self) {
        if let Some(leader) = self.leader().take() {
            // Whoever takes the leader is alone here, so this is set once.
            let _ = self.exit.set(leader.sweep());
        }
    }

    /// Waits until nobody of the group is left. They have been killed, but dying takes them a moment.
    async fn group_gone(&self) {
        let gone = async {
            let mut pause = tokio::time::interval(Duration::from_millis(1));
            while test_kill_process_group(self.pid).is_ok() {
                pause.tick().await;
            }
        };
        // Where nobody reaps orphans they stay in the group as zombies; that is not worth a longer wait.
        let _ = tokio::time::timeout(DYING, gone).await;
    }

    fn leader(&self) -> MutexGuard<'_, Option<Leader>> {
        self.leader.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl ChildSpec {
    /// The system's own error would not tell a missing directory from a missing program.
    fn check_directory(&self) -> Result<(), SpawnError> {
        match &self.cwd {
            Some(cwd) if !cwd.is_dir() => Err(SpawnError::NoDirectory(cwd.display().to_string())),
            _ => Ok(()),
        }
    }
}

/// Makes a pipe hold more, so that a large message takes fewer turns between two processes. Where the system refuses,
/// the pipe works as it is.
#[cfg(target_os = "linux")]
fn widen(pipe: &impl AsFd) {
    let _ = rustix::pipe::fcntl_setpipe_size(pipe, PIPE);
}

#[cfg(not(target_os = "linux"))]
fn widen(_pipe: &impl AsFd) {}

impl SpawnError {
    fn new(spec: &ChildSpec, error: io::Error) -> Self {
        let command = || spec.command.to_string_lossy().into_owned();
        match error.raw_os_error().map(rustix::io::Errno::from_raw_os_error) {
            Some(rustix::io::Errno::NOENT) => Self::NotFound(command()),
            Some(rustix::io::Errno::ACCESS | rustix::io::Errno::NOEXEC) => Self::NotExecutable(command()),
            Some(
                rustix::io::Errno::MFILE
                | rustix::io::Errno::NFILE
                | rustix::io::Errno::AGAIN
                | rustix::io::Errno::NOMEM,
            ) => Self::Exhausted(error),
            _ => Self::Other(error),
        }
    }
}
