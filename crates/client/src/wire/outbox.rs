//! The output of a pipe: callers write their own messages, and a pump task takes over when the pipe is full.
//!
//! A caller queues its message and then tries to lock the sink to drain the queue. If another caller holds the lock, that
//! one will send the message too. Callers never wait: they only try the lock; only the pump waits for it. The pump also
//! finishes a message that was partly written, so that a dropped caller leaves no partial line.

use std::io;
use std::sync::atomic::{AtomicU64, Ordering, fence};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, TryLockError};
use std::task::{Context, Poll, Waker, ready};
use std::time::Duration;

use bytes::Bytes;

use tokio::sync::Notify;

use super::queue::Queue;
use crate::transport::Outgoing;

/// The maximum number of queued messages.
const QUEUE_CAPACITY: usize = 4096;

pub(crate) struct Outbox {
    queue: Queue<Bytes>,
    sink: Mutex<SinkState>,
    /// Wakes the pump.
    stalled: Notify,
    failure: OnceLock<String>,
    /// The number of messages that the sink accepted.
    accepted: AtomicU64,
    /// The number of bytes written, if the transport counts them.
    written: Arc<AtomicU64>,
}

struct SinkState {
    /// `None` after the client's side was closed.
    sink: Option<Outgoing>,
    /// Whether the pump waits for the sink. Callers must not poll it then, because that would replace its waker.
    pumping: bool,
}

/// The error of a full queue: the server has not read for a long time.
#[derive(Debug)]
pub(crate) struct Full;

impl Outbox {
    pub(crate) fn new(sink: Outgoing, written: Arc<AtomicU64>) -> Self {
        Self {
            queue: Queue::new(QUEUE_CAPACITY),
            sink: Mutex::new(SinkState { sink: Some(sink), pumping: false }),
            stalled: Notify::new(),
            failure: OnceLock::new(),
            accepted: AtomicU64::new(0),
            written,
        }
    }

    /// Sends a message, or leaves it to the current sender. Messages are sent in the order of the calls.
    pub(crate) fn post(&self, message: Bytes) -> Result<(), Full> {
        self.queue.push(message).map_err(|_| Full)?;
        loop {
            // Either we get the lock, or its holder, which checks the queue again after unlocking, sees our message.
            fence(Ordering::SeqCst);
            let mut state = match self.sink.try_lock() {
                Ok(state) => state,
                Err(TryLockError::Poisoned(state)) => state.into_inner(),
                Err(TryLockError::WouldBlock) => return Ok(()),
            };
            if state.pumping {
                return Ok(());
            }
            if self.poll_drain(&mut state, &mut Context::from_waker(Waker::noop())).is_pending() {
                state.pumping = true;
                self.stalled.notify_one();
                return Ok(());
            }
            drop(state);
            fence(Ordering::SeqCst);
            if self.queue.is_empty() {
                return Ok(());
            }
        }
    }

    /// Returns why nothing can be sent any more, as a predicate of "the server".
    pub(crate) fn failure(&self) -> Option<&str> {
        self.failure.get().map(String::as_str)
    }

    /// Writes what callers could not. Returns when the pipe is broken or nothing was written for `limit`.
    pub(crate) async fn pump(&self, limit: Duration) {
        while self.failure().is_none() {
            self.stalled.notified().await;
            let mut written = self.written();
            while tokio::time::timeout(limit, self.drained()).await.is_err() {
                if written == self.written() {
                    let _ = self.failure.set(format!("has not read its input for {} s", limit.as_secs()));
                    break;
                }
                written = self.written();
            }
            // A caller may have left its message to the pump just before it unlocked the sink.
            fence(Ordering::SeqCst);
            if !self.queue.is_empty() {
                self.lock().pumping = true;
                self.stalled.notify_one();
            }
        }
    }

    /// Waits until everything was written, or the sink is closed.
    async fn drained(&self) {
        std::future::poll_fn(|cx| {
            let mut state = self.lock();
            let drained = self.poll_drain(&mut state, cx);
            state.pumping = drained.is_pending();
            drained
        })
        .await;
    }

    /// Returns the numbers of messages and bytes written so far.
    fn written(&self) -> (u64, u64) {
        (self.accepted.load(Ordering::Relaxed), self.written.load(Ordering::Relaxed))
    }

    /// Closes the client's side, after one last try to write what is queued.
    pub(crate) fn close(&self) {
        let mut state = self.lock();
        let mut cx = Context::from_waker(Waker::noop());
        let _ = self.poll_drain(&mut state, &mut cx);
        if let Some(mut sink) = state.sink.take() {
            let _ = sink.as_mut().poll_close(&mut cx);
        }
    }

    fn poll_drain(&self, state: &mut SinkState, cx: &mut Context<'_>) -> Poll<()> {
        let Some(sink) = &mut state.sink else {
            while self.queue.pop().is_some() {}
            return Poll::Ready(());
        };
        match self.poll_send_all(sink, cx) {
            Poll::Pending => Poll::Pending,
            Poll::Ready(Ok(())) => Poll::Ready(()),
            Poll::Ready(Err(error)) => {
                let _ = self.failure.set(format!("stopped reading its input ({error})"));
                state.sink = None;
                self.stalled.notify_one();
                Poll::Ready(())
            }
        }
    }

    fn poll_send_all(&self, sink: &mut Outgoing, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        loop {
            while !self.queue.is_empty() {
                ready!(sink.as_mut().poll_ready(cx))?;
                let Some(message) = self.queue.pop() else { break };
                sink.as_mut().start_send(message)?;
                self.accepted.fetch_add(1, Ordering::Relaxed);
            }
            ready!(sink.as_mut().poll_flush(cx))?;
            if self.queue.is_empty() {
                return Poll::Ready(Ok(()));
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, SinkState> {
        self.sink.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
