//! What everybody may know of one server: its session, its state, and the tools of its last list.
//!
//! One task, the connection, writes here; everybody else reads, without waiting for it. A tool in a catalog calls
//! through this, so a call notices when the server has changed or gone since the catalog was made.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use arc_swap::ArcSwapOption;
use tokio::sync::{Notify, mpsc, oneshot, watch};
use tokio::time::Instant;
use wharf_auth::TokenProvider;
use wharf_client::{
    BoxFuture, CallError, CallErrorKind, CallOptions, ConnectErrorKind, Evidence, OnLoss, Outcome, ServerInfo, Session,
};
use wharf_protocol::{Json, Listed, Tool, ToolOutput};

use super::{ServerState, ServerStatus, StateReason};
use crate::catalog::{ServerTools, ServerToolsParts, ToolExecutor, ToolFreshness};
use wharf_config::{Server, Settings};

/// How many orders may wait; they are few, and each is obeyed at once.
pub(super) const ORDERS: usize = 16;
/// How long a call waits for a server that is being connected, beyond what connecting may take.
const PATIENCE: Duration = Duration::from_secs(5);

/// The code that stands for a session that is gone.
const SESSION_TERMINATED: i64 = 32600;
/// An attempt that is made sooner than this is worth waiting for.
const SOON: Duration = Duration::from_millis(100);

/// What a connection can be told.
#[derive(Debug)]
pub(super) enum Order {
    /// Connect, if you are switched off.
    Enable,
    /// Let go of the server; say when it is gone.
    Disable(String, oneshot::Sender<()>),
    /// Let go of the server for good; say when it is gone.
    Stop(oneshot::Sender<()>),
    /// Do not wait any longer, try now.
    Retry,
    /// Somebody could not reach the server: see whether it is there.
    Check,
}

pub(super) struct Member {
    pub(super) server: Arc<Server>,
    settings: Arc<Settings>,
    pub(super) session: Session,
    /// Who signs in to it, if anybody does.
    pub(super) authority: Option<Arc<dyn TokenProvider>>,
    pub(super) status: watch::Sender<ServerStatus>,
    pub(super) orders: mpsc::Sender<Order>,
    /// The server said that its tools are others now, or it may have others after a new start.
    pub(super) bell: Arc<Bell>,
    known: ArcSwapOption<Known>,
    /// How long connecting may take.
    pub(super) connect: Duration,
    /// How long a call may, where nobody says so.
    total: Option<Duration>,
    /// Rings for the whole fleet when something has changed.
    pub(super) changed: watch::Sender<u64>,
}

/// Rings when the server's tools may have changed, and counts as rung until they have been listed since.
#[derive(Debug, Default)]
pub(super) struct Bell {
    rings: AtomicU64,
    answered: AtomicU64,
    /// How many lists have come, or could not be had.
    lists: AtomicU64,
    /// The last session that the server is known to have lost; what was listed on it says nothing any more.
    outlived: AtomicU64,
    heard: Notify,
}

/// The tools of a connected server.
pub(super) struct Known {
    pub(super) tools: Arc<Listed<Tool>>,
    /// The session they were listed on.
    generation: u64,
    by_name: HashMap<Arc<str>, Arc<Tool>>,
    /// Where in memory each of them is, in order.
    places: Vec<usize>,
    /// Whether this is what is known now.
    is_latest: AtomicBool,
}

/// A server as the tools of one list know it. As long as that is the latest list, a call needs to look nowhere else.
struct Listing {
    member: Arc<Member>,
    known: Arc<Known>,
}

impl Bell {
    pub(super) fn ring(&self) {
        self.rings.fetch_add(1, Ordering::AcqRel);
        self.heard.notify_one();
    }

    /// Completes when it has rung.
    pub(super) async fn rung(&self) {
        while !self.is_rung() {
            self.heard.notified().await;
        }
    }

    pub(super) fn is_rung(&self) -> bool {
        self.rings.load(Ordering::Acquire) > self.answered.load(Ordering::Acquire)
    }

