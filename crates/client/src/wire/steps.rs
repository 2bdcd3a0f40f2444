//! The progress of one call, on its way from the reader to the caller. Hardly any call has any, so nothing is set aside for
//! it before there is.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::task::Poll;

use futures_util::task::AtomicWaker;

use crate::Progress;

/// Steps that may wait for one caller; more are dropped.
const MOST: usize = 256;

/// Steps that one task adds and one other takes, in their order.
#[derive(Debug, Default)]
pub(crate) struct Steps {
    /// Whether there ever was one: whoever waits looks here first, again and again.
    any: AtomicBool,
    waiting: Mutex<VecDeque<Progress>>,
    caller: AtomicWaker,
}

impl Steps {
    /// Adds a step; `false` if there is no room for it.
    pub(super) fn add(&self, step: Progress) -> bool {
        let mut waiting = self.waiting();
        let fits = waiting.len() < MOST;
        if fits {
            waiting.push_back(step);
        }
        drop(waiting);
        self.any.store(true, Ordering::Release);
        self.caller.wake();
        fits
    }

    /// The next step, if it is there.
    pub(super) fn take(&self) -> Option<Progress> {
        self.any.load(Ordering::Acquire).then(|| self.waiting().pop_front()).flatten()
    }

    /// Waits for the next step.
    pub(super) async fn next(&self) -> Progress {
        std::future::poll_fn(|context| {
            self.caller.register(context.waker());
            self.take().map_or(Poll::Pending, Poll::Ready)
        })
        .await
    }

    fn waiting(&self) -> MutexGuard<'_, VecDeque<Progress>> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
