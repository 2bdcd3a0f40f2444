//! Plays a cassette: a model and tools that answer as they did, to whoever asks as they were asked.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use serde_json::Value;
use wharf_protocol::{BlockKind, BoxFuture, CallFailed, Hints, Message, ToolCall, ToolDefinition, ToolOutput, Tools};

use super::{Asked, Exchange, Header, Shown, VERSION};
use crate::{Capabilities, Delta, Model, ModelError, ModelErrorKind, ModelRequest, ModelResponse};
use wharf_protocol::ToolSource;

/// A text that is no cassette.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("line {line}: {reason}")]
pub struct InvalidCassette {
    /// The line, from 1.
    pub line: usize,
    /// What is wrong with it.
    pub reason: String,
}

/// A run that is not the one that was recorded.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct Divergence(pub String);

/// Plays a cassette.
#[derive(Clone)]
pub struct Replay {
    deck: Arc<Mutex<Deck>>,
    /// The tools of every question, as they were shown.
    offered: Arc<[Arc<[ToolDefinition]>]>,
}

struct Deck {
    asks: Vec<(Asked, Result<ModelResponse, ModelError>)>,
    asked: usize,
    calls: Vec<Option<(ToolCall, Result<ToolOutput, CallFailed>)>>,
    before: Vec<Message>,
    diverged: Option<Divergence>,
}

impl Replay {
    /// Reads a cassette.
    ///
    /// # Errors
    /// If the text is none; the error says in which line.
    pub fn parse(text: &str) -> Result<Self, InvalidCassette> {
        let invalid = |line, reason: String| InvalidCassette { line, reason };
        let header = text.lines().next().map(serde_json::from_str::<Header>);
        match header {
            Some(Ok(Header { cassette: VERSION })) => {}
            Some(Ok(Header { cassette })) => {
                return Err(invalid(1, format!("this is a cassette of version {cassette}, not {VERSION}")));
            }
            _ => return Err(invalid(1, "this is no cassette: it does not begin with {\"cassette\":1}".to_owned())),
        }
        let (mut asks, mut calls, mut offered) = (Vec::new(), Vec::new(), Vec::<Arc<[ToolDefinition]>>::new());
        let rest = text.find('\n').map_or("", |end| &text[end..]);
        // Not line by line: what somebody said is kept as it was written, which may be over several lines.
        let mut exchanges = serde_json::Deserializer::from_str(rest).into_iter::<Exchange>();
        loop {
            let before = exchanges.byte_offset();
            let blank = rest[before..].len() - rest[before..].trim_start().len();
            let number = 1 + rest[..before + blank].matches('\n').count();
            let Some(exchange) = exchanges.next() else { break };
            match exchange.map_err(|error| invalid(number, error.to_string()))? {
                Exchange { ask: Some(ask), answer: Some(answer), error: None, .. } => {
                    offered.push(shown(&ask, &offered));
                    asks.push((ask, Ok(answer)));
                }
                Exchange { ask: Some(ask), answer: None, error: Some(error), .. } => {
                    offered.push(shown(&ask, &offered));
                    asks.push((ask, Err(error)));
                }
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
                    return Err(invalid(number, "it is neither a question nor a call with what came of it".to_owned()));
                }
            }
        }
        let deck = Deck { asks, asked: 0, calls, before: Vec::new(), diverged: None };
        Ok(Self { deck: Arc::new(Mutex::new(deck)), offered: offered.into() })
    }

    /// The model that was recorded, under the name it is asked for by.
    pub fn model(&self, interface: impl Into<String>, name: impl Into<String>) -> Arc<dyn Model> {
        Arc::new(ReplayedModel { replay: self.clone(), interface: interface.into(), name: name.into() })
    }

    /// The tools that were recorded.
    pub fn tools(&self) -> Arc<dyn ToolSource> {
        Arc::new(self.clone())
    }

    /// Whether all of it was played, as it was recorded.
    ///
    /// # Errors
    /// With the first difference, or with what was never played.
    pub fn finish(&self) -> Result<(), Divergence> {
        let deck = self.deck();
        if let Some(diverged) = &deck.diverged {
            return Err(diverged.clone());
        }
        let asks = deck.asks.len() - deck.asked;
        let calls: Vec<&str> = deck.calls.iter().flatten().map(|(call, _)| &*call.name).collect();
        match (asks, calls.first()) {
            (0, None) => Ok(()),
            (0, Some(first)) => Err(Divergence(format!("{} recorded calls were not made, first {first}", calls.len()))),
            (left, _) => Err(Divergence(format!(
                "the run ended after {} of {} recorded questions",
                deck.asks.len() - left,
                deck.asks.len()
            ))),
        }
    }

    fn deck(&self) -> MutexGuard<'_, Deck> {
        self.deck.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The tools of a question: its own, or those of the one before.
fn shown(ask: &Asked, before: &[Arc<[ToolDefinition]>]) -> Arc<[ToolDefinition]> {
    match &ask.offered {
        Some(shown) => shown
            .iter()
            .map(|Shown { name, description, input_schema }| ToolDefinition {
                name: name.clone(),
                description: description.clone(),
                input_schema: input_schema.clone(),
                // One after the other, as they were recorded.
                hints: Hints::default(),
            })
            .collect(),
        None => before.last().cloned().unwrap_or_else(|| Vec::new().into()),
    }
}

