//! A parsed configuration file, and cursors that know the path, line and column of each value.

use std::path::{Path, PathBuf};

use jsonc_parser::ast::{ObjectPropName, Value as Ast};
use jsonc_parser::common::Ranged;
use jsonc_parser::{CollectOptions, parse_to_ast};
use serde_json::{Map, Number, Value};

use crate::jsonc::{self, MAX_FILE_BYTES, parse_options};
use crate::problem::{Problem, Severity};

/// Maximum nesting depth of a file.
const MAX_DEPTH: usize = 64;

/// A parsed file.
pub(crate) struct Document {
    file: PathBuf,
    text: String,
    /// Byte offset of each line.
    lines: Vec<usize>,
    root: Node,
}

/// A value and its byte offset.
pub(crate) struct Node {
    start: usize,
    pub(crate) kind: Kind,
}

/// A value's type and content.
pub(crate) enum Kind {
    Null,
    Bool(bool),
    Number(Number),
    Text(String),
    List(Vec<Node>),
    Map(Vec<Field>),
}

/// A key, its byte offset, and its value. Keys may repeat; the reader decides what that means.
pub(crate) struct Field {
    start: usize,
    key: String,
    value: Node,
}

/// A value of a document and the path of keys to it. Problems are reported at cursors.
#[derive(Clone)]
pub(crate) struct Cursor<'a> {
    document: &'a Document,
    pub(crate) node: &'a Node,
    pub(crate) path: String,
    start: usize,
}

impl Document {
    /// Parses a text. Invalid JSON anywhere makes the whole text unusable.
    pub(crate) fn parse(file: &Path, text: &str) -> Result<Self, Box<Problem>> {
        // A byte order mark is not part of the text, and does not shift the columns of problems.
        let text = text.strip_prefix('\u{feff}').unwrap_or(text).to_owned();
        if text.len() as u64 > MAX_FILE_BYTES {
            return Err(Problem::of_file(Severity::Error, file, jsonc::too_long()).into());
        }
        let lines: Vec<usize> =
            std::iter::once(0).chain(text.match_indices('\n').map(|(index, _)| index + 1)).collect();
        let error_at = |start: usize, message: String| {
            let (line, column) = line_and_column(&text, &lines, start);
            Box::new(Problem { line, column, ..Problem::of_file(Severity::Error, file, message) })
        };
        let parsed = parse_to_ast(&text, &CollectOptions::default(), &parse_options()).map_err(|error| {
            error_at(error.range().start, format!("invalid JSON: {}", lowercase_first(&error.kind().to_string())))
        })?;
        let root = match parsed.value {
            Some(value) => Node::from_ast(&value, 0)
                .map_err(|start| error_at(start, format!("nested more than {MAX_DEPTH} levels deep")))?,
            None => Node { start: 0, kind: Kind::Map(Vec::new()) },
        };
        Ok(Self { file: file.to_owned(), root, lines, text })
    }

    /// Returns a cursor to the whole document.
    pub(crate) fn root(&self) -> Cursor<'_> {
        Cursor { document: self, node: &self.root, path: String::new(), start: self.root.start }
    }
}

/// Lowercases the first letter: the parser's messages begin with a capital, ours do not.
fn lowercase_first(text: &str) -> String {
    let mut characters = text.chars();
    characters.next().map_or_else(String::new, |first| first.to_lowercase().chain(characters).collect())
}

/// Returns the line and column of a byte offset, both counted from 1; columns count characters.
fn line_and_column(text: &str, lines: &[usize], start: usize) -> (usize, usize) {
    let line = lines.partition_point(|begin| *begin <= start).max(1);
    let begin = lines.get(line - 1).copied().unwrap_or_default();
    let column = text.get(begin..start.min(text.len())).map_or(0, |before| before.chars().count());
    (line, column + 1)
}

impl Node {
    /// Converts a parsed value; fails with the byte offset at which it exceeds [`MAX_DEPTH`].
    fn from_ast(ast: &Ast<'_>, depth: usize) -> Result<Self, usize> {
        let start = ast.range().start;
        if depth > MAX_DEPTH {
            return Err(start);
        }
        let kind = match ast {
            Ast::NullKeyword(_) => Kind::Null,
            Ast::BooleanLit(literal) => Kind::Bool(literal.value),
            Ast::StringLit(literal) => Kind::Text(literal.value.to_string()),
            // A number that cannot be represented is still a number, and no setting is that large.
            Ast::NumberLit(literal) => Kind::Number(literal.value.parse().unwrap_or(Number::from(u64::MAX))),
            Ast::Array(array) => {
                Kind::List(array.elements.iter().map(|item| Self::from_ast(item, depth + 1)).collect::<Result<_, _>>()?)
            }
            Ast::Object(object) => {
                let fields = object.properties.iter().map(|property| {
                    let key = match &property.name {
                        ObjectPropName::String(literal) => literal.value.to_string(),
                        ObjectPropName::Word(word) => word.value.to_owned(),
                    };
                    let value = Self::from_ast(&property.value, depth + 1)?;
                    Ok(Field { start: property.name.range().start, key, value })
                });
                Kind::Map(fields.collect::<Result<_, usize>>()?)
            }
        };
        Ok(Self { start, kind })
    }

