//! A race between two connections to one server: the first good answer wins. This file decides; the negotiator waits.

use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;

use super::ServerInfo;
use super::connect_context::{Candidate, ConnectContext, Negotiated, suggests_older_transport};
use super::discover::Discovered;
use super::handshake::HandshakeError;
use super::sender::NegotiatedProtocol;
use crate::era::KnownEra;
use crate::{ConnectError, ConnectErrorKind};

/// Two connections to one server. The first has been sent `server/discover`; the second gets a legacy handshake.
#[expect(clippy::struct_excessive_bools, reason = "the flags are independent and only one function changes them")]
pub(super) struct Race<'a> {
    context: &'a ConnectContext,
    first: Option<Candidate>,
    second: Option<Candidate>,
    /// Whether the first may still turn out to be modern.
    discovery_pending: bool,
    /// Whether a legacy handshake was started on the first too.
    handshake_on_first: bool,
    /// Whether the result should be cached.
    is_certain: bool,
    /// The error of the last candidate that failed.
    pub(super) failure: Option<ConnectError>,
    /// The second failed while the first was open. The server may accept only one connection at a time.
    pub(super) maybe_exclusive: bool,
    /// The first candidate, if it failed after that.
    pub(super) failed_first: Option<Candidate>,
}

pub(super) enum Event {
    Discovered(Discovered),
    Opened(Result<Candidate, ConnectError>),
    /// The second candidate had its head start.
    HeadStartOver,
    HandshakeDone(CandidateId, Result<ServerInfo, HandshakeError>),
}

#[derive(Clone, Copy)]
pub(super) enum CandidateId {
    First,
    Second,
}

/// What the negotiator does after an event.
pub(super) enum Step {
    Wait,
    Handshake(BoxFuture<'static, Event>),
    Done(Box<Result<(Negotiated, Option<KnownEra>), ConnectError>>),
}

impl<'a> Race<'a> {
    /// Starts with a first candidate that has not answered `server/discover` yet.
    pub(super) fn discovering(context: &'a ConnectContext, first: Candidate) -> Self {
        Self {
            context,
            first: Some(first),
            second: None,
            discovery_pending: true,
            handshake_on_first: false,
            is_certain: true,
            failure: None,
            maybe_exclusive: false,
            failed_first: None,
        }
    }

    /// Starts with a first candidate that turned out to be legacy, and whose handshake is in flight.
    pub(super) fn handshaking(context: &'a ConnectContext, first: Candidate, is_certain: bool) -> Self {
        Self { discovery_pending: false, handshake_on_first: true, is_certain, ..Self::discovering(context, first) }
    }

    /// Whether both candidates have failed.
    pub(super) fn has_no_candidates(&self) -> bool {
        self.first.is_none() && self.second.is_none()
    }

    pub(super) fn on_event(&mut self, event: Event) -> Step {
        self.discovery_pending &= !matches!(event, Event::Discovered(_));
        match event {
            // The first was given up since; this event only reports that.
            Event::Discovered(_) if self.first.is_none() => Step::Wait,
            Event::Discovered(Discovered::Modern(info, protocol)) => self.won(CandidateId::First, info, protocol),
            Event::Discovered(Discovered::Fatal(kind)) => Step::Done(Box::new(Err(self.fail(kind)))),
            Event::Discovered(Discovered::Disconnected(kind)) => {
                self.is_certain &= !self.context.transport.is_remote();
                self.lost(CandidateId::First, kind)
            }
            Event::Discovered(Discovered::Legacy { certain, .. }) => {
                self.is_certain &= certain;
                self.start_handshake_on_first()
            }
            Event::Opened(Ok(second)) => {
                let handshake = self.context.handshake(&second);
                self.second = Some(second);
                Step::Handshake(handshake.map(|done| Event::HandshakeDone(CandidateId::Second, done)).boxed())
            }
            Event::Opened(Err(error)) => {
                self.failure = Some(error);
                self.maybe_exclusive |= self.first.is_some();
                self.start_handshake_on_first()
            }
            Event::HeadStartOver => self.start_handshake_on_first(),
            Event::HandshakeDone(id, Ok(info)) => self.won(id, info, NegotiatedProtocol::Legacy),
            // The server is modern and only slow to answer `server/discover`.
            Event::HandshakeDone(CandidateId::First, Err(error)) if self.discovery_pending && error.may_be_modern() => {
                Step::Wait
            }
            Event::HandshakeDone(id, Err(error)) => self.on_handshake_error(id, error),
        }
    }

