//! The result of a tool call in the form that agent frameworks exchange: status, id of the call, and plain content.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use serde::{Deserialize, Serialize};

use crate::{Content, ContentKind, Json, ResourceBody, ToolOutput};

/// The result of one tool call. Failures of any kind are results too, with [`ResultStatus::Error`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ToolResult {
    /// Whether the call succeeded.
    pub status: ResultStatus,
    /// The model's id for the call.
    pub tool_use_id: String,
    /// Text and images, in the tool's order.
    pub content: Vec<ResultContent>,
    /// The structured content as received.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub structured_content: Option<Json>,
    /// The result's `_meta` as received.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub metadata: Option<Json>,
}

/// Whether a tool call succeeded.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ResultStatus {
    /// The tool succeeded.
    Success,
    /// The tool failed, or could not be called.
    Error,
}

/// One content block of a result.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ResultContent {
    /// Text, or the description of content that frameworks do not support.
    Text(String),
    /// An image, decoded.
    Image {
        /// The image format.
        format: ImageFormat,
        /// The image data.
        source: ImageSource,
    },
}

/// The bytes of an image, written as base64 in JSON.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ImageSource {
    /// The decoded bytes.
    #[serde(with = "base64_text")]
    pub bytes: Vec<u8>,
}

/// The image formats that agent frameworks support.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ImageFormat {
    /// JPEG.
    Jpeg,
    /// PNG.
    Png,
    /// GIF.
    Gif,
    /// WebP.
    Webp,
}

impl ImageFormat {
    /// Returns the format of a MIME type. Ignores case and parameters.
    pub fn from_mime(mime: &str) -> Option<Self> {
        match essence(mime).as_str() {
            "image/jpeg" | "image/jpg" => Some(Self::Jpeg),
            "image/png" => Some(Self::Png),
            "image/gif" => Some(Self::Gif),
            "image/webp" => Some(Self::Webp),
            _ => None,
        }
    }
}

impl ToolResult {
    /// Converts a tool's output. Invalid base64 data makes the whole result an error.
    pub fn from_output(tool_use_id: impl Into<String>, output: &ToolOutput) -> Self {
        let tool_use_id = tool_use_id.into();
        match output.content.iter().map(convert).collect::<Result<Vec<_>, _>>() {
            Ok(content) => Self {
                status: if output.is_error { ResultStatus::Error } else { ResultStatus::Success },
                tool_use_id,
                content,
                structured_content: output.structured.clone(),
                metadata: output.meta.clone(),
            },
            Err(reason) => Self::error(tool_use_id, reason),
        }
    }

    /// Creates an error result for a call that failed before the tool returned.
    pub fn error(tool_use_id: impl Into<String>, reason: impl Into<String>) -> Self {
        Self {
            status: ResultStatus::Error,
            tool_use_id: tool_use_id.into(),
            content: vec![ResultContent::Text(reason.into())],
            structured_content: None,
            metadata: None,
        }
    }
}

fn convert(block: &Content) -> Result<ResultContent, String> {
    let text = |text: &str| Ok(ResultContent::Text(text.to_owned()));
    match &block.kind {
        ContentKind::Text(body) | ContentKind::Resource { body: ResourceBody::Text(body), .. } => text(body),
        ContentKind::Image { data, mime_type } => match ImageFormat::from_mime(mime_type) {
            Some(format) => image(format, data),
            None => text(&block.describe()),
        },
        ContentKind::Resource { mime_type: Some(mime), body: ResourceBody::Blob(data), .. } => {
            if let Some(format) = ImageFormat::from_mime(mime) {
                return image(format, data);
            }
            if is_textual(mime) {
                return Ok(ResultContent::Text(String::from_utf8_lossy(&decode(data)?).into_owned()));
            }
            text(&block.describe())
        }
        _ => text(&block.describe()),
    }
}

