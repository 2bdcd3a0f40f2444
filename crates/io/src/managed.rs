//! A local server that is reached over the network: started, waited for until it listens, and stopped.

use std::fs::{DirBuilder, File, OpenOptions, Permissions};
use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::fs::OFlags;
use tokio::net::TcpStream;

use crate::{Child, ChildSpec, Exit, Grace, SpawnError};

/// What to start and where it will listen.
#[derive(Clone, Debug)]
pub struct ManagedSpec {
    /// What it is called in errors.
    pub name: String,
    /// The process.
    pub child: ChildSpec,
    /// Where it listens.
    pub host: IpAddr,
    /// The port it listens on.
    pub port: u16,
    /// The path of its endpoint.
    pub path: String,
    /// Where its output goes.
    pub log_path: PathBuf,
    /// How long it may take to listen.
    pub startup_timeout: Duration,
    /// How long it may take to end after SIGTERM.
    pub shutdown_timeout: Duration,
    /// How often it is tried.
    pub poll: Duration,
}

/// Why a managed server is not there.
#[derive(Debug, thiserror::Error)]
pub enum ManageError {
    /// It could not be started.
    #[error("{name}: {source}")]
    Spawn {
        /// The server.
        name: String,
        /// Why.
        source: SpawnError,
    },
    /// Its log could not be written.
    #[error("{name}: the log {} cannot be written: {source}", log_path.display())]
    Log {
        /// The server.
        name: String,
        /// The log.
        log_path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// Somebody else listens there already.
    #[error("{name}: somebody listens on {address} already")]
    Taken {
        /// The server.
        name: String,
        /// Where.
        address: SocketAddr,
    },
    /// It ended before it listened.
    #[error("{name}: the server {exit} before it listened on {address}; its output is in {}", log_path.display())]
    Ended {
        /// The server.
        name: String,
        /// How.
        exit: Exit,
        /// Where it should have listened.
        address: SocketAddr,
        /// The log.
        log_path: PathBuf,
    },
    /// It did not listen in time.
    #[error("{name}: the server did not listen on {address} within {} s; its output is in {}", limit.as_secs(), log_path.display())]
    Timeout {
        /// The server.
        name: String,
        /// Where it should have listened.
        address: SocketAddr,
        /// How long was waited.
        limit: Duration,
        /// The log.
        log_path: PathBuf,
    },
}

/// A server that listens. Dropping it kills its group.
#[derive(Debug)]
pub struct Managed {
    child: Child,
    spec: ManagedSpec,
}

impl ManagedSpec {
    /// A server on the loopback interface at port 8000, with the usual patience.
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
        let (name, address, log_path) = (spec.name.clone(), spec.address(), spec.log_path.clone());
        if answers(address).await {
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

    /// Where clients reach it.
    pub fn url(&self) -> String {
        format!("http://{}{}", self.spec.address(), self.spec.path)
    }

    /// Completes when the server has ended by itself.
    pub async fn exited(&self) -> Exit {
        self.child.exited().await
    }

    /// Ends the server: SIGTERM to its group, and SIGKILL when that takes too long.
    pub async fn stop(self) -> Exit {
        let grace = Grace { after_eof: Duration::ZERO, after_term: self.spec.shutdown_timeout };
        self.child.stop(grace).await
    }
}

/// A log that only its owner reads: what a server says may be secret. A link is not followed, so that nobody has another
/// file written over.
fn open_log(log_path: &Path) -> io::Result<File> {
    if let Some(folder) = log_path.parent() {
        DirBuilder::new().recursive(true).mode(0o700).create(folder)?;
    }
    let no_follow = OFlags::NOFOLLOW.bits().cast_signed();
    let log = OpenOptions::new().write(true).create(true).mode(0o600).custom_flags(no_follow).open(log_path)?;
    if log.metadata()?.is_file() {
        log.set_permissions(Permissions::from_mode(0o600))?;
        log.set_len(0)?;
    }
    Ok(log)
}

/// Ends several servers, the last one started first.
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
        if answers(address).await {
            return;
        }
    }
}

/// Whether somebody accepts connections there, and does so soon.
async fn answers(address: SocketAddr) -> bool {
    let connected = tokio::time::timeout(Duration::from_secs(1), TcpStream::connect(address)).await;
    matches!(connected, Ok(Ok(_)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_log_is_for_its_owner_and_never_behind_a_link() {
        let folder = tempfile::tempdir().expect("a folder");
        let log = folder.path().join("cache/logs/x.log");
        open_log(&log).expect("a log in a folder that was not there");
        let mode = |path: &Path| path.metadata().expect("it is there").permissions().mode() & 0o777;
        assert_eq!((mode(&log), mode(log.parent().expect("a folder"))), (0o600, 0o700));
        let (theirs, link) = (folder.path().join("theirs"), folder.path().join("link.log"));
        std::fs::write(&theirs, "precious").expect("a file");
        std::os::unix::fs::symlink(&theirs, &link).expect("a link");
        assert!(open_log(&link).is_err());
        assert_eq!(std::fs::read_to_string(&theirs).expect("it is there"), "precious");
    }
}
