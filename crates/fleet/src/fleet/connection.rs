//! The connection task of one server, the only one that changes its state.
//!
//! It waits for a free place at its gate, connects, lists the tools, and then watches: for changed tools, for a new session,
//! for a disconnect. The kind of a failure decides whether and when it connects again.

use std::sync::Arc;
use std::time::Duration;

use arc_swap::ArcSwapOption;
use futures_util::FutureExt as _;
use futures_util::future::OptionFuture;
use tokio::sync::{Semaphore, mpsc, watch};
use tokio::time::Instant;
use wharf_auth::{AuthFailure, AuthFailureCache, CachedAuthFailure, TokenProvider};
use wharf_client::{
    AuthRequired, BoxFuture, CallError, CallErrorKind, ConnectErrorKind, Evidence, ServerInfo, Session, SessionStatus,
};
use wharf_io::{ManageError, Managed};
use wharf_protocol::{Fields, Listed, Tool};

use super::executor::set_tools;
use super::host_environment::HostEnvironment;
use super::reconnection::{Reconnection, STABLE};
use super::server_handle::{ConnectionCommand, ServerHandle};
use super::status::{ServerState, StateReason};
use crate::catalog::ServerTools;
use wharf_config::TransportConfig;

/// How many sessions in a row may end while their tools are being listed.
const MAX_LIST_SESSIONS: usize = 3;
/// The delay after a notification of changed tools, because such notifications often arrive in bursts.
const COALESCE_DELAY: Duration = Duration::from_millis(50);
/// Larger lists are prepared where that delays no other server.
const MAX_SMALL_LIST_BYTES: usize = 1 << 20;
/// The minimum interval between lists of a server that keeps reporting changes.
const MIN_LIST_INTERVAL: Duration = Duration::from_secs(1);
/// The delay after the first list that failed; it doubles up to the maximum.
const FIRST_LIST_DELAY: Duration = Duration::from_secs(5);
const MAX_LIST_DELAY: Duration = Duration::from_secs(60);
/// How often a server that needs a sign-in is checked for a new token. The check reads a file.
const SIGN_IN_POLL_INTERVAL: Duration = Duration::from_secs(1);

pub(super) struct Connection {
    pub(super) server: Arc<ServerHandle>,
    /// The catalog entries of the server's tools while it is connected.
    pub(super) tools: Arc<ArcSwapOption<ServerTools>>,
    pub(super) commands: mpsc::Receiver<ConnectionCommand>,
    pub(super) gate: Arc<Semaphore>,
    pub(super) host_environment: Arc<HostEnvironment>,
    pub(super) reconnection: Reconnection,
    /// Failures in a row.
    pub(super) failures: u32,
    /// The process of a managed server.
    pub(super) managed: Option<Managed>,
    /// Whether the next attempt ignores cached authorization failures.
    pub(super) ignore_auth_failure_cache: bool,
}

/// The result of a handshake and of the tool list after it.
type Handshake = (Arc<ServerInfo>, Listed<Tool>);

/// The result of a handshake and of the first list, with the number of invalidations before it.
type FirstList = (Arc<ServerInfo>, Listed<Tool>, u64);

/// The stages of a connection.
pub(super) enum Stage {
    /// Do nothing until a command arrives.
    Rest,
    /// Connect when the gate has a free place.
    Connect,
    /// Watch a connection.
    Watch(Ready),
    /// Wait, and then connect.
    Wait(Instant),
    /// End the task.
    Over,
}

/// A connection whose tools are listed.
pub(super) struct Ready {
    since: Instant,
    info: Arc<ServerInfo>,
    sessions: watch::Receiver<SessionStatus>,
    pending_list: Option<PendingList>,
    /// The earliest time of the next list, however often the server reports changes.
    next_list: Instant,
    /// When to retry a list that failed.
    list_retry: Option<Instant>,
    /// The delay after the next list that fails.
    list_delay: Duration,
}

/// A list request in flight.
struct PendingList {
    response: BoxFuture<'static, Result<Handshake, CallError>>,
    /// The invalidations before the request.
    invalidations: u64,
    /// Whether the request checks that the server is reachable.
    is_check: bool,
}

impl PendingList {
    fn start(server: &Arc<ServerHandle>, is_check: bool) -> Self {
        let session = server.session.clone();
        let invalidations = server.invalidation.count();
        let limit = server.connect_timeout;
        let response = async move {
            if is_check {
                // A cached list says nothing about whether the server is reachable.
                session.clear_cache();
            }
            list(&session, limit).await
        };
        Self { response: Box::pin(response), invalidations, is_check }
    }
}

