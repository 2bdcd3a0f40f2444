//! YAML files, and JSON, which is YAML: a small deserializer over the events of `granit-parser`.
//!
//! The files are hostile input. Nesting is limited, and so is the number of values that a text becomes once its aliases are
//! followed; nothing is ever copied for an alias. Errors name the line.

mod de;
mod document;
mod error;
mod tree;

use std::rc::Rc;

use serde::de::DeserializeOwned;
use tree::{Kind, Node};

pub use document::{Document, NodeKind, NodeRef};
pub use error::Error;

/// Reads a text that holds one document. Empty texts are `null`.
pub fn from_str<T: DeserializeOwned>(text: &str) -> Result<T, Error> {
    let root = tree::parse(text)?;
    de::deserialize(&root)
}

/// Returns the line of the first mapping key with this name, from 1. The mapping is the document, an item of a list, or an
/// item of the list under the key `list`.
pub(crate) fn line_of_key(text: &str, list: &str, key: &str) -> Option<usize> {
    let root = tree::parse(text).ok()?;
    let items = value_of(&root, list).map_or(&root, |(_, value)| value);
    let mappings = match &items.kind {
        Kind::Sequence(items) => items.iter().map(AsRef::as_ref).collect(),
        Kind::Scalar { .. } | Kind::Mapping(_) => vec![&**items],
    };
    mappings.into_iter().find_map(|mapping| value_of(mapping, key)).map(|(key, _)| key.line)
}

