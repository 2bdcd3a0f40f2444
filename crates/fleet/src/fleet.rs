//! The fleet: each server in its own task, and one handle to all of them.
//!
//! Opening a fleet returns at once. Servers connect under two gates: one for those with a local process, and one for remote
//! ones. Callers wait for the servers that they need, and take a [`Catalog`] of the tools available at that moment.

mod authenticate;
mod connection;
mod executor;
mod host_environment;
mod known_tools;
mod list_invalidation;
mod listing;
mod listings;
mod notifying_host;
mod options;
mod reconnection;
mod redacted_tokens;
mod server_handle;
mod server_log;
mod sign_in;
mod status;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use arc_swap::ArcSwapOption;
use futures_util::future::join_all;
use tokio::sync::mpsc::error::TrySendError;
use tokio::sync::{Semaphore, oneshot, watch};
use tokio::task::JoinSet;
use wharf_client::{SavedSession, Session, SessionOptions};
use wharf_protocol::{Listed, Redactor, ServerName, Tool};

pub use host_environment::{HostEnvironment, NetworkSettings, TokenProviders};
pub use listing::{ListingError, PromptCommand, ServerListing};
pub use options::{
    DisabledReason, FleetError, FleetOptions, HostFactory, LOCAL_GATE, REMOTE_GATE, ServerFilter, ServerSpec,
};
pub use reconnection::Reconnection;
pub use server_log::ServerLog;
pub use sign_in::{SignInPrompt, SignInRequest};
pub use status::{ServerState, ServerStatus, StateReason};

use crate::catalog::{Catalog, Entry, MAX_DESCRIPTION_CHARS, ServerTools};
use connection::{Connection, Stage};
use list_invalidation::ListInvalidation;
use notifying_host::NotifyingHost;
use server_handle::{ConnectionCommand, ServerHandle, ServerHandleParts};
use wharf_config::{Scope, Server, Settings, TransportConfig};

/// How long [`Fleet::connect`] waits. The attempt has its own timeouts; this one is for the queue before it.
const CONNECT_QUEUE_TIMEOUT: Duration = Duration::from_secs(5 * 60);

/// Many servers. Cloning returns another handle to the same fleet. When the last handle and the last catalog are dropped,
/// the servers are killed.
#[derive(Clone)]
pub struct Fleet {
    inner: Arc<Inner>,
}

struct Inner {
    options: FleetOptions,
    local_gate: Arc<Semaphore>,
    remote_gate: Arc<Semaphore>,
    host_environment: Arc<HostEnvironment>,
    members: Mutex<Members>,
    /// Counts the changes of all servers.
    changed: watch::Sender<u64>,
    /// The last catalog, and the change that it includes.
    catalog: Mutex<Option<(u64, Arc<Catalog>)>>,
    /// Serializes the operations that add and remove servers.
    membership: Semaphore,
    own_tools: Mutex<Vec<Arc<Entry>>>,
    /// Serializes sign-ins.
    sign_in: Semaphore,
}

/// The servers of the fleet, and their tasks.
#[derive(Default)]
struct Members {
    slots: BTreeMap<ServerName, Slot>,
    tasks: JoinSet<()>,
    /// The number of servers ever added.
    added: u64,
    closed: bool,
}

/// One server of the fleet.
#[derive(Clone)]
struct Slot {
    server: Arc<ServerHandle>,
    /// The catalog entries of its tools while it is connected.
    tools: Arc<ArcSwapOption<ServerTools>>,
    disabled: Option<DisabledReason>,
    /// Its position in the order of adding.
    position: u64,
}

impl Fleet {
    /// Starts to connect servers and returns at once. Must be called inside a Tokio runtime.
    ///
    /// Of two servers with the same name, the first is used.
    pub fn open(servers: impl IntoIterator<Item = ServerSpec>, options: FleetOptions) -> Self {
        let inner = Inner {
            local_gate: Arc::new(Semaphore::new(options.local_gate.max(1))),
            remote_gate: Arc::new(Semaphore::new(options.remote_gate.max(1))),
            host_environment: Arc::new(options.host_environment.clone()),
            members: Mutex::default(),
            changed: watch::Sender::new(0),
            catalog: Mutex::default(),
            membership: Semaphore::new(1),
            own_tools: Mutex::new(options.own_tools.clone()),
            sign_in: Semaphore::new(1),
            options,
        };
        let fleet = Self { inner: Arc::new(inner) };
        let mut members = fleet.inner.members();
        for spec in servers {
            fleet.inner.add(&mut members, spec);
        }
        drop(members);
        fleet
    }

