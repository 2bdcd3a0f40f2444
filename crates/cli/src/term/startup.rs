//! The startup display: one line per server while servers connect, gone when all have settled.

use std::time::Duration;

use anstyle::{AnsiColor, Style};
use indicatif::ProgressBar;
use rustix::termios::tcgetwinsize;
use tokio::time::{Instant, MissedTickBehavior, interval_at};
use wharf::fleet::{Fleet, ServerState, ServerStatus, StateReason};

use super::status_line::{SPINNER, progress_bar};
use super::style::{DIM, stderr_has_color};
use super::text::{counted, plain};

/// Limit for the startup of all servers. Each server has its own deadlines; this one only guarantees an end.
pub(crate) const SETTLE_LIMIT: Duration = Duration::from_secs(60 * 60);
/// Time until the first frame: a list shows its first line within 100 ms of the start of the process.
const FIRST_FRAME: Duration = Duration::from_millis(50);
/// Time between two frames.
const FRAME_INTERVAL: Duration = Duration::from_millis(100);
const GREEN: Style = AnsiColor::Green.on_default();
const RED: Style = AnsiColor::Red.on_default();
const YELLOW: Style = AnsiColor::Yellow.on_default();
const CYAN: Style = AnsiColor::Cyan.on_default();

/// The lines on the screen. Dropping it erases them, however the command ends.
///
/// One bar with a message of several lines, instead of one bar per server: on a small screen the servers that are still
/// connecting come first, and a last line counts the others. `indicatif` would just cut the list.
pub(crate) struct StartupDisplay {
    bar: ProgressBar,
    colors: bool,
}

impl StartupDisplay {
    /// Whether the display would be shown.
    pub(crate) fn is_shown(quiet: bool) -> bool {
        !progress_bar("{msg}", quiet).is_hidden()
    }

    /// Waits until every server has settled, and shows their progress on a terminal.
    pub(crate) async fn watch(fleet: &Fleet, quiet: bool) {
        let display = Self { bar: progress_bar("{msg}", quiet), colors: stderr_has_color() };
        if display.bar.is_hidden() {
            fleet.settled(SETTLE_LIMIT).await;
            return;
        }
        let began = Instant::now();
        // Servers that settle before the first frame are never drawn.
        let mut ticks = interval_at(began + FIRST_FRAME, FRAME_INTERVAL);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let settled = fleet.settled(SETTLE_LIMIT);
        tokio::pin!(settled);
        loop {
            tokio::select! {
                _ = &mut settled => return,
                _ = ticks.tick() => display.draw(&fleet.statuses(), began.elapsed()),
            }
        }
    }

    fn draw(&self, statuses: &[ServerStatus], elapsed: Duration) {
        let lines = lines(statuses, elapsed, Size::of_terminal());
        let text: Vec<String> = lines.iter().map(|line| line.painted(self.colors)).collect();
        self.bar.set_message(text.join("\n"));
        self.bar.tick();
    }
}

impl Drop for StartupDisplay {
    fn drop(&mut self) {
        self.bar.finish_and_clear();
    }
}

/// The space for the display.
#[derive(Clone, Copy)]
struct Size {
    width: usize,
    height: usize,
}

impl Size {
    /// Leaves the last column and the last row free: to fill them scrolls some terminals.
    fn of_terminal() -> Self {
        let size = tcgetwinsize(std::io::stderr()).ok().filter(|size| size.ws_col > 0 && size.ws_row > 0);
        let width = size.map_or(80, |size| usize::from(size.ws_col));
        let height = size.map_or(24, |size| usize::from(size.ws_row));
        Self { width: width.saturating_sub(1), height: height.saturating_sub(1).max(1) }
    }
}

struct Line {
    style: Style,
    mark: &'static str,
    text: String,
}

impl Line {
    fn painted(&self, colors: bool) -> String {
        let Self { style, mark, text } = self;
        if colors { format!("{style}{mark}{style:#} {text}") } else { format!("{mark} {text}") }
    }
}

/// Returns a line per server. If they do not fit, those that have not settled come first, and a last line counts the
/// others.
fn lines(statuses: &[ServerStatus], elapsed: Duration, size: Size) -> Vec<Line> {
    let longest_name = statuses.iter().map(|status| status.name.as_str().len()).max().unwrap_or(0);
    let name_width = longest_name.min(size.width / 2);
    let mut ordered: Vec<&ServerStatus> = statuses.iter().collect();
    let fits = ordered.len() <= size.height;
    if !fits {
        ordered.sort_by_key(|status| (status.settled, is_queued(status)));
    }
    let shown = if fits { ordered.len() } else { size.height.saturating_sub(1) };
    let mut lines: Vec<Line> = ordered
        .iter()
        .take(shown)
        .map(|status| {
            let (style, mark) = mark(status, elapsed);
            let name = cut(status.name.as_str(), name_width);
            let text = format!("{name:name_width$}  {}", describe(status));
            Line { style, mark, text: cut(&text, size.width.saturating_sub(2)) }
        })
        .collect();
    if !fits {
        let connected = statuses.iter().filter(|status| status.state == ServerState::Connected).count();
        let text = format!("{} more; {connected} of {} connected", statuses.len() - shown, statuses.len());
        lines.push(Line { style: DIM, mark: "…", text: cut(&text, size.width.saturating_sub(2)) });
    }
    lines
}

