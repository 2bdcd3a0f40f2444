//! The fleet: every server in a task of its own, all of them seen from one place.
//!
//! Opening returns at once. Servers connect under two gates, one for those that cost a process and one for those that
//! cost a connection. Whoever needs some of them waits for those; whoever needs their tools takes a [`Catalog`], which
//! holds what is there at that moment.

mod authenticate;
mod clerk;
mod connection;
mod member;
mod offers;
mod outfit;
mod reconnection;
mod status;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use arc_swap::ArcSwapOption;
use futures_util::future::join_all;
use tokio::sync::mpsc::error::TrySendError;
use tokio::sync::{Semaphore, oneshot, watch};
use tokio::task::JoinSet;
use wharf_client::{Host, NoHost, SavedSession, Session, SessionOptions};
use wharf_protocol::{Listed, ServerName, Tool};

pub use authenticate::{SignInPrompt, SignInRequest};
pub use offers::{ListingError, PromptCommand, ServerListing};
pub use outfit::{HostEnvironment, NetworkSettings, TokenProviders};
pub use reconnection::Reconnection;
pub use status::{ServerState, ServerStatus, StateReason};

use crate::catalog::{Catalog, Entry, LONGEST_DESCRIPTION, ServerTools};
use clerk::Clerk;
use connection::{Connection, Stage};
use member::{Bell, Member, MemberParts, Order};
use wharf_config::{Scope, Server, TransportConfig};

/// How many servers that cost a process are connected at the same time.
pub const LOCAL_GATE: usize = 3;
/// How many that cost a connection.
pub const REMOTE_GATE: usize = 20;

/// Many servers. Cloning gives another handle to the same fleet; when the last one is dropped, and the last catalog of it,
/// its servers are killed.
#[derive(Clone)]
pub struct Fleet {
    inner: Arc<Inner>,
}

/// Tells who answers what a server asks.
pub type HostFactory = Arc<dyn Fn(&ServerName) -> Arc<dyn Host> + Send + Sync>;
/// Says whether a server may be used, and if not, why not.
pub type ServerFilter = Arc<dyn Fn(&Server) -> Result<(), String> + Send + Sync>;

/// How a fleet behaves.
#[derive(Clone)]
pub struct FleetOptions {
    /// How many servers that cost a process are connected at the same time.
    pub local_gate: usize,
    /// How many that cost a connection.
    pub remote_gate: usize,
    /// What servers get from the host.
    pub outfit: HostEnvironment,
    /// What holds for every session, unless a server has settings of its own.
    pub session: SessionOptions,
    /// Sessions to go on with, which [`Fleet::close_keeping_sessions`] has left with servers at the same addresses.
    pub resume: Vec<Arc<SavedSession>>,
    /// Who answers what a server asks.
    pub hosts: HostFactory,
    /// What happens to servers that fail.
    pub reconnection: Reconnection,
    /// Whether servers are asked at first whatever is remembered of their refusals: for people who want to know.
    pub ignore_auth_failure_cache: bool,
    /// Who brings a person to a sign-in when the model asks for one; without it there is no tool `authenticate`.
    pub sign_in_prompt: Option<SignInPrompt>,
    /// Tools of the host's own, which are in every catalog.
    pub own: Vec<Arc<Entry>>,
    /// Says whether a server may be used that is added while running.
    pub permits: ServerFilter,
}

/// A server for a fleet, and what keeps it from being connected, if anything does.
#[derive(Clone, Debug)]
pub struct ServerSpec {
    /// The server.
    pub server: Server,
    /// What keeps it from being connected.
    pub hold: Option<DisabledReason>,
}

/// Why a server is not connected although it is there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DisabledReason {
    /// Somebody has to say yes first; the words tell how.
    Approval(String),
    /// Somebody has said no; the words tell who.
    SwitchedOff(String),
    /// The same of one that [`Fleet::enable`] does not switch on: it is not approved, or lacks something.
    Locked(String),
    /// It is against the rules; the words tell which.
    Refused(String),
}

