//! Checks a document against its shape, reports every problem with line and path, and returns the value in one form.
//!
//! The form is what the types deserialize: texts are strings however they were written, keys without a value are absent,
//! and a variant with parameters is a mapping even if only its name was written.

use std::collections::BTreeSet;

use serde_json::{Map, Value};
use wharf_agent::yaml::{NodeKind, NodeRef};

use super::{Bound, Content, Format, Key, Object, Shape, Tagged, Variant, Variants};
use crate::problem::{Path, Place, Problem, Segment, quoted};

/// The maximum number of reported problems of a file.
const MAX_PROBLEMS: usize = 100;

/// The problems of a file so far, and how much of it may still be read.
pub(crate) struct Reader {
    problems: Vec<Problem>,
    /// Problems beyond the maximum.
    omitted: usize,
    /// Values that may still be read: an alias repeats values without writing them.
    values_left: usize,
    /// The items of lists at the top of the file that have problems.
    items: BTreeSet<(String, usize)>,
    /// Number of the line before the text.
    pub(crate) line_offset: usize,
}

impl Reader {
    pub(crate) fn new(max_values: usize) -> Self {
        Self { problems: Vec::new(), omitted: 0, values_left: max_values, items: BTreeSet::new(), line_offset: 0 }
    }

    /// Returns the number of problems so far.
    pub(crate) fn count(&self) -> usize {
        self.problems.len() + self.omitted
    }

    /// Returns whether an item of a list at the top of the file has a problem.
    pub(crate) fn has_problem_in(&self, list: &str, index: usize) -> bool {
        self.items.contains(&(list.to_owned(), index))
    }

    /// Returns all problems in the order of their lines.
    pub(crate) fn into_problems(mut self) -> Vec<Problem> {
        self.problems.sort_by_key(|problem| problem.line);
        if self.omitted > 0 {
            let message = format!("{} more problems", self.omitted);
            self.problems.push(Problem { line: 0, path: String::new(), message, hint: None });
        }
        self.problems
    }

    /// Adds a problem on a line of the text.
    pub(crate) fn report(&mut self, line: usize, path: &Path, message: impl Into<String>, hint: Option<String>) {
        if let [Segment::Key(list), Segment::Index(index), ..] = path.segments() {
            self.items.insert((list.clone(), *index));
        }
        if self.problems.len() >= MAX_PROBLEMS {
            self.omitted += 1;
            return;
        }
        let line = if line == 0 { 0 } else { line + self.line_offset };
        self.problems.push(Problem { line, path: path.to_string(), message: message.into(), hint });
    }

    /// Reads a value. The result is complete only if no problem was reported.
    pub(crate) fn read(&mut self, node: NodeRef<'_>, shape: &Shape, place: &Place<'_>) -> Value {
        // A long text counts for several values: an alias can repeat it.
        let Some(left) = self.values_left.checked_sub(node.weight()) else {
            if self.problems.last().is_none_or(|last| last.message != TOO_MANY) {
                self.report_at(node.line(), place, TOO_MANY, None);
            }
            return Value::Null;
        };
        self.values_left = left;
        match shape {
            Shape::Text { min_chars, max_chars } => self.text(node, (*min_chars, *max_chars), place),
            Shape::Formatted(format) => self.formatted(node, format, place),
            Shape::Bool => match node.boolean() {
                Some(value) => value.into(),
                None => self.expected("true or false", node, place),
            },
            Shape::Integer { min, max } => self.integer(node, (*min, *max), place),
            Shape::Number(bound) => self.number(node, *bound, place),
            Shape::Choice(names) => self.choice(node, names, place),
            Shape::List { items, min, max } => self.list(node, items, (*min, *max), place),
            Shape::Map { names, values } => self.map(node, *names, values, place),
            Shape::Object(object) => self.object(node, object, place),
            Shape::Variants(variants) => self.variant(node, variants, place),
            Shape::Tagged(tagged) => self.tagged(node, tagged, place),
            Shape::TextOrMapping => match node.kind() {
                NodeKind::Scalar | NodeKind::Mapping => self.any(node, place),
                _ => self.expected("text or a mapping", node, place),
            },
            Shape::Any => self.any(node, place),
        }
    }

    fn report_at(&mut self, line: usize, place: &Place<'_>, message: impl Into<String>, hint: Option<String>) {
        self.report(line, &place.path(), message, hint);
    }

    fn expected(&mut self, expected: &str, node: NodeRef<'_>, place: &Place<'_>) -> Value {
        self.report_at(node.line(), place, format!("expected {expected}, found {}", shown(node)), None);
        Value::Null
    }

