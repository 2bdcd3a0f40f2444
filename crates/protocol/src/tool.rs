//! A tool as its server describes it: typed where Wharf uses it, raw where Wharf passes it on.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::listed::nonempty;
use crate::{Fields, Item, Json, Listed, cut};

/// One tool of one server.
#[derive(Clone, Debug)]
pub struct Tool {
    /// The tool's name on its server.
    pub name: Arc<str>,
    /// Display name for users.
    pub title: Option<Arc<str>>,
    /// Description for the model. A host may replace it.
    pub description: Option<Arc<str>>,
    /// JSON Schema of the arguments, as received.
    pub input_schema: Json,
    /// JSON Schema of structured results, as received.
    pub output_schema: Option<Json>,
    /// All annotations as received, including vendors' own.
    pub annotations: Option<Json>,
    /// The annotations that Wharf acts on.
    pub hints: Hints,
    /// Original length of the description in characters, if it was shortened.
    pub cut_from: Option<usize>,
    /// Optional fields that had a wrong type and were ignored.
    pub notes: Vec<String>,
    /// The whole tool as received, except for a shortened description.
    pub raw: Json,
}

/// A tool's behavior according to its annotations. `None` means that the tool does not specify it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Hints {
    /// Whether the tool changes nothing.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub read_only: Option<bool>,
    /// Whether the tool may destroy data.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub destructive: Option<bool>,
    /// Whether a repeated call has no additional effect.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub idempotent: Option<bool>,
    /// Whether the tool interacts with external systems.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub open_world: Option<bool>,
}

impl Hints {
    /// Returns whether a call may be repeated if its outcome is unknown.
    pub fn safe_to_repeat(self) -> bool {
        self.read_only == Some(true) || self.idempotent == Some(true)
    }

    /// Returns the stricter of both for each hint. A hint that is absent once is not relied on.
    #[must_use]
    pub fn strictest(self, other: Self) -> Self {
        let strictest = |one: Option<bool>, other: Option<bool>, strict: bool| match (one, other) {
            _ if one == Some(strict) || other == Some(strict) => Some(strict),
            (Some(one), Some(_)) => Some(one),
            _ => None,
        };
        Self {
            read_only: strictest(self.read_only, other.read_only, false),
            destructive: strictest(self.destructive, other.destructive, true),
            idempotent: strictest(self.idempotent, other.idempotent, false),
            open_world: strictest(self.open_world, other.open_world, true),
        }
    }

    fn read(annotations: &Json, notes: &mut Vec<String>) -> Self {
        let fields = match Fields::of(annotations) {
            Ok(fields) => fields,
            Err(reason) => {
                notes.push(format!("`annotations` {reason}"));
                return Self::default();
            }
        };
        let mut hint = |key| fields.flag(key).unwrap_or_else(|reason| noted(notes, reason));
        Self {
            read_only: hint("readOnlyHint"),
            destructive: hint("destructiveHint"),
            idempotent: hint("idempotentHint"),
            open_world: hint("openWorldHint"),
        }
    }
}

impl Tool {
    /// Returns the description, or a default sentence if the server sent none.
    pub fn description_or_default(&self) -> String {
        match self.description.as_deref() {
            Some(text) if !text.trim().is_empty() => text.to_owned(),
            _ => format!("Tool which performs {}", self.name),
        }
    }

    /// Returns the tool with its description cut to `limit` characters, or `None` if it is short enough.
    fn with_shorter_description(&self, limit: usize) -> Option<Self> {
        let mut shorter = Self::from_json(&with_shorter_description(&self.raw, limit)?).ok()?;
        let length = self.description.as_ref().map_or(0, |text| text.chars().count());
        shorter.cut_from = Some(length);
        shorter.notes.push(format!("`description` has {length} characters and was cut to {limit}"));
        Some(shorter)
    }
}

impl Listed<Tool> {
    /// Shortens descriptions of quarantined tools to `limit` characters.
    pub fn cut_descriptions(&mut self, limit: usize) {
        for tool in &mut self.quarantined {
            if let Some(shorter) = with_shorter_description(&tool.raw, limit) {
                tool.raw = shorter;
            }
        }
    }
}

