//! The servers of trials, opened by the host: shared by the trials of a model, or started for each one.

mod offered;
mod read_only;

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::sync::OnceCell;
use wharf_fleet::{Dispatcher, Fleet, FleetTools, ServerState, ServerStatus};
use wharf_protocol::{BoxFuture, ServerName, TraceSink};

use crate::benchmark::Isolation;
use crate::journaled::ServerLifetime;
use crate::servers::ServerSet;
use crate::tool_set::PlannedTools;
pub(crate) use offered::OfferedTools;
pub(crate) use read_only::ReadOnlyTools;

/// How long the servers of a trial may take to open. Each has its own timeouts; this covers the queue before them.
const OPEN_TIMEOUT: Duration = Duration::from_secs(10 * 60);
/// How long the servers of a trial may take to close.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(30);

/// Opens servers and decides about calls. The host implements it.
pub trait Workbench: Send + Sync {
    /// Opens the servers of a set, and returns when each one is connected or has failed. The error says why none of them
    /// can be opened, for example because an entry is invalid.
    fn open<'a>(&'a self, servers: &'a ServerSet) -> BoxFuture<'a, Result<Fleet, String>>;

    /// Returns the dispatcher of one trial, with the policy and the hooks of the user and the enterprise, and with the
    /// given receiver of traces.
    ///
    /// It must not store long outputs for later reading: the names of stored outputs would differ between a run and its
    /// repetition.
    fn dispatcher(&self, trace: Arc<dyn TraceSink>) -> Dispatcher;
}

/// The open servers of a run.
pub(crate) struct ServerPool {
    workbench: Arc<dyn Workbench>,
    shared: Mutex<HashMap<SharedKey, Arc<OnceCell<Fleet>>>>,
}

/// Which trials share servers: those with the same label of the model and the same [`ServerSet::key`].
type SharedKey = (String, String);

/// What a trial needs from its servers.
pub(crate) struct TrialServers<'a> {
    /// Label of the model.
    pub(crate) model: &'a str,
    pub(crate) servers: &'a ServerSet,
    pub(crate) isolation: Isolation,
    /// The tools that the model is offered, as planned.
    pub(crate) planned: &'a PlannedTools,
}

/// The tools of one trial.
pub(crate) struct TrialTools {
    pub(crate) offered: Arc<OfferedTools>,
    /// The servers that were started for this trial.
    own: Option<Fleet>,
}

impl ServerPool {
    pub(crate) fn new(workbench: Arc<dyn Workbench>) -> Self {
        Self { workbench, shared: Mutex::default() }
    }

    /// Opens the tools of a trial. What is missing is a problem of the tools, and ends the trial before its first request.
    pub(crate) async fn open(&self, trial: &TrialServers<'_>, trace: Arc<dyn TraceSink>) -> TrialTools {
        if trial.servers.is_empty() {
            return TrialTools { offered: Arc::new(OfferedTools::planned(trial.planned)), own: None };
        }
        let fleet = match trial.isolation {
            Isolation::Fresh => self.open_fleet(trial.servers).await,
            Isolation::Shared => self.shared_fleet(trial).await,
        };
        let fleet = match fleet {
            Ok(fleet) => fleet,
            Err(reason) => {
                let offered = OfferedTools::planned(trial.planned).with_problem(reason);
                return TrialTools { offered: Arc::new(offered), own: None };
            }
        };
        let problem = missing_server(&fleet, &trial.servers.required).await;
        let dispatcher = Arc::new(self.workbench.dispatcher(trace));
        let source = Arc::new(FleetTools::new(fleet.clone(), dispatcher).without_notices());
        let mut offered = OfferedTools::live(source, trial.planned);
        if let Some(problem) = problem {
            offered = offered.with_problem(problem);
        }
        TrialTools { offered: Arc::new(offered), own: (trial.isolation == Isolation::Fresh).then_some(fleet) }
    }

    async fn shared_fleet(&self, trial: &TrialServers<'_>) -> Result<Fleet, String> {
        let cell = {
            let mut shared = self.shared.lock().unwrap_or_else(PoisonError::into_inner);
            Arc::clone(shared.entry((trial.model.to_owned(), trial.servers.key())).or_default())
        };
        cell.get_or_try_init(|| self.open_fleet(trial.servers)).await.cloned()
    }

    async fn open_fleet(&self, servers: &ServerSet) -> Result<Fleet, String> {
        let opened = tokio::time::timeout(OPEN_TIMEOUT, self.workbench.open(servers)).await;
        opened.unwrap_or_else(|_| Err(format!("the servers did not open within {} s", OPEN_TIMEOUT.as_secs())))
    }

    /// Closes the shared servers.
    pub(crate) async fn close(&self) {
        let shared = std::mem::take(&mut *self.shared.lock().unwrap_or_else(PoisonError::into_inner));
        for cell in shared.into_values() {
            if let Some(fleet) = cell.get() {
                close(fleet).await;
            }
        }
    }
}

impl TrialTools {
    /// Returns the tools of a replay: as planned, without servers.
    pub(crate) fn replayed(planned: &PlannedTools) -> Self {
        Self { offered: Arc::new(OfferedTools::planned(planned)), own: None }
    }

    /// Returns how long its servers live.
    pub(crate) fn lifetime(&self) -> ServerLifetime {
        if self.own.is_some() { ServerLifetime::Trial } else { ServerLifetime::Run }
    }

    /// Closes the servers that were started for the trial.
    pub(crate) async fn close(self) {
        if let Some(fleet) = &self.own {
            close(fleet).await;
        }
    }
}

async fn close(fleet: &Fleet) {
    // Dropping the fleet kills what is left.
    let _ = tokio::time::timeout(CLOSE_TIMEOUT, fleet.close()).await;
}

/// Connects the required servers. Returns the first one that cannot be connected, with the reason.
async fn missing_server(fleet: &Fleet, required: &[ServerName]) -> Option<String> {
    for name in required {
        let status = match fleet.status(name) {
            Some(status) if status.state == ServerState::Connected => continue,
            Some(_) => fleet.connect(name).await.map_err(|error| error.to_string()),
            None => Err("it is not configured".to_owned()),
        };
        let reason = match status {
            Ok(ServerStatus { state: ServerState::Connected, .. }) => continue,
            Ok(ServerStatus { state, reason: None, .. }) => state.to_string(),
            Ok(ServerStatus { state, reason: Some(reason), .. }) => format!("{state}: {reason}"),
            Err(error) => error,
        };
        return Some(format!("the required server `{name}` is not connected: {reason}"));
    }
    None
}