    fn text(&mut self, node: NodeRef<'_>, (min, max): (usize, usize), place: &Place<'_>) -> Value {
        let Some(text) = node.text() else { return self.expected("text", node, place) };
        if min > 0 && text.trim().is_empty() {
            self.report_at(node.line(), place, "the text must not be empty", None);
        } else if text.len() > max && text.chars().count() > max {
            self.report_at(node.line(), place, format!("the text must have at most {max} characters"), None);
        }
        text.into()
    }

    fn formatted(&mut self, node: NodeRef<'_>, format: &Format, place: &Place<'_>) -> Value {
        let Some(text) = node.text() else { return self.expected("text", node, place) };
        if let Err(reason) = (format.check)(text) {
            self.report_at(node.line(), place, format!("invalid {} {}: {reason}", format.what, quoted(text)), None);
        }
        text.into()
    }

    fn integer(&mut self, node: NodeRef<'_>, (min, max): (i64, i64), place: &Place<'_>) -> Value {
        let Some(number) = node.integer() else { return self.expected("an integer", node, place) };
        match i64::try_from(number) {
            Ok(number) if (min..=max).contains(&number) => number.into(),
            _ => self.expected(&format!("an integer from {min} to {max}"), node, place),
        }
    }

    fn number(&mut self, node: NodeRef<'_>, bound: Bound, place: &Place<'_>) -> Value {
        let Some(number) = node.float().filter(|number| number.is_finite()) else {
            return self.expected("a number", node, place);
        };
        let (holds, expected) = match bound {
            Bound::None => (true, ""),
            Bound::NotNegative => (number >= 0.0, "a number that is 0 or greater"),
            Bound::Positive => (number > 0.0, "a number greater than 0"),
            Bound::Fraction => ((0.0..=1.0).contains(&number), "a number from 0 to 1"),
        };
        if holds { number.into() } else { self.expected(expected, node, place) }
    }