fn with_shorter_description(raw: &Json, limit: usize) -> Option<Json> {
    raw.with_values(|name, value| {
        // A text of at most `limit` bytes has at most `limit` characters.
        if name != "description" || value.len() <= limit {
            return None;
        }
        let text: String = serde_json::from_str(value).ok()?;
        Json::of(&cut(&text, limit)?).ok()
    })
}

impl Item for Tool {
    fn from_json(json: &Json) -> Result<Self, String> {
        let raw = json.detached();
        let fields = Fields::of(&raw)?;
        let name = nonempty(&fields, "name")?.into();
        let input_schema = fields.json("inputSchema").ok_or("has no `inputSchema`")?;
        if !input_schema.is_object() && !is_flag(&input_schema) {
            return Err(format!("`inputSchema` is not a schema: {}", brief(input_schema.as_str())));
        }

        let mut notes = Vec::new();
        let mut text = |key| fields.text(key).unwrap_or_else(|reason| noted(&mut notes, reason)).map(Arc::from);
        let title = text("title");
        let description = text("description");
        let output_schema = fields.object("outputSchema").unwrap_or_else(|reason| noted(&mut notes, reason));
        let annotations = fields.json("annotations");
        let hints = annotations.as_ref().map_or_else(Hints::default, |json| Hints::read(json, &mut notes));
        drop(fields);
        let cut_from = None;
        Ok(Self { name, title, description, input_schema, output_schema, annotations, hints, cut_from, notes, raw })
    }

    fn key(&self) -> &str {
        &self.name
    }

    /// A tool that is listed twice is as dangerous as the worse of the two.
    fn restrict(&mut self, other: &Self) {
        self.hints = self.hints.strictest(other.hints);
    }

    fn shortened(self, limit: usize) -> Self {
        self.with_shorter_description(limit).unwrap_or(self)
    }
}

fn noted<T>(notes: &mut Vec<String>, reason: String) -> Option<T> {
    notes.push(reason);
    None
}

fn is_flag(json: &Json) -> bool {
    matches!(json.as_str(), "true" | "false")
}

