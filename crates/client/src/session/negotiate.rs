//! Negotiates the protocol era, without breaking servers that know only the legacy one.
//!
//! ```text
//! auto:  send `server/discover`
//!        ├─ valid answer ............................. modern
//!        ├─ error that only the modern era has ....... fail: the server is modern and refuses the client
//!        ├─ any other answer ......................... handshake on the same connection, else on a new one
//!        ├─ disconnect ............................... handshake on a new connection
//!        └─ no answer within two seconds ............. handshake on a second connection while the first stays open;
//!                                                      the first good answer wins and the other is closed; after
//!                                                      three more seconds, handshake on the first too
//! handshake answered with HTTP 400, 404 or 405 ...... handshake over the older transport
//! handshake refused by a modern server .............. send `server/discover` again
//! ```
//!
//! The result is cached, and dropped from the cache when it stops working. All steps share the connect deadline.

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::BoxFuture;
use futures_util::stream::FuturesUnordered;
use futures_util::{FutureExt as _, StreamExt as _};
use tokio::time::Instant;

use super::SavedSession;
use super::connect_context::{Candidate, ConnectContext, Negotiated, suggests_older_transport};
use super::discover::Discovered;
use super::handshake::HandshakeError;
use super::race::{CandidateId, Event, Race, Step};
use super::sender::NegotiatedProtocol;
use crate::era::{KnownEra, UNSUPPORTED_VERSION};
use crate::error::{RefusalCause, SessionRefusal};
use crate::transport::Transport;
use crate::{ConnectError, ConnectErrorKind, ProtocolMode};

/// Time for `server/discover` before a legacy handshake starts on a second connection.
const DISCOVER_TIMEOUT: Duration = Duration::from_secs(2);
/// Time for the handshake of a server that answered `server/discover`: it runs, and may be busy.
const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(10);
/// Time for the second connection before the first gets a handshake too: the server may accept only one connection.
const SECOND_CONNECTION_HEAD_START: Duration = Duration::from_secs(3);

/// A negotiated connection, and the era to cache if it is certain.
type Detected = Result<(Negotiated, Option<KnownEra>), ConnectError>;

pub(super) struct Negotiation<'a> {
    pub(super) context: &'a ConnectContext,
    /// The end of the connect deadline.
    pub(super) deadline: Instant,
}