fn is_queued(status: &ServerStatus) -> bool {
    matches!(status.reason, Some(StateReason::Queued))
}

fn mark(status: &ServerStatus, elapsed: Duration) -> (Style, &'static str) {
    match status.state {
        ServerState::Connected => (GREEN, "✓"),
        ServerState::Failed => (RED, "✗"),
        ServerState::NeedsAuth => (YELLOW, "!"),
        ServerState::Disabled => (DIM, "-"),
        ServerState::Pending if status.settled || is_queued(status) => (DIM, "·"),
        ServerState::Pending => {
            let frame = usize::try_from(elapsed.as_millis() / FRAME_INTERVAL.as_millis()).unwrap_or(0);
            (CYAN, SPINNER[frame % SPINNER.len()])
        }
    }
}

fn describe(status: &ServerStatus) -> String {
    let text = match (&status.reason, status.state) {
        (_, ServerState::Connected) => counted(status.tools, "tool"),
        (Some(reason), ServerState::Pending) if !status.settled => {
            format!("{reason}, {:.0} s", status.since.elapsed().as_secs_f64())
        }
        (Some(reason), _) => reason.to_string(),
        (None, state) => state.to_string(),
    };
    plain(text.lines().next().unwrap_or_default()).replace('\t', " ")
}

/// Cuts a text to a number of columns. A character that is not ASCII counts for two, as it may be wide.
fn cut(text: &str, width: usize) -> String {
    let columns = |c: char| if c.is_ascii() { 1 } else { 2 };
    if text.chars().map(columns).sum::<usize>() <= width {
        return text.to_owned();
    }
    let mut cut = String::new();
    let mut room = width.saturating_sub(2);
    for c in text.chars() {
        let Some(left) = room.checked_sub(columns(c)) else { break };
        cut.push(c);
        room = left;
    }
    cut + "…"
}

#[cfg(test)]
mod tests {
    use super::*;
    use wharf::fleet::Scope;

    fn status(name: &str, state: ServerState, reason: Option<StateReason>) -> ServerStatus {
        ServerStatus {
            name: name.parse().unwrap(),
            scope: Scope::User,
            transport: wharf::config::TransportKind::Stdio,
            required: false,
            settled: state != ServerState::Pending,
            state,
            reason,
            since: Instant::now(),
            failures: 0,
            next_try: None,
            tools: 3,
            info: None,
            stale: None,
        }
    }

    fn drawn(statuses: &[ServerStatus], width: usize, height: usize) -> String {
        let size = Size { width, height };
        let lines = lines(statuses, Duration::from_millis(100), size);
        lines.iter().map(|line| line.painted(false)).collect::<Vec<_>>().join("\n")
    }

    #[tokio::test(start_paused = true)]
    async fn each_server_has_a_line_that_fits() {
        let long = "the command `a-very-long-name-of-a-command` was not found";
        let statuses = [
            status("docs", ServerState::Connected, None),
            status("github", ServerState::Pending, Some(StateReason::Connecting)),
            status("later", ServerState::Pending, Some(StateReason::Queued)),
            status("broken", ServerState::Failed, Some(StateReason::Refused(long.to_owned()))),
            status("jp", ServerState::Failed, Some(StateReason::Refused("壊れた".repeat(9)))),
        ];
        insta::assert_snapshot!(drawn(&statuses, 30, 10), @r"
        ✓ docs    3 tools
        ⠙ github  connecting, 0 s
        · later   queued, 0 s
        ✗ broken  the command `a-ver…
        ✗ jp      壊れた壊れた壊れた…
        ");
    }

    #[tokio::test(start_paused = true)]
    async fn on_a_small_screen_the_servers_that_are_still_connecting_come_first() {
        let mut statuses: Vec<ServerStatus> =
            (0..9).map(|n| status(&format!("s{n}"), ServerState::Connected, None)).collect();
        statuses[7] = status("s7", ServerState::Pending, Some(StateReason::Connecting));
        statuses[8] = status("s8", ServerState::Pending, Some(StateReason::Queued));
        insta::assert_snapshot!(drawn(&statuses, 60, 4), @r"
        ⠙ s7  connecting, 0 s
        · s8  queued, 0 s
        ✓ s0  3 tools
        … 6 more; 7 of 9 connected
        ");
    }
}
