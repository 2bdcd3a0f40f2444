//! Serialization of message blocks.
//!
//! Written by hand instead of derived: derived tagged enums buffer into a tree, and raw JSON does not survive that.

use std::sync::Arc;

use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::{Block, BlockKind, ToolReturn};
use crate::{Json, ToolCall, ToolOutput};

/// A block with the fields of every kind.
#[derive(Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct WireBlock {
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
    /// The tool's result as received.
    #[serde(skip_serializing_if = "Option::is_none")]
    output: Option<Json>,
    /// The block as received from its provider.
    #[serde(skip_serializing_if = "Option::is_none")]
    raw: Option<Json>,
}

impl Serialize for Block {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let (kind, block) = match &self.kind {
            BlockKind::Text(text) => ("text", WireBlock { text: Some(text.clone()), ..WireBlock::default() }),
            BlockKind::ToolUse(ToolCall { id, name, arguments }) => {
                let id = Some(id.clone());
                let name = Some(name.clone());
                let input = Some(arguments.clone());
                ("tool_use", WireBlock { id, name, input, ..WireBlock::default() })
            }
            BlockKind::ToolResult(ToolReturn { call_id, output }) => {
                let tool_use_id = Some(call_id.clone());
                let output = Some(output.raw.clone());
                ("tool_result", WireBlock { tool_use_id, output, ..WireBlock::default() })
            }
            BlockKind::Thinking { text, signature } => {
                let thinking = Some(text.clone());
                let signature = signature.clone();
                ("thinking", WireBlock { thinking, signature, ..WireBlock::default() })
            }
            BlockKind::RedactedThinking { data } => {
                ("redacted_thinking", WireBlock { data: Some(data.clone()), ..WireBlock::default() })
            }
            BlockKind::Other => ("other", WireBlock::default()),
        };
        WireBlock { r#type: kind.to_owned(), raw: self.raw.clone(), ..block }.serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for Block {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let block = WireBlock::deserialize(deserializer)?;
        let missing = D::Error::missing_field;
        let kind = match block.r#type.as_str() {
            "text" => BlockKind::Text(block.text.ok_or_else(|| missing("text"))?),
            "tool_use" => BlockKind::ToolUse(ToolCall {
                id: block.id.ok_or_else(|| missing("id"))?,
                name: block.name.ok_or_else(|| missing("name"))?,
                arguments: block.input.ok_or_else(|| missing("input"))?,
            }),
            "tool_result" => {
                let output = block.output.ok_or_else(|| missing("output"))?;
                let output = ToolOutput::from_json(&output).map_err(D::Error::custom)?;
                BlockKind::ToolResult(ToolReturn {
                    call_id: block.tool_use_id.ok_or_else(|| missing("tool_use_id"))?,
                    output,
                })
            }
            "thinking" => BlockKind::Thinking {
                text: block.thinking.ok_or_else(|| missing("thinking"))?,
                signature: block.signature,
            },
            "redacted_thinking" => BlockKind::RedactedThinking { data: block.data.ok_or_else(|| missing("data"))? },
            "other" => BlockKind::Other,
            other => return Err(D::Error::custom(format!("unknown block type `{other}`"))),
        };
        Ok(Self { kind, raw: block.raw })
    }
}

#[cfg(test)]
mod tests {
    use crate::{Block, BlockKind, Json, Message, Role, ToolCall, ToolOutput};

    #[test]
    fn every_block_survives_a_round_trip() {
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
        let result = Message::tool_result("1".into(), ToolOutput::error("no \"such\" thing"));
        for message in [message, result] {
            let text = serde_json::to_string(&message).unwrap();
            let read: Message = serde_json::from_str(&text).unwrap();
            assert_eq!(read, message);
            assert_eq!(serde_json::to_string(&read).unwrap(), text);
        }
    }

    #[test]
    fn an_incomplete_block_reports_the_missing_field() {
        let error = |text: &str| serde_json::from_str::<Block>(text).unwrap_err().to_string();
        assert!(error(r#"{"type":"tool_use","id":"1"}"#).contains("missing field `name`"));
        assert!(error(r#"{"type":"hologram"}"#).contains("unknown block type `hologram`"));
    }
}
