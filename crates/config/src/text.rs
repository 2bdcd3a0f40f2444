//! A configuration file as text: JSON with comments and trailing commas, where everything knows its line and column.

use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use jsonc_parser::ast::{ObjectPropName, Value as Ast};
use jsonc_parser::common::Ranged;
use jsonc_parser::{CollectOptions, ParseOptions, parse_to_ast};
use serde_json::{Map, Number, Value};

use super::problem::{Problem, Severity};

/// The longest file that is read. Real ones are a hundredth of it; a project must not fill the memory.
pub(crate) const LONGEST: u64 = 1 << 20;
/// How deep a file may be nested.
const DEEPEST: usize = 64;

/// A file that could be parsed.
pub(crate) struct Document {
    file: PathBuf,
    text: String,
    /// Where each line begins, in bytes.
    lines: Vec<usize>,
    root: Node,
}

/// A value and where it begins, in bytes.
pub(crate) struct Node {
    start: usize,
    pub(crate) kind: Kind,
}

pub(crate) enum Kind {
    Null,
    Bool(bool),
    Number(Number),
    Text(String),
    List(Vec<Node>),
    Map(Vec<Field>),
}

/// A key, where it is, and its value. Keys may repeat; whoever reads them decides what that means.
pub(crate) struct Field {
    start: usize,
    key: String,
    value: Node,
}

/// A value of a document together with the keys that lead to it: what problems are reported of.
#[derive(Clone)]
pub(crate) struct At<'a> {
    document: &'a Document,
    pub(crate) node: &'a Node,
    pub(crate) path: String,
    start: usize,
}

/// What comments and trailing commas are allowed in, and nothing else that is no JSON.
pub(crate) fn options() -> ParseOptions {
    ParseOptions {
        allow_comments: true,
        allow_trailing_commas: true,
        allow_loose_object_property_names: false,
        allow_missing_commas: false,
        allow_single_quoted_strings: false,
        allow_hexadecimal_numbers: false,
        allow_unary_plus_numbers: false,
        allow_bare_decimal_point_numbers: false,
        allow_non_finite_numbers: false,
        allow_extended_string_escapes: false,
    }
}

/// The text of a file; `None` if there is no such file. Only as much as is allowed is read, and only from files: a
/// pipe would be waited for.
pub(crate) fn read(file: &Path) -> Result<Option<String>, Box<Problem>> {
    let unreadable = |message: String| Box::new(Problem::of_file(Severity::Error, file, message));
    let bytes = match read_bytes(file) {
        Ok(bytes) => bytes,
        Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => {
            // A link that leads nowhere is no missing file: somebody meant something by it.
            return match file.symlink_metadata() {
                Ok(_) => Err(unreadable("is a link that leads nowhere".into())),
                Err(_) => Ok(None),
            };
        }
        Err(error) => return Err(unreadable(format!("cannot be read: {error}"))),
    };
    if bytes.len() as u64 > LONGEST {
        return Err(unreadable(format!("is longer than {LONGEST} bytes")));
    }
    String::from_utf8(bytes).map(Some).map_err(|error| {
        let before = error.as_bytes().get(..error.utf8_error().valid_up_to()).unwrap_or_default();
        let line = before.split(|byte| *byte == b'\n').count();
        let problem = Problem::of_file(Severity::Error, file, "is no UTF-8 text").with_hint("save it as UTF-8");
        Box::new(Problem { line, ..problem })
    })
}

/// At most one byte more than is allowed.
fn read_bytes(file: &Path) -> io::Result<Vec<u8>> {
    if !std::fs::metadata(file)?.is_file() {
        return Err(io::Error::other("it is no file"));
    }
    let mut bytes = Vec::new();
    File::open(file)?.take(LONGEST + 1).read_to_end(&mut bytes)?;
    Ok(bytes)
}

impl Document {
    /// Parses a text. What is no JSON costs the whole of it.
    pub(crate) fn parse(file: &Path, text: &str) -> Result<Self, Box<Problem>> {
        // A byte order mark is no part of the text, but it is part of nobody's complaint either.
        let text = text.strip_prefix('\u{feff}').unwrap_or(text).to_owned();
        if text.len() as u64 > LONGEST {
            return Err(Problem::of_file(Severity::Error, file, format!("is longer than {LONGEST} bytes")).into());
        }
        let lines: Vec<usize> =
            std::iter::once(0).chain(text.match_indices('\n').map(|(index, _)| index + 1)).collect();
        let at = |start: usize, message: String| {
            let (line, column) = place(&text, &lines, start);
            Box::new(Problem { line, column, ..Problem::of_file(Severity::Error, file, message) })
        };
        let parsed = parse_to_ast(&text, &CollectOptions::default(), &options()).map_err(|error| {
            at(error.range().start, format!("is no valid JSON: {}", lower(&error.kind().to_string())))
        })?;
        let root = match parsed.value {
            Some(value) => Node::from_ast(&value, 0).map_err(|start| at(start, "is nested too deeply".into()))?,
            None => Node { start: 0, kind: Kind::Map(Vec::new()) },
        };
        Ok(Self { file: file.to_owned(), root, lines, text })
    }

