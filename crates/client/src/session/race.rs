//! Two connections to one server, of which the first good answer counts. Deciding only; the negotiator waits.

use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;

use super::ServerInfo;
use super::attempt::{Agreed, Opened};
use super::discover::Discovered;
use super::handshake::NoHandshake;
use super::manner::Manner;
use super::negotiate::{Negotiation, is_no_way};
use crate::era::Verdict;
use crate::{ConnectError, ConnectErrorKind};

/// Two connections to one server: the first has been asked what it speaks, the second is greeted the old way.
#[expect(clippy::struct_excessive_bools, reason = "each is about something else, and all go with one function")]
pub(super) struct Race<'a> {
    negotiation: &'a Negotiation<'a>,
    first: Option<Opened>,
    second: Option<Opened>,
    /// Whether the first may still say that it is modern.
    discovering: bool,
    /// Whether the first has been greeted the old way too.
    greeted: bool,
    /// Whether what comes out is worth remembering.
    certain: bool,
    /// What became of the last one that failed.
    pub(super) failure: Option<ConnectError>,
    /// The second failed while the first lived: perhaps because it lived.
    pub(super) crowded: bool,
    /// The first, if it failed after that.
    pub(super) put_out: Option<Opened>,
}

pub(super) enum Event {
    Discovered(Discovered),
    Opened(Result<Opened, ConnectError>),
    /// The second has had its time.
    Crowded,
    Greeted(Seat, Result<ServerInfo, NoHandshake>),
}

#[derive(Clone, Copy)]
pub(super) enum Seat {
    First,
    Second,
}

pub(super) enum Next {
    Wait,
    Greet(BoxFuture<'static, Event>),
    Done(Box<Result<(Agreed, Option<Verdict>), ConnectError>>),
}

impl<'a> Race<'a> {
    /// With a first that has been asked, or that has answered, certainly or not, and been greeted.
    pub(super) fn of(negotiation: &'a Negotiation<'a>, first: Opened, answered: Option<bool>) -> Self {
        Self {
            negotiation,
            first: Some(first),
            second: None,
            discovering: answered.is_none(),
            greeted: answered.is_some(),
            certain: answered.unwrap_or(true),
            failure: None,
            crowded: false,
            put_out: None,
        }
    }

    /// Nobody is left who could still answer.
    pub(super) fn is_deserted(&self) -> bool {
        self.first.is_none() && self.second.is_none()
    }

    pub(super) fn on(&mut self, event: Event) -> Next {
        self.discovering &= !matches!(event, Event::Discovered(_));
        match event {
            // It has been given up since, and says only that.
            Event::Discovered(_) if self.first.is_none() => Next::Wait,
            Event::Discovered(Discovered::Modern(info, manner)) => self.won(Seat::First, info, manner),
            Event::Discovered(Discovered::Hopeless(kind)) => Next::Done(Box::new(Err(self.over(kind)))),
            Event::Discovered(Discovered::Gone(kind)) => {
                self.certain &= !self.negotiation.parts.transport.is_remote();
                self.lost(Seat::First, kind)
            }
            Event::Discovered(Discovered::Legacy { certain, .. }) => {
                self.certain &= certain;
                self.greet_first()
            }
            Event::Opened(Ok(second)) => {
                let greeting = self.negotiation.greeting(&second);
                self.second = Some(second);
                Next::Greet(greeting.map(|greeted| Event::Greeted(Seat::Second, greeted)).boxed())
            }
            Event::Opened(Err(error)) => {
                self.failure = Some(error);
                self.crowded |= self.first.is_some();
                self.greet_first()
            }
            Event::Crowded => self.greet_first(),
            Event::Greeted(seat, Ok(info)) => self.won(seat, info, Manner::Legacy),
            // It is modern, and only slow to say so.
            Event::Greeted(Seat::First, Err(refused)) if self.discovering && refused.outgrown() => Next::Wait,
            Event::Greeted(seat, Err(refused)) => {
                let (outgrown, kind) = (refused.outgrown(), refused.kind);
                // Over HTTP the question goes the same way, and is not answered there either.
                let no_way = self.first.as_ref().is_some_and(|first| first.wire.renews()) && is_no_way(&kind);
                let next = self.lost(seat, kind);
                match seat {
                    Seat::Second if outgrown => next,
                    Seat::Second if no_way => {
                        self.first = None;
                        next
                    }
                    Seat::Second => self.greet_first(),
                    Seat::First => next,
                }
            }
        }
    }

    /// The first is greeted the old way too, whether or not it has answered.
    fn greet_first(&mut self) -> Next {
        match &self.first {
            // Over HTTP it would be told what the second was told, or will be.
            Some(first) if first.wire.renews() => Next::Wait,
            Some(first) if !self.greeted => {
                self.greeted = true;
                first.wire.stand_alone(None);
                let greeting = self.negotiation.greeting(first);
                Next::Greet(greeting.map(|greeted| Event::Greeted(Seat::First, greeted)).boxed())
            }
            _ => Next::Wait,
        }
    }

    fn lost(&mut self, seat: Seat, kind: ConnectErrorKind) -> Next {
        let (lost, other) = match seat {
            Seat::First => (self.first.take(), self.second.is_some()),
            Seat::Second => (self.second.take(), self.first.is_some()),
        };
        if let Some(lost) = lost {
            self.failure = Some(self.negotiation.failed(&lost, kind));
            match seat {
                Seat::First if self.crowded => self.put_out = Some(lost),
                Seat::First => self.negotiation.parts.dismiss(lost),
                Seat::Second => {
                    self.crowded |= other;
                    self.negotiation.parts.dismiss(lost);
                }
            }
        }
        Next::Wait
    }

    fn won(&mut self, seat: Seat, info: ServerInfo, manner: Manner) -> Next {
        let (winner, other) = match seat {
            Seat::First => (self.first.take(), self.second.take()),
            Seat::Second => (self.second.take(), self.first.take()),
        };
        if let Some(other) = other {
            self.negotiation.parts.dismiss(other);
        }
        let verdict = match manner {
            Manner::Modern(_) => Some(Verdict::Modern),
            // A process that is silent about a question has not heard of it; a network may just be slow.
            Manner::Legacy if self.discovering && self.negotiation.parts.transport.is_remote() => None,
            Manner::Legacy => self.certain.then_some(Verdict::Legacy),
        };
        // Who has answered is there.
        let Some(opened) = winner else { return Next::Wait };
        Next::Done(Box::new(Ok((Agreed { opened, info, manner }, verdict))))
    }

    /// The race is over, and nobody has won.
    pub(super) fn over(&mut self, kind: ConnectErrorKind) -> ConnectError {
        let seats = [self.first.take(), self.second.take()];
        let error = match seats.iter().flatten().next() {
            Some(opened) => self.negotiation.failed(opened, kind),
            None => self.negotiation.error(kind),
        };
        seats.into_iter().flatten().for_each(|opened| self.negotiation.parts.dismiss(opened));
        error
    }
}
