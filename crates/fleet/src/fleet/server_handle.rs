//! One server of the fleet as everything but its connection task sees it: session, status and the last tool list.
//!
//! The connection task writes here, and all others read without waiting for it. The tools of a catalog call through this
//! handle, so a call notices if the server has changed or gone since the catalog was built.

use std::sync::Arc;
use std::time::Duration;

use arc_swap::ArcSwapOption;
use tokio::sync::{mpsc, oneshot, watch};
use tokio::time::Instant;
use wharf_auth::TokenProvider;
use wharf_client::{CallError, CallErrorKind, ConnectErrorKind, Evidence, Session};
use wharf_protocol::Tool;

use super::known_tools::KnownTools;
use super::list_invalidation::ListInvalidation;
use super::server_log::ServerLog;
use super::status::{ServerState, ServerStatus, StateReason};
use crate::catalog::{AbsentServer, Prospect, StrictestHints, ToolFreshness};
use wharf_config::{Server, Settings};

/// The capacity of the command channel. Commands are rare, and each is handled at once.
const COMMAND_CAPACITY: usize = 16;
/// How long a call waits for a connecting server, beyond the connect timeout.
const SETTLE_TIMEOUT: Duration = Duration::from_secs(5);
/// A call waits for a connection attempt that starts within this time.
const IMMINENT_ATTEMPT: Duration = Duration::from_millis(100);

/// A command to a connection task.
#[derive(Debug)]
pub(super) enum ConnectionCommand {
    /// Connect, if disabled.
    Enable,
    /// Disconnect, and signal when the server is gone. The text is the reason.
    Disable(String, oneshot::Sender<()>),
    /// Disconnect until the server is used again, and signal when it is gone.
    Disconnect(oneshot::Sender<()>),
    /// Disconnect for good, and signal when the server is gone.
    Stop(oneshot::Sender<()>),
    /// Stop waiting and connect now.
    Retry,
    /// A call could not reach the server: check whether it is reachable.
    Check,
}

pub(super) struct ServerHandle {
    pub(super) server: Arc<Server>,
    pub(super) settings: Arc<Settings>,
    pub(super) session: Session,
    /// The source of access tokens, if the server uses OAuth.
    pub(super) token_provider: Option<Arc<dyn TokenProvider>>,
    pub(super) status: watch::Sender<ServerStatus>,
    pub(super) commands: mpsc::Sender<ConnectionCommand>,
    pub(super) invalidation: Arc<ListInvalidation>,
    pub(super) known: ArcSwapOption<KnownTools>,
    /// The full names of the tools of the last list, also while the server is not connected.
    last_offered: ArcSwapOption<Arc<[Arc<str>]>>,
    /// Why the last connection was lost or the last attempt failed, until the next one succeeds.
    last_error: ArcSwapOption<CallError>,
    pub(super) hints: StrictestHints,
    pub(super) connect_timeout: Duration,
    /// The total timeout of calls that have none of their own.
    pub(super) total_timeout: Option<Duration>,
    /// Whether calls connect it, also after a failure.
    is_on_demand: bool,
    /// Counts the changes of the whole fleet.
    pub(super) changed: watch::Sender<u64>,
    log: Option<Arc<dyn ServerLog>>,
}

pub(super) struct ServerHandleParts {
    pub(super) server: Arc<Server>,
    pub(super) session: Session,
    pub(super) token_provider: Option<Arc<dyn TokenProvider>>,
    pub(super) invalidation: Arc<ListInvalidation>,
    pub(super) connect_timeout: Duration,
    pub(super) total_timeout: Option<Duration>,
    pub(super) is_on_demand: bool,
    pub(super) changed: watch::Sender<u64>,
    pub(super) log: Option<Arc<dyn ServerLog>>,
}