    /// The status of all servers, by name.
    pub fn statuses(&self) -> Vec<ServerStatus> {
        self.inner.members().slots.values().map(|slot| slot.server.status.borrow().clone()).collect()
    }

    /// The status of one server.
    pub fn status(&self, name: &ServerName) -> Option<ServerStatus> {
        self.inner.server(name).map(|server| server.status.borrow().clone())
    }

    /// Returns a receiver that changes with the status of any server. It has the latest value, not every value.
    pub fn changes(&self) -> watch::Receiver<u64> {
        self.inner.changed.subscribe()
    }

    /// Waits until one attempt of every server has finished. Returns `false` on a timeout.
    pub async fn settled(&self, within: Duration) -> bool {
        self.wait_until(within, |status| status.settled).await
    }

    /// Waits for the required servers, or for all that are not disabled if `strict`. Returns those that are not connected
    /// after their first attempt or the timeout.
    pub async fn needed(&self, strict: bool, within: Duration) -> Result<(), Vec<ServerStatus>> {
        let is_needed = |status: &ServerStatus| (status.required || strict) && status.state != ServerState::Disabled;
        self.wait_until(within, |status| status.settled || !is_needed(status)).await;
        let is_missing = |status: &ServerStatus| is_needed(status) && status.state != ServerState::Connected;
        let missing: Vec<ServerStatus> = self.statuses().into_iter().filter(is_missing).collect();
        if missing.is_empty() { Ok(()) } else { Err(missing) }
    }

    /// Waits until a predicate is true for every server. Returns `false` on a timeout.
    async fn wait_until(&self, within: Duration, predicate: impl Fn(&ServerStatus) -> bool) -> bool {
        let mut changes = self.changes();
        let waiting = async {
            loop {
                changes.mark_unchanged();
                let done = self.inner.members().slots.values().all(|slot| predicate(&slot.server.status.borrow()));
                if done || changes.changed().await.is_err() {
                    return;
                }
            }
        };
        tokio::time::timeout(within, waiting).await.is_ok()
    }

    /// Returns the current catalog. It is built on demand, if something has changed since the last one.
    pub fn catalog(&self) -> Arc<Catalog> {
        let mut cached = self.inner.catalog.lock().unwrap_or_else(PoisonError::into_inner);
        let now = *self.inner.changed.borrow();
        if let Some((then, catalog)) = &*cached
            && *then == now
        {
            return Arc::clone(catalog);
        }
        let mut servers = Vec::new();
        let mut absent = Vec::new();
        for slot in self.inner.members().slots.values() {
            match slot.tools.load_full() {
                Some(tools) => servers.push(tools),
                None => absent.extend(slot.server.absent()),
            }
        }
        let mut own = self.inner.own_tools.lock().unwrap_or_else(PoisonError::into_inner).clone();
        own.extend(self.authenticate_tool());
        let catalog = Arc::new(Catalog::new(servers, own).with_absent(absent));
        *cached = Some((now, Arc::clone(&catalog)));
        catalog
    }

    /// Adds one of the host's own tools to later catalogs.
    pub fn offer(&self, own: Arc<Entry>) {
        self.inner.own_tools.lock().unwrap_or_else(PoisonError::into_inner).push(own);
        self.inner.notify_changed();
    }

    /// The last tool list of a connected server, unfiltered.
    pub fn listed(&self, name: &ServerName) -> Option<Arc<Listed<Tool>>> {
        Some(Arc::clone(&self.inner.server(name)?.known()?.tools))
    }

    /// Returns the redactor of the host environment, which has the secrets of the servers; an empty one if it has none.
    pub fn redactor(&self) -> Redactor {
        self.inner.host_environment.redactor.clone().unwrap_or_default()
    }

