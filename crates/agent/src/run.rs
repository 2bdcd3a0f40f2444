//! The loop, which decides and never waits.
//!
//! ```text
//! ask ──▶ answered ──▶ calls? ──no──▶ done
//!  ▲                     │yes
//!  │                     ▼
//!  └── all returned ◀── call
//! ```
//!
//! Whoever drives a run asks for its next [`Step`], does it, and tells what came of it. Between any two of these it can be
//! written down, and goes on elsewhere from there. Every call that a model made is answered in the end, whatever happened:
//! a conversation with open calls is one that no provider takes.

mod open;
mod written;

use std::time::Duration;

use serde::{Deserialize, Serialize};
use wharf_protocol::{CallFailed, Hints, Message, Outcome, Role, ToolCall, ToolOutput, Usage};

use crate::{ExitBehavior, Limit, Limits, ModelError, ModelResponse, RunEnd, StopReason};
use open::{Open, Stage};

/// The form in which runs are written down.
const VERSION: u32 = 1;

/// One run.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Run {
    /// They only ever become more: what was written down of them once stays true.
    messages: Vec<Message>,
    progress: Progress,
}

/// Everything about a run but the conversation itself, which is short however long that is.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct Progress {
    version: u32,
    session_id: String,
    /// How many messages there were before the model said anything.
    given: usize,
    limits: Limits,
    model_calls: u32,
    tool_calls: u32,
    per_tool: std::collections::BTreeMap<String, u32>,
    usage: Usage,
    model: Option<String>,
    stop_reason: Option<StopReason>,
    reached: Vec<Limit>,
    /// How much time it has taken, in this process and in others.
    spent: Duration,
    state: State,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum State {
    /// The model is to be asked; for the last time, without tools, if `last`.
    Ask { last: bool },
    /// Tools are to be called.
    Call { open: Vec<Open> },
    /// It is over.
    Done(RunEnd),
}

/// What is to be done next.
#[derive(Clone, Debug, PartialEq)]
pub enum Step {
    /// Ask the model, with tools or without, and tell [`Run::answered`] or [`Run::failed`].
    Ask {
        /// Whether it may call tools.
        tools: bool,
    },
    /// Make these calls, all at the same time, and tell [`Run::returned`] of each as it ends. They are marked as begun.
    Call(Vec<(usize, ToolCall)>),
    /// Nothing: it is over.
    Done(RunEnd),
}

/// A text that is no run.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("this is no run that can go on: {0}")]
pub struct InvalidRun(pub String);

impl Run {
    /// A run that begins with these messages.
    pub fn new(session_id: impl Into<String>, messages: Vec<Message>, limits: Limits) -> Self {
        let progress = Progress {
            version: VERSION,
            session_id: session_id.into(),
            given: messages.len(),
            limits,
            model_calls: 0,
            tool_calls: 0,
            per_tool: std::collections::BTreeMap::new(),
            usage: Usage::default(),
            model: None,
            stop_reason: None,
            reached: Vec::new(),
            spent: Duration::ZERO,
            state: State::Ask { last: false },
        };
        Self { messages, progress }
    }

    /// Reads a run that was written down, and makes it ready to go on. A call that was under way then may have run: one
    /// that does no harm is made again, of the others the model is told that nobody knows. A run that somebody ended, or that
    /// ended because a model or a tool failed, goes on where that happened.
    ///
    /// # Errors
    /// If the text is no run, or one of a version that is not known here.
    pub fn read(text: impl AsRef<[u8]>) -> Result<Self, InvalidRun> {
        let mut run = written::read(text.as_ref())?;
        let Progress { version, given, state, .. } = &mut run.progress;
        if *version != VERSION {
            return Err(InvalidRun(format!("it is of version {version}, and this is for version {VERSION}")));
        }
        if *given > run.messages.len() {
            return Err(InvalidRun("it has lost messages".to_owned()));
        }
        match state {
            State::Call { open } => open.iter_mut().for_each(Open::recover),
            // Whoever goes on with it wants it tried again.
            State::Done(RunEnd::ModelFailed(_) | RunEnd::ToolFailed(_) | RunEnd::Cancelled) => run.ask_next(),
            State::Ask { .. } | State::Done(_) => {}
        }
        Ok(run)
    }

    /// The run as a line of text, from which it can go on.
    pub fn write(&self) -> String {
        self.write_since(0)
    }