    /// The server has lost this session.
    fn outlive(&self, generation: u64) {
        self.outlived.fetch_max(generation, Ordering::AcqRel);
    }

    /// Whether the session of that number, and with it all that was listed on it, is gone.
    fn outlives(&self, generation: u64) -> bool {
        generation <= self.outlived.load(Ordering::Acquire)
    }

    /// How often it has rung; to be taken before a list is asked for.
    pub(super) fn rings(&self) -> u64 {
        self.rings.load(Ordering::Acquire)
    }

    /// What was rung for until then has been seen to.
    pub(super) fn answer(&self, rings: u64) {
        self.answered.fetch_max(rings, Ordering::AcqRel);
        self.lists.fetch_add(1, Ordering::AcqRel);
    }

    fn lists(&self) -> u64 {
        self.lists.load(Ordering::Acquire)
    }

    /// Whether a list has been fetched, or could not be, since it had rung so often and so many had come.
    fn is_answered(&self, rings: u64, lists: u64) -> bool {
        self.answered.load(Ordering::Acquire) >= rings && self.lists() > lists
    }
}

impl Known {
    /// On which session they were listed, and whether a tool is among them as it was.
    fn now(&self, tool: &Arc<Tool>) -> (u64, bool) {
        (self.generation, matches!(self.compare(tool), ToolFreshness::Same))
    }

    fn is_latest(&self) -> bool {
        self.is_latest.load(Ordering::Acquire)
    }

    /// What has become of a tool that was listed before.
    fn compare(&self, tool: &Arc<Tool>) -> ToolFreshness {
        // Nearly always it is the very one, which is quickly said.
        if self.places.binary_search(&Arc::as_ptr(tool).addr()).is_ok() {
            return ToolFreshness::Same;
        }
        match self.by_name.get(&tool.name) {
            None => ToolFreshness::Gone,
            Some(now) if now.raw.as_str() == tool.raw.as_str() => ToolFreshness::Same,
            Some(now) => ToolFreshness::Changed(Arc::clone(now)),
        }
    }
}