    /// Returns catalog entries for tools that the host knows from elsewhere, for example from a definition, and that the
    /// server may not have listed yet. A call connects the server if necessary, and is checked against its list.
    pub fn preset_tools(
        &self,
        name: &ServerName,
        settings: Settings,
        tools: &Listed<Tool>,
    ) -> Result<Arc<ServerTools>, FleetError> {
        let server = self.inner.server(name).ok_or_else(|| FleetError::Unknown(name.clone()))?;
        Ok(Arc::new(executor::preset_tools(&server, Arc::new(settings), tools)))
    }

    /// The session of a connected server.
    pub fn session(&self, name: &ServerName) -> Option<Session> {
        let server = self.inner.server(name)?;
        server.known().map(|_| server.session.clone())
    }

    /// Adds a server to the dynamic scope.
    pub fn add(&self, mut server: Server) -> Result<(), FleetError> {
        server.scope = Scope::Dynamic;
        (self.inner.options.server_filter)(&server)
            .map_err(|reason| FleetError::Refused(server.name.clone(), reason))?;
        let mut members = self.inner.members();
        if members.closed {
            return Err(FleetError::Closed);
        }
        if members.slots.contains_key(&server.name) {
            return Err(FleetError::Exists(server.name));
        }
        self.inner.add(&mut members, server.into());
        Ok(())
    }

    /// Removes a server, and waits until it is gone.
    pub async fn remove(&self, name: &ServerName) -> Result<(), FleetError> {
        let _permit = self.inner.membership.acquire().await;
        let removed = self.inner.members().slots.remove(name);
        let slot = removed.ok_or_else(|| FleetError::Unknown(name.clone()))?;
        self.inner.notify_changed();
        stop(&slot.server).await;
        self.inner.notify_changed();
        Ok(())
    }

    /// Disables a server, and waits until its process is gone. It stays in the fleet.
    pub async fn disable(&self, name: &ServerName) -> Result<(), FleetError> {
        self.end_connection(name, |done| ConnectionCommand::Disable("disabled by the host".to_owned(), done)).await
    }

    /// Disconnects a server, and waits until its process is gone. The next call connects it again.
    pub async fn disconnect(&self, name: &ServerName) -> Result<(), FleetError> {
        self.end_connection(name, ConnectionCommand::Disconnect).await
    }

    async fn end_connection(
        &self,
        name: &ServerName,
        command: impl FnOnce(oneshot::Sender<()>) -> ConnectionCommand,
    ) -> Result<(), FleetError> {
        let server = self.inner.server(name).ok_or_else(|| FleetError::Unknown(name.clone()))?;
        let (done, gone) = oneshot::channel();
        if server.commands.send(command(done)).await.is_ok() {
            let _ = gone.await;
        }
        Ok(())
    }

    /// Enables a disabled server.
    pub async fn enable(&self, name: &ServerName) -> Result<(), FleetError> {
        self.start_connection(name, ConnectionCommand::Enable).await
    }

    /// Connects a server that failed, or waits for its next attempt, now.
    pub async fn retry(&self, name: &ServerName) -> Result<(), FleetError> {
        self.start_connection(name, ConnectionCommand::Retry).await
    }

    /// Connects a server now, and returns its status after the attempt.
    pub async fn connect(&self, name: &ServerName) -> Result<ServerStatus, FleetError> {
        self.retry(name).await?;
        let mut changes = self.changes();
        let attempt = async {
            loop {
                changes.mark_unchanged();
                let is_done = |status: ServerStatus| status.settled || status.state == ServerState::Connected;
                if self.status(name).is_none_or(is_done) || changes.changed().await.is_err() {
                    return;
                }
            }
        };
        let _ = tokio::time::timeout(CONNECT_QUEUE_TIMEOUT, attempt).await;
        self.status(name).ok_or_else(|| FleetError::Unknown(name.clone()))
    }

    async fn start_connection(&self, name: &ServerName, command: ConnectionCommand) -> Result<(), FleetError> {
        let found = self.inner.members().slots.get(name).cloned();
        let Slot { server, disabled, .. } = found.ok_or_else(|| FleetError::Unknown(name.clone()))?;
        if let Some(DisabledReason::Approval(text) | DisabledReason::Locked(text) | DisabledReason::Refused(text)) =
            disabled
        {
            return Err(FleetError::Held(name.clone(), text));
        }
        // Callers that wait from now on wait for this attempt.
        if !matches!(server.state(), ServerState::Connected) {
            server.publish(|status| status.settled = false);
        }
        server.commands.send(command).await.map_err(|_| FleetError::Closed)
    }

