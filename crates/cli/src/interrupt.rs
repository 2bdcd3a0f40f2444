//! Ctrl-C, SIGTERM and a terminal that went away: everything that is open is closed, then we end.

use std::io::{IsTerminal as _, Write as _};
use std::time::Duration;

use futures_util::future::select_all;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::watch;
use wharf::Session;
use wharf::fleet::Fleet;

use crate::exit::Exit;
use crate::render;

/// How long servers may take to end after an interruption.
const FAREWELL: Duration = Duration::from_secs(5);

/// Does `work` and closes the fleet afterwards; if somebody interrupts, closes it at once. A second interruption does
/// not wait for the servers: they are killed when the fleet is dropped.
pub(crate) async fn guarded(fleet: &Fleet, work: impl Future<Output = Exit>) -> Exit {
    closing(fleet.close(), work).await
}

/// The same for work that can be told to stop and has something to say then. A second interruption does not wait for it.
pub(crate) async fn stoppable<F: Future<Output = Exit>>(fleet: &Fleet, work: impl FnOnce(Stopped) -> F) -> Exit {
    let mut interruptions = Interruptions::new();
    let (stop, stopped) = watch::channel(false);
    let work = work(Stopped(stopped));
    tokio::pin!(work);
    let exit = tokio::select! {
        exit = &mut work => exit,
        () = interruptions.next() => {
            // The cursor may be anywhere: behind half an answer, or behind what the terminal shows of Ctrl-C.
            if std::io::stderr().is_terminal() {
                let _ = writeln!(std::io::stderr());
            }
            render::note("interrupted; closing the servers (once more to kill them now)");
            stop.send_replace(true);
            tokio::select! {
                _ = tokio::time::timeout(FAREWELL, work) => {}
                () = interruptions.next() => return Exit::Interrupted,
            }
            Exit::Interrupted
        }
    };
    tokio::select! {
        _ = tokio::time::timeout(FAREWELL, fleet.close()) => exit,
        () = interruptions.next() => Exit::Interrupted,
    }
}

/// Tells when somebody wants the work to stop.
#[derive(Clone)]
pub(crate) struct Stopped(watch::Receiver<bool>);

impl Stopped {
    /// Completes when that is so.
    pub(crate) async fn come(&mut self) {
        if self.0.wait_for(|stop| *stop).await.is_err() {
            // Nobody is left who could.
            std::future::pending::<()>().await;
        }
    }
}

/// The same for sessions that are in no fleet.
pub(crate) async fn guarded_sessions(sessions: &[Session], work: impl Future<Output = Exit>) -> Exit {
    let close = async {
        futures_util::future::join_all(sessions.iter().map(Session::close)).await;
    };
    closing(close, work).await
}

async fn closing(close: impl Future<Output = ()>, work: impl Future<Output = Exit>) -> Exit {
    let mut interruptions = Interruptions::new();
    let done = tokio::select! {
        exit = work => Some(exit),
        () = interruptions.next() => None,
    };
    let exit = done.unwrap_or_else(|| {
        render::note("interrupted; closing the servers (once more to kill them now)");
        Exit::Interrupted
    });
    tokio::select! {
        _ = tokio::time::timeout(FAREWELL, close) => exit,
        () = interruptions.next() => Exit::Interrupted,
    }
}

/// The signals that ask us to end. They are listened to from the start, so that none is lost in between.
struct Interruptions(Vec<Signal>);

impl Interruptions {
    fn new() -> Self {
        let kinds = [SignalKind::interrupt(), SignalKind::terminate(), SignalKind::hangup()];
        // Where no handler can be had, the system's own way to end us is still there.
        Self(kinds.into_iter().filter_map(|kind| signal(kind).ok()).collect())
    }

    async fn next(&mut self) {
        if self.0.is_empty() {
            return std::future::pending().await;
        }
        select_all(self.0.iter_mut().map(|signal| Box::pin(signal.recv()))).await;
    }
}
