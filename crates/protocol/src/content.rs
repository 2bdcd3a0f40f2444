//! Content blocks: every kind of MCP content, and unknown kinds.

use std::borrow::Cow;

use serde::Serialize;

use crate::{Fields, Json};

/// One block of a tool's result or of a prompt.
#[derive(Clone, Debug)]
pub struct Content {
    /// The parsed content.
    pub kind: ContentKind,
    /// The block as received, with annotations and `_meta`.
    pub raw: Json,
}

/// The kinds of content. Binary data stays in base64, as received.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ContentKind {
    /// Plain text.
    Text(String),
    /// An image.
    Image {
        /// Base64 data.
        data: String,
        /// MIME type, for example `image/png`.
        mime_type: String,
    },
    /// An audio clip.
    Audio {
        /// Base64 data.
        data: String,
        /// MIME type, for example `audio/wav`.
        mime_type: String,
    },
    /// An embedded resource.
    Resource {
        /// URI of the resource.
        uri: String,
        /// MIME type of the content.
        mime_type: Option<String>,
        /// The embedded content.
        body: ResourceBody,
    },
    /// A link to a resource.
    Link {
        /// URI of the resource.
        uri: String,
        /// Name of the resource.
        name: Option<String>,
        /// MIME type of the content.
        mime_type: Option<String>,
    },
    /// A block that could not be parsed. [`Content::raw`] holds it.
    Unreadable {
        /// Why it could not be parsed.
        reason: String,
    },
}

/// The content of an embedded resource.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub enum ResourceBody {
    /// Plain text.
    Text(String),
    /// Base64 data.
    Blob(String),
}

impl Content {
    /// Parses one block. An invalid block becomes [`ContentKind::Unreadable`], so nothing is dropped.
    pub fn from_json(raw: Json) -> Self {
        let kind = read_plain(&raw).map_or_else(|| read(&raw), Ok);
        Self { kind: kind.unwrap_or_else(|reason| ContentKind::Unreadable { reason }), raw }
    }

    /// Creates a text block.
    pub fn text(text: impl Into<String>) -> Self {
        let text = text.into();
        let raw = Json::from(serde_json::json!({"type": "text", "text": text}));
        Self { kind: ContentKind::Text(text), raw }
    }

    /// Returns the text of a text block.
    pub fn as_text(&self) -> Option<&str> {
        match &self.kind {
            ContentKind::Text(text) => Some(text),
            _ => None,
        }
    }

    /// Describes the block in one line, for readers that cannot display it. Returns the whole text of a text block.
    pub fn describe(&self) -> String {
        let typed = |mime: &Option<String>| mime.as_ref().map(|mime| format!(", {mime}")).unwrap_or_default();
        match &self.kind {
            ContentKind::Text(text) => text.clone(),
            ContentKind::Image { data, mime_type } => format!("[image, {mime_type}, {}]", size(data)),
            ContentKind::Audio { data, mime_type } => format!("[audio, {mime_type}, {}]", size(data)),
            ContentKind::Resource { uri, mime_type, body: ResourceBody::Text(_) } => {
                format!("[resource {uri}{}]", typed(mime_type))
            }
            ContentKind::Resource { uri, mime_type, body: ResourceBody::Blob(data) } => {
                format!("[resource {uri}{}, {}]", typed(mime_type), size(data))
            }
            ContentKind::Link { uri, mime_type, .. } => format!("[link to {uri}{}]", typed(mime_type)),
            ContentKind::Unreadable { reason } => format!("[unreadable block: {reason}]"),
        }
    }
}

/// Parses the kinds that may be large, in one pass. Returns `None` for other kinds and for malformed blocks.
fn read_plain(raw: &Json) -> Option<ContentKind> {
    #[derive(serde::Deserialize)]
    struct Plain<'a> {
        #[serde(borrow)]
        r#type: Cow<'a, str>,
        text: Option<String>,
        data: Option<String>,
        #[serde(rename = "mimeType")]
        mime_type: Option<String>,
    }
    let Plain { r#type, text, data, mime_type } = serde_json::from_str(raw.as_str()).ok()?;
    match &*r#type {
        "text" => text.map(ContentKind::Text),
        "image" => Some(ContentKind::Image { data: data?, mime_type: mime_type? }),
        "audio" => Some(ContentKind::Audio { data: data?, mime_type: mime_type? }),
        _ => None,
    }
}

fn read(raw: &Json) -> Result<ContentKind, String> {
    let fields = Fields::of(raw)?;
    match fields.required_text("type")?.as_str() {
        "text" => Ok(ContentKind::Text(fields.required_text("text")?)),
        "image" => {
            Ok(ContentKind::Image { data: fields.required_text("data")?, mime_type: fields.required_text("mimeType")? })
        }
        "audio" => {
            Ok(ContentKind::Audio { data: fields.required_text("data")?, mime_type: fields.required_text("mimeType")? })
        }
        "resource" => {
            let inner = fields.object("resource")?.ok_or("has no `resource`")?;
            let inner = Fields::of(&inner)?;
            let body = match (inner.text("text")?, inner.text("blob")?) {
                (Some(text), _) => ResourceBody::Text(text),
                (None, Some(blob)) => ResourceBody::Blob(blob),
                (None, None) => return Err("carries a resource with neither `text` nor `blob`".into()),
            };
            Ok(ContentKind::Resource { uri: inner.required_text("uri")?, mime_type: inner.text("mimeType")?, body })
        }
        "resource_link" => Ok(ContentKind::Link {
            uri: fields.required_text("uri")?,
            name: fields.text("name")?,
            mime_type: fields.text("mimeType")?,
        }),
        other => Err(format!("is of the unknown type `{other}`")),
    }
}

fn size(base64: &str) -> String {
    let padding = base64.len() - base64.trim_end_matches('=').len();
    let bytes = (base64.len() / 4 * 3).saturating_sub(padding);
    let tenths = (bytes * 10 + 512) / 1024;
    match bytes {
        0..1024 => format!("{bytes} bytes"),
        1024..10_240 => format!("{}.{} KiB", tenths / 10, tenths % 10),
        _ => format!("{} KiB", (bytes + 512) / 1024),
    }
}