fn brief(text: &str) -> &str {
    let end = text.char_indices().nth(40).map_or(text.len(), |(at, _)| at);
    &text[..end]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Listed;

    fn list(tools: &[&str]) -> Listed<Tool> {
        let page: Vec<Json> = tools.iter().map(|text| Json::parse(*text).unwrap()).collect();
        let mut listed = Listed::default();
        listed.add_page(&page);
        listed
    }

    #[test]
    fn a_tool_that_is_listed_twice_has_the_strictest_hints_of_both() {
        let tool = |annotations: &str| {
            let text =
                format!(r#"{{"name": "wipe", "inputSchema": {{"type": "object"}}, "annotations": {annotations}}}"#);
            Json::parse(text).unwrap()
        };
        let harmless = tool(r#"{"readOnlyHint": true, "destructiveHint": false, "idempotentHint": true}"#);
        let harmful = tool(r#"{"readOnlyHint": false, "destructiveHint": true}"#);
        for (first, second) in [(&harmless, &harmful), (&harmful, &harmless)] {
            let mut listed = Listed::<Tool>::default();
            listed.add_page(std::slice::from_ref(first));
            listed.add_page(std::slice::from_ref(second));
            assert_eq!((listed.items.len(), listed.quarantined.len()), (1, 1));
            let hints = listed.items[0].hints;
            assert_eq!((hints.read_only, hints.destructive), (Some(false), Some(true)));
            assert!(!hints.safe_to_repeat());
        }
    }

    #[test]
    fn a_malformed_tool_is_quarantined_and_the_others_are_usable() {
        let listed = list(&[
            r#"{"name":"good","inputSchema":{"type":"object"}}"#,
            r#"{"name":"no_schema"}"#,
            r#"{"name":"null_schema","inputSchema":null}"#,
            r#"{"name":"text_schema","inputSchema":"object"}"#,
            r#"{"inputSchema":{}}"#,
            r#"{"name":7,"inputSchema":{}}"#,
            r#"{"name":"","inputSchema":{}}"#,
            r#""tool""#,
            r#"{"name":"good","inputSchema":{}}"#,
            r#"{"name":"odd","inputSchema":{},"outputSchema":true,"annotations":{"readOnlyHint":"yes"},"title":5}"#,
        ]);
        let names: Vec<&str> = listed.items.iter().map(|tool| &*tool.name).collect();
        assert_eq!(names, ["good", "odd"]);
        assert_eq!(listed.items[1].notes.len(), 3);
        let reasons: Vec<String> = listed
            .quarantined
            .iter()
            .map(|q| format!("{} {} {}", q.position, q.name.as_deref().unwrap_or("?"), q.reason))
            .collect();
        insta::assert_snapshot!(reasons.join("\n"), @r#"
        1 no_schema has no `inputSchema`
        2 null_schema has no `inputSchema`
        3 text_schema `inputSchema` is not a schema: "object"
        4 ? has no `name`
        5 ? `name` is a number, not a string
        6  has an empty `name`
        7 ? is a string, not an object
        8 good is listed a second time
        "#);
    }

    #[test]
    fn schemas_and_annotations_stay_byte_equal() {
        let text = r#"{"name":"t","x-vendor":[1, 2.0],"inputSchema":{ "type":"object","b":1,"a":1e3 },
            "outputSchema":{"z": null},"annotations":{"vendorHint":"x","readOnlyHint":true},"execution":{}}"#;
        let tool = Tool::from_json(&Json::parse(text).unwrap()).unwrap();
        assert_eq!(tool.raw.as_str(), text);
        assert_eq!(tool.input_schema.as_str(), r#"{ "type":"object","b":1,"a":1e3 }"#);
        assert_eq!(tool.output_schema.unwrap().as_str(), r#"{"z": null}"#);
        assert_eq!(tool.annotations.unwrap().as_str(), r#"{"vendorHint":"x","readOnlyHint":true}"#);
        assert!(tool.hints.safe_to_repeat());
    }

    #[test]
    fn a_long_description_is_cut_everywhere_and_schemas_stay_byte_equal() {
        let long = "é".repeat(1_000);
        let schema = r#"{ "type":"object","properties":{"x":{"description":"kept as it is"}} }"#;
        let tool =
            |name: &str| format!(r#"{{"description":"{long}","name":"{name}","inputSchema":{schema}, "x": 1.0}}"#);
        let tools = [&tool("t"), &tool("t"), r#"{"name":"short","description":"12","inputSchema":{}}"#];
        let page = tools.map(|text| Json::parse(text).unwrap());
        let mut listed = Listed::default();
        listed.add_page_shortened(&page, 10);
        listed.cut_descriptions(10);
        let [cut, short] = &listed.items[..] else { panic!("{listed:?}") };
        assert_eq!(cut.description.as_deref(), Some("ééé… [cut]"));
        assert_eq!(cut.input_schema.as_str(), schema);
        let raw =
            |name: &str| format!(r#"{{"description":"ééé… [cut]","name":"{name}","inputSchema":{schema}, "x": 1.0}}"#);
        assert_eq!((cut.raw.as_str(), listed.quarantined[0].raw.as_str()), (&*raw("t"), &*raw("t")));
        assert_eq!((cut.cut_from, short.cut_from), (Some(1_000), None));
        assert_eq!(cut.notes, ["`description` has 1000 characters and was cut to 10"]);
        assert!(short.notes.is_empty() && short.description.as_deref() == Some("12"));
    }

    #[test]
    fn a_tool_without_a_description_has_a_default_one() {
        let tool = Tool::from_json(&Json::parse(r#"{"name":"add","inputSchema":{}}"#).unwrap()).unwrap();
        assert_eq!(tool.description, None);
        assert_eq!(tool.description_or_default(), "Tool which performs add");
    }
}
