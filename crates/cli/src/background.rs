//! Threads that write logs, so that no call waits for a disk. Their queues are bounded: what does not fit is dropped and
//! counted.

use std::fmt;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, TryRecvError, TrySendError, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// The maximum number of queued entries.
const MAX_QUEUED_ENTRIES: usize = 4096;
/// The maximum size of the queued entries. One entry may be larger.
const MAX_QUEUED_BYTES: usize = 64 * 1024 * 1024;
/// How long the end of the program waits for the writers.
const FINISH_TIMEOUT: Duration = Duration::from_secs(2);
/// How often a full queue is tried again at the end of the program.
const RETRY_INTERVAL: Duration = Duration::from_millis(5);

/// What a writer does next.
pub(crate) enum Job<E> {
    /// Write an entry.
    Write(E),
    /// Say that this many entries are missing.
    Dropped(u64),
    /// Nothing is queued: write what is buffered.
    Idle,
}

enum Queued<E> {
    Entry(E, usize),
    Finish,
}

#[derive(Debug, Default)]
struct Counts {
    queued_bytes: AtomicUsize,
    dropped: AtomicU64,
}

/// The sending end of a thread that writes.
pub(crate) struct Background<E> {
    queue: SyncSender<Queued<E>>,
    counts: Arc<Counts>,
}

impl<E> fmt::Debug for Background<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Background").field("counts", &self.counts).finish_non_exhaustive()
    }
}

/// Ends a thread that writes, or gives up after a time.
type Finisher = Box<dyn FnOnce(Duration) + Send>;

/// The threads to wait for at the end of the program.
static WRITERS: Mutex<Vec<Finisher>> = Mutex::new(Vec::new());

impl<E: Send + 'static> Background<E> {
    /// Starts a thread that does each job with `work`. Returns `None` if the system has no more threads.
    pub(crate) fn start(name: &str, work: impl FnMut(Job<E>) + Send + 'static) -> Option<Self> {
        let (queue, queued) = sync_channel(MAX_QUEUED_ENTRIES);
        let (done, is_done) = sync_channel::<()>(1);
        let counts = Arc::new(Counts::default());
        let shared = Arc::clone(&counts);
        let thread = std::thread::Builder::new().name(name.to_owned()).spawn(move || {
            run(&queued, &shared, work);
            drop(done);
        });
        let thread = thread.ok()?;
        let ending = queue.clone();
        let finish = move |limit: Duration| {
            if send_finish(&ending, limit) && is_done.recv_timeout(limit) == Err(RecvTimeoutError::Disconnected) {
                let _ = thread.join();
            }
        };
        WRITERS.lock().unwrap_or_else(PoisonError::into_inner).push(Box::new(finish));
        Some(Self { queue, counts })
    }

    /// Queues an entry of this size, or drops it if the queue is full. Never blocks.
    pub(crate) fn push(&self, entry: E, bytes: usize) {
        let before = self.counts.queued_bytes.fetch_add(bytes, Ordering::Relaxed);
        let is_full = before > 0 && before + bytes > MAX_QUEUED_BYTES;
        if is_full || self.queue.try_send(Queued::Entry(entry, bytes)).is_err() {
            self.counts.queued_bytes.fetch_sub(bytes, Ordering::Relaxed);
            self.counts.dropped.fetch_add(1, Ordering::Relaxed);
        }
    }
}

fn run<E>(queued: &Receiver<Queued<E>>, counts: &Counts, mut work: impl FnMut(Job<E>)) {
    loop {
        let next = match queued.try_recv() {
            Ok(next) => Some(next),
            Err(TryRecvError::Disconnected) => None,
            Err(TryRecvError::Empty) => {
                work(Job::Idle);
                queued.recv().ok()
            }
        };
        let dropped = counts.dropped.swap(0, Ordering::Relaxed);
        if dropped > 0 {
            work(Job::Dropped(dropped));
        }
        let Some(Queued::Entry(entry, bytes)) = next else {
            return work(Job::Idle);
        };
        work(Job::Write(entry));
        counts.queued_bytes.fetch_sub(bytes, Ordering::Relaxed);
    }
}

fn send_finish<E>(queue: &SyncSender<Queued<E>>, limit: Duration) -> bool {
    let mut left = limit;
    loop {
        match queue.try_send(Queued::Finish) {
            Ok(()) | Err(TrySendError::Disconnected(_)) => return true,
            Err(TrySendError::Full(_)) if left.is_zero() => return false,
            Err(TrySendError::Full(_)) => {
                std::thread::sleep(RETRY_INTERVAL.min(left));
                left = left.saturating_sub(RETRY_INTERVAL);
            }
        }
    }
}

/// Waits until everything is written, for a limited time: a disk that hangs must not keep the program from ending.
pub(crate) fn finish_all() {
    for finish in std::mem::take(&mut *WRITERS.lock().unwrap_or_else(PoisonError::into_inner)) {
        finish(FINISH_TIMEOUT);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use super::*;

    #[test]
    fn entries_are_written_in_order_before_the_program_ends() {
        let seen = Arc::new(Mutex::new(Vec::new()));
        let sink = Arc::clone(&seen);
        let background = Background::start("test", move |job| {
            if let Job::Write(entry) = job {
                sink.lock().unwrap().push(entry);
            }
        })
        .unwrap();
        (0..1000).for_each(|number| background.push(number, 8));
        finish_all();
        assert_eq!(*seen.lock().unwrap(), (0..1000).collect::<Vec<_>>());
    }

    #[test]
    fn what_does_not_fit_is_dropped_and_counted_and_nothing_blocks() {
        let (release, released) = mpsc::channel::<()>();
        let seen = Arc::new(Mutex::new((0_u64, 0_u64)));
        let sink = Arc::clone(&seen);
        let background = Background::start("test", move |job| match job {
            Job::Write(_) => {
                let _ = released.recv();
                sink.lock().unwrap().0 += 1;
            }
            Job::Dropped(count) => sink.lock().unwrap().1 += count,
            Job::Idle => {}
        })
        .unwrap();
        let total = MAX_QUEUED_ENTRIES as u64 + 500;
        (0..total).for_each(|number| background.push(number, 8));
        drop(release);
        finish_all();
        let (written, dropped) = *seen.lock().unwrap();
        assert_eq!(written + dropped, total);
        assert!(dropped >= 498, "{dropped}");
    }

    #[test]
    fn large_entries_are_limited_by_their_size() {
        let (release, released) = mpsc::channel::<()>();
        let dropped = Arc::new(AtomicU64::new(0));
        let count = Arc::clone(&dropped);
        let background = Background::start("test", move |job| match job {
            Job::Write(()) => drop(released.recv()),
            Job::Dropped(more) => drop(count.fetch_add(more, Ordering::Relaxed)),
            Job::Idle => {}
        })
        .unwrap();
        background.push((), MAX_QUEUED_BYTES + 1);
        (0..10).for_each(|_| background.push((), 1));
        drop(release);
        finish_all();
        assert_eq!(dropped.load(Ordering::Relaxed), 10);
    }
}