impl ServerHandle {
    pub(super) fn new(parts: ServerHandleParts) -> (Arc<Self>, mpsc::Receiver<ConnectionCommand>) {
        let ServerHandleParts { server, session, token_provider, invalidation, .. } = parts;
        let (commands, receiver) = mpsc::channel(COMMAND_CAPACITY);
        let status = ServerStatus {
            name: server.name.clone(),
            scope: server.scope,
            transport: server.transport.kind(),
            required: server.settings.required,
            state: ServerState::Pending,
            reason: Some(StateReason::Queued),
            since: Instant::now(),
            failures: 0,
            next_try: None,
            tools: 0,
            info: None,
            stale: None,
            settled: false,
        };
        let handle = Self {
            settings: Arc::new(server.settings.clone()),
            server,
            session,
            token_provider,
            status: watch::Sender::new(status),
            commands,
            invalidation,
            known: ArcSwapOption::empty(),
            last_offered: ArcSwapOption::empty(),
            last_error: ArcSwapOption::empty(),
            hints: StrictestHints::default(),
            connect_timeout: parts.connect_timeout,
            total_timeout: parts.total_timeout,
            is_on_demand: parts.is_on_demand,
            changed: parts.changed,
            log: parts.log,
        };
        (Arc::new(handle), receiver)
    }

    /// Changes and publishes the status. A new state sets the time of its beginning.
    pub(super) fn publish(&self, change: impl FnOnce(&mut ServerStatus)) {
        self.status.send_modify(|status| {
            let before = status.state;
            let logged = self.log.as_ref().map(|log| (log, status.reason.clone()));
            change(status);
            if status.state != before {
                status.since = Instant::now();
            }
            if let Some((log, reason)) = logged
                && (status.state != before || !is_same_reason(reason.as_ref(), status.reason.as_ref()))
            {
                log.state_changed(status);
            }
        });
        self.changed.send_modify(|count| *count += 1);
    }

    pub(super) fn known(&self) -> Option<Arc<KnownTools>> {
        self.known.load_full()
    }

    /// Forgets the tool list. No tool can be called until the next list.
    pub(super) fn clear_tools(&self) {
        self.replace_known(None);
    }

    /// Replaces the tool list.
    pub(super) fn replace_known(&self, known: Option<Arc<KnownTools>>) {
        if let Some(before) = self.known.swap(known) {
            before.retire();
        }
    }

    /// Remembers which tools were offered, for calls of them while the server is not connected.
    pub(super) fn set_offered(&self, names: Arc<[Arc<str>]>) {
        self.last_offered.store(Some(Arc::new(names)));
    }

    /// Remembers why the server is not connected, or forgets it.
    pub(super) fn set_last_error(&self, error: Option<Arc<CallError>>) {
        self.last_error.store(error);
    }

    /// Returns the server as one that is not connected; `None` if it is disabled and was never used, or connects on
    /// demand.
    pub(super) fn absent(&self) -> Option<AbsentServer> {
        let status = self.status.borrow();
        let offered = self.last_offered.load_full();
        let is_unused = status.state == ServerState::Disabled && offered.is_none();
        if is_unused || matches!(status.reason, Some(StateReason::OnDemand)) {
            return None;
        }
        let is_connecting = matches!(status.reason, Some(StateReason::Connecting | StateReason::Queued));
        let prospect = match status.state {
            ServerState::NeedsAuth => Prospect::NeedsSignIn,
            _ if is_connecting && offered.is_none() && status.failures == 0 => Prospect::Connecting,
            _ if is_connecting || status.next_try.is_some() => Prospect::Reconnecting,
            _ => Prospect::Down,
        };
        // An attempt to reconnect does not hide why the connection was lost.
        let last_error = if is_connecting { self.last_error.load_full() } else { None };
        let reason = || status.reason.as_ref().map_or_else(|| status.state.to_string(), ToString::to_string);
        Some(AbsentServer {
            server: status.name.clone(),
            prospect,
            reason: last_error.map_or_else(reason, |error| StateReason::Error(error).to_string()),
            tools: offered.map(|names| Arc::clone(&*names)).unwrap_or_default(),
        })
    }

    pub(super) fn state(&self) -> ServerState {
        self.status.borrow().state
    }