/// Why a server cannot be added, or found.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FleetError {
    /// There is no such server.
    #[error("there is no server `{0}`")]
    Unknown(ServerName),
    /// There is one by that name already.
    #[error("there is a server `{0}` already")]
    Exists(ServerName),
    /// It is against the rules.
    #[error("the server `{0}` may not be used: {1}")]
    Refused(ServerName, String),
    /// It waits for an approval, or is against the rules.
    #[error("the server `{0}` is held back: {1}")]
    Held(ServerName, String),
    /// The fleet is closed.
    #[error("the fleet is closed")]
    Closed,
}

struct Inner {
    options: FleetOptions,
    local: Arc<Semaphore>,
    remote: Arc<Semaphore>,
    outfit: Arc<HostEnvironment>,
    crew: Mutex<Crew>,
    /// Counts what has changed about any server.
    changed: watch::Sender<u64>,
    catalog: Mutex<Option<(u64, Arc<Catalog>)>>,
    /// One at a time changes who is there.
    turn: Semaphore,
    /// Tools of the host's own.
    own: Mutex<Vec<Arc<Entry>>>,
    /// One at a time is brought to a sign-in.
    signing: Semaphore,
}

/// Who is there. Everything in here changes at once.
#[derive(Default)]
struct Crew {
    members: BTreeMap<ServerName, Mate>,
    tasks: JoinSet<()>,
    /// How many there have been.
    enlisted: u64,
    closed: bool,
}

/// One server of the crew.
#[derive(Clone)]
struct Mate {
    member: Arc<Member>,
    /// What is offered of its tools while it is connected.
    shelf: Arc<ArcSwapOption<ServerTools>>,
    hold: Option<DisabledReason>,
    /// How many were there before it.
    number: u64,
}

impl Default for FleetOptions {
    fn default() -> Self {
        Self {
            local_gate: LOCAL_GATE,
            remote_gate: REMOTE_GATE,
            outfit: HostEnvironment::default(),
            session: SessionOptions::default(),
            resume: Vec::new(),
            hosts: Arc::new(|_| Arc::new(NoHost)),
            reconnection: Reconnection::default(),
            ignore_auth_failure_cache: false,
            sign_in_prompt: None,
            own: Vec::new(),
            permits: Arc::new(|_| Ok(())),
        }
    }
}

impl From<Server> for ServerSpec {
    fn from(server: Server) -> Self {
        Self { server, hold: None }
    }
}

impl Fleet {
    /// Begins to connect servers, and returns at once. Has to be called inside a runtime.
    ///
    /// Of two servers with the same name the first is taken.
    pub fn open(servers: impl IntoIterator<Item = ServerSpec>, options: FleetOptions) -> Self {
        let inner = Inner {
            local: Arc::new(Semaphore::new(options.local_gate.max(1))),
            remote: Arc::new(Semaphore::new(options.remote_gate.max(1))),
            outfit: Arc::new(options.outfit.clone()),
            crew: Mutex::default(),
            changed: watch::Sender::new(0),
            catalog: Mutex::default(),
            turn: Semaphore::new(1),
            signing: Semaphore::new(1),
            own: Mutex::new(options.own.clone()),
            options,
        };
        let fleet = Self { inner: Arc::new(inner) };
        let mut crew = fleet.inner.crew();
        for enlisted in servers {
            fleet.inner.enlist(&mut crew, enlisted);
        }
        drop(crew);
        fleet
    }

    /// How all servers are doing, by name.
    pub fn statuses(&self) -> Vec<ServerStatus> {
        self.inner.crew().members.values().map(|mate| mate.member.status.borrow().clone()).collect()
    }

    /// How one server is doing.
    pub fn status(&self, name: &ServerName) -> Option<ServerStatus> {
        self.inner.member(name).map(|member| member.status.borrow().clone())
    }

    /// Changes whenever something about a server has changed. It shows the latest, not every change.
    pub fn changes(&self) -> watch::Receiver<u64> {
        self.inner.changed.subscribe()
    }

    /// Waits until every server has been tried to the end once, or the time is up; `false` if it is.
    pub async fn settled(&self, within: Duration) -> bool {
        self.wait_until(within, |status| status.settled).await
    }

    /// Waits until the servers that are needed are connected: those that say so, or all that are not switched off if
    /// `strict`. Those that are not when each has been tried, or when the time is up, are returned.
    pub async fn needed(&self, strict: bool, within: Duration) -> Result<(), Vec<ServerStatus>> {
        let needed = |status: &ServerStatus| (status.required || strict) && status.state != ServerState::Disabled;
        self.wait_until(within, |status| status.settled || !needed(status)).await;
        let missing = |status: &ServerStatus| needed(status) && status.state != ServerState::Connected;
        let missing: Vec<ServerStatus> = self.statuses().into_iter().filter(missing).collect();
        if missing.is_empty() { Ok(()) } else { Err(missing) }
    }

