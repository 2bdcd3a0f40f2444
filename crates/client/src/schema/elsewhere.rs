//! Work that takes long or recurses deeply, on threads of its own.

use std::thread;
use std::time::Duration;

use tokio::sync::{Semaphore, oneshot};

/// Reserved, not used: the system provides memory as the stack grows.
const STACK_BYTES: usize = 256 << 20;
/// How many long checks run at the same time in this process. More would take the time of everything else.
const MAX_THREADS: usize = 2;
/// How long a caller waits for a check, its turn included.
const TIMEOUT: Duration = Duration::from_secs(10);

static TURNS: Semaphore = Semaphore::const_new(MAX_THREADS);

/// Runs bounded work on a thread of its own and waits for it without blocking other tasks; `None` after a timeout.
pub(super) async fn run<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> Option<T> {
    let waiting = async {
        let turn = TURNS.acquire().await.ok()?;
        let (send, result) = oneshot::channel();
        let thread = thread::Builder::new().name("schema-check".to_owned()).stack_size(STACK_BYTES);
        thread
            .spawn(move || {
                // The turn ends with the work, even if no caller waits for it any longer.
                let _turn = turn;
                let _ = send.send(work());
            })
            .ok()?;
        result.await.ok()
    };
    tokio::time::timeout(TIMEOUT, waiting).await.ok().flatten()
}

/// Runs bounded work on a thread with a large stack, and blocks until it is done. `None` if there is no such thread.
pub(super) fn with_large_stack<T: Send>(work: impl FnOnce() -> T + Send) -> Option<T> {
    thread::scope(|scope| {
        let thread = thread::Builder::new().name("schema-compile".to_owned()).stack_size(STACK_BYTES);
        thread.spawn_scoped(scope, work).ok()?.join().ok()
    })
}
