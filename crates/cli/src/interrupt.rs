//! Ctrl-C, SIGTERM and a terminal that went away: everything that is open is closed, then we end.

use std::time::Duration;

use tokio::signal::unix::{SignalKind, signal};
use wharf::Session;

use crate::exit::Exit;
use crate::render;

/// How long servers may take to end after an interruption.
const FAREWELL: Duration = Duration::from_secs(5);

/// Does `work` and closes `sessions` afterwards; if somebody interrupts, closes them at once. A second interruption
/// does not wait for the servers: they are killed when the sessions are dropped.
pub(crate) async fn guarded(sessions: &[Session], work: impl Future<Output = Exit>) -> Exit {
    let done = tokio::select! {
        exit = work => Some(exit),
        () = interrupted() => None,
    };
    let exit = done.unwrap_or_else(|| {
        render::note("interrupted; closing the servers");
        Exit::Interrupted
    });
    let closing = futures_util::future::join_all(sessions.iter().map(Session::close));
    tokio::select! {
        _ = tokio::time::timeout(FAREWELL, closing) => exit,
        () = interrupted() => Exit::Interrupted,
    }
}

/// Completes at the next signal that asks us to end.
async fn interrupted() {
    let signals = [SignalKind::interrupt(), SignalKind::terminate(), SignalKind::hangup()].map(signal);
    let waiting = signals.into_iter().flatten().map(|mut signal| Box::pin(async move { signal.recv().await }));
    let mut waiting: Vec<_> = waiting.collect();
    if waiting.is_empty() {
        // Without handlers the system's own way to end us is still there.
        return std::future::pending().await;
    }
    futures_util::future::select_all(waiting.drain(..)).await;
}
