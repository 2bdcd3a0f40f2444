//! The question whether a tool may be called. It shows every argument in a line of its own; what is long is shortened
//! visibly, and shown in full on request.

use std::fmt;

use serde::de::{Deserialize, Deserializer, MapAccess, Visitor};
use serde_json::value::RawValue;
use wharf::Json;
use wharf::fleet::dispatch::{ApprovalAnswer, ApprovalRequest};

use super::input::line;
use super::message::stderr_width;
use super::shortened::{Line, Shortened, ends, shortened};
use super::text::{name, with_visible_blanks};
use super::wrap::filled;

/// Deeper values are shown as JSON text.
const MAX_DEPTH: usize = 32;
/// The width of a terminal that does not report its own.
const DEFAULT_WIDTH: usize = 80;
const INDENT: &str = "  ";

/// Asks the user for approval.
pub(super) async fn approve(request: &ApprovalRequest) -> ApprovalAnswer {
    let arguments = arguments_of(&request.arguments);
    let short = shown(&arguments);
    let mut is_cut = short.is_cut;
    let mut lines = short.lines;
    let call = format!("call {}? ({})", name(&request.name), name(&request.why));
    loop {
        let show = if is_cut { "[s]how everything, " } else { "" };
        let question = format!("{}[y]es, [a]lways, {show}[N]o: ", rows(&call, &lines));
        match line(question).await.as_deref().map(str::trim) {
            Some("y" | "Y" | "yes") => return ApprovalAnswer::Yes,
            Some("a" | "A" | "always") => return ApprovalAnswer::YesAlways,
            Some("s" | "S" | "show") if is_cut => {
                is_cut = false;
                lines = arguments.iter().map(Line::whole).collect();
            }
            _ => return ApprovalAnswer::No("the user declined".to_owned()),
        }
    }
}

/// Returns a call and its arguments as rows of the terminal. No argument begins in the first column.
fn rows(call: &str, arguments: &[String]) -> String {
    let width = stderr_width().unwrap_or(DEFAULT_WIDTH);
    let arguments = arguments.iter().flat_map(|line| filled(&with_visible_blanks(line), INDENT, width));
    let rows = filled(call, "", width).into_iter().chain(arguments);
    rows.map(|row| row + "\n").collect()
}

/// One argument: a value that is neither an object nor a list, or an empty one.
struct Argument {
    /// Where it is, for example `files[0].path`.
    path: String,
    value: Leaf,
}

enum Leaf {
    /// A string, decoded: escapes must not hide what it says.
    Text(String),
    /// Any other value, as JSON text.
    Other(String),
}

fn shown(arguments: &[Argument]) -> Shortened {
    if arguments.is_empty() {
        return Shortened { lines: vec!["without arguments".to_owned()], is_cut: false };
    }
    shortened(arguments)
}

impl Line for Argument {
    fn whole(&self) -> String {
        format!("{}: {}", self.path, self.value.whole())
    }

    fn short(&self) -> (String, bool) {
        let path = ends(&self.path, str::to_owned);
        let value = match &self.value {
            Leaf::Text(text) => ends(text, quoted),
            Leaf::Other(text) => ends(text, name),
        };
        let is_cut = path.is_some() || value.is_some();
        let path = path.unwrap_or_else(|| self.path.clone());
        (format!("{path}: {}", value.unwrap_or_else(|| self.value.whole())), is_cut)
    }
}

impl Leaf {
    fn whole(&self) -> String {
        match self {
            Self::Text(text) => quoted(text),
            Self::Other(text) => name(text),
        }
    }
}

/// Returns a text in quotes and in one line.
fn quoted(text: &str) -> String {
    name(&serde_json::Value::from(text).to_string())
}

/// Returns all arguments, in the order in which they were written.
fn arguments_of(arguments: &Json) -> Vec<Argument> {
    let mut found = Vec::new();
    collect(arguments.as_str(), "", 0, &mut found);
    found
}

fn collect(json: &str, path: &str, depth: usize, found: &mut Vec<Argument>) {
    let is_root = depth == 0;
    if depth < MAX_DEPTH {
        if let Ok(Fields(fields)) = serde_json::from_str(json)
            && (is_root || !fields.is_empty())
        {
            for (key, value) in fields {
                let key = shown_key(&key);
                let path = if is_root { key } else { format!("{path}.{key}") };
                collect(value.get(), &path, depth + 1, found);
            }
            return;
        }
        if let Ok(items) = serde_json::from_str::<Vec<Box<RawValue>>>(json)
            && !items.is_empty()
        {
            for (index, value) in items.iter().enumerate() {
                collect(value.get(), &format!("{path}[{index}]"), depth + 1, found);
            }
            return;
        }
    }
    let value = serde_json::from_str(json).map_or_else(|_| Leaf::Other(json.to_owned()), Leaf::Text);
    let path = if path.is_empty() { "(all)".to_owned() } else { path.to_owned() };
    found.push(Argument { path, value });
}