    /// Replaces the servers of the fleet, except for dynamic ones. A server that is the same stays connected; one that has
    /// changed is stopped before its successor starts; one that is missing is removed.
    pub async fn apply(&self, servers: impl IntoIterator<Item = ServerSpec>) {
        let _permit = self.inner.membership.acquire().await;
        let mut specs: BTreeMap<ServerName, ServerSpec> = BTreeMap::new();
        for spec in servers {
            specs.entry(spec.server.name.clone()).or_insert(spec);
        }
        let is_permitted = |server: &Server| (self.inner.options.server_filter)(server).is_ok();
        let stays = |name: &ServerName, slot: &Slot| {
            let server = &slot.server.server;
            match specs.get(name) {
                Some(spec) => spec.server.same_as(server) && spec.disabled == slot.disabled,
                // A server that was added while running stays if the current rules permit it.
                None => server.scope == Scope::Dynamic && is_permitted(server),
            }
        };
        let leaving: Vec<Arc<ServerHandle>> = {
            let mut members = self.inner.members();
            let slots = members.slots.iter().filter(|(name, slot)| !stays(name, slot));
            let names: Vec<ServerName> = slots.map(|(name, _)| name.clone()).collect();
            names.iter().filter_map(|name| members.slots.remove(name)).map(|slot| slot.server).collect()
        };
        self.inner.notify_changed();
        join_all(leaving.iter().map(stop)).await;
        let mut members = self.inner.members();
        for (name, spec) in specs {
            if !members.closed && !members.slots.contains_key(&name) {
                self.inner.add(&mut members, spec);
            }
        }
        drop(members);
        self.inner.notify_changed();
    }

    /// Calls `read` at an interval as long as the fleet lives, and applies the servers that it returns. `read` runs on a
    /// thread where it may block.
    pub fn follow(&self, every: Duration, read: impl FnMut() -> Option<Vec<ServerSpec>> + Send + 'static) {
        let fleet = Arc::downgrade(&self.inner);
        let mut read = read;
        let following = async move {
            loop {
                tokio::time::sleep(every).await;
                let reading = tokio::task::spawn_blocking(move || {
                    let servers = read();
                    (read, servers)
                });
                let Ok((returned, servers)) = reading.await else { return };
                read = returned;
                let Some(inner) = fleet.upgrade() else { return };
                if let Some(servers) = servers {
                    Self { inner }.apply(servers).await;
                }
            }
        };
        let mut members = self.inner.members();
        if !members.closed {
            members.tasks.spawn(following);
        }
    }

    /// Closes all connections gracefully. The fleet cannot be used afterwards.
    pub async fn close(&self) {
        self.end(|_| {}).await;
    }

    /// Closes all connections without ending the sessions of remote servers, so that another process can resume them with
    /// [`FleetOptions::resume`]. The returned values are secrets.
    pub async fn close_keeping_sessions(&self) -> Vec<SavedSession> {
        let mut saved = Vec::new();
        self.end(|session| saved.extend(session.detach())).await;
        saved
    }

    /// Stops all servers, after calling `before_end` with each session.
    async fn end(&self, mut before_end: impl FnMut(&Session)) {
        self.inner.members().closed = true;
        // A removal in progress finishes first, and concurrent callers return when the fleet is closed.
        let _permit = self.inner.membership.acquire().await;
        let (slots, mut tasks) = {
            let mut members = self.inner.members();
            (std::mem::take(&mut members.slots), std::mem::take(&mut members.tasks))
        };
        self.inner.notify_changed();
        for slot in slots.values() {
            before_end(&slot.server.session);
        }
        let is_managed = |slot: &&Slot| matches!(slot.server.server.transport, TransportConfig::Managed(_));
        join_all(slots.values().filter(|slot| !is_managed(slot)).map(|slot| stop(&slot.server))).await;
        // Managed servers may depend on each other: they stop one by one, the last one first.
        let mut managed: Vec<&Slot> = slots.values().filter(is_managed).collect();
        managed.sort_by_key(|slot| std::cmp::Reverse(slot.position));
        for slot in managed {
            stop(&slot.server).await;
        }
        tasks.shutdown().await;
    }
}

