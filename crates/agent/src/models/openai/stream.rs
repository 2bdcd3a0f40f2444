//! An answer that comes piece by piece: put together to the message as it would have come in one piece.

use serde::Deserialize;
use serde_json::{Map, Value};
use wharf_protocol::Json;

use super::super::ids::Ids;
use super::super::wire::{Next, Stream, complaint, malformed};
use super::OpenAi;
use super::answer::{Whole, answer, thought};
use super::merge::merge;
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

/// What has come so far.
struct Coming<'a> {
    model: &'a OpenAi,
    ask: &'a ModelRequest<'a>,
    ids: Ids,
    message: Map<String, Value>,
    calls: Vec<Building>,
    /// The call that began last.
    latest: Option<usize>,
    /// The field in which thoughts come; those in others are the same ones again.
    thinks_in: Option<&'static str>,
    whole: Whole,
}

/// A call that is not complete yet.
struct Building {
    index: Option<u64>,
    /// The provider's id for it, which may not be the one it goes by.
    given: String,
    fields: Map<String, Value>,
    begun: bool,
}

pub(super) async fn read(
    model: &OpenAi,
    ask: &ModelRequest<'_>,
    mut stream: Stream<'_>,
) -> Result<ModelResponse, ModelError> {
    let whole = Whole { raw: Json::from(Value::Null), finish: None, id: None, model: None, usage: Value::Null };
    let ids = Ids::of(ask.messages);
    let mut coming =
        Coming { model, ask, ids, message: Map::new(), calls: Vec::new(), latest: None, thinks_in: None, whole };
    loop {
        match stream.next().await? {
            Next::Piece(piece) => coming.hear(&piece.data)?,
            Next::Done => break,
            // Some say why they end, and leave the last word out.
            Next::Over if coming.whole.finish.is_some() => break,
            Next::Over => return Err(stream.cut()),
        }
    }
    if coming.whole.finish.is_none() && coming.message.is_empty() && coming.calls.is_empty() {
        return Err(malformed(&model.endpoint, "there is nothing in it"));
    }
    stream.finish().await;
    coming.answer()
}

impl Coming<'_> {
    fn hear(&mut self, data: &Json) -> Result<(), ModelError> {
        let endpoint = &self.model.endpoint;
        let chunk: Chunk = data.decode().map_err(|error| malformed(endpoint, &error.to_string()))?;
        let refused = |error: &Value| complaint(endpoint, &serde_json::json!({ "error": error }));
        if !chunk.error.is_null() {
            return Err(refused(&chunk.error));
        }
        let told = |text: Option<String>| text.filter(|text| !text.is_empty());
        self.whole.id = self.whole.id.take().or(told(chunk.id));
        self.whole.model = self.whole.model.take().or(told(chunk.model));
        if chunk.usage.is_object() {
            self.whole.usage = chunk.usage;
        }
        for choice in chunk.choices.into_iter().flatten().filter(|choice| choice.index == 0) {
            if !choice.error.is_null() {
                return Err(refused(&choice.error));
            }
            if choice.finish_reason.as_deref() == Some("error") {
                return Err(refused(&Value::from("the provider failed in the middle of its answer")));
            }
            if let Some(delta) = choice.delta {
                self.grow(delta);
            }
            self.whole.finish = self.whole.finish.take().or(told(choice.finish_reason));
        }
        Ok(())
    }

    fn grow(&mut self, mut delta: Map<String, Value>) {
        if let Some(Value::Array(calls)) = delta.get_mut("tool_calls") {
            let calls = std::mem::take(calls);
            for call in calls {
                if let Value::Object(call) = call {
                    self.grow_call(call);
                }
            }
        }
        let delta = Value::Object(delta);
        if let Some((name, thought)) = thought(&delta)
            && *self.thinks_in.get_or_insert(name) == name
        {
            (self.ask.listener)(Delta::Thinking(thought));
        }
        for text in ["content", "refusal"].into_iter().filter_map(|key| delta[key].as_str()) {
            if !text.is_empty() {
                (self.ask.listener)(Delta::Text(text.to_owned()));
            }
        }
        if let Value::Object(delta) = delta {
            merge(&mut self.message, delta);
        }
    }

    fn grow_call(&mut self, mut piece: Map<String, Value>) {
        let index = piece.shift_remove("index").and_then(|index| index.as_u64());
        let given = piece.shift_remove("id").and_then(|id| id.as_str().map(str::to_owned)).unwrap_or_default();
        let place = self.place(index, &given);
        let arguments = piece.get("function").and_then(|function| function["arguments"].as_str()).map(str::to_owned);
        let building = &mut self.calls[place];
        if building.given.is_empty() {
            building.given = given;
        }
        merge(&mut building.fields, piece);
        if !building.begun
            && let Some(name) = building.fields.get("function").and_then(|function| function["name"].as_str())
            && !name.is_empty()
        {
            building.begun = true;
            let id = self.ids.unique(&building.given);
            (self.ask.listener)(Delta::ToolUse { id: id.clone(), name: name.into() });
            building.fields.insert("id".to_owned(), Value::from(&*id));
            self.latest = Some(place);
        }
        if let Some(arguments) = arguments.filter(|text| !text.is_empty() && self.latest == Some(place)) {
            (self.ask.listener)(Delta::Arguments(arguments));
        }
    }

    /// The call a piece belongs to. Some leave the index out, and some give the same one to all calls.
    fn place(&mut self, index: Option<u64>, given: &str) -> usize {
        let other = |building: &Building| !given.is_empty() && !building.given.is_empty() && building.given != given;
        let found = match index {
            Some(_) => self.calls.iter().rposition(|building| building.index == index && !other(building)),
            None if given.is_empty() => self.calls.len().checked_sub(1),
            None => self.calls.iter().rposition(|building| building.given == given),
        };
        found.unwrap_or_else(|| {
            // The id stands first, as everybody writes it.
            let fields = Map::from_iter([("id".to_owned(), Value::from(given))]);
            self.calls.push(Building { index, given: given.to_owned(), fields, begun: false });
            self.calls.len() - 1
        })
    }

    fn answer(mut self) -> Result<ModelResponse, ModelError> {
        // A call of nothing is none, and would never be answered.
        let calls = self.calls.into_iter().filter(|building| building.begun);
        let calls: Vec<Value> = calls.map(|building| Value::Object(building.fields)).collect();
        if !calls.is_empty() {
            self.message.insert("tool_calls".to_owned(), Value::Array(calls));
        }
        self.whole.raw = Json::from(Value::Object(self.message));
        answer(self.model, self.ask, self.whole)
    }
}
