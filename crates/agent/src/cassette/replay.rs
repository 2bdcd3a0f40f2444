//! Replays a cassette: a model and tools that return the recorded results for the recorded requests.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use serde_json::Value;
use wharf_protocol::{
    BlockKind, BoxFuture, CallFailed, Hints, Message, Outcome, REDACTED, ServerInstructions, ToolCall, ToolDefinition,
    ToolLoading, ToolOutput, ToolSource, Tools,
};

use super::{Exchange, Header, RecordedRequest, RecordedTool, VERSION};
use crate::{Capabilities, Delta, Model, ModelError, ModelErrorKind, ModelRequest, ModelResponse, RequestPurpose};

/// A text that is not a valid cassette.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("line {line}: {reason}")]
pub struct InvalidCassette {
    /// Number of the line, from 1.
    pub line: usize,
    /// Why the line is invalid.
    pub reason: String,
}

/// The first difference between a run and its recording.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct Divergence(pub String);

/// Replays a cassette. A run that differs from the recording fails.
#[derive(Clone)]
pub struct Replay {
    state: Arc<Mutex<ReplayState>>,
    /// The tools of every request.
    turns: Arc<[RecordedTurn]>,
    /// The recorded model, `INTERFACE:NAME`.
    recorded_model: Option<Arc<str>>,
    /// The recorded context window. Without one, the recorded run needed none.
    window: Option<u64>,
}

/// The tools and instructions of one request.
#[derive(Clone, Default)]
struct RecordedTurn {
    tools: Arc<[ToolDefinition]>,
    instructions: Arc<[ServerInstructions]>,
}

struct ReplayState {
    requests: Vec<(RecordedRequest, Result<ModelResponse, ModelError>)>,
    /// Number of requests that were replayed.
    replayed: usize,
    calls: Vec<Option<(ToolCall, Result<ToolOutput, CallFailed>)>>,
    /// Messages of the previous request.
    previous: Vec<Message>,
    divergence: Option<Divergence>,
}

impl Replay {
    /// Parses a cassette.
    ///
    /// # Errors
    /// Returns an error with the line if the text is not a valid cassette.
    pub fn parse(text: &str) -> Result<Self, InvalidCassette> {
        let invalid = |line, reason: String| InvalidCassette { line, reason };
        let header = text.lines().next().map(serde_json::from_str::<Header>);
        let recorded_model = match header {
            Some(Ok(Header { cassette: VERSION, model })) => model.map(Arc::from),
            Some(Ok(Header { cassette, .. })) => {
                return Err(invalid(1, format!("unsupported cassette version {cassette}, expected {VERSION}")));
            }
            _ => return Err(invalid(1, "not a cassette: expected {\"cassette\":1}".to_owned())),
        };
        let mut requests = Vec::new();
        let mut calls = Vec::new();
        let mut turns = Vec::<RecordedTurn>::new();
        let mut window = None;
        let rest = text.find('\n').map_or("", |end| &text[end..]);
        // Not line by line: messages are stored as received, and may contain line breaks.
        let mut exchanges = serde_json::Deserializer::from_str(rest).into_iter::<Exchange>();
        loop {
            let start = exchanges.byte_offset();
            let blank = rest[start..].len() - rest[start..].trim_start().len();
            let number = 1 + rest[..start + blank].matches('\n').count();
            let Some(exchange) = exchanges.next() else { break };
            match exchange.map_err(|error| invalid(number, error.to_string()))? {
                Exchange { request: Some(request), response: Some(response), error: None, .. } => {
                    turns.push(RecordedTurn::of(&request, turns.last()));
                    requests.push((request, Ok(response)));
                }
                Exchange { request: Some(request), response: None, error: Some(error), .. } => {
                    turns.push(RecordedTurn::of(&request, turns.last()));
                    requests.push((request, Err(error)));
                }
                Exchange { window: Some(recorded), call: None, .. } => window = Some(recorded),
                Exchange { call: Some(call), output: Some(output), failed: None, .. } => {
                    let output = ToolOutput::from_json(&output).map_err(|reason| invalid(number, reason))?;
                    calls.push(Some((call, Ok(output))));
                }
                Exchange { call: Some(call), output: None, failed: Some(failed), .. } => {
                    let name = call.name.to_string();
                    let failed = CallFailed { name, reason: failed.reason, outcome: failed.outcome };
                    calls.push(Some((call, Err(failed))));
                }
                _ => {
                    return Err(invalid(number, "expected a model request or a tool call with its result".to_owned()));
                }
            }
        }
        // A summary is requested within a turn, whose tools are those of the next request.
        for position in (1..turns.len()).rev() {
            if requests[position - 1].0.purpose.is_some() {
                turns[position - 1] = turns[position].clone();
            }
        }
        let state = ReplayState { requests, replayed: 0, calls, previous: Vec::new(), divergence: None };
        Ok(Self { state: Arc::new(Mutex::new(state)), turns: turns.into(), recorded_model, window })
    }

