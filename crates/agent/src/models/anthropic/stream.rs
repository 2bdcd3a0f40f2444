//! An answer that comes piece by piece. The pieces of a block are put together to the block as it would have come in one
//! piece, and read like that.

use serde::Deserialize;
use serde_json::{Map, Value};
use wharf_protocol::{Block, BlockKind, Json};

use super::super::endpoint::Endpoint;
use super::super::ids::Ids;
use super::super::wire::{Next, Piece, Stream, complaint, malformed, object_of, with_field};
use super::answer::{block, message, stop_reason, with_id};
use super::usage::Told;
use crate::{Delta, ModelError, ModelRequest, ModelResponse};

/// Any event. Not everybody sends everything.
#[derive(Deserialize)]
struct Event {
    #[serde(default)]
    r#type: String,
    #[serde(default)]
    index: u64,
    content_block: Option<Json>,
    #[serde(default)]
    delta: Map<String, Value>,
    #[serde(default)]
    message: Value,
    #[serde(default)]
    usage: Value,
}

/// What has come so far.
struct Coming<'a> {
    endpoint: &'a Endpoint,
    ask: &'a ModelRequest<'a>,
    ids: Ids,
    blocks: Vec<Building>,
    usage: Told,
    id: Option<String>,
    model: Option<String>,
    stop: Option<String>,
}

/// A block that is not complete yet.
struct Building {
    index: u64,
    begun: Json,
    /// Whether it is a call that somebody here has to make.
    is_call: bool,
    /// Texts that grow, by the name of their field.
    texts: Vec<(String, String)>,
    input: Option<String>,
    citations: Vec<Value>,
}

pub(super) async fn read(
    endpoint: &Endpoint,
    model: &str,
    ask: &ModelRequest<'_>,
    mut stream: Stream<'_>,
) -> Result<ModelResponse, ModelError> {
    let mut coming = Coming {
        endpoint,
        ask,
        ids: Ids::of(ask.messages),
        blocks: Vec::new(),
        usage: Told::default(),
        id: None,
        model: None,
        stop: None,
    };
    loop {
        match stream.next().await? {
            Next::Piece(piece) => {
                if coming.hear(piece)? {
                    break;
                }
            }
            Next::Done | Next::Over => return Err(stream.cut()),
        }
    }
    stream.finish().await;
    Ok(coming.answer(model))
}

impl Coming<'_> {
    /// Takes an event; whether it was the last one.
    fn hear(&mut self, piece: Piece) -> Result<bool, ModelError> {
        let Piece { kind, data } = piece;
        let event: Event = data.decode().map_err(|error| malformed(self.endpoint, &error.to_string()))?;
        let kind = if event.r#type.is_empty() { kind.as_str() } else { event.r#type.as_str() };
        match kind {
            "message_start" => {
                let text = |key: &str| event.message[key].as_str().filter(|text| !text.is_empty()).map(str::to_owned);
                (self.id, self.model) = (text("id"), text("model"));
                self.usage.hear(&event.message["usage"]);
            }
            "content_block_start" => {
                let Some(begun) = event.content_block.filter(Json::is_object) else {
                    return Err(malformed(self.endpoint, "a block begins with nothing"));
                };
                self.begin(event.index, begun);
            }
            "content_block_delta" => self.grow(event.index, event.delta),
            "message_delta" => {
                if let Some(stop) = event.delta.get("stop_reason").and_then(Value::as_str) {
                    self.stop = Some(stop.to_owned());
                }
                self.usage.hear(&event.usage);
            }
            "message_stop" => return Ok(true),
            "error" => {
                let value = data.to_value().unwrap_or_default();
                return Err(complaint(self.endpoint, &value));
            }
            // `ping`, the end of a block, and whatever they will think of.
            _ => {}
        }
        Ok(false)
    }

    fn begin(&mut self, index: u64, begun: Json) {
        let begun = with_id(begun, &mut self.ids);
        let mut is_call = false;
        if let BlockKind::ToolUse(call) = block(begun.clone()).kind {
            is_call = true;
            (self.ask.listener)(Delta::ToolUse { id: call.id, name: call.name });
        }
        let (texts, citations) = (Vec::new(), Vec::new());
        self.blocks.push(Building { index, begun, is_call, texts, input: None, citations });
    }

    fn grow(&mut self, index: u64, mut delta: Map<String, Value>) {
        let kind = delta.shift_remove("type");
        let kind = kind.as_ref().and_then(Value::as_str).unwrap_or_default();
        // What goes on is what began last: not everybody counts.
        if !self.blocks.iter().any(|building| building.index == index) {
            // Its beginning was left out; what grows tells what it is.
            let begun = if kind == "text_delta" { r#"{"type":"text"}"# } else { r#"{"type":"thinking"}"# };
            let Ok(begun) = Json::parse(begun) else { return };
            self.begin(index, begun);
        }
        let Some(building) = self.blocks.iter_mut().rfind(|building| building.index == index) else { return };
        for (key, value) in delta {
            match (key.as_str(), value) {
                ("partial_json", Value::String(text)) => {
                    building.input.get_or_insert_default().push_str(&text);
                    if building.is_call && !text.is_empty() {
                        (self.ask.listener)(Delta::Arguments(text));
                    }
                }
                ("citation", citation) => building.citations.push(citation),
                (_, Value::String(text)) => {
                    building.grow(key, &text);
                    match kind {
                        "text_delta" => (self.ask.listener)(Delta::Text(text)),
                        "thinking_delta" => (self.ask.listener)(Delta::Thinking(text)),
                        _ => {}
                    }
                }
                _ => {}
            }
        }
    }

    fn answer(self, model: &str) -> ModelResponse {
        let blocks: Vec<Block> = self.blocks.into_iter().map(|building| block(building.whole())).collect();
        let stop = stop_reason(self.stop.as_deref(), &blocks);
        ModelResponse {
            message: message(blocks),
            stop,
            model: self.model.unwrap_or_else(|| model.to_owned()),
            id: self.id,
            usage: self.usage.usage(),
        }
    }
}

impl Building {
    fn grow(&mut self, key: String, text: &str) {
        if let Some((_, grown)) = self.texts.iter_mut().find(|(name, _)| *name == key) {
            grown.push_str(text);
            return;
        }
        let mut grown = self.field(&key).and_then(|value| value.as_str().map(str::to_owned)).unwrap_or_default();
        grown.push_str(text);
        self.texts.push((key, grown));
    }

    fn field(&self, key: &str) -> Option<Value> {
        self.begun.to_value().ok()?.get_mut(key).map(Value::take)
    }

    /// The block as it would have come in one piece.
    fn whole(self) -> Json {
        let mut whole = self.begun.clone();
        if let Some(input) = self.input.as_ref().filter(|input| !input.trim().is_empty()) {
            whole = with_field(&whole, "input", &object_of(input));
        }
        if !self.citations.is_empty() {
            let mut all = self.field("citations").and_then(|all| all.as_array().cloned()).unwrap_or_default();
            all.extend(self.citations);
            whole = with_field(&whole, "citations", &Json::from(Value::from(all)));
        }
        for (key, text) in self.texts {
            whole = with_field(&whole, &key, &Json::from(Value::from(text)));
        }
        whole
    }
}
