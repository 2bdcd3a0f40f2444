//! A run on the terminal: streamed text, a line per tool call, and a summary.

use std::collections::BTreeSet;
use std::convert::Infallible;
use std::io::{IsTerminal as _, Write as _};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::time::MissedTickBehavior;
use wharf::agent::{AgentEvent, AgentResult, Compaction, Delta, EventSink, Limit, RunEnd};
use wharf::fleet::Fleet;
use wharf::{BlockKind, Json, ServerInstructions, ServerName, ServerNotice, ToolOutput};

use super::activity::{Activity, FRAME_INTERVAL};
use super::args::Output;
use super::summary::{model_hint, report_limits, seconds, summary};
use crate::exit::Exit;
use crate::failure;
use crate::globals::Globals;
use crate::term::{self, DIM, GREEN, LineQuoter, RED, YELLOW, json_line};

/// How much of arguments and outputs is shown in a line.
const BRIEF_CHARS: usize = 100;
/// How much with `--verbose`.
const VERBOSE_CHARS: usize = 4_000;

/// Begins every line of a thought where no color tells it from an answer.
const THOUGHT_MARK: &str = "thinking │ ";

/// Shows a run while it happens.
pub(super) struct Screen {
    /// Whether only the answer is shown.
    quiet: bool,
    /// How often `--verbose` was given.
    verbosity: u8,
    /// Where text is streamed to; `None` if only whole messages are shown.
    stream: Option<Stream>,
    /// Whether the activity line is shown.
    animated: bool,
    /// Says why a server is not connected.
    fleet: Fleet,
    /// Whether the reason of a failure was printed already.
    reported: AtomicBool,
    state: Mutex<State>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Stream {
    Stdout,
    Stderr,
}

#[expect(clippy::struct_excessive_bools, reason = "each is a fact of its own about what is on the screen")]
struct State {
    /// Whether the cursor is in the middle of a line.
    open_line: bool,
    /// Quotes streamed lines that begin like ours.
    quoter: LineQuoter,
    /// Whether text of the current message has been streamed.
    streamed: bool,
    /// Whether the last message has been streamed in full to where answers go.
    answered: bool,
    thinking: bool,
    /// Whether thoughts of the current message have been streamed.
    thought: bool,
    /// The model, `INTERFACE:NAME`.
    model: String,
    pending_calls: Vec<PendingCall>,
    /// The warnings that were printed. Each is printed once.
    warnings: BTreeSet<String>,
    /// The notices about servers that the model has, and that the user has seen; `None` before the first turn of this
    /// process.
    notices: Option<Vec<(ServerName, ServerNotice)>>,
    activity: Activity,
}

struct PendingCall {
    id: Arc<str>,
    name: Arc<str>,
    arguments: Json,
}

/// The result of a tool call.
struct CallResult<'a> {
    is_error: bool,
    output: &'a Json,
    millis: u64,
}

impl State {
    /// Describes the oldest pending call, and counts the others.
    fn oldest_call(&self) -> Option<String> {
        let PendingCall { name, arguments, .. } = self.pending_calls.first()?;
        let more = self.pending_calls.len() - 1;
        let more = if more > 0 { format!(" and {more} more") } else { String::new() };
        Some(term::name(&format!("waiting for {}{more}", shown_call(name, arguments))))
    }

    /// Writes streamed text.
    fn show(&mut self, text: &str, stream: Stream) {
        if text.is_empty() {
            return;
        }
        self.open_line = !text.ends_with('\n');
        if stream == Stream::Stderr || self.thinking {
            let _ = write!(anstream::stderr(), "{DIM}{text}{DIM:#}");
            let _ = anstream::stderr().flush();
        } else {
            let mut stdout = std::io::stdout().lock();
            let _ = stdout.write_all(text.as_bytes()).and_then(|()| stdout.flush());
        }
    }

    /// Ends an unfinished line, with all of its text.
    fn end_line(&mut self, stream: Stream) {
        let held = self.quoter.end_line();
        self.show(&held, stream);
        if std::mem::take(&mut self.open_line) {
            // On a terminal, stdout and stderr share the line.
            let _ = writeln!(anstream::stderr());
        }
    }
}