    /// The whole of it.
    pub(crate) fn root(&self) -> At<'_> {
        At { document: self, node: &self.root, path: String::new(), start: self.root.start }
    }
}

/// Parse errors begin with a capital letter, ours do not.
fn lower(text: &str) -> String {
    let mut characters = text.chars();
    characters.next().map_or_else(String::new, |first| first.to_lowercase().chain(characters).collect())
}

/// Line and column of a byte, both counted from 1, the column in characters.
fn place(text: &str, lines: &[usize], start: usize) -> (usize, usize) {
    let line = lines.partition_point(|begin| *begin <= start).max(1);
    let begin = lines.get(line - 1).copied().unwrap_or_default();
    let column = text.get(begin..start.min(text.len())).map_or(0, |before| before.chars().count());
    (line, column + 1)
}

impl Node {
    /// Fails with the place where it is nested too deeply.
    fn from_ast(ast: &Ast<'_>, depth: usize) -> Result<Self, usize> {
        let start = ast.range().start;
        if depth > DEEPEST {
            return Err(start);
        }
        let kind = match ast {
            Ast::NullKeyword(_) => Kind::Null,
            Ast::BooleanLit(literal) => Kind::Bool(literal.value),
            Ast::StringLit(literal) => Kind::Text(literal.value.to_string()),
            // What cannot be held exactly is a number nonetheless, and no setting of ours is that large.
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

    /// As plain JSON; of a key that repeats, the last one.
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

    /// What it is, in a word.
    pub(crate) fn describe(&self) -> &'static str {
        match self.kind {
            Kind::Null => "null",
            Kind::Bool(_) => "true or false",
            Kind::Number(_) => "a number",
            Kind::Text(_) => "a text",
            Kind::List(_) => "a list",
            Kind::Map(_) => "an object",
        }
    }
}

impl<'a> At<'a> {
    /// The same under another path.
    pub(crate) fn named(&self, path: &str) -> At<'a> {
        At { path: path.to_owned(), ..self.clone() }
    }

    /// The value of a key; the first, if there are several. `null` means that it is not there.
    pub(crate) fn field(&self, key: &str) -> Option<At<'a>> {
        let field = self.all_fields().iter().find(|field| field.key == key)?;
        (!matches!(field.value.kind, Kind::Null)).then(|| self.under(field))
    }

    /// All keys and values, in order; none if it is no object. Problems of a value are reported where its key is.
    pub(crate) fn fields(&self) -> impl Iterator<Item = (&'a str, At<'a>)> + use<'a> {
        let this = self.clone();
        self.all_fields().iter().map(move |field| (field.key.as_str(), this.under(field)))
    }

    fn all_fields(&self) -> &'a [Field] {
        if let Kind::Map(fields) = &self.node.kind { fields } else { &[] }
    }

    fn under(&self, field: &'a Field) -> At<'a> {
        let path = if self.path.is_empty() { field.key.clone() } else { format!("{}.{}", self.path, field.key) };
        At { document: self.document, node: &field.value, path, start: field.start }
    }

    /// All items, in order; none if it is no list.
    pub(crate) fn items(&self) -> impl Iterator<Item = At<'a>> + use<'a> {
        let items: &'a [Node] = if let Kind::List(items) = &self.node.kind { items } else { &[] };
        let (document, path) = (self.document, self.path.clone());
        items.iter().enumerate().map(move |(index, node)| At {
            document,
            node,
            path: format!("{path}[{index}]"),
            start: node.start,
        })
    }

    /// Its text, if it is one.
    pub(crate) fn text(&self) -> Option<&'a str> {
        if let Kind::Text(text) = &self.node.kind { Some(text) } else { None }
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

    /// The line, counted from 1.
    pub(crate) fn line(&self) -> usize {
        self.place().0
    }

    fn place(&self) -> (usize, usize) {
        place(&self.document.text, &self.document.lines, self.start)
    }

    /// A problem here.
    pub(crate) fn problem(&self, severity: Severity, message: impl Into<String>) -> Problem {
        let (line, column) = self.place();
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

    /// The error of a value of another type.
    pub(crate) fn wrong_type(&self, wanted: &str) -> Problem {
        self.error(format!("is {}, but has to be {wanted}", self.node.describe()))
    }

    /// Keys that are there more than once: which of them counts would be a guess.
    pub(crate) fn repeated(&self) -> Vec<At<'a>> {
        let mut seen = std::collections::BTreeSet::new();
        self.fields().filter(|(key, _)| !seen.insert(*key)).map(|(_, at)| at).collect()
    }
}
