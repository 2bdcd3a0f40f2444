//! One server's life in the fleet: a task that owns its state and is the only one to change it.
//!
//! It waits for its turn at the gate, connects, lists, and then watches: for changed tools, for a session that was
//! begun anew, for an end. What fails is tried again or left alone, by the kind of the failure.

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

use super::member::{Member, Order};
use super::outfit::HostEnvironment;
use super::reconnection::{Reconnection, STABLE};
use super::{ServerState, StateReason};
use crate::catalog::ServerTools;
use wharf_config::TransportConfig;

/// How many sessions in a row may end while they are being listed.
const SESSIONS: usize = 3;
/// How long is waited after the first word of changed tools, because there are often many such words.
const COALESCE: Duration = Duration::from_millis(50);
/// A server that keeps saying so is asked no more often than this.
const BETWEEN_LISTS: Duration = Duration::from_secs(1);
/// The first pause after a list that could not be fetched; it doubles up to the longest.
const LIST_PAUSE: Duration = Duration::from_secs(5);
/// How often is looked whether somebody has signed in to a server that wants it. It costs a look at a file.
const SIGN_IN_LOOK: Duration = Duration::from_secs(1);
const LONGEST_LIST_PAUSE: Duration = Duration::from_secs(60);

pub(super) struct Connection {
    pub(super) member: Arc<Member>,
    /// What is offered of the server's tools while it is connected.
    pub(super) shelf: Arc<ArcSwapOption<ServerTools>>,
    pub(super) orders: mpsc::Receiver<Order>,
    pub(super) gate: Arc<Semaphore>,
    pub(super) outfit: Arc<HostEnvironment>,
    pub(super) reconnection: Reconnection,
    /// Failures in a row.
    pub(super) failures: u32,
    /// The process of a managed server.
    pub(super) managed: Option<Managed>,
    /// Somebody wants the next attempt to be made, whatever is remembered.
    pub(super) wanted: bool,
}

/// Who a server is, and its tools.
type Greeted = (Arc<ServerInfo>, Listed<Tool>);

/// What the connection does next.
pub(super) enum Stage {
    /// Nothing, until it is told to.
    Rest,
    /// Connect, when it is its turn.
    Connect,
    /// Watch over a connection.
    Watch(Ready),
    /// Wait, and then try again.
    Wait(Instant),
    /// The end.
    Over,
}

/// A connection whose tools are listed.
pub(super) struct Ready {
    since: Instant,
    info: Arc<ServerInfo>,
    sessions: watch::Receiver<SessionStatus>,
    listing: Option<Listing>,
    /// No list is asked for before this, however often the server says that there is another.
    not_before: Instant,
    /// When a list that could not be had is asked for once more.
    again: Option<Instant>,
    /// The pause after the next list that cannot be fetched.
    pause: Duration,
}

/// A list that is being fetched.
struct Listing {
    fetched: BoxFuture<'static, Result<Greeted, CallError>>,
    /// How often the bell had rung before.
    rings: u64,
    /// Whether it is to tell if the server is there at all.
    checking: bool,
}

impl Listing {
    fn begin(member: &Arc<Member>, checking: bool) -> Self {
        let (session, rings) = (member.session.clone(), member.bell.rings());
        let limit = member.connect;
        let fetched = async move {
            if checking {
                // What the server lets us keep says nothing about whether it is there.
                session.clear_cache();
            }
            fetch(&session, limit).await
        };
        Self { fetched: Box::pin(fetched), rings, checking }
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
        let wants_somebody = self.member.state() == ServerState::NeedsAuth;
        let authority = self.member.authority.clone().filter(|_| wants_somebody);
        loop {
            let order = tokio::select! {
                order = self.orders.recv() => order,
                () = somebody_signs_in(authority.as_deref()) => Some(Order::Retry),
            };
            match order {
                Some(Order::Enable | Order::Retry) => {
                    self.wanted = true;
                    return Stage::Connect;
                }
                Some(Order::Check) => {}
                Some(order) => return self.let_go(order).await,
                None => return Stage::Over,
            }
        }
    }

    async fn wait(&mut self, until: Instant) -> Stage {
        tokio::select! {
            () = tokio::time::sleep_until(until) => Stage::Connect,
            order = self.orders.recv() => match order {
                Some(Order::Enable | Order::Retry) => Stage::Connect,
                Some(Order::Check) => Stage::Wait(until),
                Some(order) => self.let_go(order).await,
                None => Stage::Over,
            },
        }
    }

