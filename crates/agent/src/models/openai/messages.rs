//! The messages of Chat Completions: their form, and the parts that native and emulated tools share.

use std::borrow::Cow;

use serde::Serialize;
use wharf_protocol::{BlockKind, Json, Message, ToolReturn};

use super::super::SUPPORTED_IMAGE_TYPES;
use super::OpenAi;

/// A message as received from the provider, or built from the common form.
#[derive(Serialize)]
#[serde(untagged)]
pub(super) enum WireEntry<'a> {
    Raw(Cow<'a, Json>),
    Built(WireMessage<'a>),
}

/// A message built from the common form.
#[derive(Serialize)]
#[serde(tag = "role", rename_all = "lowercase")]
pub(super) enum WireMessage<'a> {
    System {
        content: WireContent,
    },
    User {
        content: WireContent,
    },
    Assistant {
        content: Option<String>,
        #[serde(skip_serializing_if = "Vec::is_empty")]
        tool_calls: Vec<Call<'a>>,
    },
    Tool {
        tool_call_id: &'a str,
        content: String,
    },
}

/// The content of a message: plain text, or a list of parts.
#[derive(Serialize)]
#[serde(untagged)]
pub(super) enum WireContent {
    Text(String),
    Parts(Vec<Part>),
}

#[derive(Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub(super) enum Part {
    Text {
        text: String,
        #[serde(skip_serializing_if = "Option::is_none")]
        cache_control: Option<CacheControl>,
    },
    ImageUrl {
        image_url: ImageUrl,
    },
}

#[derive(Clone, Copy, Serialize)]
pub(super) struct CacheControl {
    pub(super) r#type: &'static str,
    pub(super) ttl: &'static str,
}

#[derive(Serialize)]
pub(super) struct ImageUrl {
    url: String,
}

#[derive(Serialize)]
pub(super) struct Call<'a> {
    pub(super) id: &'a str,
    pub(super) r#type: &'static str,
    pub(super) function: Function<'a>,
}

#[derive(Serialize)]
pub(super) struct Function<'a> {
    pub(super) name: &'a str,
    pub(super) arguments: String,
}

pub(super) fn user<'a>(text: String) -> WireEntry<'a> {
    WireEntry::Built(WireMessage::User { content: WireContent::Text(text) })
}

/// Appends the images of tool results as a user message. They follow all results of a turn.
pub(super) fn push_images(images: &mut Vec<Part>, entries: &mut Vec<WireEntry<'_>>) {
    if !images.is_empty() {
        entries.push(WireEntry::Built(WireMessage::User { content: WireContent::Parts(std::mem::take(images)) }));
    }
}

/// Returns a message as received in a wire format.
pub(super) fn raw<'a>(message: &'a Message, wire: &str) -> Option<&'a Json> {
    message.origin.as_ref().filter(|origin| origin.wire == wire)?.raw.as_ref()
}

/// Returns the tool results of a message.
pub(super) fn results(message: &Message) -> impl Iterator<Item = &ToolReturn> {
    message.content.iter().filter_map(|block| match &block.kind {
        BlockKind::ToolResult(returned) => Some(returned),
        _ => None,
    })
}

/// Returns a result as text. An error is marked in the text: the API has no field for it.
pub(super) fn result_text(returned: &ToolReturn) -> String {
    let text = returned.text();
    if returned.output.is_error { format!("Error: {text}") } else { text }
}

impl OpenAi {
    /// Collects the images of a result, each with a line that names its call. Unsupported types are omitted here; the
    /// text of the result describes them.
    pub(super) fn collect_images(&self, returned: &ToolReturn, parts: &mut Vec<Part>) {
        if self.text_only {
            return;
        }
        let supported = returned.images().filter(|(_, mime)| SUPPORTED_IMAGE_TYPES.contains(mime));
        for (number, (data, mime)) in supported.enumerate() {
            let text = format!("Image {} of the result of the call {}:", number + 1, returned.call_id);
            parts.push(Part::Text { text, cache_control: None });
            parts.push(Part::ImageUrl { image_url: ImageUrl { url: format!("data:{mime};base64,{data}") } });
        }
    }
}