    /// Waits until something holds for every server.
    async fn wait_until(&self, within: Duration, holds: impl Fn(&ServerStatus) -> bool) -> bool {
        let mut changes = self.changes();
        let waiting = async {
            loop {
                changes.mark_unchanged();
                let done = self.inner.crew().members.values().all(|mate| holds(&mate.member.status.borrow()));
                if done || changes.changed().await.is_err() {
                    return;
                }
            }
        };
        tokio::time::timeout(within, waiting).await.is_ok()
    }

    /// What is offered now. It is made when somebody wants it and something has changed since the last one.
    pub fn catalog(&self) -> Arc<Catalog> {
        let mut made = self.inner.catalog.lock().unwrap_or_else(PoisonError::into_inner);
        let now = *self.inner.changed.borrow();
        if let Some((then, catalog)) = &*made
            && *then == now
        {
            return Arc::clone(catalog);
        }
        let shelves = self.inner.crew().members.values().filter_map(|mate| mate.shelf.load_full()).collect();
        let mut own = self.inner.own.lock().unwrap_or_else(PoisonError::into_inner).clone();
        own.extend(self.authenticate());
        let catalog = Arc::new(Catalog::new(shelves, own));
        *made = Some((now, Arc::clone(&catalog)));
        catalog
    }

    /// Adds a tool of the host's own to the catalogs to come.
    pub fn offer(&self, own: Arc<Entry>) {
        self.inner.own.lock().unwrap_or_else(PoisonError::into_inner).push(own);
        self.inner.bump();
    }

    /// The last list of a connected server, as it came.
    pub fn listed(&self, name: &ServerName) -> Option<Arc<Listed<Tool>>> {
        Some(Arc::clone(&self.inner.member(name)?.known()?.tools))
    }

    /// The session of a connected server.
    pub fn session(&self, name: &ServerName) -> Option<Session> {
        let member = self.inner.member(name)?;
        member.known().map(|_| member.session.clone())
    }

    /// Adds a server while running; it is in the dynamic scope.
    pub fn add(&self, mut server: Server) -> Result<(), FleetError> {
        server.scope = Scope::Dynamic;
        (self.inner.options.permits)(&server).map_err(|reason| FleetError::Refused(server.name.clone(), reason))?;
        let mut crew = self.inner.crew();
        if crew.closed {
            return Err(FleetError::Closed);
        }
        if crew.members.contains_key(&server.name) {
            return Err(FleetError::Exists(server.name));
        }
        self.inner.enlist(&mut crew, server.into());
        Ok(())
    }

    /// Removes a server; it is gone when this returns.
    pub async fn remove(&self, name: &ServerName) -> Result<(), FleetError> {
        let _turn = self.inner.turn.acquire().await;
        let removed = self.inner.crew().members.remove(name);
        let mate = removed.ok_or_else(|| FleetError::Unknown(name.clone()))?;
        self.inner.bump();
        stop(&mate.member).await;
        self.inner.bump();
        Ok(())
    }

    /// Lets go of a server and keeps it in mind; its process is gone when this returns.
    pub async fn disable(&self, name: &ServerName) -> Result<(), FleetError> {
        let member = self.inner.member(name).ok_or_else(|| FleetError::Unknown(name.clone()))?;
        let (done, gone) = oneshot::channel();
        let order = Order::Disable("it was switched off".to_owned(), done);
        if member.orders.send(order).await.is_ok() {
            let _ = gone.await;
        }
        Ok(())
    }

    /// Connects a server that was switched off.
    pub async fn enable(&self, name: &ServerName) -> Result<(), FleetError> {
        self.order(name, Order::Enable).await
    }

    /// Tries a server that failed, or waits to be tried, now.
    pub async fn retry(&self, name: &ServerName) -> Result<(), FleetError> {
        self.order(name, Order::Retry).await
    }