    /// Waits until the connection task is idle, at most as long as connecting may take. A server that reports changed
    /// tools over and over is waited for once. Returns whether it became idle.
    async fn wait_until_settled(&self) -> bool {
        let mut status = self.status.subscribe();
        let invalidations = self.invalidation.count();
        let lists = self.invalidation.lists();
        let is_busy = |status: &ServerStatus| match (status.state, &status.reason) {
            (ServerState::Connected, _) => {
                self.is_list_invalid() && !self.invalidation.is_covered(invalidations, lists)
            }
            (_, Some(StateReason::Connecting | StateReason::Queued)) => true,
            _ => status.next_try.is_some_and(|next| next <= Instant::now() + IMMINENT_ATTEMPT),
        };
        let limit = self.connect_timeout + SETTLE_TIMEOUT;
        tokio::time::timeout(limit, status.wait_for(|status| !is_busy(status))).await.is_ok()
    }

    /// Whether the tool list has to be fetched again before it may be used.
    pub(super) fn is_list_invalid(&self) -> bool {
        let is_lost = |known: &Arc<KnownTools>| self.invalidation.is_lost(known.epoch);
        self.invalidation.is_invalid() || self.known.load().as_ref().is_some_and(is_lost)
    }

    /// Compares a tool with the server's current list, which may have to be fetched first.
    pub(super) async fn freshness(&self, tool: &Arc<Tool>) -> ToolFreshness {
        // A call is a good reason to make a scheduled attempt now, and the one to connect a server on demand.
        let waits = |status: &ServerStatus| {
            let is_idle = matches!(status.reason, Some(StateReason::OnDemand));
            let has_failed = status.state == ServerState::Failed;
            // A call also reconnects a lost server that is not retried automatically.
            let is_lost = status.error().is_some_and(CallError::needs_reconnect);
            status.next_try.is_some() || is_idle || (has_failed && (self.is_on_demand || is_lost))
        };
        let mut is_settled = true;
        // The connection task may not have noticed the loss before the first wait.
        for _ in 0..2 {
            let is_waiting = waits(&self.status.borrow());
            let is_retried = is_waiting && self.commands.try_send(ConnectionCommand::Retry).is_ok();
            if is_retried {
                let mut status = self.status.subscribe();
                let started = status.wait_for(|status| !waits(status));
                let _ = tokio::time::timeout(SETTLE_TIMEOUT, started).await;
            }
            is_settled = self.wait_until_settled().await;
            if is_retried || !waits(&self.status.borrow()) {
                break;
            }
        }
        match self.known() {
            Some(_) if self.invalidation.has_failed() => ToolFreshness::Unlisted,
            Some(_) if !is_settled && self.is_list_invalid() => ToolFreshness::Unlisted,
            Some(known) => known.compare(tool),
            None if matches!(self.state(), ServerState::Disabled) || self.commands.is_closed() => ToolFreshness::Gone,
            None => ToolFreshness::Unknown,
        }
    }

    /// The error of a call while the server has no tool list.
    pub(super) fn unavailable(&self) -> CallError {
        let status = self.status.borrow();
        let error = status.error();
        if let Some(error @ CallError { kind: CallErrorKind::Connect(_), .. }) = error {
            return error.clone();
        }
        // Whatever failed before, this call was never sent.
        let reason =
            status.reason.as_ref().map_or_else(|| "the connection was just lost".to_owned(), ToString::to_string);
        let kind = ConnectErrorKind::Transport(format!("the server is {}: {reason}", status.state));
        let evidence = error.map_or_else(Evidence::default, |error| error.evidence.clone());
        CallError { server: self.server.name.clone(), kind: CallErrorKind::Connect(kind), evidence }
    }
}

/// Whether two reasons are the same. Each failure is a reason of its own.
fn is_same_reason(before: Option<&StateReason>, now: Option<&StateReason>) -> bool {
    match (before, now) {
        (None, None) => true,
        (Some(StateReason::Error(before)), Some(StateReason::Error(now))) => Arc::ptr_eq(before, now),
        (Some(before), Some(now)) => {
            std::mem::discriminant(before) == std::mem::discriminant(now) && before.to_string() == now.to_string()
        }
        _ => false,
    }
}
