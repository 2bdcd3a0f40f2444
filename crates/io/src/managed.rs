//! Managed servers: local HTTP servers that Wharf starts, waits for and stops.

use std::fs::{File, OpenOptions, Permissions};
use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::os::unix::fs::{OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::fs::OFlags;
use tokio::net::TcpStream;

use crate::child::{Child, ChildSpec, Exit, Grace, SpawnError};
use crate::files::create_private_folder;

/// The process of a managed server, and where it listens.
#[derive(Clone, Debug)]
pub struct ManagedSpec {
    /// The name in error messages.
    pub name: String,
    /// The process to start.
    pub child: ChildSpec,
    /// The address that it listens on.
    pub host: IpAddr,
    /// The port that it listens on.
    pub port: u16,
    /// The path of its MCP endpoint.
    pub path: String,
    /// The file for its output.
    pub log_path: PathBuf,
    /// Timeout until it listens.
    pub startup_timeout: Duration,
    /// Timeout after SIGTERM.
    pub shutdown_timeout: Duration,
    /// Interval of connection attempts.
    pub poll: Duration,
}

/// Why a managed server could not start.
#[derive(Debug, thiserror::Error)]
pub enum ManageError {
    /// The process could not be started.
    #[error("{name}: {source}")]
    Spawn {
        /// The name of the server.
        name: String,
        /// The cause.
        source: SpawnError,
    },
    /// The log could not be written.
    #[error("{name}: the log {} cannot be written: {source}", log_path.display())]
    Log {
        /// The name of the server.
        name: String,
        /// The path of the log.
        log_path: PathBuf,
        /// The cause.
        source: io::Error,
    },
    /// Another process already listens on the address.
    #[error("{name}: {address} is already in use")]
    Taken {
        /// The name of the server.
        name: String,
        /// The address in use.
        address: SocketAddr,
    },
    /// The process ended before it listened.
    #[error("{name}: the server {exit} before it listened on {address}; its output is in {}", log_path.display())]
    Ended {
        /// The name of the server.
        name: String,
        /// How the process ended.
        exit: Exit,
        /// Where it should have listened.
        address: SocketAddr,
        /// The path of the log.
        log_path: PathBuf,
    },
    /// The process did not listen in time.
    #[error("{name}: the server did not listen on {address} within {} s; its output is in {}", limit.as_secs(), log_path.display())]
    Timeout {
        /// The name of the server.
        name: String,
        /// Where it should have listened.
        address: SocketAddr,
        /// The timeout.
        limit: Duration,
        /// The path of the log.
        log_path: PathBuf,
    },
}

/// A running server. Dropping it kills its process group.
#[derive(Debug)]
pub struct Managed {
    child: Child,
    spec: ManagedSpec,
}

impl ManagedSpec {
    /// Creates the spec of a server on the loopback interface at port 8000, with default timeouts.
    pub fn new(name: impl Into<String>, child: ChildSpec, log_path: impl Into<PathBuf>) -> Self {
        Self {
            name: name.into(),
            child,
            host: IpAddr::V4(Ipv4Addr::LOCALHOST),
            port: 8000,
            path: "/mcp".to_owned(),
            log_path: log_path.into(),
            startup_timeout: Duration::from_secs(60),
            shutdown_timeout: Duration::from_secs(10),
            poll: Duration::from_millis(100),
        }
    }

    fn address(&self) -> SocketAddr {
        SocketAddr::new(self.host, self.port)
    }
}

impl Managed {
    /// Starts the server and waits until it listens.
    pub async fn start(spec: ManagedSpec) -> Result<Self, ManageError> {
        let name = spec.name.clone();
        let address = spec.address();
        let log_path = spec.log_path.clone();
        if accepts_connections(address).await {
            return Err(ManageError::Taken { name, address });
        }
        let log = open_log(&log_path);
        let log = log.map_err(|source| ManageError::Log { name: name.clone(), log_path: log_path.clone(), source })?;
        let child = Child::spawn_logged(&spec.child, log).await;
        let child = child.map_err(|source| ManageError::Spawn { name: name.clone(), source })?;
        let limit = spec.startup_timeout;
        tokio::select! {
            () = listening(address, spec.poll) => Ok(Self { child, spec }),
            exit = child.exited() => Err(ManageError::Ended { name, exit, address, log_path }),
            () = tokio::time::sleep(limit) => Err(ManageError::Timeout { name, address, limit, log_path }),
        }
    }

    /// Returns the URL of its endpoint.
    pub fn url(&self) -> String {
        format!("http://{}{}", self.spec.address(), self.spec.path)
    }

    /// Waits until the server has exited on its own.
    pub async fn exited(&self) -> Exit {
        self.child.exited().await
    }

    /// Stops the server: SIGTERM to its group, then SIGKILL after the timeout.
    pub async fn stop(self) -> Exit {
        let grace = Grace { after_eof: Duration::ZERO, after_term: self.spec.shutdown_timeout };
        self.child.stop(grace).await
    }
}

/// Opens a log that only its owner can read, because output may contain secrets. Does not follow a symlink, which could
/// overwrite another file.
fn open_log(log_path: &Path) -> io::Result<File> {
    if let Some(folder) = log_path.parent() {
        create_private_folder(folder)?;
    }
    let no_follow = OFlags::NOFOLLOW.bits().cast_signed();
    let log = OpenOptions::new().write(true).create(true).mode(0o600).custom_flags(no_follow).open(log_path)?;
    if log.metadata()?.is_file() {
        log.set_permissions(Permissions::from_mode(0o600))?;
        log.set_len(0)?;
    }
    Ok(log)
}

/// Stops several servers, the last one started first.
pub async fn stop_all(mut servers: Vec<Managed>) -> Vec<(String, Exit)> {
    let mut ended = Vec::new();
    while let Some(server) = servers.pop() {
        ended.push((server.spec.name.clone(), server.stop().await));
    }
    ended
}

async fn listening(address: SocketAddr, poll: Duration) {
    let mut pause = tokio::time::interval(poll.max(Duration::from_millis(1)));
    loop {
        pause.tick().await;
        if accepts_connections(address).await {
            return;
        }
    }
}

/// Returns whether a process accepts connections on the address within a second.
async fn accepts_connections(address: SocketAddr) -> bool {
    let connected = tokio::time::timeout(Duration::from_secs(1), TcpStream::connect(address)).await;
    matches!(connected, Ok(Ok(_)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_log_is_private_and_does_not_follow_symlinks() {
        let folder = tempfile::tempdir().expect("a folder");
        let log = folder.path().join("cache/logs/x.log");
        open_log(&log).expect("a log in a new folder");
        let mode = |path: &Path| path.metadata().expect("it is there").permissions().mode() & 0o777;
        assert_eq!((mode(&log), mode(log.parent().expect("a folder"))), (0o600, 0o700));
        let theirs = folder.path().join("theirs");
        let link = folder.path().join("link.log");
        std::fs::write(&theirs, "precious").expect("a file");
        std::os::unix::fs::symlink(&theirs, &link).expect("a link");
        assert!(open_log(&link).is_err());
        assert_eq!(std::fs::read_to_string(&theirs).expect("it is there"), "precious");
    }
}