    /// The same without the first `from` messages, for whoever has those: it is to follow the lines that hold them.
    pub fn write_since(&self, from: usize) -> String {
        written::write(&self.messages[from.min(self.messages.len())..], &self.progress)
    }

    /// Gives a run other limits. One that ended at a limit goes on, unless the model had its last word; whether it goes on
    /// is told.
    pub fn set_limits(&mut self, limits: Limits) -> bool {
        self.progress.limits = limits;
        let answered = self.final_response().is_some();
        match &self.progress.state {
            State::Done(RunEnd::Limit(_)) if !answered => self.progress.state = State::Ask { last: false },
            State::Done(_) => return false,
            State::Ask { .. } => self.progress.state = State::Ask { last: false },
            State::Call { .. } => {}
        }
        // Those that still hold are reached again.
        self.progress.reached.clear();
        true
    }

    /// What is to be done next.
    pub fn step(&mut self) -> Step {
        loop {
            match &mut self.progress.state {
                State::Done(stop) => return Step::Done(stop.clone()),
                State::Ask { last } => {
                    let last = *last;
                    match self.exhausted() {
                        Some(limit) => self.end_at(limit),
                        None => return Step::Ask { tools: !last },
                    }
                }
                State::Call { open } => {
                    let batch = open::next(open);
                    if !batch.is_empty() {
                        return Step::Call(batch);
                    }
                    if open.iter().any(|open| matches!(open.stage, Stage::Begun)) {
                        // Whoever drives it has not told yet.
                        return Step::Call(Vec::new());
                    }
                    self.close_calls();
                }
            }
        }
    }

    /// The model has answered. `hints` tells what the tools say about themselves.
    pub fn answered(&mut self, answer: ModelResponse, hints: impl Fn(&str) -> Option<Hints>) {
        let State::Ask { last } = self.progress.state else { return };
        let ModelResponse { mut message, stop, model, usage, .. } = answer;
        self.progress.model_calls += 1;
        self.progress.usage += usage;
        self.progress.model = Some(model);
        message.usage = Some(usage);
        let calls: Vec<ToolCall> = message.calls().cloned().collect();
        self.messages.push(message);
        self.progress.stop_reason = Some(stop.clone());
        if calls.is_empty() {
            let stop = match (stop, last) {
                (StopReason::Refusal, _) => RunEnd::Refused,
                (StopReason::MaxTokens, _) => RunEnd::Truncated,
                (_, true) => self.progress.reached.last().cloned().map_or(RunEnd::Completed, RunEnd::Limit),
                (_, false) => RunEnd::Completed,
            };
            self.progress.state = State::Done(stop);
            return;
        }
        let mut open: Vec<Open> = calls.into_iter().map(|call| Open::new(call, &hints)).collect();
        for open in &mut open {
            if let Some(limit) = self.forbidden(&open.call.name, last) {
                open.block(&limit);
                self.reach(limit);
            } else {
                self.progress.tool_calls += 1;
                *self.progress.per_tool.entry(open.call.name.to_string()).or_default() += 1;
            }
        }
        self.progress.state = State::Call { open };
        if last {
            self.close_calls();
            self.progress.state =
                State::Done(self.progress.reached.last().cloned().map_or(RunEnd::Completed, RunEnd::Limit));
        }
    }

    /// The model did not answer, and is not asked again.
    pub fn failed(&mut self, error: ModelError) {
        if matches!(self.progress.state, State::Ask { .. }) {
            self.progress.state = State::Done(RunEnd::ModelFailed(error));
        }
    }

    /// A call has ended, the one at this place.
    pub fn returned(&mut self, place: usize, result: Result<ToolOutput, CallFailed>) {
        let State::Call { open } = &mut self.progress.state else { return };
        if let Some(open) = open.get_mut(place).filter(|open| matches!(open.stage, Stage::Begun)) {
            open.end(result);
        }
    }

    /// Ends the run now. Calls without a result are answered with words about that.
    pub fn interrupt(&mut self, stop: RunEnd) {
        if matches!(self.progress.state, State::Done(_)) {
            return;
        }
        if let State::Call { open } = &mut self.progress.state {
            for open in open.iter_mut() {
                open.give_up(&stop);
            }
            self.close_calls();
        }
        if let RunEnd::Limit(limit) = &stop {
            self.reach(limit.clone());
        }
        self.progress.state = State::Done(stop);
    }

    /// The whole conversation.
    pub fn messages(&self) -> &[Message] {
        &self.messages
    }

    /// What was said in it by the model and by tools.
    pub fn said(&self) -> &[Message] {
        &self.messages[self.progress.given..]
    }

