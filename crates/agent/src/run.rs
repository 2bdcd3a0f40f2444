//! The agent loop as a state machine without I/O.
//!
//! ```text
//! model request ──▶ response ──▶ calls? ──no──▶ done
//!       ▲                          │yes
//!       │                          ▼
//!       └──── all results ◀── tool calls
//! ```
//!
//! The driver of a run requests its next [`Step`], executes it, and reports the result. Between steps the run can be
//! saved and resumed elsewhere. Every call of a model gets a result in the end: providers reject conversations with
//! unanswered calls.

mod context;
mod journal;
mod pending;

use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use wharf_protocol::{CallFailed, Hints, Message, Outcome, Role, ServerInstructions, ToolCall, ToolOutput, Usage};

use crate::compaction::View;
use crate::{
    Compaction, ExitBehavior, InstructionsTrace, Limit, Limits, ModelError, ModelResponse, PreparedRun, RunEnd,
    StopReason,
};
use pending::{CallState, PendingCall};

/// Version of the saved form of runs.
const VERSION: u32 = 1;

/// The state of one agent run: the conversation, the limits and the counters.
///
/// A run does no I/O. [`Run::step`] returns the next step. The driver executes it and reports the result with
/// [`Run::on_response`], [`Run::on_model_error`] or [`Run::on_tool_result`]. [`Agent::run`](crate::Agent::run) is such
/// a driver.
///
/// A run can be saved at any point ([`Run::write`]) and resumed ([`Run::read`]).
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Run {
    /// Messages are only ever appended, so saved messages stay valid.
    messages: Vec<Message>,
    /// The instructions of servers that the model read, in order. Also only ever appended.
    #[serde(default)]
    instructions: Vec<InstructionsTrace>,
    /// What the model reads instead of old messages. Also only ever appended; the last one counts.
    #[serde(default)]
    compactions: Vec<Compaction>,
    progress: Progress,
    /// Calls that a limit prevented and the driver has not reported yet.
    #[serde(skip)]
    newly_blocked: Vec<BlockedCall>,
    /// The conversation as the model reads it.
    #[serde(skip)]
    view: View,
}

/// A call of the model that a limit prevented.
#[derive(Clone, Debug, PartialEq)]
pub struct BlockedCall {
    /// The call.
    pub call: ToolCall,
    /// The limit.
    pub limit: Limit,
}

/// Everything about a run except the conversation. Its size does not grow with the conversation.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct Progress {
    version: u32,
    session_id: String,
    /// Number of messages before the model's first response.
    #[serde(rename = "given")]
    initial_messages: usize,
    limits: Limits,
    model_calls: u32,
    tool_calls: u32,
    per_tool: std::collections::BTreeMap<String, u32>,
    /// The tools that the model has found, in order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    found_tools: Vec<Arc<str>>,
    usage: Usage,
    model: Option<String>,
    stop_reason: Option<StopReason>,
    reached: Vec<Limit>,
    /// Positions of the results of calls that were not made.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    blocked: Vec<usize>,
    /// Total time of the run, over all processes.
    #[serde(rename = "spent")]
    elapsed: Duration,
    state: State,
}

impl Progress {
    /// Counts a tool call. A file may hold any count, so the sum saturates.
    fn count_call(&mut self, tool: &str) {
        self.tool_calls = self.tool_calls.saturating_add(1);
        let calls = self.per_tool.entry(tool.to_owned()).or_default();
        *calls = calls.saturating_add(1);
    }
}

#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum State {
    /// The next step is a model request. If `last`, it is the final one, without tools.
    #[serde(rename = "ask")]
    CallModel { last: bool },
    /// The next step is the execution of tool calls.
    #[serde(rename = "call")]
    CallTools {
        #[serde(rename = "open")]
        pending: Vec<PendingCall>,
    },
    /// The run ended.
    Done(RunEnd),
}

