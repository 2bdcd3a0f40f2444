//! Ctrl-C, SIGTERM and SIGHUP: close the servers, then exit.

use std::io::{IsTerminal as _, Write as _};
use std::time::Duration;

use futures_util::FutureExt as _;
use futures_util::future::select_all;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::watch;
use wharf::Session;
use wharf::fleet::Fleet;

use crate::exit::Exit;
use crate::term;

/// How long servers may take to exit after an interruption.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(5);

/// Does `work` and closes the fleet; an interruption closes it at once. A second interruption does not wait for the
/// servers: dropping the fleet kills them.
pub(crate) async fn guarded(fleet: &Fleet, work: impl Future<Output = Exit>) -> Exit {
    closing(fleet.close(), work).await
}

/// Like [`guarded`], for work that can stop early and print a result. A second interruption does not wait for it.
pub(crate) async fn stoppable<F: Future<Output = Exit>>(fleet: &Fleet, work: impl FnOnce(Stopped) -> F) -> Exit {
    let mut interruptions = Interruptions::new();
    let (stop, stopped) = watch::channel(false);
    let work = work(Stopped(stopped));
    tokio::pin!(work);
    let exit = tokio::select! {
        exit = &mut work => exit,
        () = interruptions.next() => {
            // The cursor may be in the middle of an answer, or after the terminal's `^C`.
            if std::io::stderr().is_terminal() {
                let _ = writeln!(std::io::stderr());
            }
            term::note("interrupted; closing servers (press Ctrl-C again to kill them)");
            stop.send_replace(true);
            tokio::select! {
                _ = tokio::time::timeout(CLOSE_TIMEOUT, work) => {}
                () = interruptions.next() => return Exit::Interrupted,
            }
            Exit::Interrupted
        }
    };
    tokio::select! {
        _ = tokio::time::timeout(CLOSE_TIMEOUT, fleet.close()) => exit,
        () = interruptions.next() => Exit::Interrupted,
    }
}

/// How often the user has interrupted the program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Interruption {
    /// Not at all.
    None,
    /// Once: finish what has begun.
    Once,
    /// Twice: stop now.
    Twice,
}

/// Does `work` that finishes what it has begun when it is interrupted, and stops at once when it is interrupted again. A
/// third interruption drops it.
pub(crate) async fn finishing<F: Future<Output = Exit>>(
    message: &str,
    work: impl FnOnce(watch::Receiver<Interruption>) -> F,
) -> Exit {
    match interruptible(message, work).await {
        Ended::Undisturbed(exit) => exit,
        Ended::AfterInterruption(exit) => exit.max(Exit::Interrupted),
        Ended::Stopped => Exit::Interrupted,
    }
}

/// Like [`finishing`], for a worker that others replace: an interruption is how it ends, so its exit code counts.
pub(crate) async fn draining<F: Future<Output = Exit>>(
    message: &str,
    work: impl FnOnce(watch::Receiver<Interruption>) -> F,
) -> Exit {
    match interruptible(message, work).await {
        Ended::Undisturbed(exit) | Ended::AfterInterruption(exit) => exit,
        Ended::Stopped => Exit::Interrupted,
    }
}

/// How work ended that can be interrupted.
enum Ended {
    Undisturbed(Exit),
    /// It finished what it had begun.
    AfterInterruption(Exit),
    /// It was interrupted again.
    Stopped,
}

async fn interruptible<F: Future<Output = Exit>>(
    message: &str,
    work: impl FnOnce(watch::Receiver<Interruption>) -> F,
) -> Ended {
    let mut interruptions = Interruptions::new();
    let (stop, stopped) = watch::channel(Interruption::None);
    let work = work(stopped);
    tokio::pin!(work);
    tokio::select! {
        exit = &mut work => return Ended::Undisturbed(exit),
        () = interruptions.next() => {}
    }
    term::note(message);
    stop.send_replace(Interruption::Once);
    tokio::select! {
        exit = &mut work => return Ended::AfterInterruption(exit),
        () = interruptions.next() => {}
    }
    stop.send_replace(Interruption::Twice);
    tokio::select! {
        _ = tokio::time::timeout(CLOSE_TIMEOUT, work) => {}
        () = interruptions.next() => {}
    }
    Ended::Stopped
}

/// Signals that the work shall stop.
#[derive(Clone)]
pub(crate) struct Stopped(watch::Receiver<bool>);