    fn choice(&mut self, node: NodeRef<'_>, names: &[&'static str], place: &Place<'_>) -> Value {
        match node.text() {
            Some(text) if names.contains(&text) => text.into(),
            Some(text) => {
                let hint = did_you_mean(text, names.iter().copied());
                let message = format!("expected {}, found {}", one_of(names), quoted(text));
                self.report_at(node.line(), place, message, hint);
                Value::Null
            }
            None => self.expected(&one_of(names), node, place),
        }
    }

    fn list(&mut self, node: NodeRef<'_>, items: &Shape, (min, max): (usize, usize), place: &Place<'_>) -> Value {
        match node.kind() {
            NodeKind::Sequence => {}
            NodeKind::Null if min == 0 => return Value::Array(Vec::new()),
            _ => return self.expected("a list", node, place),
        }
        let length = node.items().count();
        if length < min {
            let message = match min {
                1 => "the list must not be empty".to_owned(),
                min => format!("the list needs at least {min} items, found {length}"),
            };
            self.report_at(node.line(), place, message, None);
        }
        if length > max {
            self.report_at(node.line(), place, format!("the list must have at most {max} items, found {length}"), None);
            return Value::Null;
        }
        let read = node.items().enumerate().map(|(index, item)| self.read(item, items, &Place::Index(place, index)));
        Value::Array(read.collect())
    }

    fn map(&mut self, node: NodeRef<'_>, names: Option<&Format>, values: &Shape, place: &Place<'_>) -> Value {
        if !matches!(node.kind(), NodeKind::Mapping | NodeKind::Null) {
            return self.expected("a mapping", node, place);
        }
        let mut map = Map::new();
        for (name, line, value) in node.entries() {
            let place = &Place::Key(place, name);
            if let Some(format) = names
                && let Err(reason) = (format.check)(name)
            {
                self.report_at(line, place, format!("invalid {} {}: {reason}", format.what, quoted(name)), None);
            }
            map.insert(name.to_owned(), self.read(value, values, place));
        }
        Value::Object(map)
    }

    fn object(&mut self, node: NodeRef<'_>, object: &Object, place: &Place<'_>) -> Value {
        let Some(map) = self.keys(node, &[object.keys], place) else { return Value::Null };
        let misspelled = misspelled_keys(node, &[object.keys]);
        if !object.exactly_one.is_empty() && !object.exactly_one.iter().any(|name| misspelled.contains(name)) {
            let has = |name: &&&str| node.entries().any(|(key, ..)| key == **name);
            let present: Vec<_> = object.exactly_one.iter().filter(has).map(|name| format!("`{name}`")).collect();
            match present.as_slice() {
                [] => {
                    let message = format!("expected one of {}", list_names(object.exactly_one));
                    self.report_at(node.line(), place, message, None);
                }
                [_] => {}
                several => {
                    let message = format!("{} are mutually exclusive", several.join(" and "));
                    let nests = object.keys.iter().any(|key| key.name == "all_of");
                    let hint = if nests { "combine them with `all_of`" } else { "write one list item for each" };
                    self.report_at(node.line(), place, message, Some(hint.to_owned()));
                }
            }
        }
        Value::Object(map)
    }

    /// Reads a mapping whose keys are those of all `groups`.
    fn keys(&mut self, node: NodeRef<'_>, groups: &[&[Key]], place: &Place<'_>) -> Option<Map<String, Value>> {
        if node.kind() != NodeKind::Mapping {
            self.expected("a mapping", node, place);
            return None;
        }
        let known = || groups.iter().copied().flatten();
        let mut map = Map::new();
        for (name, line, value) in node.entries() {
            let place = &Place::Key(place, name);
            let Some(key) = known().find(|key| key.name == name) else {
                let names: Vec<&'static str> = known().map(|key| key.name).collect();
                let hint = did_you_mean(name, names.iter().copied())
                    .unwrap_or_else(|| format!("expected {}", list_names(&names)));
                self.report_at(line, place, format!("unknown key {}", quoted(name)), Some(hint));
                continue;
            };
            if value.kind() != NodeKind::Null {
                map.insert(name.to_owned(), self.read(value, &key.shape, place));
            }
        }
        let misspelled = misspelled_keys(node, groups);
        for key in known().filter(|key| key.is_required()) {
            if !map.contains_key(key.name) && !misspelled.contains(&key.name) {
                self.report_at(node.line(), &Place::Key(place, key.name), format!("missing key `{}`", key.name), None);
            }
        }
        Some(map)
    }

    fn variant(&mut self, node: NodeRef<'_>, variants: &Variants, place: &Place<'_>) -> Value {
        if let Some(text) = node.text() {
            return self.variant_name(node, text, variants, place);
        }
        let mut entries = node.entries();
        let (Some((name, line, value)), None) = (entries.next(), entries.next()) else {
            let message = format!("expected one {}, found {}", variants.what, shown(node));
            let example = variants.cases.first().map_or("name", |variant| variant.name);
            let hint = format!("write a name such as `{example}`, or a mapping from one name to its parameters");
            self.report_at(node.line(), place, message, Some(hint));
            return Value::Null;
        };
        let Some(variant) = find(variants.cases, name) else {
            return self.unknown_variant(line, name, variants, place);
        };
        let place = &Place::Key(place, name);
        let content = match &variant.content {
            Content::None if value.kind() == NodeKind::Null || is_empty_mapping(value) => return name.into(),
            Content::None => {
                self.report_at(value.line(), place, format!("`{name}` has no parameters"), None);
                return Value::Null;
            }
            Content::Keys(keys) if value.kind() == NodeKind::Null && variant.content.is_optional() => {
                debug_assert!(!keys.is_empty());
                Value::Object(Map::new())
            }
            Content::Keys(keys) => self.keys(value, &[keys], place).map_or(Value::Null, Value::Object),
            Content::Value(shape) => self.read(value, shape, place),
        };
        Value::Object(Map::from_iter([(name.to_owned(), content)]))
    }

    fn variant_name(&mut self, node: NodeRef<'_>, text: &str, variants: &Variants, place: &Place<'_>) -> Value {
        if variants.texts_are_names {
            return text.into();
        }
        let Some(variant) = find(variants.cases, text) else {
            return self.unknown_variant(node.line(), text, variants, place);
        };
        match &variant.content {
            Content::None => text.into(),
            content if content.is_optional() => Value::Object(Map::from_iter([(text.to_owned(), Map::new().into())])),
            content => {
                let needed: Vec<&str> =
                    content.keys().iter().filter(|key| key.is_required()).map(|key| key.name).collect();
                let hint = match needed.as_slice() {
                    [] => format!("write `{{{text}: [ … ]}}`"),
                    needed => format!("write `{{{text}: {{{}: …}}}}`", needed.join(": …, ")),
                };
                self.report_at(node.line(), place, format!("`{text}` needs parameters"), Some(hint));
                Value::Null
            }
        }
    }

    fn unknown_variant(&mut self, line: usize, name: &str, variants: &Variants, place: &Place<'_>) -> Value {
        let names = variants.cases.iter().map(|variant| variant.name);
        let hint = did_you_mean(name, names).unwrap_or_else(|| format!("expected {}", names_of(variants)));
        self.report_at(line, place, format!("unknown {} {}", variants.what, quoted(name)), Some(hint));
        Value::Null
    }

    fn tagged(&mut self, node: NodeRef<'_>, tagged: &Tagged, place: &Place<'_>) -> Value {
        if node.kind() != NodeKind::Mapping {
            return self.expected("a mapping", node, place);
        }
        let names: Vec<&'static str> = tagged.variants.iter().map(|variant| variant.name).collect();
        let Some((_, line, tag)) = node.entries().find(|(key, ..)| *key == tagged.tag) else {
            let message = format!("missing key `{}`", tagged.tag);
            self.report_at(
                node.line(),
                &Place::Key(place, tagged.tag),
                message,
                Some(format!("expected {}", one_of(&names))),
            );
            return Value::Null;
        };
        let Some(variant) = tag.text().and_then(|name| find(tagged.variants, name)) else {
            let written = tag.text().unwrap_or_default();
            let hint = did_you_mean(written, names.iter().copied());
            let message = format!("expected {}, found {}", one_of(&names), shown(tag));
            self.report_at(line, &Place::Key(place, tagged.tag), message, hint);
            return Value::Null;
        };
        let tag = [Key::required(tagged.tag, Shape::Any, "")];
        self.keys(node, &[&tag, tagged.common, variant.content.keys()], place).map_or(Value::Null, Value::Object)
    }

    fn any(&mut self, node: NodeRef<'_>, place: &Place<'_>) -> Value {
        match node.kind() {
            NodeKind::Null => Value::Null,
            NodeKind::Scalar => match node.scalar() {
                Ok(value) => value,
                Err(error) => {
                    self.report_at(node.line(), place, error.message(), None);
                    Value::Null
                }
            },
            NodeKind::Sequence => {
                let items = node.items().enumerate();
                Value::Array(
                    items.map(|(index, item)| self.read(item, &Shape::Any, &Place::Index(place, index))).collect(),
                )
            }
            NodeKind::Mapping => {
                let entries = node.entries();
                Value::Object(
                    entries
                        .map(|(name, _, value)| {
                            (name.to_owned(), self.read(value, &Shape::Any, &Place::Key(place, name)))
                        })
                        .collect(),
                )
            }
        }
    }
}

