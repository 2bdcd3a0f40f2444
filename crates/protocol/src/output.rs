//! The result of a tool call: every block, the structured content, the error flag, and the text as received.

use std::fmt::Write as _;

use crate::fields::MAX_ITEMS;
use crate::scan::{entries, items};
use crate::{Content, ContentKind, Fields, Json, Quarantined};

/// The result of a tool call. A tool that failed has a result too, with [`ToolOutput::is_error`] set.
#[derive(Clone, Debug)]
pub struct ToolOutput {
    /// The content blocks, in order, none dropped.
    pub content: Vec<Content>,
    /// The structured content: any JSON value except `null`.
    pub structured: Option<Json>,
    /// Whether the tool reports a failure.
    pub is_error: bool,
    /// The result's `_meta`.
    pub meta: Option<Json>,
    /// The whole result as received.
    pub raw: Json,
}

impl ToolOutput {
    /// Parses the result of `tools/call`. The error says why the result is invalid as a whole.
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

    /// Creates a result with one text block.
    pub fn said(text: impl Into<String>) -> Self {
        let content = vec![Content::text(text)];
        Self { content, structured: None, is_error: false, meta: None, raw: Json::null() }.rebuilt()
    }

    /// Creates an error result with one text block.
    pub fn error(text: impl Into<String>) -> Self {
        Self { is_error: true, ..Self::said(text) }.rebuilt()
    }

    /// Rebuilds [`ToolOutput::raw`] from the other fields. Call it after changing one of them.
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

    /// Returns all text of the result. Other blocks are described in one line each.
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

    /// Returns the blocks that could not be parsed.
    pub fn quarantined(&self) -> Vec<Quarantined> {
        let unreadable = |(position, block): (usize, &Content)| match &block.kind {
            ContentKind::Unreadable { reason } => Some(Quarantined::new(position, reason.clone(), &block.raw)),
            _ => None,
        };
        self.content.iter().enumerate().filter_map(unreadable).collect()
    }
}

/// The fields of a result. The last one counts if a key occurs twice.
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
            let present = (value != "null").then_some(value);
            match key.as_ref() {
                "content" => match present {
                    Some(array) if array.starts_with('[') => view.content = Some(limited_items(array)?),
                    // `Fields` reports the actual type together with the field's name.
                    Some(_) => return Err(Fields::of(raw)?.items("content").err().unwrap_or_default()),
                    None => view.content = None,
                },
                "structuredContent" => view.structured = present,
                "isError" => match present {
                    Some("true") => view.is_error = true,
                    Some("false") | None => view.is_error = false,
                    Some(_) => return Err(Fields::of(raw)?.flag("isError").err().unwrap_or_default()),
                },
                "_meta" => view.meta = present,
                _ => {}
            }
        }
        Ok(view)
    }
}

/// Returns the items of an array, or an error if it has more than [`MAX_ITEMS`].
fn limited_items(array: &str) -> Result<Vec<&str>, String> {
    let found: Vec<&str> = items(array).take(MAX_ITEMS + 1).collect();
    if found.len() > MAX_ITEMS {
        return Err(format!("`content` is invalid: it has more than {MAX_ITEMS} items"));
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
    fn every_kind_of_content_survives_and_a_malformed_block_does_not_affect_the_rest() {
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
        [image, image/png, 2 bytes]
        [audio, audio/wav, 2 bytes]
        inside
        [resource file:///y, 2 bytes]
        [link to https://example.com/z]
        [unreadable block: is of the unknown type `hologram`]
        [unreadable block: `text` is a number, not a string]
        [unreadable block: is a string, not an object]
        ");
        assert!(output.is_error);
        assert_eq!(output.quarantined().len(), 3);
        assert_eq!(output.content[6].raw.as_str(), r#"{"type":"hologram","x":1}"#);
        assert_eq!(output.structured.unwrap().as_str(), "[1]");
        assert_eq!(output.meta.unwrap().as_str(), r#"{"k":1}"#);
    }

    #[test]
    fn a_result_with_only_structured_content_has_it_as_text() {
        assert_eq!(output(r#"{"structuredContent":{"n":0}}"#).text(), r#"{"n":0}"#);
        assert_eq!(output(r#"{"content":[]}"#).text(), "");
    }

    #[test]
    fn a_created_result_has_the_same_form_as_a_received_one() {
        let error = ToolOutput::error("no \"such\" file");
        assert_eq!(error.raw.as_str(), r#"{"content":[{"type":"text","text":"no \"such\" file"}],"isError":true}"#);
        let sent = output(r#"{"content":[{"type":"text","text":"a"}],"structuredContent":{"n":1},"_meta":{"k":2}}"#);
        let again = output(ToolOutput { is_error: true, ..sent.clone() }.rebuilt().raw.as_str());
        assert!(again.is_error && again.structured == sent.structured && again.meta == sent.meta);
        assert_eq!(again.text(), "a");
    }

    #[test]
    fn the_last_of_two_equal_keys_counts() {
        assert!(output(r#"{"content":[],"isError":false,"isError":true}"#).is_error);
    }

    #[test]
    fn an_invalid_result_reports_the_reason() {
        let error = |text: &str| ToolOutput::from_json(&Json::parse(text).unwrap()).unwrap_err();
        assert_eq!(error("{}"), "has neither `content` nor `structuredContent`");
        assert_eq!(error(r#"{"content":null}"#), "has neither `content` nor `structuredContent`");
        assert_eq!(error(r#"{"content":"text"}"#), "`content` is a string, not an array");
        assert_eq!(error("3"), "is a number, not an object");
        assert_eq!(error(r#"{"content":[],"isError":"no"}"#), "`isError` is a string, not true or false");
    }
}
