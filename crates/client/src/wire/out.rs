//! The output side of a connection: a pipe, or one HTTP request per message.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use tokio::sync::mpsc;
use tokio::task::JoinSet;

use super::answer_wait::SendFuture;
use super::outbox::{Full, Outbox};
use crate::transport::{OutgoingRequest, Outward, PostError, RequestTransport};

/// The capacity of the queues of notifications and answers.
const QUEUE_CAPACITY: usize = 1024;
/// How often unused connections are closed.
const SWEEP_INTERVAL: Duration = Duration::from_secs(60);
/// The maximum number of answers to the server in flight.
const MAX_CONCURRENT_ANSWERS: usize = 32;

pub(super) enum Out {
    Pipe(Box<Outbox>),
    Requests(PostQueues),
}

/// Messages that callers do not wait for. Callers send their own requests. Notifications are sent one after the other,
/// because their order matters. Answers to the server's requests do not wait for them.
pub(super) struct PostQueues {
    transport: Arc<dyn RequestTransport>,
    notifications: mpsc::Sender<Bytes>,
    answers: mpsc::Sender<Bytes>,
}

/// The receiving ends of the queues.
pub(super) struct QueuedPosts {
    notifications: mpsc::Receiver<Bytes>,
    answers: mpsc::Receiver<Bytes>,
}

impl Out {
    pub(super) fn new(outward: Outward) -> (Self, Option<QueuedPosts>) {
        match outward {
            Outward::Pipe { sink, written } => (Self::Pipe(Box::new(Outbox::new(sink, written))), None),
            Outward::Requests(transport) => {
                let (notifications, queued_notifications) = mpsc::channel(QUEUE_CAPACITY);
                let (answers, queued_answers) = mpsc::channel(QUEUE_CAPACITY);
                let queued = QueuedPosts { notifications: queued_notifications, answers: queued_answers };
                (Self::Requests(PostQueues { transport, notifications, answers }), Some(queued))
            }
        }
    }

    /// Sends a notification.
    pub(super) fn post(&self, message: Bytes) -> Result<(), Full> {
        match self {
            Self::Pipe(outbox) => outbox.post(message),
            Self::Requests(queues) => queues.notifications.try_send(message).map_err(|_| Full),
        }
    }

    /// Sends an answer to the server.
    pub(super) fn answer(&self, message: Bytes) -> Result<(), Full> {
        match self {
            Self::Pipe(outbox) => outbox.post(message),
            Self::Requests(queues) => queues.answers.try_send(message).map_err(|_| Full),
        }
    }

    /// Sends queued messages. Returns when nothing can be sent any more.
    pub(super) async fn run(&self, queued: Option<QueuedPosts>, write_limit: Duration) {
        match (self, queued) {
            (Self::Pipe(outbox), _) => outbox.pump(write_limit).await,
            (Self::Requests(requests), Some(queued)) => {
                let transport = &requests.transport;
                tokio::join!(
                    post_in_order(&**transport, queued.notifications),
                    post_concurrently(transport, queued.answers),
                    sweep(&**transport)
                );
            }
            (Self::Requests(_), None) => {}
        }
    }

    /// Returns why nothing can be sent any more, as a predicate of "the server".
    pub(super) fn failure(&self) -> Option<&str> {
        match self {
            Self::Pipe(outbox) => outbox.failure(),
            Self::Requests(_) => None,
        }
    }

    /// Closes the client's side of a pipe.
    pub(super) fn close(&self) {
        if let Self::Pipe(outbox) = self {
            outbox.close();
        }
    }

    /// Returns whether the server has a session that it could lose while the connection is open.
    pub(super) fn has_session(&self) -> bool {
        matches!(self, Self::Requests(queues) if queues.transport.has_session())
    }
}

impl PostQueues {
    pub(super) fn request(&self, request: OutgoingRequest) -> SendFuture<'_> {
        self.transport.request(request)
    }

    pub(super) async fn notify(&self, method: &str, message: Bytes) -> Result<(), PostError> {
        self.transport.notify(Some(method), message).await
    }

    pub(super) fn set_stateless(&self, revision: Option<&str>) {
        self.transport.set_stateless(revision);
    }

    pub(super) fn set_revision(&self, revision: &str) {
        self.transport.set_revision(revision);
    }

    pub(super) fn resume(&self, session: &str, revision: &str) -> bool {
        self.transport.resume(session, revision)
    }

    pub(super) fn supports_rehandshake(&self) -> bool {
        self.transport.supports_rehandshake()
    }

    pub(super) fn start_listening(&self) {
        self.transport.start_listening();
    }
}

async fn sweep(transport: &dyn RequestTransport) {
    loop {
        tokio::time::sleep(SWEEP_INTERVAL).await;
        transport.sweep();
    }
}

async fn post_in_order(transport: &dyn RequestTransport, mut messages: mpsc::Receiver<Bytes>) {
    while let Some(message) = messages.recv().await {
        log_failure(transport.notify(None, message).await);
    }
}

async fn post_concurrently(transport: &Arc<dyn RequestTransport>, mut messages: mpsc::Receiver<Bytes>) {
    let mut in_flight = JoinSet::new();
    while let Some(message) = messages.recv().await {
        if in_flight.len() >= MAX_CONCURRENT_ANSWERS {
            in_flight.join_next().await;
        }
        let transport = Arc::clone(transport);
        in_flight.spawn(async move { log_failure(transport.notify(None, message).await) });
    }
}

/// Logs a failure that no caller waits for. The next request will notice a broken connection.
fn log_failure(result: Result<(), PostError>) {
    if let Err(error) = result {
        tracing::debug!(?error, "cannot send a message");
    }
}