impl Negotiation<'_> {
    pub(super) async fn run(&self) -> Result<Negotiated, ConnectError> {
        let negotiating = async {
            if let Some(negotiated) = self.resume().await? {
                return Ok(negotiated);
            }
            match self.context.options.protocol {
                ProtocolMode::Auto => self.auto().await,
                ProtocolMode::Legacy => match self.legacy(&*self.context.transport).await {
                    Err(error) if suggests_older_transport(&error.kind) => {
                        self.try_older_transport(error).await.map(|(negotiated, _)| negotiated)
                    }
                    result => result,
                },
                ProtocolMode::Modern => self.modern().await,
            }
        };
        // Every wait inside ends with the deadline too, and reports a more precise error.
        let grace = Duration::from_secs(1);
        let timeout = || self.context.error(self.context.timeout());
        tokio::time::timeout_at(self.deadline + grace, negotiating).await.unwrap_or_else(|_| Err(timeout()))
    }

    /// Resumes a saved session of this server, if the options name one.
    async fn resume(&self) -> Result<Option<Negotiated>, ConnectError> {
        if self.context.options.protocol == ProtocolMode::Modern {
            return Ok(None);
        }
        let is_ours =
            |saved: &&Arc<SavedSession>| Some(saved.endpoint()) == self.context.transport.identity().as_deref();
        let saved = self.context.resume.as_ref().filter(is_ours);
        let Some((saved, info)) = saved.and_then(|saved| Some((saved, saved.info()?))) else { return Ok(None) };
        let candidate = self.open(&*self.context.transport).await?;
        let resumed = candidate.wire.resume(saved.id(), &info.revision);
        Ok(resumed.then_some(Negotiated { candidate, info, protocol: NegotiatedProtocol::Legacy }))
    }

    /// Uses the cached era, and detects it where the cache has none or is out of date.
    async fn auto(&self) -> Result<Negotiated, ConnectError> {
        let era_cache = &self.context.options.era_cache;
        let identity = self.context.transport.identity();
        let cached = era_cache.get(identity.as_deref());
        // Even with a short connect deadline, some time must remain for the legacy handshake.
        let discover_timeout = DISCOVER_TIMEOUT.min(self.context.options.deadlines.connect / 4);
        let result = match (cached, self.context.transport.fallback()) {
            // Sends `server/discover` as if nothing were cached, but waits longer: a slow server need not start twice.
            (Some(KnownEra::Modern), _) => return self.detect(self.context.options.deadlines.connect / 2).await,
            (Some(KnownEra::Older), Some(older)) => self.legacy(&*older).await,
            (Some(KnownEra::Legacy), _) => self.legacy(&*self.context.transport).await,
            (None, _) | (Some(KnownEra::Older), None) => return self.detect(discover_timeout).await,
        };
        let error = match result {
            Ok(negotiated) => return Ok(negotiated),
            Err(error) => error,
        };
        // A server that refused, or exited because of the handshake, may have been upgraded.
        let may_be_upgraded = match &error.kind {
            ConnectErrorKind::Refused(_) => true,
            ConnectErrorKind::Http(status) => status.status < 500 && status.status != 429,
            ConnectErrorKind::Ended(_) => !self.context.transport.is_remote(),
            _ => false,
        };
        // An unreachable or failing server has not changed its era; a silent one may have.
        let is_silent = matches!(error.kind, ConnectErrorKind::Ended(_) | ConnectErrorKind::Timeout(_))
            || (cached == Some(KnownEra::Older) && matches!(error.kind, ConnectErrorKind::Transport(_)));
        if may_be_upgraded || is_silent {
            era_cache.remove(identity.as_deref()).await;
        }
        if may_be_upgraded { self.detect(discover_timeout).await } else { Err(error) }
    }

    /// Connects in the modern era only.
    async fn modern(&self) -> Result<Negotiated, ConnectError> {
        let candidate = self.open(&*self.context.transport).await?;
        match self.before_deadline(self.context.discover(&candidate)).await {
            Some(Discovered::Modern(info, protocol)) => Ok(Negotiated { candidate, info, protocol }),
            Some(Discovered::Legacy { kind, .. } | Discovered::Disconnected(kind) | Discovered::Fatal(kind)) => {
                Err(self.context.candidate_error(&candidate, kind))
            }
            None => Err(self.context.candidate_error(&candidate, self.context.timeout())),
        }
    }

    /// Connects in the legacy era only.
    async fn legacy(&self, transport: &dyn Transport) -> Result<Negotiated, ConnectError> {
        let candidate = self.open(transport).await?;
        let timeout = || HandshakeError { kind: self.context.timeout(), code: None };
        let result = self.before_deadline(self.context.handshake(&candidate)).await;
        match result.unwrap_or_else(|| Err(timeout())) {
            Ok(info) => Ok(Negotiated { candidate, info, protocol: NegotiatedProtocol::Legacy }),
            Err(HandshakeError { kind: ConnectErrorKind::Refused(reason), code: Some(UNSUPPORTED_VERSION) }) => {
                let reason = format!("it supports only the modern protocol ({reason})");
                let refusal = SessionRefusal::new(RefusalCause::ProtocolMode, reason);
                Err(self.context.candidate_error(&candidate, ConnectErrorKind::Refused(refusal)))
            }
            Err(HandshakeError { kind, .. }) => Err(self.context.candidate_error(&candidate, kind)),
        }
    }

    /// Detects the era and caches it. The server may be silent for `discover_timeout`.
    async fn detect(&self, discover_timeout: Duration) -> Result<Negotiated, ConnectError> {
        let (negotiated, era) = self.detect_era(discover_timeout).await?;
        if let Some(era) = era {
            let identity = self.context.transport.identity();
            self.context.options.era_cache.insert(identity.as_deref(), era).await;
        }
        Ok(negotiated)
    }

    async fn detect_era(&self, discover_timeout: Duration) -> Detected {
        let candidate = self.open(&*self.context.transport).await?;
        let mut discovering = self.context.discover(&candidate);
        let wait_until = self.deadline.min(Instant::now() + discover_timeout);
        match tokio::time::timeout_at(wait_until, &mut discovering).await {
            Err(_) => {
                let pending = discovering.map(Event::Discovered).boxed();
                self.race(Race::discovering(self.context, candidate), pending).await
            }
            Ok(Discovered::Modern(info, protocol)) => {
                Ok((Negotiated { candidate, info, protocol }, Some(KnownEra::Modern)))
            }
            Ok(Discovered::Fatal(kind)) => Err(self.context.candidate_error(&candidate, kind)),
            Ok(Discovered::Disconnected(_)) => {
                // A process that exits on `server/discover` is legacy; a broken network connection proves nothing.
                let is_certain = !self.context.transport.is_remote();
                drop(candidate);
                let (negotiated, era) = self.retry_fresh(None).await?;
                Ok((negotiated, if is_certain { era } else { None }))
            }
            Ok(Discovered::Legacy { certain, kind }) => {
                tracing::debug!(server = %self.context.name, %kind, "falling back to the legacy handshake");
                self.legacy_after_discover(candidate, certain).await
            }
        }
    }

    /// Handshakes with a server that answered `server/discover` as a legacy server does.
    async fn legacy_after_discover(&self, candidate: Candidate, certain: bool) -> Detected {
        let mut handshake = self.context.handshake(&candidate);
        // Over HTTP a second connection would reach the same server in the same way.
        let can_race = !candidate.wire.supports_rehandshake();
        let wait_until = if can_race { self.deadline.min(Instant::now() + HANDSHAKE_TIMEOUT) } else { self.deadline };
        match tokio::time::timeout_at(wait_until, &mut handshake).await {
            Ok(Ok(info)) => {
                let negotiated = Negotiated { candidate, info, protocol: NegotiatedProtocol::Legacy };
                Ok((negotiated, certain.then_some(KnownEra::Legacy)))
            }
            Ok(Err(error)) => self.after_refusal(candidate, error).await,
            Err(_) if Instant::now() >= self.deadline => {
                Err(self.context.candidate_error(&candidate, self.context.timeout()))
            }
            Err(_) => {
                let pending = handshake.map(|done| Event::HandshakeDone(CandidateId::First, done)).boxed();
                self.race(Race::handshaking(self.context, candidate, certain), pending).await
            }
        }
    }

    /// Continues after a server answered `server/discover` with an error and then refused the handshake.
    async fn after_refusal(&self, candidate: Candidate, refused: HandshakeError) -> Detected {
        let may_be_modern = refused.may_be_modern();
        let error = self.context.candidate_error(&candidate, refused.kind);
        if may_be_modern
            && let Some(Discovered::Modern(info, protocol)) =
                self.before_deadline(self.context.discover(&candidate)).await
        {
            return Ok((Negotiated { candidate, info, protocol }, Some(KnownEra::Modern)));
        }
        match &error.kind {
            kind if suggests_older_transport(kind) => self.try_older_transport(error).await,
            // `server/discover` itself may have broken the connection. Over HTTP every request is a fresh start anyway.
            ConnectErrorKind::Ended(_) | ConnectErrorKind::Refused(_) if !candidate.wire.supports_rehandshake() => {
                self.close(candidate).await;
                self.retry_fresh(Some(error)).await
            }
            _ => Err(error),
        }
    }

    /// Handshakes on a new connection that was never sent `server/discover`.
    async fn retry_fresh(&self, previous: Option<ConnectError>) -> Detected {
        match self.legacy(&*self.context.transport).await {
            Ok(negotiated) => Ok((negotiated, Some(KnownEra::Legacy))),
            Err(error) if suggests_older_transport(&error.kind) => self.try_older_transport(error).await,
            Err(error) => Err(previous.unwrap_or(error)),
        }
    }

    /// Handshakes over the older transport, if one exists. Otherwise fails with `error`.
    async fn try_older_transport(&self, error: ConnectError) -> Detected {
        let Some(older) = self.context.transport.fallback() else { return Err(error) };
        match self.legacy(&*older).await {
            Ok(negotiated) => Ok((negotiated, Some(KnownEra::Older))),
            Err(second) if matches!(second.kind, ConnectErrorKind::Auth(_)) => Err(second),
            Err(_) => Err(error),
        }
    }

    /// Continues with a silent server: it is still starting, does not know `server/discover`, or hangs because of it. A
    /// second connection gets a legacy handshake, and the first good answer of either wins.
    async fn race(&self, mut race: Race<'_>, pending: BoxFuture<'static, Event>) -> Detected {
        let mut work = FuturesUnordered::<BoxFuture<'_, Event>>::new();
        work.push(pending);
        work.push(self.open(&*self.context.transport).map(Event::Opened).boxed());
        work.push(tokio::time::sleep(SECOND_CONNECTION_HEAD_START).map(|()| Event::HeadStartOver).boxed());
        let mut opening = true;
        loop {
            let event = match tokio::time::timeout_at(self.deadline, work.next()).await {
                Err(_) => return Err(race.fail(self.context.timeout())),
                Ok(None) => break,
                Ok(Some(event)) => event,
            };
            opening &= !matches!(event, Event::Opened(_));
            match race.on_event(event) {
                Step::Wait if race.has_no_candidates() && !opening => break,
                Step::Wait => {}
                Step::Handshake(handshake) => work.push(handshake),
                Step::Done(result) => return *result,
            }
        }
        // Both candidates failed.
        let error = race.failure.take().unwrap_or_else(|| self.context.error(self.context.timeout()));
        if suggests_older_transport(&error.kind) {
            return self.try_older_transport(error).await;
        }
        if !race.maybe_exclusive {
            return Err(error);
        }
        // The server may accept only one connection at a time: try again with one.
        if let Some(first) = race.failed_first.take() {
            self.close(first).await;
        }
        self.retry_fresh(Some(error)).await
    }

    /// Closes a connection and waits for it: the server may accept only one at a time.
    async fn close(&self, candidate: Candidate) {
        self.before_deadline(candidate.wire.close()).await;
    }

    fn open<'a>(&'a self, transport: &'a dyn Transport) -> BoxFuture<'a, Result<Candidate, ConnectError>> {
        self.context.open(transport, self.deadline).boxed()
    }

    async fn before_deadline<T>(&self, work: impl Future<Output = T>) -> Option<T> {
        tokio::time::timeout_at(self.deadline, work).await.ok()
    }
}