/// Returns a key as it stands in a path; one that could be mistaken for a path or a value is quoted.
fn shown_key(key: &str) -> String {
    let is_plain = !key.is_empty() && key.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '_' | '-'));
    if is_plain { key.to_owned() } else { quoted(key) }
}

/// The fields of an object, in order, with repeated ones.
struct Fields(Vec<(String, Box<RawValue>)>);

impl<'de> Deserialize<'de> for Fields {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct FieldsVisitor;

        impl<'de> Visitor<'de> for FieldsVisitor {
            type Value = Fields;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Fields, A::Error> {
                let mut fields = Vec::new();
                while let Some(field) = map.next_entry()? {
                    fields.push(field);
                }
                Ok(Fields(fields))
            }
        }

        deserializer.deserialize_map(FieldsVisitor)
    }
}

#[cfg(test)]
mod tests {
    use super::super::shortened::MAX_SHOWN_LINES;
    use super::*;

    fn shown(arguments: &str) -> (Vec<String>, bool) {
        let Shortened { lines, is_cut } = super::shown(&arguments_of(&Json::parse(arguments).expect("it is JSON")));
        (lines, is_cut)
    }

    #[test]
    fn every_argument_has_a_line() {
        let (lines, is_cut) = shown(
            r#"{"path": "/tmp/a\nb", "deep": {"list": [1.50, {"x": null}], "none": {}, "a.b": []}, "path": "\u0072m -rf"}"#,
        );
        insta::assert_snapshot!(lines.join("\n"), @r#"
        path: "/tmp/a\nb"
        deep.list[0]: 1.50
        deep.list[1].x: null
        deep.none: {}
        deep."a.b": []
        path: "rm -rf"
        "#);
        assert!(!is_cut);
        assert_eq!(shown("{}").0, ["without arguments"]);
        assert_eq!(shown(r#""alone""#).0, [r#"(all): "alone""#]);
    }

    #[test]
    fn a_key_or_value_cannot_look_like_another_argument() {
        let (lines, _) =
            shown("{\"to: \\\"me\\\"\\nfrom\": \"x\\\"\\n  to: \\\"you\", \"z\": \"a\u{202e}b\u{200b}c\"}");
        insta::assert_snapshot!(lines.join("\n"), @r#"
        "to: \"me\"\nfrom": "x\"\n  to: \"you"
        z: "a\u{202e}b\u{200b}c"
        "#);
    }

    #[test]
    fn a_long_value_shows_its_length_its_head_and_its_tail() {
        let body = format!("safe {}rm -rf /", "x".repeat(10_000));
        let (lines, is_cut) = shown(&serde_json::json!({ "body": body, "last": true }).to_string());
        assert!(is_cut);
        assert!(lines[0].starts_with("body: (10013 characters) \"safe xxx"), "{lines:?}");
        assert!(lines[0].ends_with("xrm -rf /\"") && lines[0].len() < 250, "{lines:?}");
        assert_eq!(lines[1], "last: true");
        let whole = arguments_of(&Json::from(serde_json::json!({ "body": body })))[0].whole();
        assert_eq!(whole, format!("body: \"{body}\""));
    }

    #[test]
    fn many_arguments_are_counted_and_the_last_ones_are_shown() {
        let many: serde_json::Map<_, _> = (0..500).map(|number| (format!("a{number}"), number.into())).collect();
        let (lines, is_cut) = shown(&serde_json::Value::Object(many).to_string());
        assert!(is_cut && lines.len() == MAX_SHOWN_LINES, "{lines:?}");
        assert_eq!((lines[0].as_str(), lines[19].as_str()), ("a0: 0", "a499: 499"));
        assert_eq!(lines[14], "… 481 more (4157 characters)");
        let long_key = serde_json::json!({"k".repeat(5_000): 1}).to_string();
        assert!(shown(&long_key).1 && shown(&long_key).0[0].len() < 300);
    }

    #[test]
    fn deep_values_are_shown_as_json() {
        let deep = format!("{{\"a\":{}7{}}}", "[".repeat(5_000), "]".repeat(5_000));
        let arguments = arguments_of(&Json::parse(deep).expect("it is JSON"));
        assert_eq!(arguments.len(), 1);
        assert!(arguments[0].whole().contains("[7]"));
    }
}
