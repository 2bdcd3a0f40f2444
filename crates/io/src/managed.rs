//! A local server that is reached over the network: started, waited for until it listens, and stopped.

use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::time::Duration;

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
        let log = std::fs::File::create(&log_path);
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