impl Connection {
    pub(super) async fn run(mut self, first: Stage) {
        let mut stage = first;
        loop {
            stage = match stage {
                Stage::Rest => self.rest().await,
                Stage::Connect => self.connect().await,
                Stage::Watch(ready) => self.watch(ready).await,
                Stage::Wait(until) => self.wait(until).await,
                Stage::Over => return,
            };
        }
    }

    async fn rest(&mut self) -> Stage {
        let needs_auth = self.server.state() == ServerState::NeedsAuth;
        let token_provider = if needs_auth { self.server.token_provider.clone() } else { None };
        loop {
            let command = tokio::select! {
                command = self.commands.recv() => command,
                () = new_token(token_provider.as_deref()) => Some(ConnectionCommand::Retry),
            };
            match command {
                Some(ConnectionCommand::Enable | ConnectionCommand::Retry) => {
                    self.ignore_auth_failure_cache = true;
                    return Stage::Connect;
                }
                Some(ConnectionCommand::Check) => {}
                Some(command) => return self.disconnect(command).await,
                None => return Stage::Over,
            }
        }
    }

    async fn wait(&mut self, until: Instant) -> Stage {
        tokio::select! {
            () = tokio::time::sleep_until(until) => Stage::Connect,
            command = self.commands.recv() => match command {
                Some(ConnectionCommand::Enable | ConnectionCommand::Retry) => Stage::Connect,
                Some(ConnectionCommand::Check) => Stage::Wait(until),
                Some(command) => self.disconnect(command).await,
                None => Stage::Over,
            },
        }
    }

    async fn connect(&mut self) -> Stage {
        self.server.publish(|status| {
            status.state = ServerState::Pending;
            status.reason = Some(StateReason::Queued);
            status.next_try = None;
        });
        let gate = Arc::clone(&self.gate);
        let server = Arc::clone(&self.server);
        let host_environment = Arc::clone(&self.host_environment);
        let managed = self.managed.take();
        let ignore_cache = std::mem::take(&mut self.ignore_auth_failure_cache);
        let mut connecting = Box::pin(async move {
            let permit = gate.acquire().await;
            server.publish(|status| status.reason = Some(StateReason::Connecting));
            let auth_failures = auth_failure_cache(&server, &host_environment).await;
            if let Some((cache, key)) = &auth_failures
                && !ignore_cache
                && let Some(cached) = cache.recall(key).await
            {
                return (managed, Err(cached_auth_error(&server, cached)));
            }
            tracing::debug!(target: "wharf::step", step = "connect", server = server.server.name.as_str());
            let (managed, started) = start(&server, &host_environment, managed).await;
            // The server runs. The rest costs other servers nothing and may take its time.
            drop(permit);
            let handshake = match started {
                Ok(()) => first_list(&server).await,
                Err(error) => Err(error),
            };
            if let Some((cache, key)) = auth_failures {
                match &handshake {
                    Err(CallError { kind: CallErrorKind::Connect(ConnectErrorKind::Auth(required)), .. }) => {
                        cache.note(&key, required.status).await;
                    }
                    Ok(_) if ignore_cache => cache.forget(&key.endpoint).await,
                    _ => {}
                }
            }
            (managed, handshake)
        });
        loop {
            let command = tokio::select! {
                (managed, result) = &mut connecting => {
                    self.managed = managed;
                    return self.connected(result).await;
                }
                command = self.commands.recv() => command,
            };
            match command {
                Some(ConnectionCommand::Enable | ConnectionCommand::Retry | ConnectionCommand::Check) => {}
                Some(command) => {
                    drop(connecting);
                    return self.disconnect(command).await;
                }
                None => return Stage::Over,
            }
        }
    }

    async fn connected(&mut self, result: Result<FirstList, CallError>) -> Stage {
        let (info, listed, invalidations) = match result {
            Ok(first) => first,
            Err(error) => {
                self.failures = self.failures.saturating_add(1);
                return self.failed(error).await;
            }
        };
        let mut sessions = self.server.session.status();
        sessions.mark_unchanged();
        self.publish_tools(&info, listed, invalidations).await;
        let now = Instant::now();
        Stage::Watch(Ready {
            since: now,
            info,
            sessions,
            pending_list: None,
            next_list: now,
            list_retry: None,
            list_delay: FIRST_LIST_DELAY,
        })
    }

