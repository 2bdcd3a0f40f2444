//! Finds out how a server wants to be spoken with, in a way that servers survive that know only the old one.
//!
//! ```text
//! auto:  ask `server/discover`
//!        ├─ a good answer ............................ modern
//!        ├─ an error that only the modern era has .... give up: it is modern, and refuses us
//!        ├─ any other answer ......................... handshake on the same connection, else on a fresh one
//!        ├─ it goes away ............................. handshake on a fresh connection
//!        └─ two seconds of silence ................... handshake on a second connection beside the first, which
//!                                                      is still listened to; the first good answer wins, and the
//!                                                      other is closed; after three more the first is greeted too
//! a handshake that meets HTTP 400, 404 or 405 ....... handshake over the transport that came before
//! a handshake that has been outgrown ................ ask `server/discover` once more
//! ```
//!
//! What came out is remembered, and forgotten when it stops working. All of it shares the connect deadline.

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::BoxFuture;
use futures_util::stream::FuturesUnordered;
use futures_util::{FutureExt as _, StreamExt as _};
use tokio::time::Instant;

use super::attempt::{Agreed, Opened, Parts};
use super::discover::{Discovered, discover};
use super::handshake::{NoHandshake, shake_hands};
use super::manner::Manner;
use super::race::{Event, Next, Race, Seat};
use super::{SavedSession, ServerInfo};
use crate::era::{UNSUPPORTED_VERSION, Verdict};
use crate::error::{RefusalCause, SessionRefusal};
use crate::transport::Transport;
use crate::{ConnectError, ConnectErrorKind, Evidence, ProtocolMode};

/// How long a server may be silent about what it speaks before it is greeted the old way beside that.
const SILENCE: Duration = Duration::from_secs(2);
/// How long one that has answered may take for its handshake before another is greeted beside it: it is there, and busy.
const BUSY: Duration = Duration::from_secs(10);
/// How long the one beside may take before the first is greeted too: there may be room for one only.
const CROWDED: Duration = Duration::from_secs(3);

pub(super) struct Negotiation<'a> {
    pub(super) parts: &'a Parts,
    /// The end of the connect deadline.
    pub(super) until: Instant,
}