    /// Returns the name of the recorded model, `INTERFACE:NAME`; `None` for old recordings.
    pub fn recorded_model(&self) -> Option<&str> {
        self.recorded_model.as_deref()
    }

    /// Returns the recorded model, under the given interface and name.
    pub fn model(&self, interface: impl Into<String>, name: impl Into<String>) -> Arc<dyn Model> {
        Arc::new(ReplayedModel { replay: self.clone(), interface: interface.into(), name: name.into() })
    }

    /// Returns the recorded tools.
    pub fn tools(&self) -> Arc<dyn ToolSource> {
        Arc::new(self.clone())
    }

    /// Checks that the whole recording was replayed without a difference.
    ///
    /// # Errors
    /// Returns the first difference, or what was not replayed.
    pub fn finish(&self) -> Result<(), Divergence> {
        let state = self.state();
        if let Some(divergence) = &state.divergence {
            return Err(divergence.clone());
        }
        let total = state.requests.len();
        let calls: Vec<&str> = state.calls.iter().flatten().map(|(call, _)| &*call.name).collect();
        match (total - state.replayed, calls.first()) {
            (0, None) => Ok(()),
            (0, Some(first)) => {
                Err(Divergence(format!("{} recorded tool calls were not made, the first is {first}", calls.len())))
            }
            _ => Err(Divergence(format!("the run ended after {} of {total} recorded model requests", state.replayed))),
        }
    }

    fn state(&self) -> MutexGuard<'_, ReplayState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl RecordedTurn {
    /// Returns what a request had: its own tools and instructions, or those of the previous one.
    fn of(request: &RecordedRequest, before: Option<&Self>) -> Self {
        let before = before.cloned().unwrap_or_default();
        let definition = |tool: &RecordedTool| {
            let RecordedTool { name, description, input_schema } = tool.clone();
            // No hints: calls run one after the other, as recorded.
            ToolDefinition { name, description, input_schema, hints: Hints::default(), loading: ToolLoading::default() }
        };
        Self {
            tools: request.tools.as_ref().map_or(before.tools, |tools| tools.iter().map(definition).collect()),
            instructions: request.instructions.as_ref().map_or(before.instructions, |own| own.as_slice().into()),
        }
    }
}

impl ReplayState {
    fn complete(&mut self, request: &ModelRequest<'_>) -> Result<ModelResponse, ModelError> {
        let number = self.replayed + 1;
        let Some((recorded, result)) = self.requests.get(self.replayed) else {
            let message = format!("model request {number} is not in the recording of {} requests", self.requests.len());
            return Err(self.diverge(message));
        };
        let is_summary = request.purpose == RequestPurpose::Summary;
        let difference = if is_summary == recorded.purpose.is_some() {
            difference(recorded, request, if is_summary { &[] } else { &self.previous })
        } else {
            let purpose = |summary: bool| if summary { "a summary" } else { "a turn" };
            Some(format!("it was for {}, and is for {}", purpose(!is_summary), purpose(is_summary)))
        };
        if let Some(difference) = difference {
            let message = format!("model request {number} differs from the recording: {difference}");
            return Err(self.diverge(message));
        }
        if !is_summary {
            self.previous.truncate(recorded.shared);
            self.previous.extend_from_slice(&recorded.messages);
        }
        let result = result.clone();
        self.replayed += 1;
        result
    }

