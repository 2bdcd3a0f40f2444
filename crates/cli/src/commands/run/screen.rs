//! What a person sees of a run: the text as it comes, a line for every call, and what it took.

use std::convert::Infallible;
use std::io::{IsTerminal as _, Write as _};
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::time::MissedTickBehavior;
use wharf::agent::{AgentEvent, AgentResult, Delta, EventSink, RunEnd};
use wharf::{Json, ToolOutput, Usage};

use super::Output;
use super::waiting::{PACE, Waiting};
use crate::args::Globals;
use crate::exit::Exit;
use crate::render::{self, DIM, GREEN, RED};

/// How much of arguments and outputs is shown in a line.
const BRIEF: usize = 100;
/// How much with -v.
const MORE: usize = 4_000;

/// Shows a run as it goes.
pub(super) struct Screen {
    /// Nothing is shown but the answer.
    quiet: bool,
    verbose: bool,
    /// Where text goes as it comes; `None` if only whole messages are shown.
    live: Option<Where>,
    /// Whether a line may move there.
    moves: bool,
    state: Mutex<State>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Where {
    Stdout,
    Stderr,
}

#[derive(Default)]
#[expect(clippy::struct_excessive_bools, reason = "each is a fact of its own about what is on the screen")]
struct State {
    /// Whether the cursor is in the middle of a line.
    open: bool,
    /// Whether any text of the answer that is coming has been shown.
    begun: bool,
    /// Whether the last message has been shown in full, where answers go.
    answered: bool,
    thinking: bool,
    /// The model that is asked.
    model: String,
    /// The calls under way: id, name, arguments.
    under_way: Vec<(Arc<str>, Arc<str>, Json)>,
    waiting: Waiting,
}

impl State {
    /// The oldest call under way, and how many more there are.
    fn oldest(&self) -> Option<String> {
        let (_, name, arguments) = self.under_way.first()?;
        let more = self.under_way.len() - 1;
        let more = if more > 0 { format!(" and {more} more") } else { String::new() };
        Some(render::plain(&format!("{name} {arguments}{more}")))
    }
}

impl Screen {
    pub(super) fn new(globals: &Globals, output: Output) -> Self {
        let (stdout, stderr) = (std::io::stdout().is_terminal(), std::io::stderr().is_terminal());
        let live = match output {
            Output::Text if globals.quiet => None,
            Output::Text if stdout && stderr => Some(Where::Stdout),
            Output::Text | Output::Json | Output::StreamJson => {
                (stderr && !globals.quiet && output == Output::Text).then_some(Where::Stderr)
            }
        };
        let quiet = globals.quiet || output != Output::Text;
        let moves = live.is_some() && !render::is_dumb();
        Self { quiet, verbose: globals.verbose, live, moves, state: Mutex::default() }
    }