/// Returns the known keys that unknown ones seem to be. They are not reported as missing too.
fn misspelled_keys(node: NodeRef<'_>, groups: &[&[Key]]) -> Vec<&'static str> {
    let names: Vec<&'static str> = groups.iter().copied().flatten().map(|key| key.name).collect();
    let unknown = node.entries().map(|(name, ..)| name).filter(|name| !names.contains(name));
    unknown.filter_map(|name| wharf_protocol::nearest(name, names.iter().copied())).collect()
}

const TOO_MANY: &str = "the file becomes too many values";

fn find(variants: &'static [Variant], name: &str) -> Option<&'static Variant> {
    variants.iter().find(|variant| variant.name == name)
}

fn is_empty_mapping(node: NodeRef<'_>) -> bool {
    node.kind() == NodeKind::Mapping && node.entries().next().is_none()
}

/// Suggests the known name that a text is a misspelling of.
pub(crate) fn did_you_mean<'a>(text: &str, names: impl IntoIterator<Item = &'a str>) -> Option<String> {
    wharf_protocol::nearest(text, names).map(|name| format!("did you mean `{name}`?"))
}

fn names_of(variants: &Variants) -> String {
    list_names(&variants.cases.iter().map(|variant| variant.name).collect::<Vec<_>>())
}

fn list_names(names: &[&str]) -> String {
    names.iter().map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", ")
}

fn one_of(names: &[&str]) -> String {
    match names {
        [first, last] => format!("`{first}` or `{last}`"),
        names => format!("one of {}", list_names(names)),
    }
}

/// Describes a value in a message.
fn shown(node: NodeRef<'_>) -> String {
    match (node.kind(), node.text()) {
        (_, Some(text)) => match node.scalar() {
            Ok(Value::Number(_) | Value::Bool(_)) => format!("`{text}`"),
            _ => quoted(text),
        },
        (NodeKind::Sequence, _) => "a list".to_owned(),
        (NodeKind::Mapping, _) => match node.entries().count() {
            0 => "an empty mapping".to_owned(),
            1 => "a mapping".to_owned(),
            keys => format!("a mapping with {keys} keys"),
        },
        _ => "nothing".to_owned(),
    }
}

/// Returns the line of a path in a document: of the key or item, or of the mapping or list that lacks it.
pub(crate) fn line_of(root: NodeRef<'_>, path: &Path) -> usize {
    let mut node = root;
    let mut line = root.line();
    for segment in path.segments() {
        let next = match segment {
            Segment::Key(key) => node.entries().find(|(name, ..)| name == key).map(|(_, line, value)| (line, value)),
            Segment::Index(index) => node.item(*index).map(|item| (item.line(), item)),
        };
        let Some((found, value)) = next else { return line };
        (line, node) = (found, value);
    }
    line
}
