//! Lines that the user types, shown or not.

use std::io::{IsTerminal as _, Write as _};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::termios::{LocalModes, OptionalActions, QueueSelector, Termios, tcflush, tcgetattr, tcsetattr};

use super::text::plain;

/// How often a thread that waits for a line checks whether the line is still wanted.
const ABANDONED_CHECK: Timespec = Timespec { tv_sec: 0, tv_nsec: 50_000_000 };

/// Asks for a line; `None` at the end of the input. A blocking thread reads it, so that Ctrl-C still works. When the
/// future is dropped, the thread stops waiting: it must not take a line that is typed for something else.
pub(crate) async fn line(question: String) -> Option<String> {
    let is_abandoned = Arc::new(AtomicBool::new(false));
    let _abandon = AbandonOnDrop(Arc::clone(&is_abandoned));
    let read = move || {
        drop_typed_input();
        let mut stderr = std::io::stderr();
        let _ = write!(stderr, "{}", plain(&question));
        let _ = stderr.flush();
        wait_for_line(&is_abandoned)?;
        let mut text = String::new();
        let bytes = std::io::stdin().read_line(&mut text).ok()?;
        (bytes > 0).then_some(text)
    };
    tokio::task::spawn_blocking(read).await.ok().flatten()
}

struct AbandonOnDrop(Arc<AtomicBool>);

impl Drop for AbandonOnDrop {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Waits until the terminal has a line; `None` if it is not wanted any more. Other inputs are read without waiting.
fn wait_for_line(is_abandoned: &AtomicBool) -> Option<()> {
    let stdin = std::io::stdin();
    let is_wanted = || !is_abandoned.load(Ordering::Relaxed);
    while stdin.is_terminal() && is_wanted() {
        match poll(&mut [PollFd::new(&stdin, PollFlags::IN)], Some(&ABANDONED_CHECK)) {
            Ok(0) | Err(Errno::INTR) => {}
            Ok(_) | Err(_) => break,
        }
    }
    is_wanted().then_some(())
}

/// Drops what was typed already: it was not meant for the question that follows.
pub(super) fn drop_typed_input() {
    // Stdin is not always a terminal, and then nothing was typed.
    let _ = tcflush(std::io::stdin(), QueueSelector::IFlush);
}

/// Like [`line`], without showing what is typed; `None` also if the terminal cannot hide it.
pub(crate) async fn hidden_line(question: String) -> Option<String> {
    let _hidden = HiddenInput::begin()?;
    line(question).await
}

/// The terminal shows no input for as long as this lives. It belongs to the task, not to the thread that reads: Ctrl-C
/// drops the task while the thread still waits.
struct HiddenInput(Termios);

impl HiddenInput {
    fn begin() -> Option<Self> {
        let before = tcgetattr(std::io::stdin()).ok()?;
        let mut hidden = before.clone();
        hidden.local_modes.remove(LocalModes::ECHO);
        // The line break is shown, so that the next output starts on its own line.
        hidden.local_modes.insert(LocalModes::ECHONL);
        // What was typed before the question was not meant for it.
        tcsetattr(std::io::stdin(), OptionalActions::Flush, &hidden).ok()?;
        Some(Self(before))
    }
}

impl Drop for HiddenInput {
    fn drop(&mut self) {
        let _ = tcsetattr(std::io::stdin(), OptionalActions::Now, &self.0);
    }
}
