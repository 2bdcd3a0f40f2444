//! Documents that are read node by node, for readers that report every problem with its line.
//!
//! An alias is followed when its node is read, so a reader of a hostile text limits the number of nodes that it visits.

use std::rc::Rc;

use serde_json::Value;

use super::Error;
use super::de;
use super::tree::{self, Kind, Node};

/// A parsed text.
#[derive(Debug)]
pub struct Document {
    root: Rc<Node>,
}

/// A value in a document.
#[derive(Clone, Copy, Debug)]
pub struct NodeRef<'a> {
    node: &'a Node,
}

/// The kinds of values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NodeKind {
    /// Nothing, `~` or `null`.
    Null,
    /// A text, number or boolean.
    Scalar,
    /// A list.
    Sequence,
    /// A mapping.
    Mapping,
}

impl Document {
    /// Parses a text that holds one document of at most `max_values` values. An empty text is `null`.
    ///
    /// # Errors
    /// If the text is invalid, nested too deeply, or has more values.
    pub fn parse(text: &str, max_values: usize) -> Result<Self, Error> {
        tree::parse_up_to(text, max_values).map(|root| Self { root })
    }

    /// Returns the value of the whole document.
    pub fn root(&self) -> NodeRef<'_> {
        NodeRef { node: &self.root }
    }
}

impl<'a> NodeRef<'a> {
    /// Returns the line on which the value begins, from 1.
    pub fn line(self) -> usize {
        self.node.line
    }

    /// Returns how many values it counts for, without those in it: a long text counts for several.
    pub fn weight(self) -> usize {
        self.node.weight()
    }

    /// Returns the kind of the value.
    pub fn kind(self) -> NodeKind {
        match &self.node.kind {
            Kind::Scalar { .. } if self.node.is_null() => NodeKind::Null,
            Kind::Scalar { .. } => NodeKind::Scalar,
            Kind::Sequence(_) => NodeKind::Sequence,
            Kind::Mapping(_) => NodeKind::Mapping,
        }
    }

    /// Returns the text of a scalar as written, without quotes.
    pub fn text(self) -> Option<&'a str> {
        match &self.node.kind {
            Kind::Scalar { text, .. } if !self.node.is_null() => Some(text),
            _ => None,
        }
    }

    /// Returns the truth value of an unquoted scalar.
    pub fn boolean(self) -> Option<bool> {
        self.plain().and_then(de::as_boolean)
    }

    /// Returns the integer of an unquoted scalar.
    pub fn integer(self) -> Option<i128> {
        self.plain().and_then(de::as_integer)
    }

    /// Returns the number of an unquoted scalar.
    pub fn float(self) -> Option<f64> {
        self.plain().and_then(de::as_float)
    }

    /// Returns the items of a list; none for other values.
    pub fn items(self) -> impl Iterator<Item = NodeRef<'a>> {
        let items: &'a [Rc<Node>] = match &self.node.kind {
            Kind::Sequence(items) => items,
            _ => &[],
        };
        items.iter().map(|node| NodeRef { node })
    }

    /// Returns an item of a list.
    pub fn item(self, index: usize) -> Option<NodeRef<'a>> {
        match &self.node.kind {
            Kind::Sequence(items) => items.get(index).map(|node| NodeRef { node }),
            _ => None,
        }
    }

    /// Returns the keys of a mapping with their lines and values; none for other values.
    pub fn entries(self) -> impl Iterator<Item = (&'a str, usize, NodeRef<'a>)> {
        let entries: &'a [(Rc<Node>, Rc<Node>)] = match &self.node.kind {
            Kind::Mapping(entries) => entries,
            _ => &[],
        };
        entries.iter().filter_map(|(key, node)| match &key.kind {
            Kind::Scalar { text, .. } => Some((text.as_str(), key.line, NodeRef { node })),
            _ => None,
        })
    }

    /// Returns the value of a scalar with the types of YAML.
    ///
    /// # Errors
    /// For numbers that JSON does not have.
    pub fn scalar(self) -> Result<Value, Error> {
        match self.kind() {
            NodeKind::Null => Ok(Value::Null),
            NodeKind::Scalar => de::scalar_value(self.node),
            NodeKind::Sequence | NodeKind::Mapping => Err(Error::new("expected a scalar", self.node.line)),
        }
    }

    fn plain(self) -> Option<&'a str> {
        match &self.node.kind {
            Kind::Scalar { text, is_plain: true } if !self.node.is_null() => Some(text),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn nodes_have_lines_kinds_and_values() {
        let text = "name: x\nlist:\n  - 1\n  - 'yes'\n  - yes\nempty:\n";
        let document = Document::parse(text, 100).unwrap();
        let root = document.root();
        assert_eq!((root.kind(), root.line()), (NodeKind::Mapping, 1));
        let entries: Vec<_> =
            root.entries().map(|(key, line, value)| (key, line, value.line(), value.kind())).collect();
        assert_eq!(entries[0], ("name", 1, 1, NodeKind::Scalar));
        assert_eq!((entries[1].0, entries[1].1, entries[1].3), ("list", 2, NodeKind::Sequence));
        assert_eq!((entries[2].0, entries[2].3), ("empty", NodeKind::Null));
        let list = root.entries().nth(1).unwrap().2;
        let lines: Vec<_> = list.items().map(NodeRef::line).collect();
        assert_eq!(lines, [3, 4, 5]);
        let values: Vec<_> = list.items().map(|item| item.scalar().unwrap()).collect();
        assert_eq!(values, [json!(1), json!("yes"), json!(true)]);
        let booleans: Vec<_> = list.items().map(NodeRef::boolean).collect();
        assert_eq!(booleans, [None, None, Some(true)]);
        assert_eq!(list.item(0).unwrap().integer(), Some(1));
        assert!(list.item(3).is_none());
    }

    #[test]
    fn json_is_read_like_a_json_parser_reads_it() {
        for text in [
            "{\n\t\"a\": [\n\t\t1,\n\t\t{\"b\":\t2}\n\t]\n}\n",
            r#"{"a":"\ud83d\ude00 \/ \u00e9 \n","b":"","c":"x: y # z","<<":null}"#,
            r#"{"a":1e5,"b":-0.5E-3,"c":12345678901234567890123,"d":"no","e":"1"}"#,
        ] {
            let expected: Value = serde_json::from_str(text).unwrap();
            assert_eq!(crate::yaml::from_str::<Value>(text).unwrap(), expected, "{text}");
        }
    }

    #[test]
    fn documents_have_a_maximum_number_of_values() {
        assert!(Document::parse("[1, 2, 3]", 4).is_ok());
        let error = Document::parse("[1, 2,\n3, 4]", 4).unwrap_err();
        assert_eq!((error.message(), error.line()), ("the text becomes too many values", Some(2)));
    }
}
