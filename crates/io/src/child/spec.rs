//! What to start, and why that may fail.

use std::ffi::OsString;
use std::fmt;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use crate::environment::Environment;

/// The process to start. No shell is involved; arguments are passed unchanged.
#[derive(Clone)]
pub struct ChildSpec {
    /// The program: a path, or a name to look up in the child's `PATH`.
    pub command: OsString,
    /// The arguments.
    pub args: Vec<OsString>,
    /// The whole environment.
    pub environment: Environment,
    /// The working directory; that of the parent if absent.
    pub cwd: Option<PathBuf>,
    /// Receives the start and the end of the process group.
    pub watcher: Option<Arc<dyn GroupWatcher>>,
}

/// Receives the start and the end of every process group, so that another process can kill the groups if this one is
/// killed with SIGKILL and cannot.
pub trait GroupWatcher: Send + Sync + 'static {
    /// Called when a group has started, before it is used. Must return quickly.
    fn started(&self, group: u32);

    /// Called when all processes of a group have been killed.
    fn ended(&self, group: u32);
}

/// Why a process could not be started, by possible remedy.
#[derive(Debug, thiserror::Error)]
pub enum SpawnError {
    /// The program does not exist.
    #[error("the command `{0}` was not found")]
    NotFound(String),
    /// The program is not executable.
    #[error("the command `{0}` may not be executed")]
    NotExecutable(String),
    /// The working directory does not exist.
    #[error("the working directory `{0}` does not exist")]
    NoDirectory(String),
    /// The system is out of file descriptors, processes or memory.
    #[error("out of system resources for another process: {0}")]
    Exhausted(io::Error),
    /// Any other error.
    #[error("the process could not be started: {0}")]
    Other(io::Error),
}

/// The timeouts of [`Child::stop`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Grace {
    /// Time from closing stdin to SIGTERM.
    pub after_eof: Duration,
    /// Time from SIGTERM to SIGKILL.
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

impl ChildSpec {
    /// Checks the directory, because the system's error does not distinguish it from a missing program.
    pub(super) fn check_directory(&self) -> Result<(), SpawnError> {
        match &self.cwd {
            Some(cwd) if !cwd.is_dir() => Err(SpawnError::NoDirectory(cwd.display().to_string())),
            _ => Ok(()),
        }
    }
}

impl SpawnError {
    pub(super) fn new(spec: &ChildSpec, error: io::Error) -> Self {
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
