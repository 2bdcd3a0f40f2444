//! How a process ended, and waiting for its end without reaping it.

use std::fmt;
use std::io;
use std::os::unix::process::ExitStatusExt as _;
use std::process::ExitStatus;

use rustix::process::Pid;
#[cfg(target_os = "linux")]
use tokio::io::unix::AsyncFd;

/// How a process ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exit {
    /// It exited with this status.
    Status(i32),
    /// It was killed by this signal.
    Signal(i32),
    /// It ended in an unknown way, or did not end in time.
    Unknown,
}

impl From<ExitStatus> for Exit {
    fn from(status: ExitStatus) -> Self {
        match (status.code(), status.signal()) {
            (Some(code), _) => Self::Status(code),
            (None, Some(signal)) => Self::Signal(signal),
            (None, None) => Self::Unknown,
        }
    }
}

impl fmt::Display for Exit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Status(code) => write!(f, "exited with status {code}"),
            Self::Signal(signal) => write!(f, "was killed by signal {signal}{}", signal_name(*signal)),
            Self::Unknown => f.write_str("ended in an unknown way"),
        }
    }
}

fn signal_name(signal: i32) -> &'static str {
    match signal {
        1 => " (SIGHUP)",
        2 => " (SIGINT)",
        4 => " (SIGILL)",
        6 => " (SIGABRT)",
        8 => " (SIGFPE)",
        9 => " (SIGKILL, often the system being out of memory)",
        11 => " (SIGSEGV)",
        13 => " (SIGPIPE)",
        15 => " (SIGTERM)",
        _ => "",
    }
}

/// Waits for the end of a process but leaves it a zombie, so that its id is not reused.
#[derive(Debug)]
pub(super) struct ExitWatch {
    #[cfg(target_os = "linux")]
    pidfd: AsyncFd<std::os::fd::OwnedFd>,
    #[cfg(not(target_os = "linux"))]
    pid: Pid,
}

#[cfg(target_os = "linux")]
impl ExitWatch {
    pub(super) fn new(pid: Pid) -> io::Result<Self> {
        use rustix::process::{PidfdFlags, pidfd_open};
        let pidfd = pidfd_open(pid, PidfdFlags::empty())?;
        #[expect(unsafe_code, reason = "the registration owns the descriptor, which never changes")]
        let pidfd = unsafe { AsyncFd::register_with_interest(pidfd, tokio::io::Interest::READABLE)? };
        Ok(Self { pidfd })
    }

    pub(super) async fn ended(&self) {
        // The readiness is never cleared, because a process that has ended stays ended for every waiter.
        let _ = self.pidfd.readable().await;
    }
}

#[cfg(not(target_os = "linux"))]
impl ExitWatch {
    pub(super) fn new(pid: Pid) -> io::Result<Self> {
        Ok(Self { pid })
    }

    pub(super) async fn ended(&self) {
        use rustix::process::{WaitId, WaitIdOptions, waitid};
        let pid = self.pid;
        let wait = move || waitid(WaitId::Pid(pid), WaitIdOptions::EXITED | WaitIdOptions::NOWAIT);
        let _ = tokio::task::spawn_blocking(wait).await;
    }
}
