//! What a person sees while many servers connect: one line each, drawn over and over, gone when it is over.

use std::io::{IsTerminal as _, Write as _};
use std::time::Duration;

use anstyle::{AnsiColor, Style};
use rustix::termios::tcgetwinsize;
use tokio::time::{Instant, MissedTickBehavior, interval_at};
use wharf::fleet::{Fleet, ServerState, ServerStatus};

use crate::render::{is_dumb, plain};
use crate::setup::LONGEST;

/// How often it is drawn at most.
const PACE: Duration = Duration::from_millis(100);
/// What moves while something is waited for.
pub(crate) const SPINNER: [&str; 10] = ["⠋", "⠙", "⠹", "⠸", "⠼", "⠴", "⠦", "⠧", "⠇", "⠏"];
const GREEN: Style = AnsiColor::Green.on_default();
const RED: Style = AnsiColor::Red.on_default();
const YELLOW: Style = AnsiColor::Yellow.on_default();
const CYAN: Style = AnsiColor::Cyan.on_default();
const DIM: Style = Style::new().dimmed();

/// The lines that are on the screen now. They disappear with it, however the command ends.
pub(crate) struct Live {
    lines: usize,
    colours: bool,
}

impl Live {
    /// Waits until every server has been tried to the end, and shows a person how it goes.
    pub(crate) async fn watch(fleet: &Fleet, quiet: bool) {
        let stderr = std::io::stderr();
        if quiet || is_dumb() || !stderr.is_terminal() {
            fleet.settled(LONGEST).await;
            return;
        }
        let colours = anstream::AutoStream::choice(&stderr) != anstream::ColorChoice::Never;
        let mut live = Self { lines: 0, colours };
        let began = Instant::now();
        // What is quick is over before it is drawn for the first time.
        let mut ticks = interval_at(began + PACE, PACE);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let settled = fleet.settled(LONGEST);
        tokio::pin!(settled);
        loop {
            tokio::select! {
                _ = &mut settled => return,
                _ = ticks.tick() => live.draw(&fleet.statuses(), began.elapsed()),
            }
        }
    }

    fn draw(&mut self, statuses: &[ServerStatus], elapsed: Duration) {
        let size = tcgetwinsize(std::io::stderr()).ok().filter(|size| size.ws_col > 0 && size.ws_row > 0);
        let (width, height) = size.map_or((80, 24), |size| (usize::from(size.ws_col), usize::from(size.ws_row)));
        // The last column and the last row are left alone: to fill them makes a terminal move on.
        let lines = lines(statuses, elapsed, (width.saturating_sub(1), height.saturating_sub(1).max(1)));
        let mut text = if self.lines == 0 { "\u{1b}[?25l".to_owned() } else { format!("\u{1b}[{}A", self.lines) };
        for line in &lines {
            text.extend(["\r\u{1b}[2K", &line.painted(self.colours), "\n"]);
        }
        // What is left of more lines than there are now.
        text.push_str("\u{1b}[J");
        self.lines = lines.len();
        write(&text);
    }
}

impl Drop for Live {
    fn drop(&mut self) {
        if self.lines > 0 {
            write(&format!("\u{1b}[{}A\r\u{1b}[J\u{1b}[?25h", self.lines));
        }
    }
}

fn write(text: &str) {
    let mut stderr = std::io::stderr();
    let _ = stderr.write_all(text.as_bytes()).and_then(|()| stderr.flush());
}

struct Line {
    style: Style,
    mark: &'static str,
    text: String,
}

impl Line {
    fn painted(&self, colours: bool) -> String {
        let Self { style, mark, text } = self;
        if colours { format!("{style}{mark}{style:#} {text}") } else { format!("{mark} {text}") }
    }
}

