//! What a tool answered, whole: every block, the structured content, the error flag, and the text as it came.

use std::fmt::Write as _;

use crate::fields::MOST_ITEMS;
use crate::scan::{entries, items};
use crate::{Content, ContentKind, Fields, Json, Quarantined};

/// The result of a tool call. A tool that failed is a result too, with [`ToolOutput::is_error`] set.
#[derive(Clone, Debug)]
pub struct ToolOutput {
    /// The content blocks, in order, none dropped.
    pub content: Vec<Content>,
    /// The structured content; any JSON value but `null`.
    pub structured: Option<Json>,
    /// Whether the tool says that it failed.
    pub is_error: bool,
    /// The result's `_meta`.
    pub meta: Option<Json>,
    /// The whole result as it was sent.
    pub raw: Json,
}

impl ToolOutput {
    /// Reads the result of `tools/call`; an error says why the whole of it makes no sense.
    pub fn from_json(raw: &Json) -> Result<Self, String> {
        let view = View::read(raw)?;
        if view.content.is_none() && view.structured.is_none() {
            return Err("has neither `content` nor `structuredContent`".to_owned());
        }
        let blocks = view.content.unwrap_or_default().into_iter();
        let content = blocks.map(|block| Content::from_json(raw.part(block)));
        Ok(Self {
            content: content.collect(),
            structured: view.structured.map(|structured| raw.part(structured)),
            is_error: view.is_error,
            meta: view.meta.map(|meta| raw.part(meta)),
            raw: raw.clone(),
        })
    }

    /// A result made here, of one text.
    pub fn said(text: impl Into<String>) -> Self {
        let content = vec![Content::text(text)];
        Self { content, structured: None, is_error: false, meta: None, raw: Json::null() }.rebuilt()
    }

    /// A result made here, of one text that says what went wrong.
    pub fn error(text: impl Into<String>) -> Self {
        Self { is_error: true, ..Self::said(text) }.rebuilt()
    }

    /// The same with [`ToolOutput::raw`] written anew from its parts, for whoever has changed one of them.
    #[must_use]
    pub fn rebuilt(mut self) -> Self {
        let blocks: Vec<&str> = self.content.iter().map(|block| block.raw.as_str()).collect();
        let mut raw = format!("{{\"content\":[{}]", blocks.join(","));
        let optional = [("structuredContent", &self.structured), ("_meta", &self.meta)];
        for (key, value) in optional.into_iter().filter_map(|(key, value)| Some((key, value.as_ref()?))) {
            let _ = write!(raw, ",\"{key}\":{value}");
        }
        raw.push_str(if self.is_error { ",\"isError\":true}" } else { "}" });
        self.raw = Json::trusted(raw);
        self
    }

    /// All text of the result, other blocks described in a line each.
    pub fn text(&self) -> String {
        let lines: Vec<String> = self
            .content
            .iter()
            .map(|block| match &block.kind {
                ContentKind::Resource { body: crate::ResourceBody::Text(text), .. } => text.clone(),
                _ => block.describe(),
            })
            .collect();
        match (&self.structured, lines.is_empty()) {
            (Some(structured), true) => structured.to_string(),
            _ => lines.join("\n"),
        }
    }

    /// The blocks that could not be read.
    pub fn quarantined(&self) -> Vec<Quarantined> {
        let unreadable = |(position, block): (usize, &Content)| match &block.kind {
            ContentKind::Unreadable { reason } => Some(Quarantined::new(position, reason.clone(), &block.raw)),
            _ => None,
        };
        self.content.iter().enumerate().filter_map(unreadable).collect()
    }
}

/// A result's fields, the last one counting where a key stands twice.
#[derive(Default)]
struct View<'a> {
    content: Option<Vec<&'a str>>,
    structured: Option<&'a str>,
    is_error: bool,
    meta: Option<&'a str>,
}

impl<'a> View<'a> {
    fn read(raw: &'a Json) -> Result<Self, String> {
        if !raw.is_object() {
            return Err(Fields::of(raw).err().unwrap_or_default());
        }
        let mut view = Self::default();
        for (key, value) in entries(raw.as_str()) {
            let there = (value != "null").then_some(value);
            match key.as_ref() {
                "content" => match there {
                    Some(array) if array.starts_with('[') => view.content = Some(some_items(array)?),
                    // What it is instead is told with the field's name.
                    Some(_) => return Err(Fields::of(raw)?.items("content").err().unwrap_or_default()),
                    None => view.content = None,
                },
                "structuredContent" => view.structured = there,
                "isError" => match there {
                    Some("true") => view.is_error = true,
                    Some("false") | None => view.is_error = false,
                    Some(_) => return Err(Fields::of(raw)?.flag("isError").err().unwrap_or_default()),
                },
                "_meta" => view.meta = there,
                _ => {}
            }
        }
        Ok(view)
    }
}

