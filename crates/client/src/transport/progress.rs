//! The progress of one call, on its way from the reader to the caller. Few calls report progress, so that the buffer
//! allocates only when the first report arrives.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::task::Poll;

use futures_util::task::AtomicWaker;

use crate::host::Progress;

/// The maximum number of buffered reports. More are dropped.
const CAPACITY: usize = 256;

/// A queue of progress reports with one producer and one consumer.
#[derive(Debug, Default)]
pub(crate) struct ProgressBuffer {
    /// Whether a report was ever added. The consumer checks this before it takes the lock.
    used: AtomicBool,
    reports: Mutex<VecDeque<Progress>>,
    caller: AtomicWaker,
}

impl ProgressBuffer {
    /// Adds a report. Returns `false` if the buffer is full.
    pub(crate) fn add(&self, report: Progress) -> bool {
        let mut reports = self.reports();
        let fits = reports.len() < CAPACITY;
        if fits {
            reports.push_back(report);
        }
        drop(reports);
        self.used.store(true, Ordering::Release);
        self.caller.wake();
        fits
    }

    /// Returns the next report, if one is available.
    pub(crate) fn take(&self) -> Option<Progress> {
        self.used.load(Ordering::Acquire).then(|| self.reports().pop_front()).flatten()
    }

    /// Waits for the next report.
    pub(crate) async fn next(&self) -> Progress {
        std::future::poll_fn(|context| {
            self.caller.register(context.waker());
            self.take().map_or(Poll::Pending, Poll::Ready)
        })
        .await
    }

    fn reports(&self) -> MutexGuard<'_, VecDeque<Progress>> {
        self.reports.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