/// What is drawn: all servers if there is room, otherwise those that are not there yet, and how many the others are.
fn lines(statuses: &[ServerStatus], elapsed: Duration, (width, height): (usize, usize)) -> Vec<Line> {
    let longest = statuses.iter().map(|status| status.name.as_str().len()).max().unwrap_or(0).min(width / 2);
    let mut ordered: Vec<&ServerStatus> = statuses.iter().collect();
    let fits = ordered.len() <= height;
    if !fits {
        ordered.sort_by_key(|status| (status.settled, is_queued(status)));
    }
    let shown = if fits { ordered.len() } else { height.saturating_sub(1) };
    let mut lines: Vec<Line> =
        ordered.iter().take(shown).map(|status| line(status, elapsed, (longest, width))).collect();
    if !fits {
        let connected = statuses.iter().filter(|status| status.state == ServerState::Connected).count();
        let text = format!("{} more; {connected} of {} connected", statuses.len() - shown, statuses.len());
        lines.push(Line { style: DIM, mark: "…", text: cut(&text, width.saturating_sub(2)) });
    }
    lines
}

fn is_queued(status: &ServerStatus) -> bool {
    matches!(status.reason, Some(wharf::fleet::StateReason::Queued))
}

fn line(status: &ServerStatus, elapsed: Duration, (longest, width): (usize, usize)) -> Line {
    let turn = usize::try_from(elapsed.as_millis() / PACE.as_millis()).unwrap_or(0) % SPINNER.len();
    let (style, mark) = match status.state {
        ServerState::Connected => (GREEN, "✓"),
        ServerState::Failed => (RED, "✗"),
        ServerState::NeedsAuth => (YELLOW, "!"),
        ServerState::Disabled => (DIM, "-"),
        ServerState::Pending if status.settled || is_queued(status) => (DIM, "·"),
        ServerState::Pending => (CYAN, SPINNER[turn]),
    };
    let said = match (&status.reason, status.state) {
        (_, ServerState::Connected) if status.tools == 1 => "1 tool".to_owned(),
        (_, ServerState::Connected) => format!("{} tools", status.tools),
        (Some(reason), ServerState::Pending) if !status.settled => {
            format!("{reason}, {:.0} s", status.since.elapsed().as_secs_f64())
        }
        (Some(reason), _) => reason.to_string(),
        (None, state) => state.to_string(),
    };
    let name = cut(status.name.as_str(), longest);
    let text = format!("{name:longest$}  {}", plain(said.lines().next().unwrap_or_default()).replace('\t', " "));
    Line { style, mark, text: cut(&text, width.saturating_sub(2)) }
}

/// A text that takes no more than so many columns. What is not ASCII may take two, so it counts for two.
fn cut(text: &str, width: usize) -> String {
    let columns = |c: char| if c.is_ascii() { 1 } else { 2 };
    if text.chars().map(columns).sum::<usize>() <= width {
        return text.to_owned();
    }
    let (mut taken, mut room) = (String::new(), width.saturating_sub(2));
    for c in text.chars() {
        let Some(left) = room.checked_sub(columns(c)) else { break };
        taken.push(c);
        room = left;
    }
    taken + "…"
}

#[cfg(test)]
mod tests {
    use super::*;
    use wharf::fleet::{Scope, StateReason};

    fn status(name: &str, state: ServerState, reason: Option<StateReason>) -> ServerStatus {
        ServerStatus {
            name: name.parse().unwrap(),
            scope: Scope::User,
            transport: "stdio",
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

    fn drawn(statuses: &[ServerStatus], size: (usize, usize)) -> String {
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
        insta::assert_snapshot!(drawn(&statuses, (30, 10)), @r"
        ✓ docs    3 tools
        ⠙ github  connecting, 0 s
        · later   queued, 0 s
        ✗ broken  the command `a-ver…
        ✗ jp      壊れた壊れた壊れた…
        ");
    }

    #[tokio::test(start_paused = true)]
    async fn where_there_is_no_room_for_all_those_that_are_waited_for_come_first() {
        let mut statuses: Vec<ServerStatus> =
            (0..9).map(|n| status(&format!("s{n}"), ServerState::Connected, None)).collect();
        statuses[7] = status("s7", ServerState::Pending, Some(StateReason::Connecting));
        statuses[8] = status("s8", ServerState::Pending, Some(StateReason::Queued));
        insta::assert_snapshot!(drawn(&statuses, (60, 4)), @r"
        ⠙ s7  connecting, 0 s
        · s8  queued, 0 s
        ✓ s0  3 tools
        … 6 more; 7 of 9 connected
        ");
    }
}
