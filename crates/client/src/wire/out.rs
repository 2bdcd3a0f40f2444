//! What goes out, whichever way: into a pipe, or as posts of their own.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use tokio::sync::mpsc;
use tokio::task::JoinSet;

use super::outbox::{Full, Outbox};
use super::waiting::Posting;
use crate::transport::{Outward, PostError, Posted, Posts};

/// Messages besides requests that may wait to be posted.
const WAITING: usize = 1024;
/// How often connections that nobody uses are looked after.
const TIDYING: Duration = Duration::from_secs(60);
/// Answers to the server that may be under way at once.
const ANSWERS_AT_ONCE: usize = 32;

pub(super) enum Out {
    Pipe(Box<Outbox>),
    Posts(Lanes),
}

/// Requests are posted by who makes them. Notifications go one after the other, because their order means something;
/// answers to the server's questions do not wait for them.
pub(super) struct Lanes {
    posts: Arc<dyn Posts>,
    notes: mpsc::Sender<Bytes>,
    answers: mpsc::Sender<Bytes>,
}

/// What waits in the lanes.
pub(super) struct Waiting {
    notes: mpsc::Receiver<Bytes>,
    answers: mpsc::Receiver<Bytes>,
}

impl Out {
    pub(super) fn new(outward: Outward) -> (Self, Option<Waiting>) {
        match outward {
            Outward::Pipe { sink, written } => (Self::Pipe(Box::new(Outbox::new(sink, written))), None),
            Outward::Posts(posts) => {
                let (notes, notes_waiting) = mpsc::channel(WAITING);
                let (answers, answers_waiting) = mpsc::channel(WAITING);
                let waiting = Waiting { notes: notes_waiting, answers: answers_waiting };
                (Self::Posts(Lanes { posts, notes, answers }), Some(waiting))
            }
        }
    }

    /// Sends a notification.
    pub(super) fn post(&self, message: Bytes) -> Result<(), Full> {
        match self {
            Self::Pipe(outbox) => outbox.post(message),
            Self::Posts(lanes) => lanes.notes.try_send(message).map_err(|_| Full),
        }
    }

    /// Sends an answer to the server.
    pub(super) fn answer(&self, message: Bytes) -> Result<(), Full> {
        match self {
            Self::Pipe(outbox) => outbox.post(message),
            Self::Posts(lanes) => lanes.answers.try_send(message).map_err(|_| Full),
        }
    }

    /// Does what callers leave behind; returns when nothing can be sent any more.
    pub(super) async fn run(&self, waiting: Option<Waiting>, limit: Duration) {
        match (self, waiting) {
            (Self::Pipe(outbox), _) => outbox.pump(limit).await,
            (Self::Posts(lanes), Some(waiting)) => {
                let posts = &lanes.posts;
                tokio::join!(in_order(&**posts, waiting.notes), at_once(posts, waiting.answers), tidy(&**posts));
            }
            (Self::Posts(_), None) => {}
        }
    }

    /// Why nothing can be sent any more.
    pub(super) fn failure(&self) -> Option<&str> {
        match self {
            Self::Pipe(outbox) => outbox.failure(),
            Self::Posts(_) => None,
        }
    }

    /// Closes our side, where there is one.
    pub(super) fn close(&self) {
        if let Self::Pipe(outbox) = self {
            outbox.close();
        }
    }

    /// Whether the server keeps a session for us that it could lose while the connection lives.
    pub(super) fn has_session(&self) -> bool {
        matches!(self, Self::Posts(lanes) if lanes.posts.has_session())
    }
}

impl Lanes {
    pub(super) fn request(&self, posted: Posted) -> Posting<'_> {
        self.posts.request(posted)
    }

    pub(super) async fn tell(&self, method: &str, message: Bytes) -> Result<(), PostError> {
        self.posts.tell(Some(method), message).await
    }

    pub(super) fn stand_alone(&self, revision: Option<&str>) {
        self.posts.stand_alone(revision);
    }

    pub(super) fn greeted(&self, revision: &str) {
        self.posts.greeted(revision);
    }

    pub(super) fn resume(&self, session: &str, revision: &str) -> bool {
        self.posts.resume(session, revision)
    }

    pub(super) fn renews(&self) -> bool {
        self.posts.renews()
    }

    pub(super) fn listen(&self) {
        self.posts.listen();
    }
}

async fn tidy(posts: &dyn Posts) {
    loop {
        tokio::time::sleep(TIDYING).await;
        posts.tidy();
    }
}

async fn in_order(posts: &dyn Posts, mut messages: mpsc::Receiver<Bytes>) {
    while let Some(message) = messages.recv().await {
        told(posts.tell(None, message).await);
    }
}

async fn at_once(posts: &Arc<dyn Posts>, mut messages: mpsc::Receiver<Bytes>) {
    let mut under_way = JoinSet::new();
    while let Some(message) = messages.recv().await {
        if under_way.len() >= ANSWERS_AT_ONCE {
            under_way.join_next().await;
        }
        let posts = Arc::clone(posts);
        under_way.spawn(async move { told(posts.tell(None, message).await) });
    }
}

/// Nobody waits for these; a server that does not take them is noticed by the next request.
fn told(result: Result<(), PostError>) {
    if let Err(error) = result {
        tracing::debug!(?error, "a message was not taken");
    }
}