/// The next step of a run.
#[derive(Clone, Debug, PartialEq)]
pub enum Step {
    /// Send a request to the model, and report to [`Run::on_response`] or [`Run::on_model_error`].
    CallModel {
        /// Whether the model may call tools in this request.
        tools: bool,
    },
    /// Execute these calls concurrently, and report each result to [`Run::on_tool_result`] with its index. They are
    /// marked as started.
    CallTools(Vec<(usize, ToolCall)>),
    /// The run ended.
    Done(RunEnd),
}

/// A text that is not a saved run, or a run that cannot be resumed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("invalid checkpoint: {0}")]
pub struct InvalidRun(pub String);

impl Run {
    /// Creates a run that starts with these messages.
    pub fn new(session_id: impl Into<String>, messages: Vec<Message>, limits: Limits) -> Self {
        let progress = Progress {
            version: VERSION,
            session_id: session_id.into(),
            initial_messages: messages.len(),
            limits,
            model_calls: 0,
            tool_calls: 0,
            per_tool: std::collections::BTreeMap::new(),
            found_tools: Vec::new(),
            usage: Usage::default(),
            model: None,
            stop_reason: None,
            reached: Vec::new(),
            blocked: Vec::new(),
            elapsed: Duration::ZERO,
            state: State::CallModel { last: false },
        };
        Self {
            messages,
            instructions: Vec::new(),
            compactions: Vec::new(),
            progress,
            newly_blocked: Vec::new(),
            view: View::default(),
        }
    }

    /// Reads a saved run and prepares it for resuming.
    ///
    /// A call that was pending may have run. It is repeated if its tool was read-only or idempotent, and still is; see
    /// [`Run::recheck_pending`]. For any other call, the model reads that the outcome is unknown. A run that was canceled, or ended because a model or a tool failed,
    /// resumes where that happened.
    ///
    /// # Errors
    /// Returns an error if the text is not a saved run, or has an unknown version.
    pub fn read(text: impl AsRef<[u8]>) -> Result<Self, InvalidRun> {
        let mut run = journal::read(text.as_ref())?;
        let Progress { version, initial_messages, state, .. } = &mut run.progress;
        if *version != VERSION {
            return Err(InvalidRun(format!("unsupported version {version}, expected {VERSION}")));
        }
        if *initial_messages > run.messages.len() {
            return Err(InvalidRun("messages are missing".to_owned()));
        }
        match state {
            State::CallTools { pending } => pending.iter_mut().for_each(PendingCall::recover),
            // Resuming such a run retries what failed.
            State::Done(
                RunEnd::ModelFailed(_) | RunEnd::ToolFailed(_) | RunEnd::CheckpointFailed(_) | RunEnd::Cancelled,
            ) => run.call_model_next(),
            State::CallModel { .. } | State::Done(_) => {}
        }
        Ok(run)
    }

    /// Serializes the run to text from which it can be resumed.
    pub fn write(&self) -> String {
        self.write_since(0)
    }

    /// Serializes the run without its first `from` messages. Append the text to earlier text that contains them.
    pub fn write_since(&self, from: usize) -> String {
        journal::write(self, from)
    }

    /// Replaces the limits. A run that ended at a limit continues, unless the model already gave its final answer.
    /// Returns whether the run can continue.
    pub fn set_limits(&mut self, limits: Limits) -> bool {
        self.progress.limits = limits;
        let answered = self.final_response().is_some();
        match &self.progress.state {
            State::Done(RunEnd::Limit(_)) if !answered => self.progress.state = State::CallModel { last: false },
            State::Done(_) => return false,
            State::CallModel { .. } => self.progress.state = State::CallModel { last: false },
            State::CallTools { .. } => {}
        }
        // Limits that still apply are reached again.
        self.progress.reached.clear();
        true
    }