    async fn order(&self, name: &ServerName, order: Order) -> Result<(), FleetError> {
        let found = self.inner.crew().members.get(name).cloned();
        let Mate { member, hold, .. } = found.ok_or_else(|| FleetError::Unknown(name.clone()))?;
        if let Some(DisabledReason::Approval(words) | DisabledReason::Locked(words) | DisabledReason::Refused(words)) =
            hold
        {
            return Err(FleetError::Held(name.clone(), words));
        }
        // Whoever waits from now on waits for what comes of this.
        if !matches!(member.state(), ServerState::Connected) {
            member.publish(|status| status.settled = false);
        }
        member.orders.send(order).await.map_err(|_| FleetError::Closed)
    }

    /// Makes these the servers of the fleet, besides the dynamic ones. A server that is the same is not touched; one that
    /// changed is let go of before its successor is started; one that is not among them is removed.
    pub async fn apply(&self, servers: impl IntoIterator<Item = ServerSpec>) {
        let _turn = self.inner.turn.acquire().await;
        let mut wanted: BTreeMap<ServerName, ServerSpec> = BTreeMap::new();
        for enlisted in servers {
            wanted.entry(enlisted.server.name.clone()).or_insert(enlisted);
        }
        let leaving: Vec<Arc<Member>> = {
            let mut crew = self.inner.crew();
            let stays = |name: &ServerName, Mate { member, hold, .. }: &Mate| match wanted.get(name) {
                Some(wanted) => wanted.server.same_as(&member.server) && wanted.hold == *hold,
                // One that was added while running stays if the rules as they are now permit it.
                None => member.server.scope == Scope::Dynamic && (self.inner.options.permits)(&member.server).is_ok(),
            };
            let leaving: Vec<ServerName> = crew
                .members
                .iter()
                .filter(|(name, member)| !stays(name, member))
                .map(|(name, _)| name.clone())
                .collect();
            leaving.iter().filter_map(|name| crew.members.remove(name)).map(|mate| mate.member).collect()
        };
        self.inner.bump();
        join_all(leaving.iter().map(stop)).await;
        let mut crew = self.inner.crew();
        for (name, enlisted) in wanted {
            if !crew.closed && !crew.members.contains_key(&name) {
                self.inner.enlist(&mut crew, enlisted);
            }
        }
        drop(crew);
        self.inner.bump();
    }

    /// Looks for changes every so often, for as long as the fleet lives: what `read` returns is applied. It may take its
    /// time; it runs where waiting is allowed.
    pub fn follow(&self, every: Duration, read: impl FnMut() -> Option<Vec<ServerSpec>> + Send + 'static) {
        let fleet = Arc::downgrade(&self.inner);
        let mut read = read;
        let following = async move {
            loop {
                tokio::time::sleep(every).await;
                let looked = tokio::task::spawn_blocking(move || {
                    let found = read();
                    (read, found)
                });
                let Ok((again, found)) = looked.await else { return };
                read = again;
                let Some(inner) = fleet.upgrade() else { return };
                if let Some(servers) = found {
                    Self { inner }.apply(servers).await;
                }
            }
        };
        let mut crew = self.inner.crew();
        if !crew.closed {
            crew.tasks.spawn(following);
        }
    }

    /// Ends all connections in good order. Nothing is connected again.
    pub async fn close(&self) {
        self.end(|_| {}).await;
    }

    /// The same, but the sessions that remote servers keep are left with them, for another process to go on with: what is
    /// returned goes into [`FleetOptions::resume`] there. Keep it as you keep passwords.
    pub async fn close_keeping_sessions(&self) -> Vec<SavedSession> {
        let mut left = Vec::new();
        self.end(|session| left.extend(session.detach())).await;
        left
    }

    async fn end(&self, mut last: impl FnMut(&Session)) {
        self.inner.crew().closed = true;
        // Whoever is being let go of is let go of in good order; and whoever closes it too returns when it is closed.
        let _turn = self.inner.turn.acquire().await;
        let (members, mut tasks) = {
            let mut crew = self.inner.crew();
            (std::mem::take(&mut crew.members), std::mem::take(&mut crew.tasks))
        };
        self.inner.bump();
        for mate in members.values() {
            last(&mate.member.session);
        }
        let is_managed = |mate: &&Mate| matches!(mate.member.server.reach, TransportConfig::Managed(_));
        join_all(members.values().filter(|mate| !is_managed(mate)).map(|mate| stop(&mate.member))).await;
        // Managed ones may lean on each other: they end one after the other, the last one first.
        let mut managed: Vec<&Mate> = members.values().filter(is_managed).collect();
        managed.sort_by_key(|mate| std::cmp::Reverse(mate.number));
        for mate in managed {
            stop(&mate.member).await;
        }
        tasks.shutdown().await;
    }
}