    /// Shows who is waited for, as long as it is polled.
    pub(super) async fn watch(&self) -> Infallible {
        if !self.moves {
            return std::future::pending().await;
        }
        let mut ticks = tokio::time::interval(PACE);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            ticks.tick().await;
            let mut state = self.state();
            if !state.open {
                state.waiting.draw();
            }
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A call has come further.
    fn progress(&self, message: Option<&str>, progress: f64, total: Option<f64>) {
        if self.quiet || !self.verbose {
            return;
        }
        let part = total.map_or_else(|| progress.to_string(), |total| format!("{progress}/{total}"));
        self.line(&format!("  … {part} {}", render::brief(message.unwrap_or_default(), BRIEF)));
    }

    /// The last word, and what it took. `file` is where the run is written down.
    pub(super) async fn finish(&self, result: &AgentResult, file: Option<&Path>) -> Exit {
        let shown = {
            let mut state = self.state();
            state.waiting.set(None);
            state.waiting.erase();
            std::mem::take(&mut state.answered)
        };
        let written = match &result.final_response {
            Some(answer) if !(shown && self.live == Some(Where::Stdout)) => {
                render::out(render::for_stdout(answer.clone())).await
            }
            _ => Exit::Done,
        };
        self.close_line();
        match &result.stop {
            RunEnd::Completed if result.final_response.is_some() => {}
            RunEnd::Completed => render::error("the model ended without an answer", &[], None),
            RunEnd::Refused => render::error("the model will not answer this", &[], None),
            RunEnd::Truncated => {
                render::warning("the answer is cut: it would have been longer than the model may answer");
            }
            RunEnd::Limit(limit) => {
                let more = "give more: --max-turns, --max-tool-calls, --max-tokens, --max-cost or --max-time";
                let hint = match file.filter(|_| result.final_response.is_none()) {
                    Some(file) => format!("{more}, with --resume {}", file.display()),
                    None => more.to_owned(),
                };
                render::error(&format!("{limit} was reached"), &[], Some(&hint));
            }
            RunEnd::Cancelled => {}
            RunEnd::ModelFailed(error) => render::error(&error.to_string(), &[], advice(error)),
            RunEnd::ToolFailed(reason) => render::error(reason, &[], None),
        }
        if !self.quiet {
            self.line(&summary(result));
        }
        written
    }

    /// Shows a piece of text as it comes.
    fn piece(&self, text: &str, dim: bool) {
        let Some(place) = self.live else { return };
        let mut state = self.state();
        state.waiting.set(None);
        state.waiting.erase();
        let text = render::plain(text);
        if state.thinking && !dim {
            state.thinking = false;
            if state.open {
                let _ = writeln!(anstream::stderr());
            }
        }
        state.open = !text.ends_with('\n');
        if dim {
            state.thinking = true;
            let _ = write!(anstream::stderr(), "{DIM}{text}{DIM:#}");
            let _ = anstream::stderr().flush();
            return;
        }
        state.begun = true;
        match place {
            Where::Stdout => {
                let mut stdout = std::io::stdout().lock();
                let _ = stdout.write_all(text.as_bytes()).and_then(|()| stdout.flush());
            }
            Where::Stderr => {
                let _ = write!(anstream::stderr(), "{DIM}{text}{DIM:#}");
                let _ = anstream::stderr().flush();
            }
        }
    }

    /// Ends a line that was begun.
    fn close_line(&self) {
        let mut state = self.state();
        state.waiting.erase();
        if std::mem::take(&mut state.open) {
            // On a screen both go to the same place.
            let _ = writeln!(anstream::stderr());
        }
    }

    fn line(&self, text: &str) {
        self.close_line();
        let _ = writeln!(anstream::stderr(), "{DIM}{text}{DIM:#}");
    }

    fn message(&self, message: &wharf::Message) {
        let is_answer = message.calls().next().is_none();
        let (begun, text) = (std::mem::take(&mut self.state().begun), message.plain_text());
        self.state().answered = is_answer && begun;
        if begun || text.trim().is_empty() {
            // What follows begins a line of its own.
            return self.close_line();
        }
        if !is_answer && !self.quiet {
            self.line(&render::plain(&text));
        }
    }

    fn finished(&self, name: &str, id: &str, (is_error, output, millis): (bool, &Json, u64)) {
        if self.quiet {
            return;
        }
        let arguments = {
            let mut state = self.state();
            let place = state.under_way.iter().position(|(under_way, ..)| **under_way == *id);
            let ended = place.map(|place| state.under_way.remove(place).2);
            let oldest = state.oldest();
            state.waiting.set(oldest);
            ended
        };
        let arguments = arguments.as_ref().map_or("", |arguments| arguments.as_str());
        let (mark, style) = if is_error { ("✗", RED) } else { ("✓", GREEN) };
        let time =
            if millis < 1000 { format!("{millis} ms") } else { format!("{}.{} s", millis / 1000, millis % 1000 / 100) };
        let text =
            ToolOutput::from_json(output).map_or_else(|_| output.decode().unwrap_or_default(), |output| output.text());
        let longest = if self.verbose { MORE } else { BRIEF };
        self.close_line();
        let called = render::brief(&format!("{name} {arguments}"), if self.verbose { MORE } else { BRIEF });
        let _ = writeln!(anstream::stderr(), "{style}{mark}{style:#} {called} {DIM}({time}){DIM:#}");
        if self.verbose {
            let _ = writeln!(anstream::stderr(), "{DIM}{}{DIM:#}", indented(&text, longest));
        } else if is_error {
            let _ = writeln!(anstream::stderr(), "  {DIM}{}{DIM:#}", render::brief(&text, BRIEF * 2));
        }
    }
}

impl EventSink for Screen {
    fn event(&self, event: AgentEvent) {
        match event {
            AgentEvent::RunStarted { model, .. } => self.state().model = model,
            AgentEvent::TurnStarted { .. } => {
                let mut state = self.state();
                let whom = render::plain(&state.model);
                state.waiting.set(Some(whom));
            }
            AgentEvent::ModelDelta(Delta::Text(text)) => self.piece(&text, false),
            AgentEvent::ModelDelta(Delta::Thinking(text)) if self.verbose => self.piece(&text, true),
            AgentEvent::ModelMessage { message, .. } => {
                self.state().waiting.set(None);
                self.message(&message);
            }
            AgentEvent::ToolStarted { id, name, arguments } => {
                let mut state = self.state();
                state.under_way.push((id, name, arguments));
                let oldest = state.oldest();
                state.waiting.set(oldest);
            }
            AgentEvent::ToolFinished { id, name, is_error, output, millis } => {
                self.finished(&name, &id, (is_error, &output, millis));
            }
            AgentEvent::ToolProgress { progress, total, message, .. } => {
                self.progress(message.as_deref(), progress, total)
            }
            AgentEvent::Retry { what, reason, delay, .. } if !self.quiet => {
                self.state().begun = false;
                self.close_line();
                render::warning(&format!("{what}: {reason}; trying again in {:.1} s", delay.as_secs_f64()));
            }
            AgentEvent::Warning { message: words } if !self.quiet => {
                self.close_line();
                render::warning(&words);
            }
            _ => {}
        }
    }
}

/// What a run took, in a line.
fn summary(result: &AgentResult) -> String {
    let Usage { input_tokens, output_tokens, cache_read_tokens, cost_usd, .. } = result.usage;
    let count = |number: usize, one: &str, many: &str| format!("{number} {}", if number == 1 { one } else { many });
    let mut parts = vec![count(usize::try_from(result.turns).unwrap_or_default(), "turn", "turns")];
    if result.metrics.tool_calls > 0 {
        parts.push(count(result.metrics.tool_calls, "tool call", "tool calls"));
    }
    if input_tokens + output_tokens > 0 {
        let cached = if cache_read_tokens > 0 { format!(" ({cache_read_tokens} cached)") } else { String::new() };
        parts.push(format!("{input_tokens} tokens in{cached}, {output_tokens} out"));
    }
    parts.extend(cost_usd.map(|cost| format!("${cost:.4}")));
    parts.join(" · ")
}

/// What can be done about a model that fails.
fn advice(error: &wharf::agent::ModelError) -> Option<&'static str> {
    use wharf::agent::ModelErrorKind as Kind;
    match error.kind {
        Kind::Auth => Some("is the key right, and good for this model?"),
        Kind::RateLimit | Kind::Overloaded => Some("try again later, or another model with -m"),
        Kind::ContextTooLong => Some("offer fewer tools (wharf context tells what they cost), or ask for less at once"),
        Kind::Network => Some("is the address right, and can it be reached from here?"),
        _ => None,
    }
}

fn indented(text: &str, longest: usize) -> String {
    let cut: String = text.chars().take(longest).collect();
    let mark = if cut.len() < text.len() { "…" } else { "" };
    let lines: Vec<String> = render::plain(&format!("{cut}{mark}")).lines().map(|line| format!("  {line}")).collect();
    lines.join("\n")
}