impl Member {
    pub(super) fn new(parts: MemberParts) -> (Arc<Self>, mpsc::Receiver<Order>) {
        let MemberParts { server, session, authority, bell, connect, total, changed } = parts;
        let (orders, receiver) = mpsc::channel(ORDERS);
        let status = ServerStatus {
            name: server.name.clone(),
            scope: server.scope,
            transport: server.reach.kind(),
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
        let status = watch::Sender::new(status);
        let known = ArcSwapOption::empty();
        let settings = Arc::new(server.settings.clone());
        let member =
            Self { server, settings, session, authority, status, orders, bell, known, connect, total, changed };
        (Arc::new(member), receiver)
    }

    /// Publishes how the server is doing. The time of a state is that of its beginning.
    pub(super) fn publish(&self, change: impl FnOnce(&mut ServerStatus)) {
        self.status.send_modify(|status| {
            let before = status.state;
            change(status);
            if status.state != before {
                status.since = Instant::now();
            }
        });
        self.changed.send_modify(|count| *count += 1);
    }

    pub(super) fn known(&self) -> Option<Arc<Known>> {
        self.known.load_full()
    }

    /// Takes note of a list; what is returned is what goes into catalogs.
    ///
    /// The shelf is not kept here: its tools call through this very member, and would keep it alive for ever.
    pub(super) fn learn(self: &Arc<Self>, info: &ServerInfo, listed: Listed<Tool>) -> ServerTools {
        let tools = Arc::new(listed);
        let by_name = tools.items.iter().map(|tool| (Arc::clone(&tool.name), Arc::clone(tool))).collect();
        let mut places: Vec<usize> = tools.items.iter().map(|tool| Arc::as_ptr(tool).addr()).collect();
        places.sort_unstable();
        let is_latest = AtomicBool::new(true);
        let known =
            Arc::new(Known { tools: Arc::clone(&tools), generation: info.generation, by_name, places, is_latest });
        let listing = Listing { member: Arc::clone(self), known: Arc::clone(&known) };
        let stocked = ServerTools::new(ServerToolsParts {
            server: self.server.name.clone(),
            scope: self.server.scope,
            transport: self.server.reach.kind(),
            settings: Arc::clone(&self.settings),
            instructions: info.instructions.as_deref(),
            tools: &tools,
            callee: Arc::new(listing),
        });
        self.know(Some(known));
        stocked
    }

    /// Nothing that was listed may be used before it has been listed again.
    pub(super) fn unlearn(&self) {
        self.know(None);
    }

    fn know(&self, known: Option<Arc<Known>>) {
        if let Some(before) = self.known.swap(known) {
            before.is_latest.store(false, Ordering::Release);
        }
    }

    pub(super) fn state(&self) -> ServerState {
        self.status.borrow().state
    }

    /// Waits until the connection has finished what it is doing, and no longer than connecting may take. A server that says
    /// again and again that its tools have changed is waited for once.
    async fn has_settled(&self) {
        let mut status = self.status.subscribe();
        let (rings, lists) = (self.bell.rings(), self.bell.lists());
        let busy = |status: &ServerStatus| match (status.state, &status.reason) {
            (ServerState::Connected, _) => self.is_outdated() && !self.bell.is_answered(rings, lists),
            (_, Some(StateReason::Connecting | StateReason::Queued)) => true,
            _ => status.next_try.is_some_and(|next| next <= Instant::now() + SOON),
        };
        let settled = |status: &ServerStatus| !busy(status);
        let _ = tokio::time::timeout(self.connect + PATIENCE, status.wait_for(settled)).await;
    }

    /// Whether what is known has to be fetched anew before anybody may go by it.
    pub(super) fn is_outdated(&self) -> bool {
        self.bell.is_rung() || self.known.load().as_ref().is_some_and(|known| self.bell.outlives(known.generation))
    }

    fn unavailable(&self) -> CallError {
        let status = self.status.borrow();
        let error = status.error();
        if let Some(error @ CallError { kind: CallErrorKind::Connect(_), .. }) = error {
            return error.clone();
        }
        // Whatever went wrong before, this call was never sent.
        let reason = status.reason.as_ref().map_or_else(|| "it was just lost".to_owned(), ToString::to_string);
        let kind = ConnectErrorKind::Transport(format!("the server is {}: {reason}", status.state));
        let evidence = error.map_or_else(Evidence::default, |error| error.evidence.clone());
        CallError { server: self.server.name.clone(), kind: CallErrorKind::Connect(kind), evidence }
    }
}

pub(super) struct MemberParts {
    pub(super) server: Arc<Server>,
    pub(super) session: Session,
    pub(super) authority: Option<Arc<dyn TokenProvider>>,
    pub(super) bell: Arc<Bell>,
    pub(super) connect: Duration,
    pub(super) total: Option<Duration>,
    pub(super) changed: watch::Sender<u64>,
}

impl ToolExecutor for Listing {
    fn glance(&self, tool: &Arc<Tool>) -> Option<ToolFreshness> {
        let bell = &self.member.bell;
        let holds = |known: &Known| !bell.is_rung() && !bell.outlives(known.generation);
        // Read without counting references, here and where a call is made: every call of every task comes by.
        if self.known.is_latest() {
            return holds(&self.known).then(|| self.known.compare(tool));
        }
        self.member.known.load().as_ref().filter(|known| holds(known)).map(|known| known.compare(tool))
    }

    fn look<'a>(&'a self, tool: &'a Arc<Tool>) -> BoxFuture<'a, ToolFreshness> {
        Box::pin(self.member.look(tool))
    }

    fn call<'a>(
        &'a self,
        tool: &'a Arc<Tool>,
        arguments: &'a Json,
        mut options: CallOptions<'a>,
    ) -> BoxFuture<'a, Result<ToolOutput, CallError>> {
        Box::pin(async move {
            let Self { member, known } = self;
            let ends = options.total.or(member.total).and_then(|total| Instant::now().checked_add(total));
            let now = if known.is_latest() { Some(known.now(tool)) } else { member.now(tool) };
            let error = match member.call_once(tool, arguments, (&mut options, now)).await {
                Err(error) if may_repeat(tool, &error) => error,
                result => return result,
            };
            Box::pin(member.call_again(tool, arguments, options, (ends, error))).await
        })
    }
}