impl Screen {
    pub(super) fn new(globals: &Globals, output: Output, fleet: &Fleet) -> Self {
        let quiet = globals.quiet || output != Output::Text;
        let stream = match (std::io::stdout().is_terminal(), std::io::stderr().is_terminal()) {
            _ if quiet => None,
            (true, true) => Some(Stream::Stdout),
            (false, true) => Some(Stream::Stderr),
            (_, false) => None,
        };
        let animated = stream.is_some() && !term::is_dumb();
        let state = State {
            open_line: false,
            quoter: LineQuoter::new(match stream {
                Some(Stream::Stdout) => term::terminal_width().map(usize::from),
                Some(Stream::Stderr) => term::stderr_width(),
                None => None,
            }),
            streamed: false,
            answered: false,
            thinking: false,
            thought: false,
            model: String::new(),
            pending_calls: Vec::new(),
            warnings: BTreeSet::new(),
            notices: None,
            activity: Activity::new(!animated),
        };
        Self {
            quiet,
            verbosity: globals.verbose,
            stream,
            animated,
            fleet: fleet.clone(),
            reported: AtomicBool::new(false),
            state: Mutex::new(state),
        }
    }

    /// Shows what the run waits for, for as long as it is polled.
    pub(super) async fn watch(&self) -> Infallible {
        if self.quiet {
            return std::future::pending().await;
        }
        let mut ticks = tokio::time::interval(FRAME_INTERVAL);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            ticks.tick().await;
            let mut state = self.state();
            if self.animated && !state.open_line {
                state.activity.draw();
            } else if !self.animated {
                state.activity.mention();
            }
        }
    }

    /// Sets whether the reason of a failure was printed already.
    pub(super) fn set_reported(&self, reported: bool) {
        self.reported.store(reported, Ordering::Relaxed);
    }

    fn is_verbose(&self) -> bool {
        self.verbosity > 0
    }

    /// Returns how much of arguments and outputs is shown.
    fn max_chars(&self) -> usize {
        match self.verbosity {
            0 => BRIEF_CHARS,
            1 => VERBOSE_CHARS,
            _ => usize::MAX,
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Says that the model reads less of the conversation from now on.
    fn compacted(&self, compaction: &Compaction) {
        let Compaction { view, failure, tokens_before, tokens_after, .. } = compaction;
        let how = match (&view.summary, failure) {
            (Some(_), None) => format!("the first {} messages are summarized", view.summarized),
            (Some(_), Some(reason)) => {
                let reason = term::brief(reason, BRIEF_CHARS);
                return self.warn(&format!(
                    "the first {} messages no longer fit and could not be summarized: {reason}",
                    view.summarized
                ));
            }
            (None, _) => "old tool results are left out".to_owned(),
        };
        self.line(&format!(
            "{how}: about {} instead of {} tokens",
            term::grouped(*tokens_after),
            term::grouped(*tokens_before)
        ));
    }

    /// Prints a warning on its own line.
    fn warn(&self, text: &str) {
        self.close_line();
        term::warning(text);
    }

    fn progress(&self, message: Option<&str>, progress: f64, total: Option<f64>) {
        if self.quiet || !self.is_verbose() {
            return;
        }
        let part = total.map_or_else(|| progress.to_string(), |total| format!("{progress}/{total}"));
        self.line(&format!("  … {part} {}", term::brief(message.unwrap_or_default(), BRIEF_CHARS)));
    }

    /// Prints the answer and the summary. `checkpoint` is the file that the run was saved to.
    pub(super) async fn finish(&self, result: &AgentResult, checkpoint: Option<&Path>) -> Exit {
        let answered = {
            let mut state = self.state();
            state.activity.set(None);
            state.activity.erase();
            std::mem::take(&mut state.answered)
        };
        let written = match &result.final_response {
            Some(answer) if !(answered && self.stream == Some(Stream::Stdout)) => {
                term::out(term::for_stdout(answer.clone())).await
            }
            _ => Exit::Done,
        };
        self.close_line();
        match &result.stop {
            RunEnd::Completed if result.final_response.is_some() => {}
            RunEnd::ModelFailed(_) | RunEnd::ToolFailed(_) if self.reported.load(Ordering::Relaxed) => {}
            RunEnd::Completed => term::error("the model returned no answer", &[], None),
            RunEnd::Refused => term::error("the model refused to answer", &[], None),
            RunEnd::Truncated => {
                term::warning("the answer is truncated: it reached the model's output limit");
            }
            // All limits follow.
            RunEnd::Limit(_) | RunEnd::Cancelled => {}
            RunEnd::ModelFailed(error) => {
                let model = self.state().model.clone();
                term::error(&format!("{model}: {error}"), &[], model_hint(&model, error));
            }
            RunEnd::ToolFailed(reason) => term::error(reason, &[], None),
            RunEnd::CheckpointFailed(reason) => {
                let hint = "free some space and --resume, or continue unsaved with --checkpoint-optional";
                term::error(&format!("stopped because the run cannot be saved: {reason}"), &[], Some(hint));
            }
        }
        report_limits(result, checkpoint);
        if !self.quiet {
            self.line(&summary(result));
        }
        written
    }

    /// Streams a piece of text.
    fn delta(&self, text: &str, is_thinking: bool) {
        let Some(stream) = self.stream else { return };
        let mut state = self.state();
        state.activity.set(None);
        state.activity.erase();
        if state.thinking && !is_thinking {
            state.end_line(stream);
        } else if state.thinking != is_thinking {
            let held = state.quoter.release();
            state.show(&held, stream);
        }
        state.thinking = is_thinking;
        state.thought |= is_thinking;
        state.streamed |= !is_thinking;
        let shown = state.quoter.push(&term::plain(text));
        state.show(&shown, stream);
    }

    /// Ends an unfinished line.
    fn close_line(&self) {
        let mut state = self.state();
        state.activity.erase();
        if let Some(stream) = self.stream {
            state.end_line(stream);
        }
    }

    fn line(&self, text: &str) {
        self.close_line();
        let _ = writeln!(anstream::stderr(), "{DIM}{}{DIM:#}", unlabeled(text));
    }

    fn message(&self, message: &wharf::Message) {
        let is_answer = message.calls().next().is_none();
        let streamed = std::mem::take(&mut self.state().streamed);
        if !std::mem::take(&mut self.state().thought) && self.is_verbose() && !self.quiet {
            for thought in message.content.iter().filter_map(thought) {
                let rows: Vec<String> =
                    term::plain(thought).lines().map(|row| format!("{THOUGHT_MARK}{row}")).collect();
                self.line(&rows.join("\n"));
            }
        }
        let text = message.plain_text();
        self.state().answered = is_answer && streamed;
        if streamed || text.trim().is_empty() {
            // Further output begins a new line.
            return self.close_line();
        }
        if !is_answer && !self.quiet {
            self.line(&term::plain(&text));
        }
    }

    fn call_finished(&self, name: &str, id: &str, result: &CallResult<'_>) {
        if self.quiet {
            return;
        }
        let CallResult { is_error, output, millis } = *result;
        let call = {
            let mut state = self.state();
            let position = state.pending_calls.iter().position(|call| *call.id == *id);
            let call = position.map(|position| state.pending_calls.remove(position));
            let oldest = state.oldest_call();
            state.activity.set(oldest);
            call
        };
        let called = call.as_ref().map_or_else(|| name.to_owned(), |call| shown_call(name, &call.arguments));
        let (mark, style) = if is_error { ("✗", RED) } else { ("✓", GREEN) };
        let time =
            if millis < 1000 { format!("{millis} ms") } else { format!("{}.{} s", millis / 1000, millis % 1000 / 100) };
        let text =
            ToolOutput::from_json(output).map_or_else(|_| output.decode().unwrap_or_default(), |output| output.text());
        let max_chars = self.max_chars();
        self.close_line();
        let called = after_mark(&term::brief(&term::name(&called), max_chars));
        let _ = writeln!(anstream::stderr(), "{style}{mark}{style:#} {called} {DIM}({time}){DIM:#}");
        if self.is_verbose() {
            let _ = writeln!(anstream::stderr(), "{DIM}{}{DIM:#}", unlabeled(&indented(&text, max_chars)));
        } else if is_error {
            let _ = writeln!(
                anstream::stderr(),
                "{DIM}{}{DIM:#}",
                unlabeled(&format!("  {}", term::brief(&text, BRIEF_CHARS * 2)))
            );
        }
    }

    /// Prints which servers have joined the run, or left it for now. What the first turn lacks was printed before it.
    fn servers_changed(&self, servers: &[ServerInstructions]) {
        let notices: Vec<(ServerName, ServerNotice)> =
            servers.iter().filter_map(|about| Some((about.server.clone(), about.notice?))).collect();
        let before = self.state().notices.replace(notices.clone());
        let Some(before) = before.filter(|_| !self.quiet) else { return };
        for (server, notice) in notices.iter().filter(|notice| !before.contains(notice)) {
            self.close_line();
            match notice {
                ServerNotice::Joined => term::note(&format!("{server} is connected; the model has its tools now")),
                ServerNotice::Late => {
                    let status = self.fleet.status(server);
                    let reason = status.as_ref().and_then(failure::reason_with_cause);
                    let reason = reason.map(|reason| format!(": {reason}")).unwrap_or_default();
                    term::warning(&format!(
                        "{server} is not connected; reconnecting, and continuing without its tools{reason}"
                    ));
                }
            }
        }
    }

    /// Prints a call that a limit prevented.
    fn call_blocked(&self, name: &str, arguments: &Json, limit: &Limit) {
        let max_chars = self.max_chars();
        let called = after_mark(&term::brief(&term::name(&shown_call(name, arguments)), max_chars));
        let why = term::name(&format!("not called: {limit}"));
        self.close_line();
        let _ = writeln!(anstream::stderr(), "{YELLOW}!{YELLOW:#} {called} {DIM}({why}){DIM:#}");
    }
}

/// Returns the text of a thought.
fn thought(block: &wharf::Block) -> Option<&str> {
    match &block.kind {
        BlockKind::Thinking { text, .. } if !text.trim().is_empty() => Some(text),
        _ => None,
    }
}

/// Quotes what begins a row of stderr like a line of ours.
fn unlabeled(text: &str) -> String {
    term::unlabeled(text, term::stderr_width())
}

/// Like [`unlabeled`], for a text that follows a mark and a space.
fn after_mark(text: &str) -> String {
    unlabeled(&format!("- {text}")).split_off(2)
}

/// Returns a call in one line.
fn shown_call(name: &str, arguments: &Json) -> String {
    format!("{name} {}", json_line(arguments.as_str()))
}

impl EventSink for Screen {
    fn event(&self, event: AgentEvent) {
        match event {
            AgentEvent::RunStarted { interface, model, .. } => {
                self.state().model = term::name(&format!("{interface}:{model}"));
            }
            AgentEvent::TurnStarted { .. } => {
                let mut state = self.state();
                let wait = format!("waiting for {}", state.model);
                state.activity.set(Some(wait));
            }
            AgentEvent::Instructions { servers, .. } => self.servers_changed(&servers),
            AgentEvent::ModelDelta(Delta::Text(text)) => self.delta(&text, false),
            AgentEvent::ModelDelta(Delta::Thinking(text)) if self.is_verbose() => self.delta(&text, true),
            AgentEvent::ModelDelta(Delta::Thinking(_)) => {
                let mut state = self.state();
                let wait = format!("{} is thinking", state.model);
                state.activity.rename(wait);
            }
            AgentEvent::ModelMessage { message, .. } => {
                self.state().activity.set(None);
                self.message(&message);
            }
            AgentEvent::ToolStarted { id, name, arguments } => {
                let mut state = self.state();
                state.pending_calls.push(PendingCall { id, name, arguments });
                let oldest = state.oldest_call();
                state.activity.set(oldest);
            }
            AgentEvent::ToolFinished { id, name, is_error, output, millis } => {
                self.call_finished(&name, &id, &CallResult { is_error, output: &output, millis });
            }
            AgentEvent::ToolBlocked { name, arguments, limit, .. } if !self.quiet => {
                self.call_blocked(&name, &arguments, &limit);
            }
            AgentEvent::ToolProgress { progress, total, message, .. } => {
                self.progress(message.as_deref(), progress, total);
            }
            AgentEvent::Retry { what, reason, delay, attempt, max_attempts } if !self.quiet => {
                self.close_line();
                let mut state = self.state();
                (state.streamed, state.thought) = (false, false);
                let what = if what == "model" { state.model.clone() } else { what };
                let attempt = format!("attempt {} of {max_attempts}", attempt.saturating_add(1));
                let delayed = format!("retrying in {} ({attempt})", seconds(delay));
                state.activity.set_delayed(
                    format!("{what}: {delayed}"),
                    delay,
                    format!("waiting for {what} ({attempt})"),
                );
                term::warning(&format!("{what}: {reason}; {delayed}"));
            }
            AgentEvent::Compacted(compaction) if !self.quiet => self.compacted(&compaction),
            AgentEvent::Warning { message } if !self.quiet && self.state().warnings.insert(message.clone()) => {
                self.close_line();
                term::warning(&message);
            }
            _ => {}
        }
    }
}

fn indented(text: &str, max_chars: usize) -> String {
    let cut: String = text.chars().take(max_chars).collect();
    let mark = if cut.len() < text.len() { "…" } else { "" };
    let lines: Vec<String> = term::plain(&format!("{cut}{mark}")).lines().map(|line| format!("  {line}")).collect();
    lines.join("\n")
}
