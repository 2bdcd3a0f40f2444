//! What goes out: callers write for themselves when nobody else does, and a pump takes over when the pipe is full.
//!
//! A caller puts its message into a queue and then tries to be the one who empties it. If another caller is at it, that
//! one will find the message too. Nobody waits: the lock is only ever tried, except by the pump. A message that was
//! begun is finished by the pump, so a caller that goes away in the middle leaves no half line behind.

use std::io;
use std::sync::atomic::{AtomicU64, Ordering, fence};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, TryLockError};
use std::task::{Context, Poll, Waker, ready};
use std::time::Duration;

use bytes::Bytes;

use tokio::sync::Notify;

use super::queue::Queue;
use crate::transport::Outgoing;

/// Messages that may wait for the pipe.
const WAITING: usize = 4096;

pub(crate) struct Outbox {
    queue: Queue<Bytes>,
    out: Mutex<Out>,
    stalled: Notify,
    failure: OnceLock<String>,
    /// Messages the sink has taken, and bytes that have left where the transport counts them.
    taken: AtomicU64,
    written: Arc<AtomicU64>,
}

struct Out {
    /// `None` once our side has been closed.
    sink: Option<Outgoing>,
    /// Whether the pump is waiting for room; others must then leave the sink, and its wake-up, alone.
    pumping: bool,
}

/// The queue is full: the server has not read for a long time.
#[derive(Debug)]
pub(crate) struct Full;

impl Outbox {
    pub(crate) fn new(sink: Outgoing, written: Arc<AtomicU64>) -> Self {
        Self {
            queue: Queue::new(WAITING),
            out: Mutex::new(Out { sink: Some(sink), pumping: false }),
            stalled: Notify::new(),
            failure: OnceLock::new(),
            taken: AtomicU64::new(0),
            written,
        }
    }

    /// Sends a message now, or leaves it to whoever is sending. Messages leave in the order they came here.
    pub(crate) fn post(&self, message: Bytes) -> Result<(), Full> {
        self.queue.push(message).map_err(|_| Full)?;
        loop {
            // Either we see the lock free, or its holder, who looks again after letting go, sees our message.
            fence(Ordering::SeqCst);
            let mut out = match self.out.try_lock() {
                Ok(out) => out,
                Err(TryLockError::Poisoned(out)) => out.into_inner(),
                Err(TryLockError::WouldBlock) => return Ok(()),
            };
            if out.pumping {
                return Ok(());
            }
            if self.poll_drain(&mut out, &mut Context::from_waker(Waker::noop())).is_pending() {
                out.pumping = true;
                self.stalled.notify_one();
                return Ok(());
            }
            drop(out);
            fence(Ordering::SeqCst);
            if self.queue.is_empty() {
                return Ok(());
            }
        }
    }

    /// Why nothing can be sent any more.
    pub(crate) fn failure(&self) -> Option<&str> {
        self.failure.get().map(String::as_str)
    }

    /// Writes what did not fit at once; returns when the pipe is broken or nothing has left for `limit`.
    pub(crate) async fn pump(&self, limit: Duration) {
        while self.failure().is_none() {
            self.stalled.notified().await;
            let mut moved = self.moved();
            while tokio::time::timeout(limit, self.drained()).await.is_err() {
                if moved == self.moved() {
                    let _ = self.failure.set(format!("has not read its input for {} s", limit.as_secs()));
                    break;
                }
                moved = self.moved();
            }
            // A message may have been left to us just before we let go.
            fence(Ordering::SeqCst);
            if !self.queue.is_empty() {
                self.lock().pumping = true;
                self.stalled.notify_one();
            }
        }
    }

    /// Completes when everything has left, or never will.
    async fn drained(&self) {
        std::future::poll_fn(|cx| {
            let mut out = self.lock();
            let drained = self.poll_drain(&mut out, cx);
            out.pumping = drained.is_pending();
            drained
        })
        .await;
    }

    fn moved(&self) -> (u64, u64) {
        (self.taken.load(Ordering::Relaxed), self.written.load(Ordering::Relaxed))
    }

    /// Closes our side; what still waits is given one last chance to leave.
    pub(crate) fn close(&self) {
        let mut out = self.lock();
        let mut cx = Context::from_waker(Waker::noop());
        let _ = self.poll_drain(&mut out, &mut cx);
        if let Some(mut sink) = out.sink.take() {
            let _ = sink.as_mut().poll_close(&mut cx);
        }
    }

    fn poll_drain(&self, out: &mut Out, cx: &mut Context<'_>) -> Poll<()> {
        let Some(sink) = &mut out.sink else {
            while self.queue.pop().is_some() {}
            return Poll::Ready(());
        };
        match self.poll_send_all(sink, cx) {
            Poll::Pending => Poll::Pending,
            Poll::Ready(Ok(())) => Poll::Ready(()),
            Poll::Ready(Err(error)) => {
                let _ = self.failure.set(format!("no longer reads its input ({error})"));
                out.sink = None;
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
                self.taken.fetch_add(1, Ordering::Relaxed);
            }
            ready!(sink.as_mut().poll_flush(cx))?;
            if self.queue.is_empty() {
                return Poll::Ready(Ok(()));
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, Out> {
        self.out.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