    /// Continues a conversation with another message of the user. The limits and counters go on. Returns whether that is
    /// possible: the model must have given its answer to the messages before.
    pub fn continue_with(&mut self, message: Message) -> bool {
        let is_answered = matches!(self.progress.state, State::Done(RunEnd::Completed | RunEnd::Truncated));
        if is_answered {
            self.messages.push(message);
            self.progress.state = State::CallModel { last: false };
        }
        is_answered
    }

    /// Returns the next step.
    pub fn step(&mut self) -> Step {
        loop {
            match &mut self.progress.state {
                State::Done(stop) => return Step::Done(stop.clone()),
                State::CallModel { last } => {
                    let last = *last;
                    match self.exhausted() {
                        Some(limit) => self.end_at(limit),
                        None => return Step::CallModel { tools: !last },
                    }
                }
                State::CallTools { pending } => {
                    let batch = pending::next_batch(pending);
                    if !batch.is_empty() {
                        return Step::CallTools(batch);
                    }
                    if pending.iter().any(|call| matches!(call.state, CallState::Started)) {
                        // The driver has not reported all results yet.
                        return Step::CallTools(Vec::new());
                    }
                    self.add_results();
                }
            }
        }
    }

    /// Adds the model's response. `hints` returns the hints of a tool by its name.
    pub fn on_response(&mut self, response: ModelResponse, hints: impl Fn(&str) -> Option<Hints>) {
        let State::CallModel { last } = self.progress.state else { return };
        let ModelResponse { mut message, stop, model, usage, .. } = response;
        self.progress.model_calls = self.progress.model_calls.saturating_add(1);
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
        let mut pending: Vec<PendingCall> = calls.into_iter().map(|call| PendingCall::new(call, &hints)).collect();
        for call in &mut pending {
            if let Some(limit) = self.call_limit(&call.call.name, last) {
                call.reject(&limit);
                self.newly_blocked.push(BlockedCall { call: call.call.clone(), limit: limit.clone() });
                self.add_reached(limit);
            } else {
                self.progress.count_call(&call.call.name);
            }
        }
        self.progress.state = State::CallTools { pending };
        if last {
            self.add_results();
            self.progress.state =
                State::Done(self.progress.reached.last().cloned().map_or(RunEnd::Completed, RunEnd::Limit));
        }
    }

    /// Ends the run because the model request failed.
    pub fn on_model_error(&mut self, error: ModelError) {
        if matches!(self.progress.state, State::CallModel { .. }) {
            self.progress.state = State::Done(RunEnd::ModelFailed(error));
        }
    }

    /// Judges the pending calls of a resumed run by the tools of today. A checkpoint is a file, so what it says about a
    /// tool does not suffice to repeat a call. The driver of a resumed run calls it before the first [`Run::step`].
    pub fn recheck_pending(&mut self, hints: impl Fn(&str) -> Option<Hints>) {
        let State::CallTools { pending } = &mut self.progress.state else { return };
        for call in pending {
            call.recheck(&hints);
        }
    }

    /// Whether calls of the model have no result yet.
    pub fn has_pending_calls(&self) -> bool {
        matches!(self.progress.state, State::CallTools { .. })
    }

    /// Takes calls back that [`Run::step`] returned and the driver did not make.
    pub(crate) fn take_back(&mut self, batch: &[(usize, ToolCall)]) {
        let State::CallTools { pending } = &mut self.progress.state else { return };
        for (index, _) in batch {
            if let Some(call) = pending.get_mut(*index).filter(|call| matches!(call.state, CallState::Started)) {
                call.state = CallState::Waiting;
            }
        }
    }

    /// Sets the instructions of the next request. Returns whether they changed.
    pub(crate) fn set_instructions(&mut self, servers: &[ServerInstructions]) -> bool {
        if self.instructions.last().map_or(&[][..], |last| &last.servers) == servers {
            return false;
        }
        let trace = InstructionsTrace {
            turn: self.progress.model_calls.saturating_add(1),
            messages: self.messages.len(),
            servers: servers.to_vec(),
        };
        self.instructions.push(trace);
        true
    }