fn value_of<'a>(mapping: &'a Node, name: &str) -> Option<(&'a Rc<Node>, &'a Rc<Node>)> {
    let Kind::Mapping(entries) = &mapping.kind else { return None };
    let is_named = |key: &Rc<Node>| matches!(&key.kind, Kind::Scalar { text, .. } if text == name);
    entries.iter().find(|(key, _)| is_named(key)).map(|(key, value)| (key, value))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::fmt::Write as _;

    use serde::Deserialize;
    use serde_json::{Value, json};

    use super::from_str;

    fn value(text: &str) -> Value {
        from_str(text).unwrap()
    }

    fn error(text: &str) -> String {
        from_str::<Value>(text).unwrap_err().to_string()
    }

    #[test]
    fn plain_scalars_have_the_types_of_yaml() {
        assert_eq!(value("[1, -2, +3, 0x1F, 0o17, 0b11, 1_000]"), json!([1, -2, 3, 31, 15, 3, 1000]));
        assert_eq!(value("[1.5, 1e3, -.5, 007, 18446744073709551615]"), json!([1.5, 1e3, -0.5, 7.0, u64::MAX]));
        assert_eq!(value("[true, No, on, ~, null, '']"), json!([true, false, true, null, null, ""]));
        assert_eq!(value("[\"1\", '1', !!str 1, 1.2.3, 2026-11-16, nan, inf]"), {
            json!(["1", "1", "1", "1.2.3", "2026-11-16", "nan", "inf"])
        });
        assert_eq!(value(""), Value::Null);
        assert!(error("- .inf").contains(".inf"));
    }

    #[test]
    fn types_decide_what_a_scalar_is() {
        #[derive(Debug, Deserialize, PartialEq)]
        #[serde(rename_all = "lowercase")]
        enum Kind {
            Small,
            Sized(u8),
        }
        #[derive(Debug, Deserialize, PartialEq)]
        struct Thing {
            text: String,
            count: Option<u32>,
            ratio: f64,
            is_on: bool,
            kinds: Vec<Kind>,
            #[serde(default)]
            more: BTreeMap<u8, String>,
        }
        let thing: Thing =
            from_str("text: 42\ncount: ~\nratio: 1\nis_on: yes\nkinds: [small, {sized: 3}]\nmore: {1: true}\n")
                .unwrap();
        let more = BTreeMap::from([(1, "true".to_owned())]);
        let kinds = vec![Kind::Small, Kind::Sized(3)];
        assert_eq!(thing, Thing { text: "42".into(), count: None, ratio: 1.0, is_on: true, kinds, more });
        // What is left empty is an empty list or mapping, and no text.
        let empty: Thing = from_str("{text: '', ratio: 1, is_on: n, kinds: , more: }").unwrap();
        assert!(empty.kinds.is_empty() && empty.more.is_empty() && !empty.is_on);
        assert!(from_str::<Thing>("{text: , ratio: 1, is_on: n, kinds: []}").is_err());
    }

    #[test]
    fn aliases_and_merge_keys_repeat_what_an_anchor_holds() {
        let text = "base: &b {a: 1, b: [x]}\nuse: *b\nmerged: {<<: *b, a: 2}\nboth: {<<: [{a: 3}, *b]}\n";
        assert_eq!(
            value(text),
            json!({"base": {"a": 1, "b": ["x"]}, "use": {"a": 1, "b": ["x"]},
                "merged": {"a": 2, "b": ["x"]}, "both": {"a": 3, "b": ["x"]}})
        );
        assert!(error("<<: 1").contains("line 1"));
        assert_eq!(value("'<<': 1"), json!({"<<": 1}));
    }

    #[test]
    fn errors_name_the_line() {
        #[derive(Debug, Deserialize)]
        #[serde(deny_unknown_fields)]
        struct One {
            #[expect(dead_code, reason = "only its type matters")]
            a: u8,
        }
        let said = |text| from_str::<Vec<One>>(text).unwrap_err().to_string();
        assert_eq!(said("- a: 1\n- b: 2\n"), "unknown field `b`, expected `a` at line 2");
        assert_eq!(said("- a: 1\n-\n  a: x\n"), "invalid value: string \"x\", expected an integer at line 3");
        assert_eq!(said("- a: 1\n- a: 300\n"), "invalid value: integer `300`, expected u8 at line 2");
        assert_eq!(said("- a: 1\n\n- {}\n"), "missing field `a` at line 3");
        assert_eq!(said("- a: 1\n  a: 2\n"), "duplicate key `a` at line 2");
        assert_eq!(said("a: 1"), "invalid type: map, expected a sequence at line 1");
        assert!(error("a: [1\nb: 2").contains("line 2"), "{}", error("a: [1\nb: 2"));
        assert!(error("a: *b").contains("line 1"));
        assert!(error("--- 1\n--- 2\n").contains("more than one document"));
        assert!(error("{[1]: 2}").contains("line 1"));
    }

    #[test]
    fn hostile_texts_end_early() {
        let mut bomb = "a0: &a0 [x, x, x]\n".to_owned();
        for level in 1..30 {
            let inner = format!("*a{}", level - 1);
            let _ = writeln!(bomb, "a{level}: &a{level} [{inner}, {inner}, {inner}]");
        }
        assert!(error(&bomb).contains("too many values"));
        // Each alias repeats a long list once.
        let list = "x, ".repeat(2_000);
        let aliases = "*l, ".repeat(2_000);
        assert!(error(&format!("- &l [{list}]\n- [{aliases}]\n")).contains("too many values"));
        assert!(error(&"[".repeat(10_000)).contains("line 1"));
        assert!(error(&"- ".repeat(10_000)).contains("line 1"));
        let mut ladder = "- &a0 [[[[[[[[[[x]]]]]]]]]]\n".to_owned();
        for level in 1..200 {
            let _ = writeln!(ladder, "- &a{level} [[[[[[[[[[*a{}]]]]]]]]]]", level - 1);
        }
        assert!(error(&ladder).contains("nested too deeply"));
        let mut steps = "- &a0 x\n".to_owned();
        for level in 1..100_000 {
            let _ = writeln!(steps, "- &a{level} [*a{}]", level - 1);
        }
        assert!(error(&steps).contains("nested too deeply"));
        assert!(error("&a [*a]").contains("line 1"));
    }
}