/// Stops a connection, and waits until its server is gone.
async fn stop(server: &Arc<ServerHandle>) {
    let (done, gone) = oneshot::channel();
    // Sent at once if the queue has room, because the caller may stop waiting.
    let sent = match server.commands.try_send(ConnectionCommand::Stop(done)) {
        Ok(()) => true,
        Err(TrySendError::Full(command)) => server.commands.send(command).await.is_ok(),
        Err(TrySendError::Closed(_)) => false,
    };
    if sent {
        let _ = gone.await;
    }
}

impl Inner {
    fn members(&self) -> MutexGuard<'_, Members> {
        self.members.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn server(&self, name: &ServerName) -> Option<Arc<ServerHandle>> {
        self.members().slots.get(name).map(|slot| Arc::clone(&slot.server))
    }

    fn notify_changed(&self) {
        self.changed.send_modify(|count| *count += 1);
    }

    fn add(&self, members: &mut Members, ServerSpec { server, disabled }: ServerSpec) {
        if members.slots.contains_key(&server.name) {
            return;
        }
        let server = Arc::new(server);
        let invalidation = Arc::<ListInvalidation>::default();
        let options = self.session_options(&server);
        let connect_timeout = options.deadlines.connect;
        let total_timeout = options.deadlines.total;
        let token_provider = self.host_environment.token_provider(&server);
        let transport = self.host_environment.transport(&server, connect_timeout, token_provider.clone());
        let host = NotifyingHost { host: (self.options.hosts)(&server.name), invalidation: Arc::clone(&invalidation) };
        let session = Session::with_shared(server.name.clone(), transport, Arc::new(host), options);
        let gate = if server.transport.is_local() { &self.local_gate } else { &self.remote_gate };
        let (server, commands) = ServerHandle::new(ServerHandleParts {
            server,
            session,
            token_provider,
            invalidation,
            connect_timeout,
            total_timeout,
            is_on_demand: disabled == Some(DisabledReason::OnDemand),
            changed: self.changed.clone(),
            log: self.host_environment.log.clone(),
        });
        let switched_off = || DisabledReason::SwitchedOff("disabled in its configuration".to_owned());
        let reason = disabled.clone().or_else(|| (!server.server.settings.enabled).then(switched_off));
        let first = match reason {
            None => Stage::Connect,
            Some(reason) => {
                let (state, reason) = match reason {
                    DisabledReason::OnDemand => (ServerState::Pending, StateReason::OnDemand),
                    DisabledReason::Approval(text) => (ServerState::Pending, StateReason::Held(text)),
                    DisabledReason::SwitchedOff(text) | DisabledReason::Locked(text) => {
                        (ServerState::Disabled, StateReason::SwitchedOff(text))
                    }
                    DisabledReason::Refused(text) => (ServerState::Failed, StateReason::Refused(text)),
                };
                server.publish(|status| {
                    status.state = state;
                    status.reason = Some(reason);
                    status.settled = true;
                });
                Stage::Rest
            }
        };
        let tools = Arc::default();
        let connection = Connection {
            server: Arc::clone(&server),
            tools: Arc::clone(&tools),
            commands,
            gate: Arc::clone(gate),
            host_environment: Arc::clone(&self.host_environment),
            reconnection: self.options.reconnection,
            failures: 0,
            managed: None,
            ignore_auth_failure_cache: self.options.ignore_auth_failure_cache,
        };
        while members.tasks.try_join_next().is_some() {}
        members.tasks.spawn(connection.run(first));
        members.added += 1;
        let name = server.server.name.clone();
        members.slots.insert(name, Slot { server, tools, disabled, position: members.added });
    }

    fn session_options(&self, server: &Server) -> SessionOptions {
        let mut options = self.options.session.clone();
        let settings = &server.settings;
        options.protocol =
            if settings.protocol == wharf_client::ProtocolMode::Auto { options.protocol } else { settings.protocol };
        options.deadlines.total = settings.timeout.or(options.deadlines.total);
        options.deadlines.connect = settings.connect_timeout.unwrap_or(options.deadlines.connect);
        options.max_description_chars.get_or_insert(MAX_DESCRIPTION_CHARS);
        if let TransportConfig::Http(remote) = &server.transport {
            options.resume = self.options.resume.iter().find(|saved| saved.endpoint() == remote.url).cloned();
        }
        options
    }
}
