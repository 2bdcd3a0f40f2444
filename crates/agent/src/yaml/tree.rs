//! The tree of a document. An alias shares the node of its anchor.

use std::collections::{HashMap, HashSet};
use std::rc::Rc;

use granit_parser::{Event, Parser, ScalarStyle, ScanError, Span, Tag};

use super::Error;

/// The maximum nesting of lists and mappings.
const MAX_DEPTH: usize = 64;
/// The maximum number of values after aliases are followed.
pub(super) const MAX_VALUES: usize = 250_000;

#[derive(Debug)]
pub(super) struct Node {
    pub(super) line: usize,
    /// The levels of values in it. Limited, because a node is read and dropped recursively.
    height: usize,
    pub(super) kind: Kind,
}

/// Bytes of a text that weigh as much as a value.
const BYTES_PER_VALUE: usize = 64;

impl Node {
    /// Returns how many values it counts for, without those in it. An alias repeats it, so a long text counts for several.
    pub(super) fn weight(&self) -> usize {
        match &self.kind {
            Kind::Scalar { text, .. } => 1 + text.len() / BYTES_PER_VALUE,
            Kind::Sequence(_) | Kind::Mapping(_) => 1,
        }
    }
}

#[derive(Debug)]
pub(super) enum Kind {
    Scalar { text: String, is_plain: bool },
    Sequence(Vec<Rc<Node>>),
    Mapping(Vec<(Rc<Node>, Rc<Node>)>),
}

impl Kind {
    fn height(&self) -> usize {
        let height = |node: &Rc<Node>| node.height + 1;
        match self {
            Self::Scalar { .. } => 0,
            Self::Sequence(items) => items.iter().map(height).max().unwrap_or(1),
            Self::Mapping(entries) => entries.iter().map(|(_, value)| height(value)).max().unwrap_or(1),
        }
    }
}

impl Node {
    /// Fails if the node holds more levels than are read.
    fn new(line: usize, kind: Kind) -> Result<Self, Error> {
        let height = kind.height();
        if height > MAX_DEPTH { Err(too_deep(line)) } else { Ok(Self { line, height, kind }) }
    }

    pub(super) fn is_null(&self) -> bool {
        match &self.kind {
            Kind::Scalar { text, is_plain: true } => {
                text.is_empty() || text == "~" || text.eq_ignore_ascii_case("null")
            }
            _ => false,
        }
    }
}

fn too_deep(line: usize) -> Error {
    Error::new("values are nested too deeply", line)
}

pub(super) fn too_many(line: usize) -> Error {
    Error::new("the text becomes too many values", line)
}

/// Parses a text that holds one document.
pub(super) fn parse(text: &str) -> Result<Rc<Node>, Error> {
    parse_up_to(text, MAX_VALUES)
}

/// Parses a text that holds one document of at most `max_values` values, not counting those that aliases repeat.
pub(super) fn parse_up_to(text: &str, max_values: usize) -> Result<Rc<Node>, Error> {
    let mut loader = Loader { events: Parser::new_from_str(text), anchors: HashMap::new(), max_values, values: 0 };
    let mut document = None;
    loop {
        match loader.next()? {
            (Event::StreamEnd, _) => break,
            (Event::DocumentStart(..), span) if document.is_some() => {
                return Err(Error::new("the text holds more than one document", span.start.line()));
            }
            (Event::StreamStart | Event::DocumentStart(..) | Event::DocumentEnd, _) => {}
            (event, span) => document = Some(loader.node(event, span, 0)?),
        }
    }
    match document {
        Some(document) => Ok(document),
        None => Node::new(1, Kind::Scalar { text: String::new(), is_plain: true }).map(Rc::new),
    }
}

struct Loader<I> {
    events: I,
    /// By the parser's numbers.
    anchors: HashMap<usize, Rc<Node>>,
    max_values: usize,
    /// The values so far.
    values: usize,
}