    async fn connect(&mut self) -> Stage {
        self.member.publish(|status| {
            status.state = ServerState::Pending;
            status.reason = Some(StateReason::Queued);
            status.next_try = None;
        });
        let (gate, member) = (Arc::clone(&self.gate), Arc::clone(&self.member));
        let (outfit, managed) = (Arc::clone(&self.outfit), self.managed.take());
        let wanted = std::mem::take(&mut self.wanted);
        let mut connecting = Box::pin(async move {
            let turn = gate.acquire().await;
            member.publish(|status| status.reason = Some(StateReason::Connecting));
            let refusable = refusable(&member, &outfit).await;
            if let (false, Some((refusals, refusal))) = (wanted, &refusable)
                && let Some(remembered) = refusals.recall(refusal).await
            {
                return (managed, Err(refused(&member, remembered)));
            }
            tracing::debug!(target: "wharf::step", step = "connect", server = member.server.name.as_str());
            let (managed, started) = start(&member, &outfit, managed).await;
            // It is there; what is left costs the others nothing, and may take its time.
            drop(turn);
            let greeted = match started {
                Ok(()) => greet(&member).await,
                Err(error) => Err(error),
            };
            if let Some((refusals, refusal)) = refusable {
                match &greeted {
                    Err(CallError { kind: CallErrorKind::Connect(ConnectErrorKind::Auth(required)), .. }) => {
                        refusals.note(&refusal, required.status).await;
                    }
                    Ok(_) if wanted => refusals.forget(&refusal.endpoint).await,
                    _ => {}
                }
            }
            (managed, greeted)
        });
        loop {
            let order = tokio::select! {
                (managed, result) = &mut connecting => {
                    self.managed = managed;
                    return self.connected(result).await;
                }
                order = self.orders.recv() => order,
            };
            match order {
                Some(Order::Enable | Order::Retry | Order::Check) => {}
                Some(order) => {
                    drop(connecting);
                    return self.let_go(order).await;
                }
                None => return Stage::Over,
            }
        }
    }

    async fn connected(&mut self, result: Result<Greeted, CallError>) -> Stage {
        let (info, listed) = match result {
            Ok(connected) => connected,
            Err(error) => {
                self.failures = self.failures.saturating_add(1);
                return self.failed(error).await;
            }
        };
        let mut sessions = self.member.session.status();
        sessions.mark_unchanged();
        self.show(&info, listed);
        let now = Instant::now();
        Stage::Watch(Ready {
            since: now,
            info,
            sessions,
            listing: None,
            not_before: now,
            again: None,
            pause: LIST_PAUSE,
        })
    }