    /// Converts to plain JSON. The last of repeated keys wins.
    pub(crate) fn to_value(&self) -> Value {
        match &self.kind {
            Kind::Null => Value::Null,
            Kind::Bool(value) => Value::Bool(*value),
            Kind::Number(number) => Value::Number(number.clone()),
            Kind::Text(text) => Value::String(text.clone()),
            Kind::List(items) => items.iter().map(Self::to_value).collect(),
            Kind::Map(fields) => {
                let fields: Map<_, _> =
                    fields.iter().map(|field| (field.key.clone(), field.value.to_value())).collect();
                Value::Object(fields)
            }
        }
    }

    /// Describes the type, for messages.
    pub(crate) fn describe(&self) -> &'static str {
        match self.kind {
            Kind::Null => "null",
            Kind::Bool(_) => "a boolean",
            Kind::Number(_) => "a number",
            Kind::Text(_) => "a string",
            Kind::List(_) => "a list",
            Kind::Map(_) => "an object",
        }
    }
}

impl<'a> Cursor<'a> {
    /// Returns the same cursor with another path.
    pub(crate) fn with_path(&self, path: &str) -> Cursor<'a> {
        Cursor { path: path.to_owned(), ..self.clone() }
    }

    /// Returns the value of a key, the first one if it repeats. `null` counts as absent.
    pub(crate) fn field(&self, key: &str) -> Option<Cursor<'a>> {
        let field = self.all_fields().iter().find(|field| field.key == key)?;
        (!matches!(field.value.kind, Kind::Null)).then(|| self.under(field))
    }

    /// Returns all keys and values in order, or nothing if this is not an object. Problems of a value are reported at
    /// its key.
    pub(crate) fn fields(&self) -> impl Iterator<Item = (&'a str, Cursor<'a>)> + use<'a> {
        let this = self.clone();
        self.all_fields().iter().map(move |field| (field.key.as_str(), this.under(field)))
    }

    fn all_fields(&self) -> &'a [Field] {
        if let Kind::Map(fields) = &self.node.kind { fields } else { &[] }
    }

    fn under(&self, field: &'a Field) -> Cursor<'a> {
        let path = if self.path.is_empty() { field.key.clone() } else { format!("{}.{}", self.path, field.key) };
        Cursor { document: self.document, node: &field.value, path, start: field.start }
    }

    /// Returns all items in order, or nothing if this is not a list.
    pub(crate) fn items(&self) -> impl Iterator<Item = Cursor<'a>> + use<'a> {
        let items: &'a [Node] = if let Kind::List(items) = &self.node.kind { items } else { &[] };
        let document = self.document;
        let path = self.path.clone();
        items.iter().enumerate().map(move |(index, node)| Cursor {
            document,
            node,
            path: format!("{path}[{index}]"),
            start: node.start,
        })
    }

    /// Returns the string, if this is one.
    pub(crate) fn text(&self) -> Option<&'a str> {
        if let Kind::Text(text) = &self.node.kind { Some(text) } else { None }
    }

    /// Returns the last key of the path.
    pub(crate) fn key(&self) -> &str {
        self.path.rsplit('.').next().unwrap_or_default()
    }

    pub(crate) fn is_object(&self) -> bool {
        matches!(self.node.kind, Kind::Map(_))
    }

    pub(crate) fn is_list(&self) -> bool {
        matches!(self.node.kind, Kind::List(_))
    }

    pub(crate) fn file(&self) -> &'a Path {
        &self.document.file
    }

    /// Returns the line, counted from 1.
    pub(crate) fn line(&self) -> usize {
        self.position().0
    }

    fn position(&self) -> (usize, usize) {
        line_and_column(&self.document.text, &self.document.lines, self.start)
    }

    /// Returns a problem at this value.
    pub(crate) fn problem(&self, severity: Severity, message: impl Into<String>) -> Problem {
        let (line, column) = self.position();
        let path = self.path.clone();
        Problem { line, column, path, ..Problem::of_file(severity, self.file(), message) }
    }

    pub(crate) fn error(&self, message: impl Into<String>) -> Problem {
        self.problem(Severity::Error, message)
    }

    pub(crate) fn warning(&self, message: impl Into<String>) -> Problem {
        self.problem(Severity::Warning, message)
    }

    pub(crate) fn note(&self, message: impl Into<String>) -> Problem {
        self.problem(Severity::Note, message)
    }

    /// Returns the error for a value of the wrong type.
    pub(crate) fn wrong_type(&self, expected: &str) -> Problem {
        self.error(format!("expected {expected}, found {}", self.node.describe()))
    }

    /// Returns an error for every key that repeats an earlier one: which of them counts would be a guess.
    pub(crate) fn duplicate_keys(&self) -> Vec<Problem> {
        let mut seen = std::collections::BTreeSet::new();
        self.fields()
            .filter(|(key, _)| !seen.insert(*key))
            .map(|(_, field)| field.error("duplicate key").with_hint("keep one"))
            .collect()
    }
}