    /// Publishes a list that was requested after this number of invalidations.
    async fn publish_tools(&self, info: &Arc<ServerInfo>, listed: Listed<Tool>, invalidations: u64) {
        let bytes: usize = listed.items.iter().map(|tool| tool.raw.as_str().len()).sum();
        let server_tools = if bytes <= MAX_SMALL_LIST_BYTES {
            set_tools(&self.server, info, listed)
        } else {
            let (server, info) = (Arc::clone(&self.server), Arc::clone(info));
            match tokio::task::spawn_blocking(move || set_tools(&server, &info, listed)).await {
                Ok(server_tools) => server_tools,
                Err(error) => match error.try_into_panic() {
                    Ok(panic) => std::panic::resume_unwind(panic),
                    // The runtime ends.
                    Err(_) => return,
                },
            }
        };
        // Not before the new list replaces the old one, whose tools would pass as current until then.
        self.server.invalidation.cover(invalidations);
        let tools = server_tools.entries().len();
        self.server.set_offered(server_tools.entries().iter().map(|entry| Arc::clone(&entry.name)).collect());
        self.tools.store(Some(Arc::new(server_tools)));
        self.server.set_last_error(None);
        self.server.publish(|status| {
            status.state = ServerState::Connected;
            status.reason = None;
            status.failures = 0;
            status.next_try = None;
            status.tools = tools;
            status.info = Some(Arc::clone(info));
            status.stale = None;
            status.settled = true;
        });
    }

    /// Watches a connection until something happens to it.
    async fn watch(&mut self, mut ready: Ready) -> Stage {
        // The session may have been replaced since its handshake.
        if let Some(next) = self.check_session(&mut ready).await {
            return next;
        }
        let idle = ready.pending_list.is_none();
        tokio::select! {
            command = self.commands.recv() => match command {
                Some(ConnectionCommand::Enable | ConnectionCommand::Retry) => {}
                Some(ConnectionCommand::Check) => {
                    // Many calls may request it, and one list answers all of them.
                    match &mut ready.pending_list {
                        Some(pending) => pending.is_check = true,
                        None if self.server.is_list_invalid() => {
                            ready.pending_list = Some(PendingList::start(&self.server, true));
                        }
                        None => {}
                    }
                }
                Some(command) => {
                    drop(ready);
                    return self.disconnect(command).await;
                }
                None => return Stage::Over,
            },
            Ok(()) = ready.sessions.changed() => {}
            Some(exit) = OptionFuture::from(self.managed.as_ref().map(Managed::exited)) => {
                self.managed = None;
                let reason = format!("the process of the server {exit}");
                return self.lost(ready.since, self.error(ConnectErrorKind::Transport(reason))).await;
            }
            () = changed_tools(&self.server, ready.next_list), if idle => {
                ready.next_list = Instant::now() + MIN_LIST_INTERVAL;
                ready.pending_list = Some(PendingList::start(&self.server, false));
            }
            Some(()) = OptionFuture::from(ready.list_retry.map(tokio::time::sleep_until)), if idle => {
                ready.pending_list = Some(PendingList::start(&self.server, false));
            }
            Some(response) = OptionFuture::from(ready.pending_list.as_mut().map(|list| list.response.as_mut())) => {
                return self.listed(ready, response).await;
            }
        }
        Stage::Watch(ready)
    }

    /// Checks the status of the session, and returns the next stage if it is gone.
    async fn check_session(&mut self, ready: &mut Ready) -> Option<Stage> {
        let now = ready.sessions.borrow_and_update().clone();
        match now {
            // A pending list will be that of the current session.
            SessionStatus::Connected(info) if ready.pending_list.is_none() && !Arc::ptr_eq(&info, &ready.info) => {
                // The current list is that of another session, and must be refreshed before it is used.
                ready.info = info;
                self.server.invalidation.invalidate();
                ready.next_list = Instant::now();
                None
            }
            SessionStatus::Failed(error) => Some(self.lost(ready.since, error.into()).await),
            SessionStatus::Closed => {
                let error = self.error(ConnectErrorKind::Closed);
                Some(self.lost(ready.since, error).await)
            }
            SessionStatus::Connected(_) | SessionStatus::Connecting(_) | SessionStatus::Idle => None,
        }
    }