impl Stopped {
    /// Completes when the work shall stop.
    pub(crate) async fn wait(&mut self) {
        if self.0.wait_for(|stop| *stop).await.is_err() {
            // The sender is gone, so no signal can arrive.
            std::future::pending::<()>().await;
        }
    }
}

/// Like [`guarded`], for sessions without a fleet.
pub(crate) async fn guarded_sessions(sessions: &[Session], work: impl Future<Output = Exit>) -> Exit {
    let close = async {
        futures_util::future::join_all(sessions.iter().map(Session::close)).await;
    };
    closing(close, work).await
}

/// Does `work` that has no servers to close; an interruption drops it.
pub(crate) async fn dropped_on_interrupt(work: impl Future<Output = Exit>) -> Exit {
    let mut interruptions = Interruptions::new();
    tokio::select! {
        exit = work => exit,
        () = interruptions.next() => Exit::Interrupted,
    }
}

async fn closing(close: impl Future<Output = ()>, work: impl Future<Output = Exit>) -> Exit {
    let mut interruptions = Interruptions::new();
    let done = tokio::select! {
        exit = work => Some(exit),
        () = interruptions.next() => None,
    };
    let exit = done.unwrap_or_else(|| {
        term::note("interrupted; closing servers (press Ctrl-C again to kill them)");
        Exit::Interrupted
    });
    tokio::select! {
        _ = tokio::time::timeout(CLOSE_TIMEOUT, close) => exit,
        () = interruptions.next() => Exit::Interrupted,
    }
}

/// What became of work that Ctrl-C can cancel.
pub(crate) enum Cancellable<T> {
    Done(T),
    /// Ctrl-C canceled it.
    Canceled,
    /// SIGTERM or SIGHUP ends the program.
    Ended,
}

/// Signals of a program that goes on after Ctrl-C.
pub(crate) struct CancelSignals {
    cancel: Interruptions,
    end: Interruptions,
}

impl CancelSignals {
    pub(crate) fn new() -> Self {
        let cancel = Interruptions::of(&[SignalKind::interrupt()]);
        Self { cancel, end: Interruptions::of(&[SignalKind::terminate(), SignalKind::hangup()]) }
    }

    /// Does `work`, unless a signal drops it. A Ctrl-C from before does not count.
    pub(crate) async fn cancellable<T>(&mut self, work: impl Future<Output = T>) -> Cancellable<T> {
        while self.cancel.next().now_or_never().is_some() {}
        tokio::select! {
            done = work => Cancellable::Done(done),
            () = self.cancel.next() => Cancellable::Canceled,
            () = self.end.next() => Cancellable::Ended,
        }
    }

    /// Does `work` that handles Ctrl-C itself; `None` if another signal ends the program.
    pub(crate) async fn until_ended<T>(&mut self, work: impl Future<Output = T>) -> Option<T> {
        tokio::select! {
            done = work => Some(done),
            () = self.end.next() => None,
        }
    }
}

/// Does `work` that handles signals itself, and closes the fleet. What the terminal was set to is restored.
pub(crate) async fn guarded_by(fleet: &Fleet, work: impl Future<Output = Exit>) -> Exit {
    let before = rustix::termios::tcgetattr(std::io::stdin()).ok();
    let exit = work.await;
    if let Some(before) = before {
        let _ = rustix::termios::tcsetattr(std::io::stdin(), rustix::termios::OptionalActions::Now, &before);
    }
    let mut interruptions = Interruptions::new();
    tokio::select! {
        _ = tokio::time::timeout(CLOSE_TIMEOUT, fleet.close()) => exit,
        () = interruptions.next() => Exit::Interrupted,
    }
}

/// The signals that end the program. Their handlers are installed at the start, so that none is lost.
struct Interruptions(Vec<Signal>);

impl Interruptions {
    fn new() -> Self {
        Self::of(&[SignalKind::interrupt(), SignalKind::terminate(), SignalKind::hangup()])
    }

    fn of(kinds: &[SignalKind]) -> Self {
        // Without a handler, the system's default action still ends the program.
        Self(kinds.iter().filter_map(|kind| signal(*kind).ok()).collect())
    }

    async fn next(&mut self) {
        if self.0.is_empty() {
            return std::future::pending().await;
        }
        select_all(self.0.iter_mut().map(|signal| Box::pin(signal.recv()))).await;
    }
}