    /// Ends the run with everything that a prepared one has.
    pub(crate) fn replay(&mut self, prepared: PreparedRun) {
        let PreparedRun { messages, limits, stop, stop_reason, model, usage } = prepared;
        for message in messages {
            let response = u32::from(message.role == Role::Assistant);
            self.progress.model_calls = self.progress.model_calls.saturating_add(response);
            for call in message.calls() {
                self.progress.count_call(&call.name);
            }
            self.messages.push(message);
        }
        self.progress.usage += usage;
        self.progress.model = model;
        self.progress.stop_reason = stop_reason;
        self.progress.reached = limits;
        self.progress.state = State::Done(stop);
    }

    /// Sets the result of the call with this index.
    pub fn on_tool_result(&mut self, index: usize, result: Result<ToolOutput, CallFailed>) {
        let State::CallTools { pending } = &mut self.progress.state else { return };
        if let Some(call) = pending.get_mut(index).filter(|call| matches!(call.state, CallState::Started)) {
            call.finish(result);
        }
    }

    /// Ends the run now. Pending calls get a result that states the reason.
    pub fn interrupt(&mut self, stop: RunEnd) {
        if matches!(self.progress.state, State::Done(_)) {
            return;
        }
        if let State::CallTools { pending } = &mut self.progress.state {
            for call in pending.iter_mut() {
                let was_blocked = call.blocked;
                call.abandon(&stop);
                if was_blocked || !call.blocked {
                    continue;
                }
                // It was counted when the model requested it.
                self.progress.tool_calls = self.progress.tool_calls.saturating_sub(1);
                if let Some(calls) = self.progress.per_tool.get_mut(&*call.call.name) {
                    *calls = calls.saturating_sub(1);
                }
                if let RunEnd::Limit(limit) = &stop {
                    self.newly_blocked.push(BlockedCall { call: call.call.clone(), limit: limit.clone() });
                }
            }
            self.add_results();
        }
        if let RunEnd::Limit(limit) = &stop {
            self.add_reached(limit.clone());
        }
        self.progress.state = State::Done(stop);
    }

    /// Returns the whole conversation.
    pub fn messages(&self) -> &[Message] {
        &self.messages
    }

    /// Returns the messages that the run added: those of the model and the tools.
    pub fn new_messages(&self) -> &[Message] {
        &self.messages[self.progress.initial_messages..]
    }

    /// Returns the instructions of servers that the model read: those of the first request, and every change.
    pub fn instructions(&self) -> &[InstructionsTrace] {
        &self.instructions
    }

    /// Returns what the model read instead of the whole conversation: every change, in order.
    pub fn compactions(&self) -> &[Compaction] {
        &self.compactions
    }

    /// Returns the id of the run.
    pub fn session_id(&self) -> &str {
        &self.progress.session_id
    }

    /// Returns the total time of the run, over all processes.
    pub fn elapsed(&self) -> Duration {
        self.progress.elapsed
    }

    /// Sets the total time of the run.
    pub fn set_elapsed(&mut self, time: Duration) {
        self.progress.elapsed = time;
    }

    /// Returns the limits.
    pub fn limits(&self) -> &Limits {
        &self.progress.limits
    }

    /// Returns the limits that were reached, in order.
    pub fn reached(&self) -> &[Limit] {
        &self.progress.reached
    }

    /// Returns the calls that limits prevented since the last call of this method.
    pub fn take_blocked(&mut self) -> Vec<BlockedCall> {
        std::mem::take(&mut self.newly_blocked)
    }

    /// Returns whether the message at this position of [`Run::new_messages`] is the result of a call that was not made.
    pub(crate) fn is_blocked(&self, position: usize) -> bool {
        self.progress.blocked.contains(&(self.progress.initial_messages + position))
    }

    /// Returns the number of model responses.
    pub fn turns(&self) -> u32 {
        self.progress.model_calls
    }

