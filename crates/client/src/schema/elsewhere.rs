//! Work that takes long or recurses deeply, on threads of its own.
//!
//! A thread cannot be stopped, so a server may occupy only some of them: the checks of other servers' values never wait
//! for one server alone.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::thread;
use std::time::Duration;

use tokio::sync::{Semaphore, oneshot};
use wharf_protocol::ServerName;

/// Reserved, not used: the system provides memory as the stack grows.
const STACK_BYTES: usize = 256 << 20;
/// How many long checks run at the same time in this process. More would take the time of everything else.
const MAX_THREADS: usize = 3;
/// How many of them one server may occupy, its abandoned ones included.
const MAX_THREADS_PER_SERVER: usize = 2;
/// How long a caller waits for a check, its turn included.
const TIMEOUT: Duration = Duration::from_secs(10);

static TURNS: Semaphore = Semaphore::const_new(MAX_THREADS);
/// The turns of each server that has long checks now. Tools that belong to no server share theirs.
static SERVERS: Mutex<BTreeMap<Option<ServerName>, Weak<Semaphore>>> = Mutex::new(BTreeMap::new());

/// The caller of work, as the work sees it.
pub(super) struct Caller(Arc<AtomicBool>);

/// Reports when it is dropped that the caller waits no longer.
pub(super) struct Waiting(Arc<AtomicBool>);

impl Caller {
    /// A caller that can give up.
    pub(super) fn waiting() -> (Waiting, Self) {
        let gave_up = Arc::new(AtomicBool::new(false));
        (Waiting(Arc::clone(&gave_up)), Self(gave_up))
    }

    /// A caller that cannot give up: it does the work itself.
    pub(super) fn blocked() -> Self {
        Self(Arc::default())
    }

    /// Whether the result would be dropped.
    pub(super) fn gave_up(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Why work has no result.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum NotDone {
    /// It did not end in time.
    TimedOut,
    /// It panicked, or no thread can be started.
    Failed,
}

/// Runs a server's bounded work on a thread of its own and waits for it without blocking other tasks.
pub(super) async fn run<T: Send + 'static>(
    server: Option<&ServerName>,
    work: impl FnOnce(&Caller) -> T + Send + 'static,
) -> Result<T, NotDone> {
    let of_server = turns_of(server);
    let waiting = async {
        let turn_of_server = of_server.acquire_owned().await.map_err(|_| NotDone::Failed)?;
        let turn = TURNS.acquire().await.map_err(|_| NotDone::Failed)?;
        let (_waiting, caller) = Caller::waiting();
        let (send, result) = oneshot::channel();
        let thread = thread::Builder::new().name("schema-check".to_owned()).stack_size(STACK_BYTES);
        thread
            .spawn(move || {
                // The turns end with the work, even if no caller waits for it any longer.
                let _turns = (turn, turn_of_server);
                if !caller.gave_up() {
                    let _ = send.send(work(&caller));
                }
            })
            .map_err(|_| NotDone::Failed)?;
        result.await.map_err(|_| NotDone::Failed)
    };
    tokio::time::timeout(TIMEOUT, waiting).await.unwrap_or(Err(NotDone::TimedOut))
}

fn turns_of(server: Option<&ServerName>) -> Arc<Semaphore> {
    let mut servers = SERVERS.lock().unwrap_or_else(PoisonError::into_inner);
    let server = server.cloned();
    if let Some(turns) = servers.get(&server).and_then(Weak::upgrade) {
        return turns;
    }
    servers.retain(|_, turns| turns.strong_count() > 0);
    let turns = Arc::new(Semaphore::new(MAX_THREADS_PER_SERVER));
    servers.insert(server, Arc::downgrade(&turns));
    turns
}

/// Runs bounded work on a thread with a large stack, and blocks until it is done. `None` if there is no such thread.
pub(super) fn with_large_stack<T: Send>(work: impl FnOnce() -> T + Send) -> Option<T> {
    thread::scope(|scope| {
        let thread = thread::Builder::new().name("schema-compile".to_owned()).stack_size(STACK_BYTES);
        thread.spawn_scoped(scope, work).ok()?.join().ok()
    })
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use super::*;

    fn name(name: &str) -> ServerName {
        name.parse().unwrap()
    }

    #[tokio::test]
    async fn a_server_that_occupies_its_threads_delays_no_other_server() {
        let (hostile, other) = (name("hostile"), name("other"));
        let (start, started) = mpsc::channel();
        let (end, ended) = mpsc::channel::<()>();
        let ended = Arc::new(Mutex::new(ended));
        let endless = || {
            let (start, ended) = (start.clone(), Arc::clone(&ended));
            let work = move |_: &Caller| {
                start.send(()).unwrap();
                ended.lock().unwrap().recv().is_ok()
            };
            Box::pin(run(Some(&hostile), work))
        };
        let mut calls: Vec<_> = (0..5).map(|_| endless()).collect();
        for call in &mut calls {
            assert!(futures_util::poll!(call).is_pending());
        }
        for _ in 0..MAX_THREADS_PER_SERVER {
            started.recv_timeout(TIMEOUT).unwrap();
        }
        // Its callers give up, and their threads go on.
        drop(calls);
        assert_eq!(run(Some(&other), |_: &Caller| 1).await, Ok(1));
        assert_eq!(run(None, |_: &Caller| 2).await, Ok(2));
        drop(end);
    }

    #[tokio::test]
    async fn work_that_panics_is_not_slow() {
        let work = |_: &Caller| -> () { std::panic::panic_any("a fault of the compiler") };
        assert_eq!(run(None, work).await, Err(NotDone::Failed));
    }

    #[tokio::test(start_paused = true)]
    async fn work_learns_that_its_caller_gave_up() {
        let (running, ended) = mpsc::channel::<()>();
        let work = move |caller: &Caller| {
            let _running = running;
            while !caller.gave_up() {
                thread::yield_now();
            }
        };
        assert_eq!(run(None, work).await, Err(NotDone::TimedOut));
        assert_eq!(ended.recv_timeout(Duration::from_secs(20)), Err(mpsc::RecvTimeoutError::Disconnected));
    }
}