    async fn listed(&mut self, mut ready: Ready, response: Result<Handshake, CallError>) -> Stage {
        let pending = ready.pending_list.take();
        let invalidations = pending.as_ref().map_or(0, |pending| pending.invalidations);
        let is_check = pending.is_some_and(|pending| pending.is_check);
        ready.list_retry = None;
        match response {
            Ok((info, listed)) => {
                ready.info = info;
                ready.list_delay = FIRST_LIST_DELAY;
                self.publish_tools(&ready.info, listed, invalidations).await;
            }
            Err(error) if is_check && is_unreachable(&error) => return self.lost(ready.since, error).await,
            Err(error) => {
                // The old list is still the best one to show, but its tools may be others now.
                tracing::warn!(server = %self.server.server.name, %error, "failed to refresh the tool list");
                ready.list_retry = Some(Instant::now() + ready.list_delay);
                ready.list_delay = (ready.list_delay * 2).min(MAX_LIST_DELAY);
                self.server.invalidation.fail(invalidations);
                self.server.publish(|status| status.stale = Some(Arc::new(error)));
            }
        }
        Stage::Watch(ready)
    }

    /// Handles the end of a connection that was not requested.
    async fn lost(&mut self, since: Instant, error: CallError) -> Stage {
        self.failures = if since.elapsed() >= STABLE { 0 } else { self.failures.saturating_add(1) };
        self.failed(error).await
    }

    async fn failed(&mut self, error: CallError) -> Stage {
        let (state, pause) = self.reconnection.after(self.failures, &error);
        let failures = self.failures;
        tracing::debug!(server = %self.server.server.name, %error, %state, failures, ?pause, "a server failed");
        // A partial connection stays: the next attempt continues from there.
        self.clear_tools();
        self.server.invalidation.cover(self.server.invalidation.count());
        let next = pause.map(|pause| Instant::now() + pause);
        let error = Arc::new(error);
        self.server.set_last_error(Some(Arc::clone(&error)));
        self.server.publish(|status| {
            status.state = state;
            status.reason = Some(StateReason::Error(error));
            status.failures = failures;
            status.next_try = next;
            status.tools = 0;
            status.info = None;
            status.stale = None;
            status.settled = true;
        });
        if let Some(until) = next {
            return Stage::Wait(until);
        }
        self.close().await;
        Stage::Rest
    }

    /// Executes a command that ends the connection.
    async fn disconnect(&mut self, command: ConnectionCommand) -> Stage {
        self.clear_tools();
        self.server.set_last_error(None);
        self.failures = 0;
        let disabled = |text| (ServerState::Disabled, StateReason::SwitchedOff(text));
        let ((state, reason), done, next) = match command {
            ConnectionCommand::Disable(text, done) => (disabled(text), done, Stage::Rest),
            ConnectionCommand::Stop(done) => ((ServerState::Disabled, StateReason::Closed), done, Stage::Over),
            ConnectionCommand::Disconnect(done) => ((ServerState::Pending, StateReason::OnDemand), done, Stage::Rest),
            ConnectionCommand::Enable | ConnectionCommand::Retry | ConnectionCommand::Check => return Stage::Connect,
        };
        self.server.publish(|status| {
            status.state = state;
            status.reason = Some(reason);
            status.failures = 0;
            status.next_try = None;
            status.tools = 0;
            status.info = None;
            status.stale = None;
            status.settled = true;
        });
        self.close().await;
        // The caller may have stopped waiting.
        let _ = done.send(());
        next
    }

    fn clear_tools(&self) {
        self.tools.store(None);
        self.server.clear_tools();
    }

    async fn close(&mut self) {
        self.server.session.close().await;
        if let Some(managed) = self.managed.take() {
            managed.stop().await;
        }
    }

    fn error(&self, kind: ConnectErrorKind) -> CallError {
        let server = self.server.server.name.clone();
        CallError { server, kind: CallErrorKind::Connect(kind), evidence: Evidence::default() }
    }
}

/// Waits for a new token, by a sign-in here or in another process; forever without a provider.
async fn new_token(token_provider: Option<&dyn TokenProvider>) {
    let Some(token_provider) = token_provider else { return std::future::pending().await };
    loop {
        tokio::time::sleep(SIGN_IN_POLL_INTERVAL).await;
        if token_provider.has_newer_token().await {
            return;
        }
    }
}

/// Returns the cache of authorization failures, and the key of the next attempt.
async fn auth_failure_cache(
    server: &ServerHandle,
    host_environment: &HostEnvironment,
) -> Option<(Arc<AuthFailureCache>, AuthFailure)> {
    let cache = host_environment.refusals.clone()?;
    let key = HostEnvironment::auth_failure_key(&server.server, server.token_provider.as_deref());
    let key = tokio::time::timeout(server.connect_timeout, key).await.ok()??;
    Some((cache, key))
}

