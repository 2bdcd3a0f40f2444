//! How blocks are written down.
//!
//! By hand and not as a tagged enum: those are read by way of a tree, in which raw JSON does not survive.

use std::sync::Arc;

use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::{Block, BlockKind, ToolReturn};
use crate::{Json, ToolCall, ToolOutput};

/// A block with every field any kind has.
#[derive(Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct Written {
    r#type: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    id: Option<Arc<str>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    name: Option<Arc<str>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    input: Option<Json>,
    #[serde(skip_serializing_if = "Option::is_none")]
    text: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    thinking: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    signature: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    data: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    tool_use_id: Option<Arc<str>>,
    /// What a tool answered, as it was sent.
    #[serde(skip_serializing_if = "Option::is_none")]
    output: Option<Json>,
    /// The block as its provider wrote it.
    #[serde(skip_serializing_if = "Option::is_none")]
    raw: Option<Json>,
}

impl Serialize for Block {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let (kind, written) = match &self.kind {
            BlockKind::Text(text) => ("text", Written { text: Some(text.clone()), ..Written::default() }),
            BlockKind::ToolUse(ToolCall { id, name, arguments }) => {
                let (id, name, input) = (Some(id.clone()), Some(name.clone()), Some(arguments.clone()));
                ("tool_use", Written { id, name, input, ..Written::default() })
            }
            BlockKind::ToolResult(ToolReturn { call_id, output }) => {
                let (tool_use_id, output) = (Some(call_id.clone()), Some(output.raw.clone()));
                ("tool_result", Written { tool_use_id, output, ..Written::default() })
            }
            BlockKind::Thinking { text, signature } => {
                let (thinking, signature) = (Some(text.clone()), signature.clone());
                ("thinking", Written { thinking, signature, ..Written::default() })
            }
            BlockKind::RedactedThinking { data } => {
                ("redacted_thinking", Written { data: Some(data.clone()), ..Written::default() })
            }
            BlockKind::Other => ("other", Written::default()),
        };
        Written { r#type: kind.to_owned(), raw: self.raw.clone(), ..written }.serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for Block {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let written = Written::deserialize(deserializer)?;
        let missing = D::Error::missing_field;
        let kind = match written.r#type.as_str() {
            "text" => BlockKind::Text(written.text.ok_or_else(|| missing("text"))?),
            "tool_use" => BlockKind::ToolUse(ToolCall {
                id: written.id.ok_or_else(|| missing("id"))?,
                name: written.name.ok_or_else(|| missing("name"))?,
                arguments: written.input.ok_or_else(|| missing("input"))?,
            }),
            "tool_result" => {
                let output = written.output.ok_or_else(|| missing("output"))?;
                let output = ToolOutput::from_json(&output).map_err(D::Error::custom)?;
                BlockKind::ToolResult(ToolReturn {
                    call_id: written.tool_use_id.ok_or_else(|| missing("tool_use_id"))?,
                    output,
                })
            }
            "thinking" => BlockKind::Thinking {
                text: written.thinking.ok_or_else(|| missing("thinking"))?,
                signature: written.signature,
            },
            "redacted_thinking" => BlockKind::RedactedThinking { data: written.data.ok_or_else(|| missing("data"))? },
            "other" => BlockKind::Other,
            other => return Err(D::Error::custom(format!("there is no block of the type `{other}`"))),
        };
        Ok(Self { kind, raw: written.raw })
    }
}

#[cfg(test)]
mod tests {
    use crate::{Block, BlockKind, Json, Message, Role, ToolCall, ToolOutput};

    #[test]
    fn every_block_is_read_as_it_was_written() {
        let raw = Json::parse(r#"{"type":"thinking","thinking":"hm","signature":"c2ln", "new" : 1.50}"#).unwrap();
        let call =
            ToolCall { id: "1".into(), name: "t".into(), arguments: Json::parse(r#"{"b": 1, "a": 2.0}"#).unwrap() };
        let message = Message::new(
            Role::Assistant,
            vec![
                Block {
                    kind: BlockKind::Thinking { text: "hm".into(), signature: Some("c2ln".into()) },
                    raw: Some(raw),
                },
                BlockKind::RedactedThinking { data: "eA==".into() }.into(),
                Block::text("hello"),
                BlockKind::ToolUse(call).into(),
                Block { kind: BlockKind::Other, raw: Some(Json::parse(r#"{"type":"hologram"}"#).unwrap()) },
            ],
        );
        let result = Message::returned("1".into(), ToolOutput::error("no \"such\" thing"));
        for message in [message, result] {
            let written = serde_json::to_string(&message).unwrap();
            let read: Message = serde_json::from_str(&written).unwrap();
            assert_eq!(read, message);
            assert_eq!(serde_json::to_string(&read).unwrap(), written);
        }
    }

    #[test]
    fn a_block_that_lacks_something_says_what() {
        let said = |text: &str| serde_json::from_str::<Block>(text).unwrap_err().to_string();
        assert!(said(r#"{"type":"tool_use","id":"1"}"#).contains("missing field `name`"));
        assert!(said(r#"{"type":"hologram"}"#).contains("no block of the type `hologram`"));
    }
}