    /// Publishes a list.
    fn show(&self, info: &Arc<ServerInfo>, listed: Listed<Tool>) {
        let stocked = self.member.learn(info, listed);
        let tools = stocked.entries().len();
        self.shelf.store(Some(Arc::new(stocked)));
        self.member.publish(|status| {
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

    /// Watches over a connection until something happens to it.
    async fn watch(&mut self, mut ready: Ready) -> Stage {
        // The session may have been begun anew between its greeting and here.
        if let Some(next) = self.heard(&mut ready).await {
            return next;
        }
        let idle = ready.listing.is_none();
        tokio::select! {
            order = self.orders.recv() => match order {
                Some(Order::Enable | Order::Retry) => {}
                Some(Order::Check) => {
                    // Many may say so, and one list is an answer to all of them.
                    match &mut ready.listing {
                        Some(listing) => listing.checking = true,
                        None if self.member.is_outdated() => {
                            ready.listing = Some(Listing::begin(&self.member, true));
                        }
                        None => {}
                    }
                }
                Some(order) => {
                    drop(ready);
                    return self.let_go(order).await;
                }
                None => return Stage::Over,
            },
            Ok(()) = ready.sessions.changed() => {}
            Some(exit) = OptionFuture::from(self.managed.as_ref().map(Managed::exited)) => {
                self.managed = None;
                let reason = format!("the process of the server {exit}");
                return self.lost(ready.since, self.error(ConnectErrorKind::Transport(reason))).await;
            }
            () = changed_tools(&self.member, ready.not_before), if idle => {
                ready.not_before = Instant::now() + BETWEEN_LISTS;
                ready.listing = Some(Listing::begin(&self.member, false));
            }
            Some(()) = OptionFuture::from(ready.again.map(tokio::time::sleep_until)), if idle => {
                ready.listing = Some(Listing::begin(&self.member, false));
            }
            Some(fetched) = OptionFuture::from(ready.listing.as_mut().map(|listing| listing.fetched.as_mut())) => {
                return self.listed(ready, fetched).await;
            }
        }
        Stage::Watch(ready)
    }

    /// Looks at how the session is doing; what is returned is what to do about it.
    async fn heard(&mut self, ready: &mut Ready) -> Option<Stage> {
        let now = ready.sessions.borrow_and_update().clone();
        match now {
            // A list that is being fetched will be of the session there is.
            SessionStatus::Connected(info) if ready.listing.is_none() && !Arc::ptr_eq(&info, &ready.info) => {
                // What was listed was listed on another session; nothing of it may be used unseen.
                ready.info = info;
                self.member.bell.ring();
                ready.not_before = Instant::now();
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

    async fn listed(&mut self, mut ready: Ready, fetched: Result<Greeted, CallError>) -> Stage {
        let (rings, checking) = ready.listing.take().map_or((0, false), |listing| (listing.rings, listing.checking));
        ready.again = None;
        match fetched {
            Ok((info, listed)) => {
                ready.info = info;
                ready.pause = LIST_PAUSE;
                self.member.bell.answer(rings);
                self.show(&ready.info, listed);
            }
            Err(error) if checking && is_unreachable(&error) => return self.lost(ready.since, error).await,
            Err(error) => {
                // What was known is still the best there is.
                tracing::warn!(server = %self.member.server.name, %error, "the tools could not be listed anew");
                ready.again = Some(Instant::now() + ready.pause);
                ready.pause = (ready.pause * 2).min(LONGEST_LIST_PAUSE);
                self.member.bell.answer(rings);
                self.member.publish(|status| status.stale = Some(Arc::new(error)));
            }
        }
        Stage::Watch(ready)
    }

    /// A connection has ended by itself.
    async fn lost(&mut self, since: Instant, error: CallError) -> Stage {
        self.failures = if since.elapsed() >= STABLE { 0 } else { self.failures.saturating_add(1) };
        self.failed(error).await
    }

    async fn failed(&mut self, error: CallError) -> Stage {
        let (state, pause) = self.reconnection.after(self.failures, &error);
        let failures = self.failures;
        tracing::debug!(server = %self.member.server.name, %error, %state, failures, ?pause, "a server failed");
        // A connection that came halfway is kept: the next attempt goes on from there.
        self.forget();
        self.member.bell.answer(self.member.bell.rings());
        let next = pause.map(|pause| Instant::now() + pause);
        self.member.publish(|status| {
            status.state = state;
            status.reason = Some(StateReason::Error(Arc::new(error)));
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

    /// Obeys an order to end the connection.
    async fn let_go(&mut self, order: Order) -> Stage {
        self.forget();
        self.failures = 0;
        let (words, done, next) = match order {
            Order::Disable(words, done) => (words, done, Stage::Rest),
            Order::Stop(done) => ("it was removed".to_owned(), done, Stage::Over),
            Order::Enable | Order::Retry | Order::Check => return Stage::Connect,
        };
        self.member.publish(|status| {
            status.state = ServerState::Disabled;
            status.reason = Some(StateReason::SwitchedOff(words));
            status.failures = 0;
            status.next_try = None;
            status.tools = 0;
            status.info = None;
            status.stale = None;
            status.settled = true;
        });
        self.close().await;
        // Whoever asked may have gone away.
        let _ = done.send(());
        next
    }

    /// Nothing of what was listed is offered any more.
    fn forget(&self) {
        self.shelf.store(None);
        self.member.unlearn();
    }

    async fn close(&mut self) {
        self.member.session.close().await;
        if let Some(managed) = self.managed.take() {
            managed.stop().await;
        }
    }

    fn error(&self, kind: ConnectErrorKind) -> CallError {
        let server = self.member.server.name.clone();
        CallError { server, kind: CallErrorKind::Connect(kind), evidence: Evidence::default() }
    }
}

/// Completes when somebody has signed in, here or in another process; never where nobody does.
async fn somebody_signs_in(authority: Option<&dyn TokenProvider>) {
    let Some(authority) = authority else { return std::future::pending().await };
    loop {
        tokio::time::sleep(SIGN_IN_LOOK).await;
        if authority.has_newer_token().await {
            return;
        }
    }
}

/// Where refusals are remembered, and what would be refused now.
async fn refusable(member: &Member, outfit: &HostEnvironment) -> Option<(Arc<AuthFailureCache>, AuthFailure)> {
    let refusals = outfit.refusals.clone()?;
    let refusal = HostEnvironment::refusable(&member.server, member.authority.as_deref());
    let refusal = tokio::time::timeout(member.connect, refusal).await.ok()??;
    Some((refusals, refusal))
}

/// What is said of a server that is not asked, because it has just refused us.
fn refused(member: &Member, CachedAuthFailure { status, ago, left }: CachedAuthFailure) -> CallError {
    let ago = match ago.as_secs() {
        seconds @ ..60 => format!("{seconds} s"),
        seconds => format!("{} min", seconds / 60),
    };
    let left = left.as_secs().div_ceil(60);
    let reason = format!("it said so {ago} ago, and was not asked again; without a sign-in it is asked in {left} min");
    let kind = ConnectErrorKind::Auth(AuthRequired { status, challenge: None, reason: Some(reason.into()) });
    let (server, kind) = (member.server.name.clone(), CallErrorKind::Connect(kind));
    CallError { server, kind, evidence: Evidence::default() }
}

/// Starts what has to be started, and greets. The process of a managed server is handed back whatever happens.
async fn start(
    member: &Member,
    outfit: &HostEnvironment,
    managed: Option<Managed>,
) -> (Option<Managed>, Result<(), CallError>) {
    let managed = match (managed, &member.server.reach) {
        // One that has died meanwhile is no use to anybody.
        (Some(running), _) if running.exited().now_or_never().is_none() => Some(running),
        (_, TransportConfig::Managed(manage)) => {
            match Managed::start(outfit.managed(member.server.name.as_str(), manage)).await {
                Ok(managed) => Some(managed),
                Err(error) => {
                    let (server, kind) = (member.server.name.clone(), CallErrorKind::Connect(not_started(error)));
                    return (None, Err(CallError { server, kind, evidence: Evidence::default() }));
                }
            }
        }
        _ => None,
    };
    let connected = member.session.connect().await;
    (managed, connected.map(drop).map_err(CallError::from))
}

fn not_started(error: ManageError) -> ConnectErrorKind {
    match error {
        ManageError::Spawn { source, .. } => ConnectErrorKind::Spawn(Arc::new(source)),
        ManageError::Log { .. } => ConnectErrorKind::Unusable(error.to_string()),
        ManageError::Taken { .. } | ManageError::Ended { .. } | ManageError::Timeout { .. } => {
            ConnectErrorKind::Transport(error.to_string())
        }
    }
}

async fn greet(member: &Member) -> Result<Greeted, CallError> {
    // What was said before the list is in the list.
    let rings = member.bell.rings();
    let greeted = fetch(&member.session, member.connect).await?;
    member.bell.answer(rings);
    Ok(greeted)
}

/// Connects if need be, and lists. The list is of the very session it is told with: one that was begun anew meanwhile is
/// listed anew.
async fn fetch(session: &Session, limit: Duration) -> Result<Greeted, CallError> {
    let fail = |kind| {
        let (server, kind) = (session.name().clone(), CallErrorKind::Connect(kind));
        CallError { server, kind, evidence: session.evidence() }
    };
    let fetching = tokio::time::timeout(limit, fetch_at_leisure(session));
    match fetching.await {
        Ok(Ok(Some(greeted))) => Ok(greeted),
        Ok(Ok(None)) => {
            Err(fail(ConnectErrorKind::Ended("hung up again and again after it was asked for its tools".to_owned())))
        }
        Ok(Err(error)) => Err(error),
        Err(_) => Err(fail(ConnectErrorKind::Timeout(limit))),
    }
}

/// The same without an end; `None` if no session lives long enough.
async fn fetch_at_leisure(session: &Session) -> Result<Option<Greeted>, CallError> {
    for _ in 0..SESSIONS {
        let info = session.connect().await?;
        tracing::debug!(target: "wharf::step", step = "discover", server = session.name().as_str());
        let listed = match session.list_tools().await {
            // Not every server has tools, and not every one of those has an answer to that.
            Err(CallError { kind: CallErrorKind::Server { .. }, .. }) if !offers_tools(&info) => Listed::default(),
            listed => listed?,
        };
        if session.epoch() == info.epoch {
            return Ok(Some((info, listed)));
        }
    }
    Ok(None)
}

/// Completes when the tools have changed, and it is time to look.
async fn changed_tools(member: &Member, not_before: Instant) {
    member.bell.rung().await;
    tokio::time::sleep_until(not_before.max(Instant::now() + COALESCE)).await;
}

fn offers_tools(info: &ServerInfo) -> bool {
    Fields::of(&info.capabilities).is_ok_and(|fields| fields.json("tools").is_some())
}

fn is_unreachable(error: &CallError) -> bool {
    matches!(error.kind, CallErrorKind::Connect(_) | CallErrorKind::Lost(_))
}