/// The items of an array, unless there are too many of them.
fn some_items(array: &str) -> Result<Vec<&str>, String> {
    let found: Vec<&str> = items(array).take(MOST_ITEMS + 1).collect();
    if found.len() > MOST_ITEMS {
        return Err(format!("`content` cannot be read: it has more than {MOST_ITEMS} items"));
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn output(text: &str) -> ToolOutput {
        ToolOutput::from_json(&Json::parse(text).unwrap()).unwrap()
    }

    #[test]
    fn every_kind_of_content_survives_and_an_odd_block_does_not_spoil_the_rest() {
        let output = output(
            r#"{"content":[
                {"type":"text","text":"a\nb","annotations":{"audience":["model"]}},
                {"type":"image","data":"aGk=","mimeType":"image/png"},
                {"type":"audio","data":"aGk=","mimeType":"audio/wav"},
                {"type":"resource","resource":{"uri":"file:///x","text":"inside","mimeType":"text/plain"}},
                {"type":"resource","resource":{"uri":"file:///y","blob":"aGk="}},
                {"type":"resource_link","uri":"https://example.com/z","name":"z"},
                {"type":"hologram","x":1},
                {"type":"text","text":7},
                "loose"
            ],"isError":true,"_meta":{"k":1},"structuredContent":[1]}"#,
        );
        insta::assert_snapshot!(output.text(), @r"
        a
        b
        [image, image/png, 3 bytes]
        [audio, audio/wav, 3 bytes]
        inside
        [resource file:///y, 3 bytes]
        [link to https://example.com/z]
        [a block that is of the unknown type `hologram`]
        [a block that `text` is a number, not a string]
        [a block that is a string, not an object]
        ");
        assert!(output.is_error);
        assert_eq!(output.quarantined().len(), 3);
        assert_eq!(output.content[6].raw.as_str(), r#"{"type":"hologram","x":1}"#);
        assert_eq!(output.structured.unwrap().as_str(), "[1]");
        assert_eq!(output.meta.unwrap().as_str(), r#"{"k":1}"#);
    }

    #[test]
    fn a_result_with_only_structured_content_reads_as_that() {
        assert_eq!(output(r#"{"structuredContent":{"n":0}}"#).text(), r#"{"n":0}"#);
        assert_eq!(output(r#"{"content":[]}"#).text(), "");
    }

    #[test]
    fn a_result_made_here_reads_like_one_that_was_sent() {
        let error = ToolOutput::error("no \"such\" file");
        assert_eq!(error.raw.as_str(), r#"{"content":[{"type":"text","text":"no \"such\" file"}],"isError":true}"#);
        let sent = output(r#"{"content":[{"type":"text","text":"a"}],"structuredContent":{"n":1},"_meta":{"k":2}}"#);
        let again = output(ToolOutput { is_error: true, ..sent.clone() }.rebuilt().raw.as_str());
        assert!(again.is_error && again.structured == sent.structured && again.meta == sent.meta);
        assert_eq!(again.text(), "a");
    }

    #[test]
    fn a_result_with_a_key_twice_is_read_with_the_last_one() {
        assert!(output(r#"{"content":[],"isError":false,"isError":true}"#).is_error);
    }

    #[test]
    fn a_result_that_is_none_says_why() {
        let refusal = |text: &str| ToolOutput::from_json(&Json::parse(text).unwrap()).unwrap_err();
        assert_eq!(refusal("{}"), "has neither `content` nor `structuredContent`");
        assert_eq!(refusal(r#"{"content":null}"#), "has neither `content` nor `structuredContent`");
        assert_eq!(refusal(r#"{"content":"text"}"#), "`content` is a string, not an array");
        assert_eq!(refusal("3"), "is a number, not an object");
        assert_eq!(refusal(r#"{"content":[],"isError":"no"}"#), "`isError` is a string, not true or false");
    }
}