impl Member {
    /// Makes a call once more that failed with `error`, if the tool is still the same on the session there is then. All
    /// attempts together have the time of one.
    async fn call_again(
        &self,
        tool: &Arc<Tool>,
        arguments: &Json,
        mut options: CallOptions<'_>,
        (ends, error): (Option<Instant>, CallError),
    ) -> Result<ToolOutput, CallError> {
        let left = || ends.map(|ends| ends.saturating_duration_since(Instant::now()));
        let looking = tokio::time::timeout(left().unwrap_or(Duration::MAX), self.look(tool));
        if !matches!(looking.await, Ok(ToolFreshness::Same)) {
            return Err(error);
        }
        options.total = left();
        match self.call_once(tool, arguments, (&mut options, self.now(tool))).await {
            // The second did not run, and the first may have.
            Err(last) if last.outcome() == Outcome::NotRun && error.outcome() == Outcome::Unknown => Err(error),
            result => result,
        }
    }

    /// What has become of a tool, as soon as its server can be expected to know.
    async fn look(&self, tool: &Arc<Tool>) -> ToolFreshness {
        // A call is a good reason to try now what would be tried later.
        let waits = self.status.borrow().next_try.is_some();
        if waits && self.orders.try_send(Order::Retry).is_ok() {
            let mut status = self.status.subscribe();
            let _ = tokio::time::timeout(PATIENCE, status.wait_for(|status| status.next_try.is_none())).await;
        }
        self.has_settled().await;
        match self.known() {
            Some(known) => known.compare(tool),
            None if matches!(self.state(), ServerState::Disabled) || self.orders.is_closed() => ToolFreshness::Gone,
            None => ToolFreshness::Unknown,
        }
    }

    /// The same, as far as anything is known.
    fn now(&self, tool: &Arc<Tool>) -> Option<(u64, bool)> {
        self.known.load().as_ref().map(|known| known.now(tool))
    }

    /// Calls a tool on the very session that it was listed on, if it is still the very tool that was looked at.
    async fn call_once(
        &self,
        tool: &Arc<Tool>,
        arguments: &Json,
        (options, now): (&mut CallOptions<'_>, Option<(u64, bool)>),
    ) -> Result<ToolOutput, CallError> {
        let Some((generation, is_same)) = now else { return Err(self.unavailable()) };
        if !is_same {
            let message = "its tools are others now".to_owned();
            let kind = CallErrorKind::SessionLost { code: SESSION_TERMINATED, message };
            return Err(CallError { server: self.server.name.clone(), kind, evidence: Evidence::default() });
        }
        (options.on_loss, options.generation) = (OnLoss::Report, Some(generation));
        let result = self.session.call_with_options(&tool.name, arguments, options).await;
        match result.as_ref().map_err(|error| &error.kind) {
            // Its tools may be others on the next session.
            Err(CallErrorKind::SessionLost { .. }) => self.bell.outlive(generation),
            // Nobody else may notice that a server behind a network is gone.
            Err(CallErrorKind::Connect(_) | CallErrorKind::Lost(_)) => self.bell.ring(),
            _ => return result,
        }
        // Where too many wait to say so, it has been said.
        let _ = self.orders.try_send(Order::Check);
        result
    }
}

/// Whether a call that failed may be made once more: it did not run, or running twice does no harm.
fn may_repeat(tool: &Tool, error: &CallError) -> bool {
    match &error.kind {
        CallErrorKind::SessionLost { .. } | CallErrorKind::Connect(ConnectErrorKind::Transport(_)) => true,
        // What can be repeated on the same session, the session repeats.
        CallErrorKind::Lost(_) => tool.hints.safe_to_repeat(),
        _ => false,
    }
}
