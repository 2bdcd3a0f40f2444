//! One attempt to connect: open the transport, agree on how to speak, and hand over a connection that is ready.

use std::panic::AssertUnwindSafe;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, Weak};
use std::time::Duration;

use futures_util::FutureExt as _;
use tokio::sync::Semaphore;
use tokio::task::JoinSet;
use tokio::time::Instant;
use wharf_protocol::ServerName;

use super::beliefs::Beliefs;
use super::manner::{Manner, Speaker, Wishes};
use super::negotiate::Negotiation;
use super::{Inner, Live, Phase, SavedSession, ServerInfo, SessionOptions, SessionStatus};
use crate::health::Counters;
use crate::restarts::jittered;
use crate::transport::{OpenError, Transport};
use crate::wire::{Setup, Wire};
use crate::{ConnectError, ConnectErrorKind, Evidence, Host};

/// The pauses between the tries of one attempt.
const PAUSES: [Duration; 2] = [Duration::from_millis(500), Duration::from_secs(1)];

/// What an attempt needs of its session, without keeping the session alive.
pub(super) struct Parts {
    pub(super) name: ServerName,
    pub(super) transport: Arc<dyn Transport>,
    pub(super) host: Arc<dyn Host>,
    pub(super) options: SessionOptions,
    /// A session to go on with instead of beginning one.
    pub(super) resume: Option<Arc<SavedSession>>,
    pub(super) counters: Arc<Counters>,
    pub(super) wishes: Arc<Wishes>,
    /// What the server is known by.
    pub(super) endpoint: Arc<str>,
    pub(super) session: Weak<Inner>,
}

/// An open connection on which nothing has been agreed.
pub(super) struct Opened {
    pub(super) number: u64,
    pub(super) wire: Wire,
    pub(super) beliefs: Arc<Beliefs>,
}

/// An open connection, and what has been agreed on it.
pub(super) struct Agreed {
    pub(super) opened: Opened,
    pub(super) info: ServerInfo,
    pub(super) manner: Manner,
}

impl Parts {
    /// Connects. A remote server that is not there, or says of itself that it is in trouble, may just be starting: it is
    /// tried a few times, all within the time of one attempt.
    pub(super) async fn connect(self) -> Result<Live, ConnectError> {
        let (limit, began) = (self.options.deadlines.connect, Instant::now());
        let until = began.checked_add(limit).unwrap_or(began + Duration::from_secs(365 * 24 * 60 * 60));
        let mut pauses = PAUSES.into_iter().filter(|_| self.transport.is_remote());
        loop {
            let negotiation = Negotiation { parts: &self, until };
            let error = match negotiation.run().await {
                Ok(agreed) => return Ok(self.live(agreed)),
                Err(error) => error,
            };
            let pause = pauses.next().filter(|_| error.kind.may_pass()).map(jittered);
            match pause {
                Some(pause) if began.elapsed() + pause < limit => tokio::time::sleep(pause).await,
                _ => return Err(error),
            }
        }
    }

    /// Opens the way to the server.
    pub(super) async fn open(&self, transport: &dyn Transport, until: Instant) -> Result<Opened, ConnectError> {
        let error = |kind| Err(self.error(kind, Evidence::default()));
        // A transport that panics has failed like any other.
        let opening = AssertUnwindSafe(transport.open()).catch_unwind();
        let panicked = |_| Err(OpenError::Other("the transport panicked".to_owned()));
        let link = match tokio::time::timeout_at(until, opening).await.map(|opened| opened.unwrap_or_else(panicked)) {
            Ok(Ok(link)) => link,
            Ok(Err(OpenError::Spawn(reason))) => return error(ConnectErrorKind::Spawn(reason)),
            Ok(Err(OpenError::Auth(auth))) => return error(ConnectErrorKind::Auth(auth)),
            Ok(Err(OpenError::Http(status))) => return error(ConnectErrorKind::Http(status)),
            Ok(Err(OpenError::Unusable(reason))) => return error(ConnectErrorKind::Unusable(reason)),
            Ok(Err(OpenError::Untrusted(reason))) => return error(ConnectErrorKind::Untrusted(reason)),
            Ok(Err(OpenError::Other(reason))) => return error(ConnectErrorKind::Transport(reason)),
            Err(_) => return error(self.late()),
        };
        let number = self.counters.opened.fetch_add(1, Ordering::Relaxed) + 1;
        let beliefs = Arc::new(Beliefs::new(Arc::clone(&self.options.cache), &self.endpoint));
        let (believed, session) = (Arc::clone(&beliefs), self.session.clone());
        let wire = Wire::start(
            link,
            Setup {
                host: Arc::clone(&self.host),
                counters: Arc::clone(&self.counters),
                on_notice: Box::new(move |notice, request| believed.on_notice(notice, request)),
                on_end: Box::new(move |ending| {
                    let live = session.upgrade()?.ended(number, ending)?;
                    Some(live as Arc<dyn Send + Sync>)
                }),
                write_limit: self.options.deadlines.write,
                answer_limit: self.options.deadlines.answer,
            },
        );
        if let Some(session) = self.session.upgrade() {
            session.status.send_if_modified(|status| {
                let known = matches!(status, SessionStatus::Connecting(Phase::Handshake));
                *status = SessionStatus::Connecting(Phase::Handshake);
                !known
            });
        }
        Ok(Opened { number, wire, beliefs })
    }

    /// Closes a connection that is not needed after all, in good order, while others go on.
    pub(super) fn dismiss(&self, opened: Opened) {
        if let Some(session) = self.session.upgrade() {
            session.start().tasks.spawn(async move { opened.wire.close().await });
        }
    }

    pub(super) fn error(&self, kind: ConnectErrorKind, evidence: Evidence) -> ConnectError {
        ConnectError { server: self.name.clone(), kind, evidence }
    }

    /// The connect deadline was missed.
    pub(super) fn late(&self) -> ConnectErrorKind {
        ConnectErrorKind::Timeout(self.options.deadlines.connect)
    }

    fn live(&self, agreed: Agreed) -> Live {
        let Agreed { opened: Opened { number, wire, beliefs }, info, manner } = agreed;
        // A process that was started anew may be another version, and nobody heard of changes meanwhile.
        if self.counters.connections.fetch_add(1, Ordering::Relaxed) > 0 {
            beliefs.begin_again();
        } else if !self.transport.is_remote() {
            beliefs.forget();
        }
        match &manner {
            Manner::Legacy => wire.listen(),
            // It may have been greeted the old way too, before it answered.
            Manner::Modern(introduction) => wire.stand_alone(Some(introduction.revision)),
        }
        let speaker = Speaker { line: wire.line(), manner, wishes: Arc::clone(&self.wishes) };
        let live = Live {
            number,
            wire,
            speaker,
            info: Arc::new(ServerInfo { generation: number, ..info }),
            beliefs,
            since: Instant::now(),
            lost: AtomicBool::new(false),
            doubtful: AtomicBool::new(false),
            asking: Semaphore::new(1),
            beside: Mutex::new(JoinSet::new()),
        };
        live.follow_up(&self.options);
        live
    }
}
