//! The formats of logs: one JSON value, one value per line, or a cassette.

use serde_json::Value;
use wharf_agent::{TraceMessage, trace_messages};
use wharf_protocol::Message;

use super::conversation::{Conversation, conversation};
use super::{LogError, LogErrorKind, LoggedRun};

/// The maximum size of a log.
const MAX_LOG_BYTES: usize = 64 * 1024 * 1024;
/// The maximum number of conversations.
const MAX_RUNS: usize = 100_000;

pub(super) fn parse(text: &str) -> Result<Vec<LoggedRun>, LogError> {
    if text.len() > MAX_LOG_BYTES {
        return Err(LogError::whole(LogErrorKind::TooLarge(MAX_LOG_BYTES / 1024 / 1024)));
    }
    if text.trim().is_empty() {
        return Err(LogError::whole(LogErrorKind::Empty));
    }
    if let Ok(value) = serde_json::from_str::<Value>(text) {
        return of_document(value);
    }
    let mut lines = Vec::new();
    for (index, line) in text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty()) {
        let value: Value = serde_json::from_str(line)
            .map_err(|error| LogError { line: index + 1, kind: LogErrorKind::NotJson(error.to_string()) })?;
        lines.push((index + 1, value));
    }
    if lines.first().is_some_and(|(_, value)| value.get("cassette").is_some()) {
        return cassette(&lines).map(|run| vec![run]);
    }
    if lines.len() > MAX_RUNS {
        return Err(LogError::whole(LogErrorKind::TooMany(MAX_RUNS)));
    }
    // Messages, one per line, are one conversation.
    if lines.iter().all(|(_, value)| value.get("role").is_some()) {
        let messages = Value::Array(lines.into_iter().map(|(_, value)| value).collect());
        return one(0, &messages).map(|run| vec![run]);
    }
    lines.iter().map(|(line, value)| one(*line, value)).collect()
}

/// Reads a whole document: a conversation, a list of them, or a report with results.
fn of_document(value: Value) -> Result<Vec<LoggedRun>, LogError> {
    let list = match value {
        Value::Array(items) if items.iter().all(|item| item.get("role").is_some() || item.get("type").is_some()) => {
            return one(0, &Value::Array(items)).map(|run| vec![run]);
        }
        Value::Array(items) => items,
        Value::Object(mut fields) => match fields.shift_remove("results") {
            Some(Value::Array(results)) => results,
            Some(other) => {
                fields.insert("results".to_owned(), other);
                return one(0, &Value::Object(fields)).map(|run| vec![run]);
            }
            None => return one(0, &Value::Object(fields)).map(|run| vec![run]),
        },
        _ => return Err(LogError::whole(LogErrorKind::UnknownFormat)),
    };
    if list.is_empty() {
        return Err(LogError::whole(LogErrorKind::Empty));
    }
    if list.len() > MAX_RUNS {
        return Err(LogError::whole(LogErrorKind::TooMany(MAX_RUNS)));
    }
    list.iter().map(|value| one(0, value)).collect()
}

/// Reads one conversation.
fn one(line: usize, value: &Value) -> Result<LoggedRun, LogError> {
    let error = |kind| LogError { line, kind };
    let text = |key: &str| value.get(key).and_then(Value::as_str).map(str::to_owned);
    let mut run = LoggedRun {
        line,
        question: text("question_id").or_else(|| text("question")),
        prompt: text("prompt"),
        model: model(value),
        trace: Vec::new(),
    };
    // Results of Wharf hold their trace as it is.
    if let Some(trace) = value.get("trace_messages").or_else(|| value.get("trace")) {
        run.trace = serde_json::from_value(trace.clone())
            .map_err(|cause| error(LogErrorKind::InvalidMessage { number: 1, reason: cause.to_string() }))?;
    } else {
        let Conversation { prompt, trace } = conversation(value).map_err(error)?;
        run.prompt = run.prompt.or(prompt);
        run.trace = trace;
    }
    if run.trace.is_empty() { Err(error(LogErrorKind::NoAnswer)) } else { Ok(run) }
}

/// Returns the name of the model: a text, or the label of a result.
fn model(value: &Value) -> Option<String> {
    let model = value.get("model").or_else(|| value.pointer("/response/model"))?;
    let name = model.as_str().or_else(|| model.get("label").and_then(Value::as_str))?;
    Some(name.chars().filter(|c| !c.is_control()).take(200).collect()).filter(|name: &String| !name.trim().is_empty())
}

/// Reads a cassette: the last request holds the conversation before the last response.
fn cassette(lines: &[(usize, Value)]) -> Result<LoggedRun, LogError> {
    let mut messages: Vec<Message> = Vec::new();
    let mut answer: Option<Message> = None;
    let mut model = None;
    for (line, value) in lines {
        let invalid =
            |reason: String| LogError { line: *line, kind: LogErrorKind::InvalidMessage { number: 1, reason } };
        let Some(request) = value.get("ask") else { continue };
        let shared = request.get("from").and_then(Value::as_u64).unwrap_or_default();
        messages.truncate(usize::try_from(shared).unwrap_or(usize::MAX));
        let more: Vec<Message> = serde_json::from_value(request.get("messages").cloned().unwrap_or_default())
            .map_err(|error| invalid(error.to_string()))?;
        messages.extend(more);
        if let Some(response) = value.get("answer") {
            let message = response.get("message").cloned().unwrap_or_default();
            answer = Some(serde_json::from_value(message).map_err(|error| invalid(error.to_string()))?);
            model = response.get("model").and_then(Value::as_str).map(str::to_owned);
        }
    }
    let prompt = messages.iter().rfind(|message| message.role == wharf_protocol::Role::User).map(Message::plain_text);
    messages.extend(answer);
    let trace: Vec<TraceMessage> = trace_messages(&messages);
    if trace.is_empty() {
        return Err(LogError::whole(LogErrorKind::NoAnswer));
    }
    Ok(LoggedRun { line: 0, question: None, prompt, model, trace })
}
