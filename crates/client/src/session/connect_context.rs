//! What an attempt to connect needs of its session, and the connections it opens.

use std::panic::AssertUnwindSafe;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Weak};

use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;
use tokio::time::Instant;
use wharf_protocol::ServerName;

use super::discover::{Discovered, discover};
use super::handshake::{HandshakeError, handshake};
use super::preferences::Preferences;
use super::sender::NegotiatedProtocol;
use super::server_cache::ServerCache;
use super::{Inner, Phase, SavedSession, ServerInfo, SessionOptions, SessionStatus};
use crate::health::Counters;
use crate::observer::Tap;
use crate::transport::{OpenError, Transport};
use crate::wire::{Setup, Wire};
use crate::{ConnectError, ConnectErrorKind, Evidence, Host};

/// The parts of a session that an attempt to connect uses. It does not keep the session alive.
pub(super) struct ConnectContext {
    pub(super) name: ServerName,
    pub(super) transport: Arc<dyn Transport>,
    pub(super) host: Arc<dyn Host>,
    pub(super) options: SessionOptions,
    /// A saved session to resume instead of starting one.
    pub(super) resume: Option<Arc<SavedSession>>,
    pub(super) counters: Arc<Counters>,
    pub(super) preferences: Arc<Preferences>,
    /// The server's key in the result cache.
    pub(super) endpoint: Arc<str>,
    pub(super) session: Weak<Inner>,
}

/// An open connection whose protocol has not been negotiated yet.
pub(super) struct Candidate {
    pub(super) epoch: u64,
    pub(super) wire: Wire,
    pub(super) cache: Arc<ServerCache>,
}

/// An open connection and its negotiated protocol.
pub(super) struct Negotiated {
    pub(super) candidate: Candidate,
    pub(super) info: ServerInfo,
    pub(super) protocol: NegotiatedProtocol,
}

impl ConnectContext {
    /// Opens a connection.
    pub(super) async fn open(&self, transport: &dyn Transport, deadline: Instant) -> Result<Candidate, ConnectError> {
        let error = |kind| Err(self.error(kind));
        // A transport that panics is reported like any other failure.
        let opening = AssertUnwindSafe(transport.open()).catch_unwind();
        let panicked = |_| Err(OpenError::Other("the transport panicked".to_owned()));
        let opened = tokio::time::timeout_at(deadline, opening).await;
        let link = match opened.map(|opened| opened.unwrap_or_else(panicked)) {
            Ok(Ok(link)) => link,
            Ok(Err(OpenError::Spawn(reason))) => return error(ConnectErrorKind::Spawn(reason)),
            Ok(Err(OpenError::Auth(auth))) => return error(ConnectErrorKind::Auth(auth)),
            Ok(Err(OpenError::Http(status))) => return error(ConnectErrorKind::Http(status)),
            Ok(Err(OpenError::Unusable(reason))) => return error(ConnectErrorKind::Unusable(reason)),
            Ok(Err(OpenError::Untrusted(reason))) => return error(ConnectErrorKind::Untrusted(reason)),
            Ok(Err(OpenError::Other(reason))) => return error(ConnectErrorKind::Transport(reason)),
            Err(_) => return error(self.timeout()),
        };
        let epoch = self.counters.opened.fetch_add(1, Ordering::Relaxed) + 1;
        let link = match &self.options.observer {
            Some(observer) => {
                link.observed(Tap { observer: Arc::clone(observer), server: self.name.clone(), connection: epoch })
            }
            None => link,
        };
        let cache = Arc::new(ServerCache::new(Arc::clone(&self.options.cache), &self.endpoint));
        let notified = Arc::clone(&cache);
        let session = self.session.clone();
        let wire = Wire::start(
            link,
            Setup {
                host: Arc::clone(&self.host),
                counters: Arc::clone(&self.counters),
                on_notification: Box::new(move |notification, request| notified.on_notification(notification, request)),
                on_end: Box::new(move |ending| {
                    let live = session.upgrade()?.ended(epoch, ending)?;
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
        Ok(Candidate { epoch, wire, cache })
    }

    /// Starts a legacy handshake. The future does not borrow the candidate, so that others can be polled beside it.
    pub(super) fn handshake(&self, candidate: &Candidate) -> BoxFuture<'static, Result<ServerInfo, HandshakeError>> {
        handshake(candidate.wire.handle(), Arc::clone(&self.host), self.options.clone()).boxed()
    }

    /// Sends `server/discover`. The future does not borrow the candidate, so that others can be polled beside it.
    pub(super) fn discover(&self, candidate: &Candidate) -> BoxFuture<'static, Discovered> {
        let preferences = Arc::clone(&self.preferences);
        discover(candidate.wire.handle(), Arc::clone(&self.host), self.options.clone(), preferences).boxed()
    }

    /// Closes a connection that lost the race, while the attempt continues.
    pub(super) fn close_in_background(&self, candidate: Candidate) {
        if let Some(session) = self.session.upgrade() {
            session.start().tasks.spawn(async move { candidate.wire.close().await });
        }
    }

    pub(super) fn error(&self, kind: ConnectErrorKind) -> ConnectError {
        ConnectError { server: self.name.clone(), kind, evidence: Evidence::default() }
    }

    /// Returns an error with the evidence of one connection.
    pub(super) fn candidate_error(&self, candidate: &Candidate, kind: ConnectErrorKind) -> ConnectError {
        ConnectError { server: self.name.clone(), kind, evidence: candidate.wire.evidence() }
    }

    /// Returns the error of a missed connect deadline.
    pub(super) fn timeout(&self) -> ConnectErrorKind {
        ConnectErrorKind::Timeout(self.options.deadlines.connect)
    }
}

/// Whether a refusal may mean that the server speaks only over the older transport.
pub(super) fn suggests_older_transport(kind: &ConnectErrorKind) -> bool {
    matches!(kind, ConnectErrorKind::Http(status) if matches!(status.status, 400 | 404 | 405))
}