/// Ends a connection; its server is gone when this returns.
async fn stop(member: &Arc<Member>) {
    let (done, gone) = oneshot::channel();
    // At once if there is room: whoever asked may not wait for the end.
    let sent = match member.orders.try_send(Order::Stop(done)) {
        Ok(()) => true,
        Err(TrySendError::Full(order)) => member.orders.send(order).await.is_ok(),
        Err(TrySendError::Closed(_)) => false,
    };
    if sent {
        let _ = gone.await;
    }
}

impl Inner {
    fn crew(&self) -> MutexGuard<'_, Crew> {
        self.crew.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn member(&self, name: &ServerName) -> Option<Arc<Member>> {
        self.crew().members.get(name).map(|mate| Arc::clone(&mate.member))
    }

    fn bump(&self) {
        self.changed.send_modify(|count| *count += 1);
    }

    fn enlist(&self, crew: &mut Crew, ServerSpec { server, hold }: ServerSpec) {
        if crew.members.contains_key(&server.name) {
            return;
        }
        let (server, bell) = (Arc::new(server), Arc::<Bell>::default());
        let options = self.session_options(&server);
        let (connect, total) = (options.deadlines.connect, options.deadlines.total);
        let authority = self.outfit.authority(&server);
        let transport = self.outfit.transport(&server, connect, authority.clone());
        let host = Clerk { host: (self.options.hosts)(&server.name), bell: Arc::clone(&bell) };
        let session = Session::with_shared(server.name.clone(), transport, Arc::new(host), options);
        let gate = if server.reach.is_local() { &self.local } else { &self.remote };
        let changed = self.changed.clone();
        let (member, orders) = Member::new(MemberParts { server, session, authority, bell, connect, total, changed });
        let offered = Arc::default();
        let held = hold.clone().or_else(|| {
            let off = || DisabledReason::SwitchedOff("its configuration switches it off".to_owned());
            (!member.server.settings.enabled).then(off)
        });
        let first = match &held {
            None => Stage::Connect,
            Some(held) => {
                let (state, reason) = match held.clone() {
                    DisabledReason::Approval(words) => (ServerState::Pending, StateReason::Held(words)),
                    DisabledReason::SwitchedOff(words) | DisabledReason::Locked(words) => {
                        (ServerState::Disabled, StateReason::SwitchedOff(words))
                    }
                    DisabledReason::Refused(words) => (ServerState::Failed, StateReason::Refused(words)),
                };
                member.publish(|status| {
                    status.state = state;
                    status.reason = Some(reason);
                    status.settled = true;
                });
                Stage::Rest
            }
        };
        let connection = Connection {
            member: Arc::clone(&member),
            shelf: Arc::clone(&offered),
            orders,
            gate: Arc::clone(gate),
            outfit: Arc::clone(&self.outfit),
            reconnection: self.options.reconnection,
            failures: 0,
            managed: None,
            wanted: self.options.ignore_auth_failure_cache,
        };
        while crew.tasks.try_join_next().is_some() {}
        crew.tasks.spawn(connection.run(first));
        crew.enlisted += 1;
        let mate = Mate { shelf: offered, hold, number: crew.enlisted, member };
        crew.members.insert(mate.member.server.name.clone(), mate);
    }

    fn session_options(&self, server: &Server) -> SessionOptions {
        let mut options = self.options.session.clone();
        let settings = &server.settings;
        options.protocol =
            if settings.protocol == wharf_client::ProtocolMode::Auto { options.protocol } else { settings.protocol };
        options.deadlines.total = settings.timeout.or(options.deadlines.total);
        options.deadlines.connect = settings.connect_timeout.unwrap_or(options.deadlines.connect);
        options.max_description_chars = Some(LONGEST_DESCRIPTION);
        if let TransportConfig::Http(remote) = &server.reach {
            options.resume = self.options.resume.iter().find(|saved| saved.endpoint() == remote.url).cloned();
        }
        options
    }
}