    /// Returns the tokens and cost so far.
    pub fn usage(&self) -> Usage {
        self.progress.usage
    }

    /// Returns the model that responded last, according to its provider.
    pub fn model(&self) -> Option<&str> {
        self.progress.model.as_deref()
    }

    /// Returns why the last response ended.
    pub fn stop_reason(&self) -> Option<&StopReason> {
        self.progress.stop_reason.as_ref()
    }

    /// Returns why the run ended, if it did.
    pub fn stop(&self) -> Option<&RunEnd> {
        match &self.progress.state {
            State::Done(stop) => Some(stop),
            _ => None,
        }
    }

    /// Returns the text of the last message, if it is the model's and has no tool calls.
    pub fn final_response(&self) -> Option<String> {
        let last = self.new_messages().last().filter(|message| message.role == Role::Assistant)?;
        Some(last.plain_text()).filter(|text| !text.trim().is_empty() && last.calls().next().is_none())
    }

    /// Returns the limit that prevents the next model request.
    fn exhausted(&self) -> Option<Limit> {
        let Limits { model_calls, tokens, cost_usd, .. } = &self.progress.limits;
        if self.progress.model_calls >= *model_calls {
            return Some(Limit::ModelCalls { max: *model_calls });
        }
        if let Some(max) = tokens.filter(|max| self.progress.usage.total_tokens() >= *max) {
            return Some(Limit::Tokens { max });
        }
        let max = cost_usd.filter(|max| self.progress.usage.cost_usd.is_some_and(|cost| cost >= *max))?;
        Some(Limit::Cost { max: max.to_string() })
    }

    /// Returns the limit that prevents a tool call.
    fn call_limit(&self, name: &str, last: bool) -> Option<Limit> {
        let max = self.progress.limits.tool_calls;
        if last || self.progress.tool_calls >= max {
            return Some(Limit::ToolCalls { max });
        }
        let max = *self.progress.limits.per_tool.get(name)?;
        let calls = self.progress.per_tool.get(name).copied().unwrap_or_default();
        (calls >= max).then(|| Limit::PerTool { name: name.to_owned(), max })
    }

    fn add_reached(&mut self, limit: Limit) {
        if !self.progress.reached.contains(&limit) {
            self.progress.reached.push(limit);
        }
    }

    fn end_at(&mut self, limit: Limit) {
        self.add_reached(limit.clone());
        self.progress.state = State::Done(RunEnd::Limit(limit));
    }

    /// Appends all results to the conversation, in the order of the calls.
    fn add_results(&mut self) {
        let State::CallTools { pending } = &mut self.progress.state else { return };
        for call in std::mem::take(pending) {
            let PendingCall { call, state, blocked, .. } = call;
            if blocked {
                self.progress.blocked.push(self.messages.len());
            }
            let output = match state {
                CallState::Finished(output) => ToolOutput::from_json(&output).unwrap_or_else(ToolOutput::error),
                // Does not happen; but no call may stay without a result.
                CallState::Waiting | CallState::Started => ToolOutput::error("the tool was not called"),
            };
            self.messages.push(Message::tool_result(call.id, output));
        }
        self.call_model_next();
    }

    /// Makes a model request the next step, without tools if no more calls are allowed.
    fn call_model_next(&mut self) {
        let over = self.progress.reached.iter().any(|limit| matches!(limit, Limit::ToolCalls { .. }));
        self.progress.state =
            State::CallModel { last: over && self.progress.limits.exit_behavior == ExitBehavior::End };
    }
}

/// Describes a failed call for the model.
pub(crate) fn failure_text(failed: &CallFailed) -> String {
    match failed.outcome {
        Outcome::NotRun => format!("The tool was not called: {}", failed.reason),
        Outcome::Answered => format!("The call failed: {}", failed.reason),
        Outcome::Unknown => {
            format!("The call failed, and it is unknown whether it had an effect: {}", failed.reason)
        }
    }
}