impl Negotiation<'_> {
    pub(super) async fn run(&self) -> Result<Agreed, ConnectError> {
        let negotiating = async {
            if let Some(agreed) = self.take_up().await? {
                return Ok(agreed);
            }
            match self.parts.options.protocol {
                ProtocolMode::Auto => self.auto().await,
                ProtocolMode::Legacy => match self.legacy(&*self.parts.transport).await {
                    Err(error) if is_about_transport(&error) => self.over_older(error).await.map(|(agreed, _)| agreed),
                    result => result,
                },
                ProtocolMode::Modern => self.modern().await,
            }
        };
        // Every wait inside ends with the deadline too, and can say more about it.
        let grace = Duration::from_secs(1);
        let late = || self.error(self.parts.late());
        tokio::time::timeout_at(self.until + grace, negotiating).await.unwrap_or_else(|_| Err(late()))
    }

    /// Goes on with a session that was left with the server, where there is one.
    async fn take_up(&self) -> Result<Option<Agreed>, ConnectError> {
        let ours = |saved: &&Arc<SavedSession>| Some(saved.endpoint()) == self.parts.transport.identity().as_deref();
        let saved =
            self.parts.resume.as_ref().filter(ours).filter(|_| self.parts.options.protocol != ProtocolMode::Modern);
        let Some((saved, info)) = saved.and_then(|saved| Some((saved, saved.info()?))) else { return Ok(None) };
        let opened = self.open(&*self.parts.transport).await?;
        let taken_up = opened.wire.resume(saved.id(), &info.revision);
        Ok(taken_up.then_some(Agreed { opened, info, manner: Manner::Legacy }))
    }

    /// Goes by what is remembered, and finds out where that is nothing, or no longer true.
    async fn auto(&self) -> Result<Agreed, ConnectError> {
        let (memory, identity) = (&self.parts.options.memory, self.parts.transport.identity());
        let remembered = memory.recall(identity.as_deref());
        // However short its time is, there has to be some left for the other way.
        let silence = SILENCE.min(self.parts.options.deadlines.connect / 4);
        let error = match (remembered, self.parts.transport.older()) {
            // It is asked as if it were not known, but given more time: it need not be started twice because it is slow.
            (Some(Verdict::Modern), _) => return self.find_out(self.parts.options.deadlines.connect / 2).await,
            (Some(Verdict::Older), Some(older)) => self.legacy(&*older).await,
            (Some(Verdict::Legacy), _) => self.legacy(&*self.parts.transport).await,
            (None, _) | (Some(Verdict::Older), None) => return self.find_out(silence).await,
        };
        let error = match error {
            Ok(agreed) => return Ok(agreed),
            Err(error) => error,
        };
        // Whoever answered, or left over what it was told, may be another one now.
        let doubtful = match &error.kind {
            ConnectErrorKind::Refused(_) => true,
            ConnectErrorKind::Http(status) => status.status < 500 && status.status != 429,
            // A process that leaves over what it is told may have become another one.
            ConnectErrorKind::Ended(_) => !self.parts.transport.is_remote(),
            _ => false,
        };
        // One that is away, or in trouble, has not changed its ways; one that is silent may have.
        let mute = matches!(error.kind, ConnectErrorKind::Ended(_) | ConnectErrorKind::Timeout(_))
            || (remembered == Some(Verdict::Older) && matches!(error.kind, ConnectErrorKind::Transport(_)));
        if doubtful || mute {
            memory.forget(identity.as_deref()).await;
        }
        if doubtful { self.find_out(silence).await } else { Err(error) }
    }

    /// Speaks only the new way.
    async fn modern(&self) -> Result<Agreed, ConnectError> {
        let opened = self.open(&*self.parts.transport).await?;
        match self.in_time(self.discover(&opened)).await {
            Some(Discovered::Modern(info, manner)) => Ok(Agreed { opened, info, manner }),
            Some(Discovered::Legacy { kind, .. } | Discovered::Gone(kind) | Discovered::Hopeless(kind)) => {
                Err(self.failed(&opened, kind))
            }
            None => Err(self.failed(&opened, self.parts.late())),
        }
    }

    /// Speaks only the old way.
    async fn legacy(&self, transport: &dyn Transport) -> Result<Agreed, ConnectError> {
        let opened = self.open(transport).await?;
        match self.greet(&opened).await {
            Ok(info) => Ok(Agreed { opened, info, manner: Manner::Legacy }),
            Err(NoHandshake { kind: ConnectErrorKind::Refused(reason), code: Some(UNSUPPORTED_VERSION) }) => {
                let reason = format!("it speaks only the modern protocol ({reason})");
                let refusal = SessionRefusal::new(RefusalCause::ProtocolMode, reason);
                Err(self.failed(&opened, ConnectErrorKind::Refused(refusal)))
            }
            Err(NoHandshake { kind, .. }) => Err(self.failed(&opened, kind)),
        }
    }

    /// Finds out, and remembers. The server may be silent for so long.
    async fn find_out(&self, silence: Duration) -> Result<Agreed, ConnectError> {
        let (agreed, verdict) = self.asked(silence).await?;
        if let Some(verdict) = verdict {
            self.parts.options.memory.learn(self.parts.transport.identity().as_deref(), verdict).await;
        }
        Ok(agreed)
    }

    /// Asks the server, and says with what is agreed whether that is worth remembering.
    async fn asked(&self, silence: Duration) -> Result<(Agreed, Option<Verdict>), ConnectError> {
        let opened = self.open(&*self.parts.transport).await?;
        let mut discovering = self.discover(&opened);
        match tokio::time::timeout_at(self.until.min(Instant::now() + silence), &mut discovering).await {
            Err(_) => {
                let waiting = discovering.map(Event::Discovered).boxed();
                self.beside(Race::of(self, opened, None), waiting).await
            }
            Ok(Discovered::Modern(info, manner)) => Ok((Agreed { opened, info, manner }, Some(Verdict::Modern))),
            Ok(Discovered::Hopeless(kind)) => Err(self.failed(&opened, kind)),
            Ok(Discovered::Gone(_)) => {
                // A process that ends over a question knows none of them; a connection that breaks says nothing.
                let certain = !self.parts.transport.is_remote();
                drop(opened);
                let (agreed, verdict) = self.afresh(None).await?;
                Ok((agreed, verdict.filter(|_| certain)))
            }
            Ok(Discovered::Legacy { certain, kind }) => {
                tracing::debug!(server = %self.parts.name, %kind, "the server is greeted the old way");
                let verdict = certain.then_some(Verdict::Legacy);
                let mut greeting = self.greeting(&opened);
                // Over HTTP a second one would be no other than the first.
                let silence = if opened.wire.renews() { self.until } else { Instant::now() + BUSY };
                match tokio::time::timeout_at(self.until.min(silence), &mut greeting).await {
                    Ok(Ok(info)) => Ok((Agreed { opened, info, manner: Manner::Legacy }, verdict)),
                    Ok(Err(refused)) => self.refused(opened, refused).await,
                    Err(_) if Instant::now() >= self.until => Err(self.failed(&opened, self.parts.late())),
                    Err(_) => {
                        let waiting = greeting.map(|greeted| Event::Greeted(Seat::First, greeted)).boxed();
                        self.beside(Race::of(self, opened, Some(certain)), waiting).await
                    }
                }
            }
        }
    }

    /// A server that answered the question, though not as hoped, has refused the handshake after it.
    async fn refused(&self, opened: Opened, refused: NoHandshake) -> Result<(Agreed, Option<Verdict>), ConnectError> {
        let outgrown = refused.outgrown();
        let error = self.failed(&opened, refused.kind);
        if outgrown && let Some(Discovered::Modern(info, manner)) = self.in_time(self.discover(&opened)).await {
            return Ok((Agreed { opened, info, manner }, Some(Verdict::Modern)));
        }
        match &error.kind {
            _ if is_about_transport(&error) => self.over_older(error).await,
            // The question may be what has put it out; a fresh one has not heard it. Over HTTP every request is fresh.
            ConnectErrorKind::Ended(_) | ConnectErrorKind::Refused(_) if !opened.wire.renews() => {
                self.end(opened).await;
                self.afresh(Some(error)).await
            }
            _ => Err(error),
        }
    }

    /// Greets the server on a connection that has never heard the question.
    async fn afresh(&self, before: Option<ConnectError>) -> Result<(Agreed, Option<Verdict>), ConnectError> {
        match self.legacy(&*self.parts.transport).await {
            Ok(agreed) => Ok((agreed, Some(Verdict::Legacy))),
            Err(error) if is_about_transport(&error) => self.over_older(error).await,
            Err(error) => Err(before.unwrap_or(error)),
        }
    }

    /// Greets the server over the transport that came before, where there is one.
    async fn over_older(&self, error: ConnectError) -> Result<(Agreed, Option<Verdict>), ConnectError> {
        let Some(older) = self.parts.transport.older() else { return Err(error) };
        match self.legacy(&*older).await {
            Ok(agreed) => Ok((agreed, Some(Verdict::Older))),
            Err(second) if matches!(second.kind, ConnectErrorKind::Auth(_)) => Err(second),
            Err(_) => Err(error),
        }
    }

    /// The server is silent: it is starting, or it has not heard of such questions, or they have put it out. A second one
    /// is greeted the old way, and the first good answer of either counts.
    async fn beside(
        &self,
        mut race: Race<'_>,
        waiting: BoxFuture<'static, Event>,
    ) -> Result<(Agreed, Option<Verdict>), ConnectError> {
        let mut work = FuturesUnordered::<BoxFuture<'_, Event>>::new();
        work.push(waiting);
        work.push(self.open(&*self.parts.transport).map(Event::Opened).boxed());
        work.push(tokio::time::sleep(CROWDED).map(|()| Event::Crowded).boxed());
        let mut opening = true;
        loop {
            let event = match tokio::time::timeout_at(self.until, work.next()).await {
                Err(_) => return Err(race.over(self.parts.late())),
                Ok(None) => break,
                Ok(Some(event)) => event,
            };
            opening &= !matches!(event, Event::Opened(_));
            match race.on(event) {
                Next::Wait if race.is_deserted() && !opening => break,
                Next::Wait => {}
                Next::Greet(greeting) => work.push(greeting),
                Next::Done(result) => return *result,
            }
        }
        // Nothing came of either, or will.
        let error = race.failure.take().unwrap_or_else(|| self.error(self.parts.late()));
        if is_about_transport(&error) {
            return self.over_older(error).await;
        }
        if !race.crowded {
            return Err(error);
        }
        // There cannot be two of it at once: once more, alone.
        if let Some(put_out) = race.put_out.take() {
            self.end(put_out).await;
        }
        self.afresh(Some(error)).await
    }

    /// Closes a connection whose server has to be gone before the next is started: there may be room for one only.
    async fn end(&self, opened: Opened) {
        self.in_time(opened.wire.close()).await;
    }

    fn open<'a>(&'a self, transport: &'a dyn Transport) -> BoxFuture<'a, Result<Opened, ConnectError>> {
        self.parts.open(transport, self.until).boxed()
    }

    fn discover(&self, opened: &Opened) -> BoxFuture<'static, Discovered> {
        let (host, options) = (Arc::clone(&self.parts.host), self.parts.options.clone());
        discover(opened.wire.line(), host, options, Arc::clone(&self.parts.wishes)).boxed()
    }

    pub(super) fn greeting(&self, opened: &Opened) -> BoxFuture<'static, Result<ServerInfo, NoHandshake>> {
        shake_hands(opened.wire.line(), Arc::clone(&self.parts.host), self.parts.options.clone()).boxed()
    }

    async fn greet(&self, opened: &Opened) -> Result<ServerInfo, NoHandshake> {
        let late = || NoHandshake { kind: self.parts.late(), code: None };
        self.in_time(self.greeting(opened)).await.unwrap_or_else(|| Err(late()))
    }

    async fn in_time<T>(&self, work: impl Future<Output = T>) -> Option<T> {
        tokio::time::timeout_at(self.until, work).await.ok()
    }

    pub(super) fn failed(&self, opened: &Opened, kind: ConnectErrorKind) -> ConnectError {
        self.parts.error(kind, opened.wire.evidence())
    }

    pub(super) fn error(&self, kind: ConnectErrorKind) -> ConnectError {
        self.parts.error(kind, Evidence::default())
    }
}

/// Whether a refusal may mean that the server speaks over another transport.
fn is_about_transport(error: &ConnectError) -> bool {
    is_no_way(&error.kind)
}

pub(super) fn is_no_way(kind: &ConnectErrorKind) -> bool {
    matches!(kind, ConnectErrorKind::Http(status) if matches!(status.status, 400 | 404 | 405))
}