    fn call(&mut self, call: &ToolCall) -> Result<ToolOutput, CallFailed> {
        // Concurrent calls may arrive in any order.
        let is_same = |one: &&mut Option<(ToolCall, _)>| one.as_ref().is_some_and(|(recorded, _)| recorded == call);
        if let Some((_, result)) = self.calls.iter_mut().find(is_same).and_then(Option::take) {
            return result;
        }
        let message = match self.calls.iter().flatten().find(|(recorded, _)| recorded.id == call.id) {
            Some((recorded, _)) => {
                format!(
                    "tool call {} differs from the recording: it was {} {}, and is {} {}",
                    call.id, recorded.name, recorded.arguments, call.name, call.arguments
                )
            }
            None => format!("tool call {} of {} is not in the recording", call.id, call.name),
        };
        let failed = CallFailed { name: call.name.to_string(), reason: message.clone(), outcome: Outcome::Answered };
        self.diverge(message);
        Err(failed)
    }

    /// Records a difference. Only the first one counts: later ones follow from it.
    fn diverge(&mut self, message: String) -> ModelError {
        self.divergence.get_or_insert_with(|| Divergence(message.clone()));
        ModelError::new(ModelErrorKind::Exhausted, message)
    }
}

/// Describes the first difference between a request and a recorded one.
fn difference(recorded: &RecordedRequest, request: &ModelRequest<'_>, previous: &[Message]) -> Option<String> {
    let expected = recorded.shared + recorded.messages.len();
    let shared = previous.get(..recorded.shared).unwrap_or(previous);
    // Messages of the previous request were compared already, except for the last one.
    let checked = recorded.shared.saturating_sub(1);
    let was = shared.iter().skip(checked).chain(&recorded.messages);
    for (index, (was, now)) in was.zip(request.messages.iter().skip(checked)).enumerate() {
        if was != now && !is_redacted_form(was, now) {
            let difference = first_difference(&to_tree(was), &to_tree(now));
            return Some(format!("message {} {difference}", checked + index + 1));
        }
    }
    if expected != request.messages.len() {
        return Some(format!("it had {expected} messages, and has {}", request.messages.len()));
    }
    if let Some(tools) = &recorded.tools {
        let now: Vec<RecordedTool> = request.tools.iter().map(RecordedTool::from).collect();
        if *tools != now {
            let names = |all: &[RecordedTool]| all.iter().map(|tool| tool.name.to_string()).collect::<Vec<_>>();
            let difference = first_difference(&Value::from(names(tools)), &Value::from(names(&now)));
            return Some(format!("the list of tools {difference}"));
        }
    }
    if recorded.instructions.as_ref().is_some_and(|instructions| instructions != request.instructions) {
        return Some("the instructions of servers are not the same".to_owned());
    }
    (recorded.options != *request.options).then(|| {
        let tree = |options| serde_json::to_value(options).unwrap_or_default();
        format!("the options {}", first_difference(&tree(&recorded.options), &tree(request.options)))
    })
}

/// Whether a recorded message is the same as this one, except for secrets that were removed from it.
fn is_redacted_form(was: &Message, now: &Message) -> bool {
    let text = |message: &Message| serde_json::to_string(message).unwrap_or_default();
    let was = text(was);
    let now = text(now);
    let mut parts = was.split(REDACTED);
    let Some(mut rest) = parts.next().and_then(|first| now.strip_prefix(first)) else { return false };
    let parts: Vec<&str> = parts.collect();
    let Some((last, middle)) = parts.split_last() else { return false };
    for part in middle {
        match rest.split_once(part) {
            Some((_, after)) => rest = after,
            None => return false,
        }
    }
    rest.ends_with(last)
}

fn to_tree(message: &Message) -> Value {
    serde_json::to_value(message).unwrap_or_default()
}

