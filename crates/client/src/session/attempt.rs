//! One attempt to connect: open the transport, shake hands, and hand over a connection that is ready.

use std::panic::AssertUnwindSafe;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;

use futures_util::FutureExt as _;
use tokio::sync::Semaphore;
use tokio::time::Instant;
use wharf_protocol::ServerName;

use super::tools::KnownTools;
use super::{Inner, Live, Phase, SessionOptions, Status, handshake};
use crate::health::Counters;
use crate::restarts::jittered;
use crate::transport::{OpenError, Transport};
use crate::wire::{Setup, Wire};
use crate::{ConnectError, ConnectErrorKind, Evidence, Host, Notice};

/// The pauses between the tries of one attempt.
const PAUSES: [Duration; 2] = [Duration::from_millis(500), Duration::from_secs(1)];

/// What an attempt needs of its session, without keeping the session alive.
pub(super) struct Parts {
    pub(super) name: ServerName,
    pub(super) transport: Arc<dyn Transport>,
    pub(super) host: Arc<dyn Host>,
    pub(super) options: SessionOptions,
    pub(super) counters: Arc<Counters>,
}

impl Parts {
    /// Connects. A remote server that is not there, or says of itself that it is in trouble, may just be starting: it is
    /// tried a few times, all within the time of one attempt.
    pub(super) async fn connect(self, session: Weak<Inner>) -> Result<Live, ConnectError> {
        let (limit, began) = (self.options.deadlines.connect, Instant::now());
        let mut pauses = PAUSES.into_iter().filter(|_| self.transport.is_remote());
        loop {
            let error = match self.try_once(&session, limit, limit.saturating_sub(began.elapsed())).await {
                Ok(live) => return Ok(live),
                Err(error) => error,
            };
            let pause = pauses.next().filter(|_| error.kind.may_pass()).map(jittered);
            match pause {
                Some(pause) if began.elapsed() + pause < limit => tokio::time::sleep(pause).await,
                _ => return Err(error),
            }
        }
    }

    /// One try, with what is `left` of the `limit`.
    async fn try_once(&self, session: &Weak<Inner>, limit: Duration, left: Duration) -> Result<Live, ConnectError> {
        let error = |kind, evidence| ConnectError { server: self.name.clone(), kind, evidence };
        let began = Instant::now();
        // A transport that panics has failed like any other.
        let opening = AssertUnwindSafe(self.transport.open()).catch_unwind();
        let panicked = |_| Err(OpenError::Other("the transport panicked".to_owned()));
        let link = match tokio::time::timeout(left, opening).await.map(|opened| opened.unwrap_or_else(panicked)) {
            Ok(Ok(link)) => link,
            Ok(Err(OpenError::Spawn(reason))) => {
                return Err(error(ConnectErrorKind::Spawn(reason), Evidence::default()));
            }
            Ok(Err(OpenError::Auth(auth))) => {
                return Err(error(ConnectErrorKind::Auth(auth), Evidence::default()));
            }
            Ok(Err(OpenError::Http(status))) => {
                return Err(error(ConnectErrorKind::Http(status), Evidence::default()));
            }
            Ok(Err(OpenError::Unusable(reason))) => {
                return Err(error(ConnectErrorKind::Unusable(reason), Evidence::default()));
            }
            Ok(Err(OpenError::Other(reason))) => {
                return Err(error(ConnectErrorKind::Transport(reason), Evidence::default()));
            }
            Err(_) => return Err(error(ConnectErrorKind::Timeout(limit), Evidence::default())),
        };
        let number = self.counters.connections.fetch_add(1, Ordering::Relaxed) + 1;
        let tools = Arc::new(KnownTools::default());
        let (stale, ours) = (Arc::clone(&tools), session.clone());
        let wire = Wire::start(
            link,
            Setup {
                host: Arc::clone(&self.host),
                counters: Arc::clone(&self.counters),
                on_notice: Box::new(move |notice| {
                    if matches!(notice, Notice::ToolsChanged) {
                        stale.forget();
                    }
                }),
                on_end: Box::new(move |ending| {
                    let live = ours.upgrade()?.ended(number, ending)?;
                    Some(live as Arc<dyn Send + Sync>)
                }),
                write_limit: self.options.deadlines.write,
                answer_limit: self.options.deadlines.answer,
            },
        );
        if let Some(session) = session.upgrade() {
            session.status.send_if_modified(|status| {
                let known = matches!(status, Status::Connecting(Phase::Handshake));
                *status = Status::Connecting(Phase::Handshake);
                !known
            });
        }
        let left = left.saturating_sub(began.elapsed());
        let shaken = tokio::time::timeout(left, handshake::shake_hands(&wire, &*self.host, &self.options)).await;
        match shaken {
            Ok(Ok(info)) => {
                wire.listen();
                let (info, since, asking) = (Arc::new(info), Instant::now(), Semaphore::new(1));
                let (lost, doubtful) = (AtomicBool::new(false), AtomicBool::new(false));
                Ok(Live { number, wire, info, tools, since, lost, doubtful, asking })
            }
            Ok(Err(kind)) => Err(error(kind, wire.evidence())),
            Err(_) => Err(error(ConnectErrorKind::Timeout(limit), wire.evidence())),
        }
    }
}