    /// Its id.
    pub fn session_id(&self) -> &str {
        &self.progress.session_id
    }

    /// How much time it has taken.
    pub fn spent(&self) -> Duration {
        self.progress.spent
    }

    /// It has taken so much time, all together.
    pub fn set_elapsed(&mut self, time: Duration) {
        self.progress.spent = time;
    }

    /// Its limits.
    pub fn limits(&self) -> &Limits {
        &self.progress.limits
    }

    /// The limits that kept something from happening, in that order.
    pub fn reached(&self) -> &[Limit] {
        &self.progress.reached
    }

    /// How often the model has answered.
    pub fn turns(&self) -> u32 {
        self.progress.model_calls
    }

    /// What it has cost so far.
    pub fn usage(&self) -> Usage {
        self.progress.usage
    }

    /// The model that answered last, by its own account.
    pub fn model(&self) -> Option<&str> {
        self.progress.model.as_deref()
    }

    /// Why the last answer ended where it did.
    pub fn stop_reason(&self) -> Option<&StopReason> {
        self.progress.stop_reason.as_ref()
    }

    /// Why it is over, if it is.
    pub fn stop(&self) -> Option<&RunEnd> {
        match &self.progress.state {
            State::Done(stop) => Some(stop),
            _ => None,
        }
    }

    /// The model's last word, if it is an answer and not a call.
    pub fn final_response(&self) -> Option<String> {
        let last = self.said().last().filter(|message| message.role == Role::Assistant)?;
        Some(last.spoken()).filter(|text| !text.trim().is_empty() && last.calls().next().is_none())
    }

    /// The limit that keeps the model from being asked.
    fn exhausted(&self) -> Option<Limit> {
        let Limits { model_calls, tokens, cost_usd, .. } = &self.progress.limits;
        if self.progress.model_calls >= *model_calls {
            return Some(Limit::ModelCalls { most: *model_calls });
        }
        if let Some(most) = tokens.filter(|most| self.progress.usage.total_tokens() >= *most) {
            return Some(Limit::Tokens { most });
        }
        let most = cost_usd.filter(|most| self.progress.usage.cost_usd.is_some_and(|cost| cost >= *most))?;
        Some(Limit::Cost { most: most.to_string() })
    }

    /// The limit that keeps a tool from being called.
    fn forbidden(&self, name: &str, last: bool) -> Option<Limit> {
        let most = self.progress.limits.tool_calls;
        if last || self.progress.tool_calls >= most {
            return Some(Limit::ToolCalls { most });
        }
        let most = *self.progress.limits.per_tool.get(name)?;
        let made = self.progress.per_tool.get(name).copied().unwrap_or_default();
        (made >= most).then(|| Limit::PerTool { name: name.to_owned(), most })
    }

    fn reach(&mut self, limit: Limit) {
        if !self.progress.reached.contains(&limit) {
            self.progress.reached.push(limit);
        }
    }

    fn end_at(&mut self, limit: Limit) {
        self.reach(limit.clone());
        self.progress.state = State::Done(RunEnd::Limit(limit));
    }

    /// Puts all results into the conversation, in the order of the calls.
    fn close_calls(&mut self) {
        let State::Call { open } = &mut self.progress.state else { return };
        for open in std::mem::take(open) {
            let Open { call, stage, .. } = open;
            let output = match stage {
                Stage::Ended(output) => ToolOutput::from_json(&output).unwrap_or_else(ToolOutput::error),
                // Nobody leaves it like that; but whatever is open is closed.
                Stage::Waiting | Stage::Begun => ToolOutput::error("it was not called"),
            };
            self.messages.push(Message::returned(call.id, output));
        }
        self.ask_next();
    }

    /// The model is to be asked, with tools unless there may be no more calls.
    fn ask_next(&mut self) {
        let over = self.progress.reached.iter().any(|limit| matches!(limit, Limit::ToolCalls { .. }));
        self.progress.state = State::Ask { last: over && self.progress.limits.exit_behavior == ExitBehavior::End };
    }
}

/// The words for a model about a call without an answer.
pub(crate) fn unanswered(failed: &CallFailed) -> String {
    match failed.outcome {
        Outcome::NotRun => format!("The call was not carried out: {}", failed.reason),
        Outcome::Answered => format!("The call failed: {}", failed.reason),
        Outcome::Unknown => {
            format!("There is no answer, and nobody knows whether the call had an effect: {}", failed.reason)
        }
    }
}