/// Returns the error of an attempt that is skipped because of a recent authorization failure.
fn cached_auth_error(server: &ServerHandle, CachedAuthFailure { status, ago, left }: CachedAuthFailure) -> CallError {
    let ago = match ago.as_secs() {
        seconds @ ..60 => format!("{seconds} s"),
        seconds => format!("{} min", seconds / 60),
    };
    let left = left.as_secs().div_ceil(60);
    let reason = format!("cached from {ago} ago; without a sign-in the next attempt is in {left} min");
    let required = AuthRequired { status, challenge: None, zone: None, reason: Some(reason.into()) };
    let kind = ConnectErrorKind::Auth(required);
    let server = server.server.name.clone();
    CallError { server, kind: CallErrorKind::Connect(kind), evidence: Evidence::default() }
}

/// Starts the process of a managed server if necessary, and connects. Returns the process in any case.
async fn start(
    server: &ServerHandle,
    host_environment: &HostEnvironment,
    managed: Option<Managed>,
) -> (Option<Managed>, Result<(), CallError>) {
    let managed = match (managed, &server.server.transport) {
        // A process that has exited is of no use.
        (Some(running), _) if running.exited().now_or_never().is_none() => Some(running),
        (_, TransportConfig::Managed(manage)) => {
            let spec = host_environment.managed_spec(&server.server, manage);
            match Managed::start(spec).await {
                Ok(managed) => Some(managed),
                Err(error) => {
                    let kind = CallErrorKind::Connect(start_error(error));
                    let server = server.server.name.clone();
                    return (None, Err(CallError { server, kind, evidence: Evidence::default() }));
                }
            }
        }
        _ => None,
    };
    let connected = server.session.connect().await;
    (managed, connected.map(drop).map_err(CallError::from))
}

fn start_error(error: ManageError) -> ConnectErrorKind {
    match error {
        ManageError::Spawn { source, .. } => ConnectErrorKind::Spawn(Arc::new(source)),
        ManageError::Log { .. } => ConnectErrorKind::Unusable(error.to_string()),
        ManageError::Taken { .. } | ManageError::Ended { .. } | ManageError::Timeout { .. } => {
            ConnectErrorKind::Transport(error.to_string())
        }
    }
}

async fn first_list(server: &ServerHandle) -> Result<FirstList, CallError> {
    // The list includes all changes that were reported before it.
    let invalidations = server.invalidation.count();
    let (info, listed) = list(&server.session, server.connect_timeout).await?;
    Ok((info, listed, invalidations))
}

/// Connects if necessary, and lists the tools. The list belongs to the returned session: if the session is replaced in
/// the meantime, the new one is listed.
async fn list(session: &Session, limit: Duration) -> Result<Handshake, CallError> {
    let fail = |kind| {
        let kind = CallErrorKind::Connect(kind);
        CallError { server: session.name().clone(), kind, evidence: session.evidence() }
    };
    match tokio::time::timeout(limit, list_without_limit(session)).await {
        Ok(Ok(Some(handshake))) => Ok(handshake),
        Ok(Ok(None)) => {
            Err(fail(ConnectErrorKind::Ended("closed the connection during each `tools/list` request".to_owned())))
        }
        Ok(Err(error)) => Err(error),
        Err(_) => Err(fail(ConnectErrorKind::Timeout(limit))),
    }
}

/// Lists without a timeout. Returns `None` if no session lives long enough.
async fn list_without_limit(session: &Session) -> Result<Option<Handshake>, CallError> {
    for _ in 0..MAX_LIST_SESSIONS {
        let info = session.connect().await?;
        tracing::debug!(target: "wharf::step", step = "discover", server = session.name().as_str());
        let listed = match session.list_tools().await {
            // A server without tools may not implement the method.
            Err(CallError { kind: CallErrorKind::Server { .. }, .. }) if !offers_tools(&info) => Listed::default(),
            listed => listed?,
        };
        if session.epoch() == info.epoch {
            return Ok(Some((info, listed)));
        }
    }
    Ok(None)
}

/// Waits until the tools have changed and the next list is due.
async fn changed_tools(server: &ServerHandle, not_before: Instant) {
    server.invalidation.wait().await;
    tokio::time::sleep_until(not_before.max(Instant::now() + COALESCE_DELAY)).await;
}

fn offers_tools(info: &ServerInfo) -> bool {
    Fields::of(&info.capabilities).is_ok_and(|fields| fields.json("tools").is_some())
}

fn is_unreachable(error: &CallError) -> bool {
    matches!(error.kind, CallErrorKind::Connect(_) | CallErrorKind::Lost(_))
}