/// Describes the first difference between two trees.
fn first_difference(was: &Value, now: &Value) -> String {
    fn find(was: &Value, now: &Value, path: &mut String) -> Option<(Value, Value)> {
        let step = |path: &mut String, key: &str| {
            if !path.is_empty() {
                path.push('.');
            }
            path.push_str(key);
        };
        match (was, now) {
            (Value::Object(was_fields), Value::Object(now_fields)) => {
                let keys = was_fields.keys().chain(now_fields.keys().filter(|key| !was_fields.contains_key(*key)));
                for key in keys {
                    let length = path.len();
                    step(path, key);
                    let null = Value::Null;
                    let pair = (was_fields.get(key).unwrap_or(&null), now_fields.get(key).unwrap_or(&null));
                    if let Some(found) = find(pair.0, pair.1, path) {
                        return Some(found);
                    }
                    path.truncate(length);
                }
                None
            }
            (Value::Array(was_items), Value::Array(now_items)) => {
                for index in 0..was_items.len().max(now_items.len()) {
                    let length = path.len();
                    step(path, &index.to_string());
                    let null = Value::Null;
                    let pair = (was_items.get(index).unwrap_or(&null), now_items.get(index).unwrap_or(&null));
                    if let Some(found) = find(pair.0, pair.1, path) {
                        return Some(found);
                    }
                    path.truncate(length);
                }
                None
            }
            _ => (was != now).then(|| (was.clone(), now.clone())),
        }
    }
    let mut path = String::new();
    match find(was, now, &mut path) {
        Some((was, now)) => {
            let brief = |value: &Value| {
                let text = value.to_string();
                wharf_protocol::cut(&text, 120).unwrap_or(text)
            };
            let at = if path.is_empty() { String::new() } else { format!("at `{path}` ") };
            format!("{at}was {} and is {}", brief(&was), brief(&now))
        }
        None => "has the same content in another notation".to_owned(),
    }
}

impl ToolSource for Replay {
    fn turn(&self) -> Arc<dyn Tools> {
        let replayed = self.state().replayed;
        let turn = self.turns.get(replayed).or_else(|| self.turns.last()).cloned().unwrap_or_default();
        Arc::new(ReplayedTools { replay: self.clone(), turn })
    }
}

struct ReplayedModel {
    replay: Replay,
    interface: String,
    name: String,
}

impl Model for ReplayedModel {
    fn interface(&self) -> &str {
        &self.interface
    }

    fn name(&self) -> &str {
        &self.name
    }

    fn capabilities(&self) -> Capabilities {
        // All features: the recording has everything that was requested.
        Capabilities {
            system_prompt: true,
            streaming: true,
            structured_output: true,
            tools: true,
            thinking: true,
            result_images: true,
            prompt_caching: self.replay.state().requests.iter().any(|(request, _)| request.options.cache.is_some()),
            // A replay costs nothing, so that no caching is lost.
            automatic_caching: true,
        }
    }

    fn complete<'a>(&'a self, request: &'a ModelRequest<'a>) -> BoxFuture<'a, Result<ModelResponse, ModelError>> {
        let response = self.replay.state().complete(request);
        for block in response.iter().flat_map(|response| &response.message.content) {
            match &block.kind {
                BlockKind::Text(text) => (request.on_delta)(Delta::Text(text.clone())),
                BlockKind::Thinking { text, .. } => (request.on_delta)(Delta::Thinking(text.clone())),
                _ => {}
            }
        }
        Box::pin(std::future::ready(response))
    }

    fn context_window(&self) -> BoxFuture<'_, Option<u64>> {
        let window = self.replay.window.unwrap_or(u64::MAX);
        Box::pin(std::future::ready((window > 0).then_some(window)))
    }
}

struct ReplayedTools {
    replay: Replay,
    turn: RecordedTurn,
}

impl Tools for ReplayedTools {
    fn offered(&self) -> &[ToolDefinition] {
        &self.turn.tools
    }

    fn instructions(&self) -> &[ServerInstructions] {
        &self.turn.instructions
    }

    fn call<'a>(&'a self, call: &'a ToolCall) -> BoxFuture<'a, Result<ToolOutput, CallFailed>> {
        Box::pin(std::future::ready(self.replay.state().call(call)))
    }
}
