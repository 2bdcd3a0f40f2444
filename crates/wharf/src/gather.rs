//! Many sessions at once, for hosts that want the tools of a few servers and nothing more.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use futures_util::future::join_all;
use wharf_client::{CallError, ConnectError, Session};
use wharf_protocol::{ServerName, Tool};

/// How long one server may take to describe its tools.
pub const SERVER_LIMIT: Duration = Duration::from_secs(30);
/// How long all of them may take together.
pub const OVERALL_LIMIT: Duration = Duration::from_secs(45);

/// Sessions that are closed together, the last one opened first.
#[derive(Clone, Default)]
pub struct SessionStack(Vec<Session>);

/// One tool, with the server it lives on and the session to call it through.
#[derive(Clone)]
pub struct Gathered {
    /// The server.
    pub server: ServerName,
    /// Its session.
    pub session: Session,
    /// The tool.
    pub tool: Arc<Tool>,
}

/// Why tools could not be described.
#[derive(Debug, thiserror::Error)]
pub enum DescribeError {
    /// A server failed.
    #[error(transparent)]
    Server(#[from] Box<CallError>),
    /// A server took too long.
    #[error("{server}: its tools were not listed within {} s", limit.as_secs())]
    ServerTimeout {
        /// The server.
        server: ServerName,
        /// Its limit.
        limit: Duration,
    },
    /// All together took too long.
    #[error("the tools of all servers were not listed within {} s; still waiting for {}", limit.as_secs(), names(waiting))]
    Timeout {
        /// The limit.
        limit: Duration,
        /// The servers that had not answered.
        waiting: Vec<ServerName>,
    },
}

fn names(servers: &[ServerName]) -> String {
    servers.iter().map(ServerName::as_str).collect::<Vec<_>>().join(", ")
}

impl SessionStack {
    /// Connects a session and, once it is connected, takes over closing it.
    pub async fn connect(&mut self, session: Session) -> Result<Session, ConnectError> {
        session.connect().await?;
        self.0.push(session.clone());
        Ok(session)
    }

    /// Closes all sessions, the last one connected first.
    pub async fn close(&mut self) {
        while let Some(session) = self.0.pop() {
            session.close().await;
        }
    }
}

/// Connects all sessions at the same time. What did not work is told by name and takes nobody else down.
pub async fn connect_all(
    stack: &mut SessionStack,
    sessions: impl IntoIterator<Item = Session>,
) -> (BTreeMap<ServerName, Session>, Vec<ConnectError>) {
    let connecting = sessions.into_iter().map(async |session| session.connect().await.map(|_| session));
    let (mut connected, mut failed) = (BTreeMap::new(), Vec::new());
    for result in join_all(connecting).await {
        match result {
            Ok(session) => {
                stack.0.push(session.clone());
                connected.insert(session.name().clone(), session);
            }
            Err(error) => failed.push(error),
        }
    }
    (connected, failed)
}

/// The tools of all sessions, listed at the same time, in the order of the servers' names.
pub async fn all_tools(sessions: &BTreeMap<ServerName, Session>) -> Result<Vec<Gathered>, CallError> {
    let listing = sessions.iter().map(async |(server, session)| {
        let listed = session.list_tools().await?;
        let gathered = |tool| Gathered { server: server.clone(), session: session.clone(), tool };
        Ok::<_, CallError>(listed.items.into_iter().map(gathered).collect::<Vec<_>>())
    });
    let mut all = Vec::new();
    for tools in join_all(listing).await {
        all.extend(tools?);
    }
    Ok(all)
}

/// Names and descriptions of the tools of `sessions`, only those in `filter` if there is one.
///
/// Each server has [`SERVER_LIMIT`]; all together have `overall`. The sessions are closed afterwards.
pub async fn tool_descriptions(
    sessions: Vec<Session>,
    filter: Option<&BTreeSet<String>>,
    overall: Option<Duration>,
) -> Result<BTreeMap<String, String>, DescribeError> {
    let waiting = Mutex::new(sessions.iter().map(|session| session.name().clone()).collect::<BTreeSet<_>>());
    let listing = join_all(sessions.iter().map(async |session| {
        let listed = tokio::time::timeout(SERVER_LIMIT, session.list_tools()).await;
        waiting.lock().unwrap_or_else(PoisonError::into_inner).remove(session.name());
        let late = |_| DescribeError::ServerTimeout { server: session.name().clone(), limit: SERVER_LIMIT };
        listed.map_err(late)?.map_err(|error| DescribeError::Server(Box::new(error)))
    }));
    let limit = overall.unwrap_or(Duration::MAX);
    let listed = tokio::time::timeout(limit, listing).await;
    let waiting = waiting.into_inner().unwrap_or_else(PoisonError::into_inner).into_iter().collect();
    let timeout = DescribeError::Timeout { limit, waiting };
    join_all(sessions.iter().map(Session::close)).await;
    let mut described = BTreeMap::new();
    for listed in listed.map_err(|_| timeout)? {
        for tool in listed?.items {
            if filter.is_none_or(|filter| filter.contains(&*tool.name)) {
                described.insert(tool.name.to_string(), tool.description_or_default());
            }
        }
    }
    Ok(described)
}

/// Replaces the descriptions of the tools that `overrides` names; the others stay as they are.
pub fn override_descriptions(tools: &mut [Arc<Tool>], overrides: &BTreeMap<String, String>) {
    for tool in tools {
        if let Some(description) = overrides.get(&*tool.name) {
            Arc::make_mut(tool).description = Some(description.as_str().into());
        }
    }
}
