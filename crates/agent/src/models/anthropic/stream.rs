//! Assembles a streamed response. The parts of each block are merged to the block of an unstreamed response.

use serde::Deserialize;
use serde_json::{Map, Value};
use wharf_protocol::{Block, BlockKind, Json};

use super::super::call_ids::CallIds;
use super::super::endpoint::Endpoint;
use super::super::wire::{EventStream, ServerEvent, StreamItem, malformed, object_of, provider_error, with_field};
use super::response::{block, message, stop_reason, with_id};
use super::usage::UsageCounter;
use crate::{Delta, ModelError, ModelRequest, ModelResponse};

/// Any event of the stream. Compatible providers omit fields.
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

/// The response as received so far.
struct ResponseBuilder<'a> {
    endpoint: &'a Endpoint,
    request: &'a ModelRequest<'a>,
    ids: CallIds,
    blocks: Vec<BlockBuilder>,
    usage: UsageCounter,
    id: Option<String>,
    model: Option<String>,
    stop: Option<String>,
}

/// A block that is not complete yet.
struct BlockBuilder {
    index: u64,
    start: Json,
    /// Whether it is a tool call for the host.
    is_call: bool,
    /// Streamed texts by field name.
    texts: Vec<(String, String)>,
    input: Option<String>,
    citations: Vec<Value>,
}

pub(super) async fn read(
    endpoint: &Endpoint,
    model: &str,
    request: &ModelRequest<'_>,
    mut stream: EventStream<'_>,
) -> Result<ModelResponse, ModelError> {
    let mut builder = ResponseBuilder {
        endpoint,
        request,
        ids: CallIds::from_messages(request.messages),
        blocks: Vec::new(),
        usage: UsageCounter::default(),
        id: None,
        model: None,
        stop: None,
    };
    loop {
        match stream.next().await? {
            StreamItem::Event(event) => {
                if builder.add(event)? {
                    break;
                }
            }
            StreamItem::Done | StreamItem::End => return Err(stream.truncated()),
        }
    }
    stream.finish().await;
    Ok(builder.build(model))
}

impl ResponseBuilder<'_> {
    /// Adds an event. Returns whether it is the last one.
    fn add(&mut self, event: ServerEvent) -> Result<bool, ModelError> {
        let ServerEvent { kind, data } = event;
        let event: Event = data.decode().map_err(|error| malformed(self.endpoint, &error.to_string()))?;
        let kind = if event.r#type.is_empty() { kind.as_str() } else { event.r#type.as_str() };
        match kind {
            "message_start" => {
                let text = |key: &str| event.message[key].as_str().filter(|text| !text.is_empty()).map(str::to_owned);
                self.id = text("id");
                self.model = text("model");
                self.usage.add(&event.message["usage"]);
            }
            "content_block_start" => {
                let Some(start) = event.content_block.filter(Json::is_object) else {
                    return Err(malformed(self.endpoint, "a block starts without content"));
                };
                self.start_block(event.index, start);
            }
            "content_block_delta" => self.add_delta(event.index, event.delta),
            "message_delta" => {
                if let Some(stop) = event.delta.get("stop_reason").and_then(Value::as_str) {
                    self.stop = Some(stop.to_owned());
                }
                self.usage.add(&event.usage);
            }
            "message_stop" => return Ok(true),
            "error" => {
                let value = data.to_value().unwrap_or_default();
                return Err(provider_error(self.endpoint, &value));
            }
            // `ping`, the end of a block, and unknown events.
            _ => {}
        }
        Ok(false)
    }

    fn start_block(&mut self, index: u64, start: Json) {
        let start = with_id(start, &mut self.ids);
        let mut is_call = false;
        if let BlockKind::ToolUse(call) = block(start.clone()).kind {
            is_call = true;
            (self.request.on_delta)(Delta::ToolUse { id: call.id, name: call.name });
        }
        self.blocks.push(BlockBuilder { index, start, is_call, texts: Vec::new(), input: None, citations: Vec::new() });
    }

    fn add_delta(&mut self, index: u64, mut delta: Map<String, Value>) {
        let kind = delta.shift_remove("type");
        let kind = kind.as_ref().and_then(Value::as_str).unwrap_or_default();
        // Some providers omit the start of a block. The kind of its delta tells the kind of the block.
        if !self.blocks.iter().any(|block| block.index == index) {
            let start = if kind == "text_delta" { r#"{"type":"text"}"# } else { r#"{"type":"thinking"}"# };
            let Ok(start) = Json::parse(start) else { return };
            self.start_block(index, start);
        }
        let Some(block) = self.blocks.iter_mut().rfind(|block| block.index == index) else { return };
        for (key, value) in delta {
            match (key.as_str(), value) {
                ("partial_json", Value::String(text)) => {
                    block.input.get_or_insert_default().push_str(&text);
                    if block.is_call && !text.is_empty() {
                        (self.request.on_delta)(Delta::Arguments(text));
                    }
                }
                ("citation", citation) => block.citations.push(citation),
                (_, Value::String(text)) => {
                    block.append(key, &text);
                    match kind {
                        "text_delta" => (self.request.on_delta)(Delta::Text(text)),
                        "thinking_delta" => (self.request.on_delta)(Delta::Thinking(text)),
                        _ => {}
                    }
                }
                _ => {}
            }
        }
    }

    fn build(self, model: &str) -> ModelResponse {
        let blocks: Vec<Block> = self.blocks.into_iter().map(|builder| block(builder.build())).collect();
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

impl BlockBuilder {
    fn append(&mut self, key: String, text: &str) {
        if let Some((_, current)) = self.texts.iter_mut().find(|(name, _)| *name == key) {
            current.push_str(text);
            return;
        }
        let mut current = self.field(&key).and_then(|value| value.as_str().map(str::to_owned)).unwrap_or_default();
        current.push_str(text);
        self.texts.push((key, current));
    }

    fn field(&self, key: &str) -> Option<Value> {
        self.start.to_value().ok()?.get_mut(key).map(Value::take)
    }

    /// Returns the block in the form of an unstreamed response.
    fn build(self) -> Json {
        let mut whole = self.start.clone();
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
