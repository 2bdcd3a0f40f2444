//! Assembles a streamed response to the same message as an unstreamed one.

use serde::Deserialize;
use serde_json::{Map, Value};
use wharf_protocol::Json;

use super::super::call_ids::CallIds;
use super::super::wire::{EventStream, StreamItem, malformed, provider_error};
use super::OpenAi;
use super::merge::merge;
use super::response::{RawResponse, reasoning, response};
use crate::{Delta, ModelError, ModelRequest, ModelResponse};

#[derive(Deserialize)]
struct Chunk {
    #[serde(default)]
    id: Option<String>,
    #[serde(default)]
    model: Option<String>,
    #[serde(default)]
    choices: Option<Vec<Choice>>,
    #[serde(default)]
    usage: Value,
    #[serde(default)]
    error: Value,
}

#[derive(Deserialize)]
struct Choice {
    #[serde(default)]
    index: u64,
    #[serde(default)]
    delta: Option<Map<String, Value>>,
    #[serde(default)]
    finish_reason: Option<String>,
    #[serde(default)]
    error: Value,
}

/// The response as received so far.
struct ResponseBuilder<'a> {
    model: &'a OpenAi,
    request: &'a ModelRequest<'a>,
    ids: CallIds,
    message: Map<String, Value>,
    calls: Vec<CallBuilder>,
    /// Index of the call that started last.
    latest: Option<usize>,
    /// The field that carries reasoning. Other fields repeat the same reasoning.
    reasoning_field: Option<&'static str>,
    parts: RawResponse,
}

/// A tool call that is not complete yet.
struct CallBuilder {
    index: Option<u64>,
    /// The provider's id. The call may have another one, if this is not unique.
    provider_id: String,
    fields: Map<String, Value>,
    started: bool,
}

pub(super) async fn read(
    model: &OpenAi,
    request: &ModelRequest<'_>,
    mut stream: EventStream<'_>,
) -> Result<ModelResponse, ModelError> {
    let parts = RawResponse { raw: Json::from(Value::Null), finish: None, id: None, model: None, usage: Value::Null };
    let mut builder = ResponseBuilder {
        model,
        request,
        ids: CallIds::from_messages(request.messages),
        message: Map::new(),
        calls: Vec::new(),
        latest: None,
        reasoning_field: None,
        parts,
    };
    loop {
        match stream.next().await? {
            StreamItem::Event(event) => builder.add_chunk(&event.data)?,
            StreamItem::Done => break,
            // Some providers send a finish reason and omit `[DONE]`.
            StreamItem::End if builder.parts.finish.is_some() => break,
            StreamItem::End => return Err(stream.truncated()),
        }
    }
    if builder.parts.finish.is_none() && builder.message.is_empty() && builder.calls.is_empty() {
        return Err(malformed(&model.endpoint, "the response is empty"));
    }
    stream.finish().await;
    builder.build()
}

impl ResponseBuilder<'_> {
    fn add_chunk(&mut self, data: &Json) -> Result<(), ModelError> {
        let endpoint = &self.model.endpoint;
        let chunk: Chunk = data.decode().map_err(|error| malformed(endpoint, &error.to_string()))?;
        let failure = |error: &Value| provider_error(endpoint, &serde_json::json!({ "error": error }));
        if !chunk.error.is_null() {
            return Err(failure(&chunk.error));
        }
        let nonempty = |text: Option<String>| text.filter(|text| !text.is_empty());
        self.parts.id = self.parts.id.take().or(nonempty(chunk.id));
        self.parts.model = self.parts.model.take().or(nonempty(chunk.model));
        if chunk.usage.is_object() {
            self.parts.usage = chunk.usage;
        }
        for choice in chunk.choices.into_iter().flatten().filter(|choice| choice.index == 0) {
            if !choice.error.is_null() {
                return Err(failure(&choice.error));
            }
            if choice.finish_reason.as_deref() == Some("error") {
                return Err(failure(&Value::from("the provider failed during the response")));
            }
            if let Some(delta) = choice.delta {
                self.add_delta(delta);
            }
            self.parts.finish = self.parts.finish.take().or(nonempty(choice.finish_reason));
        }
        Ok(())
    }

    fn add_delta(&mut self, mut delta: Map<String, Value>) {
        if let Some(Value::Array(calls)) = delta.get_mut("tool_calls") {
            let calls = std::mem::take(calls);
            for call in calls {
                if let Value::Object(call) = call {
                    self.add_call_delta(call);
                }
            }
        }
        let delta = Value::Object(delta);
        if let Some((field, text)) = reasoning(&delta)
            && *self.reasoning_field.get_or_insert(field) == field
        {
            (self.request.on_delta)(Delta::Thinking(text));
        }
        for text in ["content", "refusal"].into_iter().filter_map(|key| delta[key].as_str()) {
            if !text.is_empty() {
                (self.request.on_delta)(Delta::Text(text.to_owned()));
            }
        }
        if let Value::Object(delta) = delta {
            merge(&mut self.message, delta);
        }
    }

    fn add_call_delta(&mut self, mut delta: Map<String, Value>) {
        let index = delta.shift_remove("index").and_then(|index| index.as_u64());
        let provider_id = delta.shift_remove("id").and_then(|id| id.as_str().map(str::to_owned)).unwrap_or_default();
        let place = self.call_index(index, &provider_id);
        let arguments = delta.get("function").and_then(|function| function["arguments"].as_str()).map(str::to_owned);
        let call = &mut self.calls[place];
        if call.provider_id.is_empty() {
            call.provider_id = provider_id;
        }
        merge(&mut call.fields, delta);
        if !call.started
            && let Some(name) = call.fields.get("function").and_then(|function| function["name"].as_str())
            && !name.is_empty()
        {
            call.started = true;
            let id = self.ids.unique(&call.provider_id);
            (self.request.on_delta)(Delta::ToolUse { id: id.clone(), name: name.into() });
            call.fields.insert("id".to_owned(), Value::from(&*id));
            self.latest = Some(place);
        }
        if let Some(arguments) = arguments.filter(|text| !text.is_empty() && self.latest == Some(place)) {
            (self.request.on_delta)(Delta::Arguments(arguments));
        }
    }

    /// Returns the index of the call that a part belongs to. Some providers omit the index, and some use the same index
    /// for all calls.
    fn call_index(&mut self, index: Option<u64>, provider_id: &str) -> usize {
        let is_other = |call: &CallBuilder| {
            !provider_id.is_empty() && !call.provider_id.is_empty() && call.provider_id != provider_id
        };
        let found = match index {
            Some(_) => self.calls.iter().rposition(|call| call.index == index && !is_other(call)),
            None if provider_id.is_empty() => self.calls.len().checked_sub(1),
            None => self.calls.iter().rposition(|call| call.provider_id == provider_id),
        };
        found.unwrap_or_else(|| {
            // The id comes first, as providers write it.
            let fields = Map::from_iter([("id".to_owned(), Value::from(provider_id))]);
            self.calls.push(CallBuilder { index, provider_id: provider_id.to_owned(), fields, started: false });
            self.calls.len() - 1
        })
    }

    fn build(mut self) -> Result<ModelResponse, ModelError> {
        // A call without a name is not a call, and would never get a result.
        let calls = self.calls.into_iter().filter(|call| call.started);
        let calls: Vec<Value> = calls.map(|call| Value::Object(call.fields)).collect();
        if !calls.is_empty() {
            self.message.insert("tool_calls".to_owned(), Value::Array(calls));
        }
        let raw = Json::from(Value::Object(self.message));
        response(self.model, self.request, RawResponse { raw, ..self.parts })
    }
}