    fn on_handshake_error(&mut self, id: CandidateId, error: HandshakeError) -> Step {
        let may_be_modern = error.may_be_modern();
        // Over HTTP `server/discover` takes the same route, and will not be answered there either.
        let route_is_wrong = self.first.as_ref().is_some_and(|first| first.wire.supports_rehandshake())
            && suggests_older_transport(&error.kind);
        let step = self.lost(id, error.kind);
        match id {
            CandidateId::Second if may_be_modern => step,
            CandidateId::Second if route_is_wrong => {
                self.first = None;
                step
            }
            CandidateId::Second => self.start_handshake_on_first(),
            CandidateId::First => step,
        }
    }

    /// Starts a legacy handshake on the first candidate, whether or not it has answered `server/discover`.
    fn start_handshake_on_first(&mut self) -> Step {
        match &self.first {
            // Over HTTP the answer would be the same as the second's.
            Some(first) if first.wire.supports_rehandshake() => Step::Wait,
            Some(first) if !self.handshake_on_first => {
                self.handshake_on_first = true;
                first.wire.set_stateless(None);
                let handshake = self.context.handshake(first);
                Step::Handshake(handshake.map(|done| Event::HandshakeDone(CandidateId::First, done)).boxed())
            }
            _ => Step::Wait,
        }
    }

    fn lost(&mut self, id: CandidateId, kind: ConnectErrorKind) -> Step {
        let (lost, other_is_open) = match id {
            CandidateId::First => (self.first.take(), self.second.is_some()),
            CandidateId::Second => (self.second.take(), self.first.is_some()),
        };
        if let Some(lost) = lost {
            self.failure = Some(self.context.candidate_error(&lost, kind));
            match id {
                CandidateId::First if self.maybe_exclusive => self.failed_first = Some(lost),
                CandidateId::First => self.context.close_in_background(lost),
                CandidateId::Second => {
                    self.maybe_exclusive |= other_is_open;
                    self.context.close_in_background(lost);
                }
            }
        }
        Step::Wait
    }

    fn won(&mut self, id: CandidateId, info: ServerInfo, protocol: NegotiatedProtocol) -> Step {
        let (winner, other) = match id {
            CandidateId::First => (self.first.take(), self.second.take()),
            CandidateId::Second => (self.second.take(), self.first.take()),
        };
        if let Some(other) = other {
            self.context.close_in_background(other);
        }
        let era = match protocol {
            NegotiatedProtocol::Modern(_) => Some(KnownEra::Modern),
            // A process that ignores `server/discover` does not know it; a remote server may just be slow.
            NegotiatedProtocol::Legacy if self.discovery_pending && self.context.transport.is_remote() => None,
            NegotiatedProtocol::Legacy => self.is_certain.then_some(KnownEra::Legacy),
        };
        // A candidate that answered is always present.
        let Some(candidate) = winner else { return Step::Wait };
        Step::Done(Box::new(Ok((Negotiated { candidate, info, protocol }, era))))
    }

    /// Ends the race without a winner.
    pub(super) fn fail(&mut self, kind: ConnectErrorKind) -> ConnectError {
        let candidates = [self.first.take(), self.second.take()];
        let error = match candidates.iter().flatten().next() {
            Some(candidate) => self.context.candidate_error(candidate, kind),
            None => self.context.error(kind),
        };
        candidates.into_iter().flatten().for_each(|candidate| self.context.close_in_background(candidate));
        error
    }
}
