//! Tool results of the Messages API: text and images; other content is described in text.

use std::borrow::Cow;

use serde::Serialize;
use wharf_protocol::{Content, ContentKind, ResourceBody, ToolOutput};

use super::super::SUPPORTED_IMAGE_TYPES;

#[derive(Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub(super) enum ResultPart<'a> {
    Text { text: Cow<'a, str> },
    Image { source: Source<'a> },
}

#[derive(Serialize)]
pub(super) struct Source<'a> {
    r#type: &'static str,
    media_type: &'a str,
    data: &'a str,
}

pub(super) fn result_parts(output: &ToolOutput) -> Vec<ResultPart<'_>> {
    let parts: Vec<ResultPart<'_>> = output.content.iter().filter_map(part).collect();
    match (&output.structured, parts.is_empty()) {
        (Some(structured), true) => vec![ResultPart::Text { text: structured.as_str().into() }],
        _ => parts,
    }
}

fn part(content: &Content) -> Option<ResultPart<'_>> {
    let image = |media_type, data| ResultPart::Image { source: Source { r#type: "base64", media_type, data } };
    let text = match &content.kind {
        ContentKind::Image { data, mime_type } if SUPPORTED_IMAGE_TYPES.contains(&mime_type.as_str()) => {
            return Some(image(mime_type, data));
        }
        ContentKind::Resource { mime_type: Some(mime_type), body: ResourceBody::Blob(data), .. }
            if SUPPORTED_IMAGE_TYPES.contains(&mime_type.as_str()) =>
        {
            return Some(image(mime_type, data));
        }
        ContentKind::Text(text) | ContentKind::Resource { body: ResourceBody::Text(text), .. } => Cow::from(text),
        _ => Cow::from(content.describe()),
    };
    (!text.trim().is_empty()).then_some(ResultPart::Text { text })
}
