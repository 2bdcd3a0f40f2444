//! The result of a tool use in the shape agent frameworks exchange: status, the id of the use, and plain content.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use serde::{Deserialize, Serialize};

use crate::{Content, ContentKind, Json, ResourceBody, ToolOutput};

/// What came of one tool use. Failures of any kind are results too, with [`ResultStatus::Error`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ToolResult {
    /// Whether the tool did what was asked.
    pub status: ResultStatus,
    /// The id of the tool use this answers.
    pub tool_use_id: String,
    /// Text and images, in the tool's order.
    pub content: Vec<ResultContent>,
    /// The structured content as the tool sent it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub structured_content: Option<Json>,
    /// The result's `_meta` as the server sent it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub metadata: Option<Json>,
}

/// Success or error.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ResultStatus {
    /// The tool did what was asked.
    Success,
    /// The tool failed, or could not be called.
    Error,
}

/// A piece of content.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ResultContent {
    /// Text; also the description of what a framework has no place for.
    Text(String),
    /// An image, decoded.
    Image {
        /// Its format.
        format: ImageFormat,
        /// Where its bytes are.
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

/// The image formats that agent frameworks know.
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
    /// The format a MIME type names, parameters and case aside.
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
    /// Converts what a tool answered. Data that is not base64 makes the whole result an error that says so.
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

    /// A result for a call that failed before a tool could answer.
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
    BASE64.decode(data).map_err(|error| format!("the tool sent data that is not base64: {error}"))
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
    fn text_and_images_have_the_shape_frameworks_expect() {
        let result = result(
            r#"{"type":"text","text":"hello"},{"type":"image","data":"aGk=","mimeType":"image/jpg"},
               {"type":"resource","resource":{"uri":"x:","blob":"aGk=","mimeType":"text/csv"}},
               {"type":"resource","resource":{"uri":"x:","blob":"aGk=","mimeType":"image/webp"}},
               {"type":"audio","data":"aGk=","mimeType":"audio/wav"},
               {"type":"image","data":"aGk=","mimeType":"image/svg+xml"}"#,
        );
        insta::assert_snapshot!(serde_json::to_string(&result).unwrap(), @r#"{"status":"success","toolUseId":"use-1","content":[{"text":"hello"},{"image":{"format":"jpeg","source":{"bytes":"aGk="}}},{"text":"hi"},{"image":{"format":"webp","source":{"bytes":"aGk="}}},{"text":"[audio, audio/wav, 3 bytes]"},{"text":"[image, image/svg+xml, 3 bytes]"}]}"#);
        let ResultContent::Image { source, .. } = &result.content[1] else { panic!("not an image") };
        assert_eq!(source.bytes, b"hi");
    }

    #[test]
    fn each_mime_type_has_its_format() {
        let format = |mime| ImageFormat::from_mime(mime);
        assert_eq!(format("image/jpeg"), Some(ImageFormat::Jpeg));
        assert_eq!(format("IMAGE/PNG; q=1"), Some(ImageFormat::Png));
        assert_eq!(format("image/gif"), Some(ImageFormat::Gif));
        assert_eq!(format("image/tiff"), None);
    }

    #[test]
    fn bad_base64_is_an_error_result_that_says_so() {
        let result = result(r#"{"type":"image","data":"!!","mimeType":"image/png"}"#);
        assert_eq!(result.status, ResultStatus::Error);
        let ResultContent::Text(text) = &result.content[0] else { panic!("not text") };
        assert!(text.starts_with("the tool sent data that is not base64"), "{text}");
    }

    #[test]
    fn a_tool_that_says_it_failed_is_an_error_with_its_own_words() {
        let output = ToolOutput::from_json(
            &Json::parse(r#"{"content":[{"type":"text","text":"no such file"}],"isError":true}"#).unwrap(),
        );
        let result = ToolResult::from_output("7", &output.unwrap());
        assert_eq!(result.status, ResultStatus::Error);
        assert_eq!(result.content, [ResultContent::Text("no such file".into())]);
    }
}