fn image(format: ImageFormat, data: &str) -> Result<ResultContent, String> {
    Ok(ResultContent::Image { format, source: ImageSource { bytes: decode(data)? } })
}

fn decode(data: &str) -> Result<Vec<u8>, String> {
    BASE64.decode(data).map_err(|error| format!("invalid base64 data in the tool's result: {error}"))
}

fn essence(mime: &str) -> String {
    mime.split(';').next().unwrap_or_default().trim().to_ascii_lowercase()
}

fn is_textual(mime: &str) -> bool {
    let mime = essence(mime);
    mime.starts_with("text/")
        || mime.ends_with("+json")
        || mime.ends_with("+xml")
        || matches!(
            mime.as_str(),
            "application/json" | "application/xml" | "application/yaml" | "application/javascript"
        )
}

mod base64_text {
    use super::BASE64;
    use base64::Engine as _;
    use serde::{Deserialize, Deserializer, Serializer, de::Error as _};

    pub(super) fn serialize<S: Serializer>(bytes: &[u8], serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&BASE64.encode(bytes))
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<u8>, D::Error> {
        BASE64.decode(String::deserialize(deserializer)?).map_err(D::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn result(content: &str) -> ToolResult {
        let text = format!(r#"{{"content":[{content}]}}"#);
        ToolResult::from_output("use-1", &ToolOutput::from_json(&Json::parse(text).unwrap()).unwrap())
    }

    #[test]
    fn text_and_images_have_the_form_that_frameworks_expect() {
        let result = result(
            r#"{"type":"text","text":"hello"},{"type":"image","data":"aGk=","mimeType":"image/jpg"},
               {"type":"resource","resource":{"uri":"x:","blob":"aGk=","mimeType":"text/csv"}},
               {"type":"resource","resource":{"uri":"x:","blob":"aGk=","mimeType":"image/webp"}},
               {"type":"audio","data":"aGk=","mimeType":"audio/wav"},
               {"type":"image","data":"aGk=","mimeType":"image/svg+xml"}"#,
        );
        insta::assert_snapshot!(serde_json::to_string(&result).unwrap(), @r#"{"status":"success","toolUseId":"use-1","content":[{"text":"hello"},{"image":{"format":"jpeg","source":{"bytes":"aGk="}}},{"text":"hi"},{"image":{"format":"webp","source":{"bytes":"aGk="}}},{"text":"[audio, audio/wav, 2 bytes]"},{"text":"[image, image/svg+xml, 2 bytes]"}]}"#);
        let ResultContent::Image { source, .. } = &result.content[1] else { panic!("not an image") };
        assert_eq!(source.bytes, b"hi");
    }

    #[test]
    fn mime_types_map_to_image_formats() {
        let format = |mime| ImageFormat::from_mime(mime);
        assert_eq!(format("image/jpeg"), Some(ImageFormat::Jpeg));
        assert_eq!(format("IMAGE/PNG; q=1"), Some(ImageFormat::Png));
        assert_eq!(format("image/gif"), Some(ImageFormat::Gif));
        assert_eq!(format("image/tiff"), None);
    }

    #[test]
    fn invalid_base64_makes_the_result_an_error() {
        let result = result(r#"{"type":"image","data":"!!","mimeType":"image/png"}"#);
        assert_eq!(result.status, ResultStatus::Error);
        let ResultContent::Text(text) = &result.content[0] else { panic!("not text") };
        assert!(text.starts_with("invalid base64 data in the tool's result"), "{text}");
    }

    #[test]
    fn a_failed_tool_keeps_its_own_error_text() {
        let output = ToolOutput::from_json(
            &Json::parse(r#"{"content":[{"type":"text","text":"no such file"}],"isError":true}"#).unwrap(),
        );
        let result = ToolResult::from_output("7", &output.unwrap());
        assert_eq!(result.status, ResultStatus::Error);
        assert_eq!(result.content, [ResultContent::Text("no such file".into())]);
    }
}