impl<'a, I: Iterator<Item = Result<(Event<'a>, Span), ScanError>>> Loader<I> {
    fn next(&mut self) -> Result<(Event<'a>, Span), Error> {
        match self.events.next() {
            Some(Ok(event)) => Ok(event),
            Some(Err(error)) => Err(Error::new(error.info(), error.marker().line())),
            None => Err(Error::new("the text ends early", 1)),
        }
    }

    /// Returns the node that begins with an event.
    fn node(&mut self, event: Event<'a>, span: Span, depth: usize) -> Result<Rc<Node>, Error> {
        let line = span.start.line();
        if depth > MAX_DEPTH {
            return Err(too_deep(line));
        }
        self.values += 1;
        if self.values > self.max_values {
            return Err(too_many(line));
        }
        let (anchor, kind) = match event {
            Event::Scalar(text, style, anchor, tag) => {
                let is_string = |tag: &Tag| tag.is_yaml_core_schema_tag("str");
                let is_plain = matches!(style, ScalarStyle::Plain) && !tag.as_deref().is_some_and(is_string);
                (anchor, Kind::Scalar { text: text.into_owned(), is_plain })
            }
            Event::SequenceStart(_, anchor, _) => (anchor, self.sequence(depth)?),
            Event::MappingStart(_, anchor, _) => (anchor, self.mapping(depth)?),
            Event::Alias(anchor) => {
                let known = self.anchors.get(&anchor).cloned();
                return known.ok_or_else(|| Error::new("an alias refers to a value that contains it", line));
            }
            other => return Err(Error::new(format!("unexpected {other:?}"), line)),
        };
        let node = Rc::new(Node::new(line, kind)?);
        if anchor != 0 {
            self.anchors.insert(anchor, Rc::clone(&node));
        }
        Ok(node)
    }

    fn sequence(&mut self, depth: usize) -> Result<Kind, Error> {
        let mut items = Vec::new();
        loop {
            match self.next()? {
                (Event::SequenceEnd, _) => return Ok(Kind::Sequence(items)),
                (event, span) => items.push(self.node(event, span, depth + 1)?),
            }
        }
    }

    fn mapping(&mut self, depth: usize) -> Result<Kind, Error> {
        let mut entries = Vec::new();
        let mut keys = HashSet::new();
        let mut merged = Vec::new();
        loop {
            let key = match self.next()? {
                (Event::MappingEnd, _) => break,
                (event, span) => self.node(event, span, depth + 1)?,
            };
            let (event, span) = self.next()?;
            let value = self.node(event, span, depth + 1)?;
            match &key.kind {
                Kind::Scalar { text, is_plain: true } if text == "<<" => merge(&value, &mut merged, self.max_values)?,
                Kind::Scalar { text, .. } => {
                    if !keys.insert(text.clone()) {
                        return Err(Error::new(format!("duplicate key `{text}`"), key.line));
                    }
                    entries.push((key, value));
                }
                _ => return Err(Error::new("a key must be a scalar", key.line)),
            }
        }
        // The mapping's own keys win, then the first that is merged.
        for (key, value) in merged {
            if let Kind::Scalar { text, .. } = &key.kind
                && keys.insert(text.clone())
            {
                entries.push((key, value));
            }
        }
        Ok(Kind::Mapping(entries))
    }
}

/// Collects the entries that a merge key adds to a mapping.
fn merge(value: &Rc<Node>, into: &mut Vec<(Rc<Node>, Rc<Node>)>, max_values: usize) -> Result<(), Error> {
    match &value.kind {
        Kind::Mapping(entries) => into.extend(entries.iter().cloned()),
        Kind::Sequence(items) if items.iter().all(|item| matches!(item.kind, Kind::Mapping(_))) => {
            for item in items {
                merge(item, into, max_values)?;
            }
        }
        _ => return Err(Error::new("`<<` merges mappings only", value.line)),
    }
    if into.len() > max_values {
        return Err(too_many(value.line));
    }
    Ok(())
}