impl Deck {
    fn ask(&mut self, ask: &ModelRequest<'_>) -> Result<ModelResponse, ModelError> {
        let number = self.asked + 1;
        let Some((recorded, result)) = self.asks.get(self.asked) else {
            let words = format!("question {number} was never recorded; there are {}", self.asks.len());
            return Err(self.diverges(words));
        };
        if let Some(difference) = difference(recorded, ask, &self.before) {
            let words = format!("question {number} is not the one that was recorded: {difference}");
            return Err(self.diverges(words));
        }
        self.before.truncate(recorded.from);
        self.before.extend_from_slice(&recorded.messages);
        let result = result.clone();
        self.asked += 1;
        result
    }

    fn call(&mut self, call: &ToolCall) -> Result<ToolOutput, CallFailed> {
        // Calls that were made together may come in any order.
        let same = |one: &&mut Option<(ToolCall, _)>| one.as_ref().is_some_and(|(recorded, _)| recorded == call);
        if let Some((_, result)) = self.calls.iter_mut().find(same).and_then(Option::take) {
            return result;
        }
        let words = match self.calls.iter().flatten().find(|(recorded, _)| recorded.id == call.id) {
            Some((recorded, _)) => {
                format!(
                    "call {} is not the one that was recorded: it was {} {}, and is {} {}",
                    call.id, recorded.name, recorded.arguments, call.name, call.arguments
                )
            }
            None => format!("call {} of {} was never recorded", call.id, call.name),
        };
        let failed = CallFailed {
            name: call.name.to_string(),
            reason: words.clone(),
            outcome: wharf_protocol::Outcome::Answered,
        };
        self.diverges(words);
        Err(failed)
    }

    /// Only the first difference counts: what comes after it follows from it.
    fn diverges(&mut self, words: String) -> ModelError {
        self.diverged.get_or_insert_with(|| Divergence(words.clone()));
        ModelError::new(ModelErrorKind::Exhausted, words)
    }
}

/// The first thing in which a question differs from a recorded one.
fn difference(recorded: &Asked, ask: &ModelRequest<'_>, before: &[Message]) -> Option<String> {
    let expected = recorded.from + recorded.messages.len();
    let kept = before.get(..recorded.from).unwrap_or(before);
    // What was compared with the question before is not compared again, but for its last message.
    let checked = recorded.from.saturating_sub(1);
    let was = kept.iter().skip(checked).chain(&recorded.messages);
    for (place, (was, now)) in was.zip(ask.messages.iter().skip(checked)).enumerate() {
        if was != now {
            let (was, now) = (plain(was), plain(now));
            return Some(format!("message {} {}", checked + place + 1, first_difference(&was, &now)));
        }
    }
    if expected != ask.messages.len() {
        return Some(format!("it had {expected} messages, and has {}", ask.messages.len()));
    }
    if let Some(offered) = &recorded.offered {
        let now: Vec<Shown> = ask.tools.iter().map(Shown::from).collect();
        if *offered != now {
            let names = |all: &[Shown]| all.iter().map(|tool| tool.name.to_string()).collect::<Vec<_>>();
            return Some(format!(
                "its tools {}",
                first_difference(&Value::from(names(offered)), &Value::from(names(&now)))
            ));
        }
    }
    (recorded.options != *ask.options).then(|| {
        let tree = |options| serde_json::to_value(options).unwrap_or_default();
        format!("how it is asked {}", first_difference(&tree(&recorded.options), &tree(ask.options)))
    })
}

fn plain(message: &Message) -> Value {
    serde_json::to_value(message).unwrap_or_default()
}

/// Where two trees differ first, in words.
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
                for place in 0..was_items.len().max(now_items.len()) {
                    let length = path.len();
                    step(path, &place.to_string());
                    let null = Value::Null;
                    let pair = (was_items.get(place).unwrap_or(&null), now_items.get(place).unwrap_or(&null));
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
        None => "is written in another way".to_owned(),
    }
}

impl ToolSource for Replay {
    fn turn(&self) -> Arc<dyn Tools> {
        let asked = self.deck().asked;
        let offered = self.offered.get(asked).or_else(|| self.offered.last()).cloned();
        Arc::new(ReplayedTools { replay: self.clone(), offered: offered.unwrap_or_else(|| Vec::new().into()) })
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
        // Whatever was asked of it is on the cassette.
        Capabilities {
            system_prompt: true,
            streaming: true,
            structured_output: true,
            tools: true,
            thinking: true,
            result_images: true,
            prompt_caching: self.replay.deck().asks.iter().any(|(ask, _)| ask.options.cache.is_some()),
        }
    }

    fn ask<'a>(&'a self, ask: &'a ModelRequest<'a>) -> BoxFuture<'a, Result<ModelResponse, ModelError>> {
        let answer = self.replay.deck().ask(ask);
        for block in answer.iter().flat_map(|answer| &answer.message.content) {
            match &block.kind {
                BlockKind::Text(text) => (ask.listener)(Delta::Text(text.clone())),
                BlockKind::Thinking { text, .. } => (ask.listener)(Delta::Thinking(text.clone())),
                _ => {}
            }
        }
        Box::pin(std::future::ready(answer))
    }
}

struct ReplayedTools {
    replay: Replay,
    offered: Arc<[ToolDefinition]>,
}

impl Tools for ReplayedTools {
    fn offered(&self) -> &[ToolDefinition] {
        &self.offered
    }

    fn call<'a>(&'a self, call: &'a ToolCall) -> BoxFuture<'a, Result<ToolOutput, CallFailed>> {
        Box::pin(std::future::ready(self.replay.deck().call(call)))
    }
}
