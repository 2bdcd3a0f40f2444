//! Conditions: the syntax by which policies and hooks select calls.
//!
//! A condition is a list of terms, and all of them must match:
//!
//! | term | matches |
//! |---|---|
//! | `mcp__github__delete_*`, `search` | tools with this full or bare name; `*` is any text |
//! | `mcp__github` | every tool of that server |
//! | `"/mcp__git(hub|lab)__.*/"` | tools whose full or bare name matches a regular expression |
//! | `server:git*` | tools of servers with this name |
//! | `hint:destructive` | tools with this hint; also `read-only`, `idempotent`, `open-world`, and `unknown` for tools with neither `destructive` nor `read-only` |
//! | `arg.path=/etc/*` | calls with this argument; `arg.options.force=true` selects inside objects. Upper and lower case of names are the same. Each element of an array is an argument of its own. A path matches with and without its `.`, `..` and `//` |
//!
//! `|` separates alternatives in a term, `!` before a term negates it, and `"…"` quotes blanks and bars. An empty condition
//! matches every call.

mod path_form;

use std::cell::OnceCell;
use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};
use serde_json::Value;
use wharf_protocol::{Hints, Json, nearest};

use crate::catalog::Entry;
use wharf_config::Pattern;

/// A selection of calls.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Condition {
    text: String,
    terms: Vec<Term>,
}

/// A syntax error in a condition.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("invalid condition `{text}`: at character {position}: {reason}")]
pub struct InvalidCondition {
    /// The condition.
    pub text: String,
    /// The position of the error, in characters counted from 1.
    pub position: usize,
    /// The error.
    pub reason: String,
}

/// The call that a condition is matched against. The arguments are parsed when a term first needs them.
pub(crate) struct Facts<'a> {
    pub(crate) entry: &'a Entry,
    pub(crate) arguments: &'a Json,
    pub(crate) parsed: OnceCell<Value>,
}

/// Which elements of an argument a condition must match. A rule that restricts calls applies if any element matches; a
/// rule that allows calls, only if all do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Elements {
    Any,
    All,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Term {
    negated: bool,
    test: Test,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Test {
    Name(Vec<Pattern>),
    Server(Vec<Pattern>),
    Hint(Vec<Hint>),
    Argument(String, Vec<Pattern>),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Hint {
    Destructive,
    ReadOnly,
    Idempotent,
    OpenWorld,
    Unknown,
}

const HINTS: [(&str, Hint); 5] = [
    ("destructive", Hint::Destructive),
    ("read-only", Hint::ReadOnly),
    ("idempotent", Hint::Idempotent),
    ("open-world", Hint::OpenWorld),
    ("unknown", Hint::Unknown),
];

impl Condition {
    /// The text of the condition.
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// Whether the condition matches a call, or one of the elements of its arguments.
    pub fn matches(&self, entry: &Entry, arguments: &Json) -> bool {
        self.matches_facts(&Facts::new(entry, arguments), Elements::Any)
    }

    /// Whether the condition can match some calls of a tool and not others.
    pub(super) fn depends_on_arguments(&self) -> bool {
        self.terms.iter().any(|term| matches!(term.test, Test::Argument(..)))
    }

    /// Returns the server names of the condition that match none of `servers`.
    pub fn unknown_servers(&self, servers: &[&str]) -> Vec<&str> {
        let mut unknown = Vec::new();
        for Term { test, .. } in self.terms.iter().filter(|term| !term.negated) {
            match test {
                Test::Server(patterns) => {
                    let is_unknown = |pattern: &&Pattern| !servers.iter().any(|server| pattern.fits(server));
                    unknown.extend(patterns.iter().filter(is_unknown).map(Pattern::as_str));
                }
                Test::Name(patterns) => {
                    let is_unknown = |pattern: &&Pattern| !servers.iter().any(|server| pattern.is_of(server));
                    unknown.extend(patterns.iter().filter(is_unknown).filter_map(Pattern::server));
                }
                Test::Hint(_) | Test::Argument(..) => {}
            }
        }
        unknown
    }

    pub(crate) fn matches_facts(&self, facts: &Facts<'_>, elements: Elements) -> bool {
        self.terms.iter().all(|term| term.matches(facts, elements))
    }
}

impl<'a> Facts<'a> {
    pub(crate) fn new(entry: &'a Entry, arguments: &'a Json) -> Self {
        Self { entry, arguments, parsed: OnceCell::new() }
    }

    /// Whether an argument exists by its exact name or path, in every element of the arrays on its path.
    fn has_argument(&self, path: &str) -> bool {
        let arguments = self.arguments();
        arguments.get(path).is_some() || has_path(arguments, &path.split('.').collect::<Vec<_>>())
    }

    fn arguments(&self) -> &Value {
        self.parsed.get_or_init(|| self.arguments.to_value().unwrap_or_default())
    }

    /// Returns the texts of an argument, by its name or its path: one for each element of an array, and `inside` also one for
    /// each value in an object.
    fn argument(&self, path: &str, inside: Inside) -> Vec<String> {
        let arguments = self.arguments();
        let mut found = named(arguments, path);
        if path.contains('.') {
            let inside = path.split('.').fold(vec![arguments], |inside, name| {
                inside.into_iter().flat_map(|value| named(value, name)).collect()
            });
            found.extend(inside);
        }
        let mut texts = Vec::new();
        for value in found {
            add_texts(value, inside, &mut texts);
        }
        texts
    }
}

fn has_path(value: &Value, path: &[&str]) -> bool {
    match (value, path) {
        (_, []) => true,
        (Value::Array(elements), _) => !elements.is_empty() && elements.iter().all(|element| has_path(element, path)),
        (value, [name, rest @ ..]) => value.get(name).is_some_and(|value| has_path(value, rest)),
    }
}

/// Returns the fields with a name, also those of the objects in an array. Servers differ in whether they distinguish upper
/// and lower case, and a rule must hold for all of them.
fn named<'a>(value: &'a Value, name: &str) -> Vec<&'a Value> {
    match value {
        Value::Object(fields) => {
            let is_named = |field: &str| field == name || field.to_lowercase() == name.to_lowercase();
            fields.iter().filter(|(field, _)| is_named(field)).map(|(_, value)| value).collect()
        }
        Value::Array(elements) => elements.iter().flat_map(|element| named(element, name)).collect(),
        _ => Vec::new(),
    }
}

/// Whether the values in an object count like the object itself.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Inside {
    Ignore,
    Count,
}

fn add_texts(value: &Value, inside: Inside, texts: &mut Vec<String>) {
    match value {
        Value::String(text) => texts.push(text.clone()),
        Value::Array(elements) if !elements.is_empty() => {
            for element in elements {
                add_texts(element, inside, texts);
            }
        }
        other => texts.push(other.to_string()),
    }
    if let (Value::Object(fields), Inside::Count) = (value, inside) {
        for value in fields.values() {
            add_texts(value, inside, texts);
        }
    }
}

impl Term {
    fn matches(&self, facts: &Facts<'_>, elements: Elements) -> bool {
        let Test::Argument(name, patterns) = &self.test else { return self.test.matches(facts) != self.negated };
        // A rule that restricts calls looks everywhere, and so does an exception from a rule that allows them.
        let is_strict = elements == Elements::Any || self.negated;
        let texts = facts.argument(name, if is_strict { Inside::Count } else { Inside::Ignore });
        let matches = |text: &str| patterns.iter().any(|pattern| pattern.fits(text)) != self.negated;
        let allows = |form: &str| {
            // A path that leaves its folder is in no other one, but an exception holds for it all the same.
            let is_elsewhere =
                |pattern: &Pattern| !self.negated && path_form::is_outside(form) && is_in_folder(pattern);
            let fits = |pattern: &Pattern| pattern.fits(form) && !is_elsewhere(pattern);
            patterns.iter().any(fits) != self.negated
        };
        match elements {
            _ if texts.is_empty() => self.negated,
            Elements::Any => {
                texts.iter().any(|text| matches(text) || path_form::normalized(text).is_some_and(|form| matches(&form)))
            }
            // Another spelling of the name can only prevent a match: the server may ignore it.
            Elements::All => {
                let is_allowed =
                    |text: &String| allows(text) && path_form::normalized(text).is_none_or(|form| allows(&form));
                texts.iter().all(is_allowed) && (self.negated || facts.has_argument(name))
            }
        }
    }
}

/// Whether a pattern is about the content of a folder other than one above.
fn is_in_folder(pattern: &Pattern) -> bool {
    pattern.as_str().contains('/') && !path_form::is_outside(pattern.as_str())
}

impl Test {
    fn matches(&self, facts: &Facts<'_>) -> bool {
        let entry = facts.entry;
        match self {
            Self::Name(patterns) => {
                let names = entry.named();
                patterns.iter().any(|pattern| pattern.fits_tool(&names))
            }
            Self::Server(patterns) => {
                let server = entry.server.as_ref();
                server.is_some_and(|server| patterns.iter().any(|pattern| pattern.fits(server.as_str())))
            }
            Self::Hint(hints) => hints.iter().any(|hint| hint.matches(entry.hints)),
            Self::Argument(..) => false,
        }
    }
}

impl Hint {
    fn matches(self, hints: Hints) -> bool {
        match self {
            Self::Destructive => hints.destructive == Some(true),
            Self::ReadOnly => hints.read_only == Some(true),
            Self::Idempotent => hints.idempotent == Some(true),
            Self::OpenWorld => hints.open_world == Some(true),
            Self::Unknown => hints.read_only.is_none() && hints.destructive.is_none(),
        }
    }
}

impl FromStr for Condition {
    type Err = InvalidCondition;

    fn from_str(text: &str) -> Result<Self, InvalidCondition> {
        let mut reader = Reader { text, chars: text.chars().enumerate().peekable() };
        let mut terms = Vec::new();
        while reader.chars.next_if(|(_, c)| c.is_whitespace()).is_some() || reader.chars.peek().is_some() {
            if reader.chars.peek().is_some_and(|(_, c)| !c.is_whitespace()) {
                terms.push(reader.term()?);
            }
        }
        Ok(Self { text: text.to_owned(), terms })
    }
}

impl TryFrom<String> for Condition {
    type Error = InvalidCondition;

    fn try_from(text: String) -> Result<Self, InvalidCondition> {
        text.parse()
    }
}

impl From<Condition> for String {
    fn from(condition: Condition) -> Self {
        condition.text
    }
}

impl fmt::Display for Condition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.terms.is_empty() { "*" } else { &self.text })
    }
}

/// The position and the text of an alternative.
type Piece = (usize, String);

struct Reader<'a> {
    text: &'a str,
    chars: std::iter::Peekable<std::iter::Enumerate<std::str::Chars<'a>>>,
}

impl Reader<'_> {
    fn term(&mut self) -> Result<Term, InvalidCondition> {
        let start = self.position();
        let mut negated = false;
        while self.chars.next_if(|(_, c)| *c == '!').is_some() {
            negated = !negated;
        }
        let (head, first) = self.alternatives()?;
        if first.iter().any(|(_, piece)| piece.is_empty()) {
            return Err(self.fault(start, "empty alternative"));
        }
        let test = match head.as_deref() {
            None => Test::Name(self.patterns(&first)?),
            Some("server:") => Test::Server(self.patterns(&first)?),
            Some("hint:") => Test::Hint(self.hints(&first)?),
            // A path may begin and end with a slash without being a regular expression.
            Some(argument) => {
                Test::Argument(argument.to_owned(), first.iter().map(|(_, piece)| Pattern::new(piece)).collect())
            }
        };
        Ok(Term { negated, test })
    }

    /// Reads the subject of a term, `None` for names, and its alternatives.
    fn alternatives(&mut self) -> Result<(Option<String>, Vec<Piece>), InvalidCondition> {
        let mut head = None;
        let mut pieces = vec![(self.position(), String::new())];
        let mut quoted = None;
        let mut literal = false;
        while let Some((at, c)) = self.chars.next_if(|(_, c)| quoted.is_some() || !c.is_whitespace()) {
            let only = pieces.len() == 1;
            let (_, piece) = pieces.last_mut().expect("at least one piece");
            match c {
                '"' => {
                    quoted = quoted.is_none().then_some(at);
                    literal = true;
                }
                '|' if quoted.is_none() => pieces.push((at + 1, String::new())),
                ':' if quoted.is_none() && head.is_none() && only && matches!(&**piece, "server" | "hint") => {
                    head = Some(format!("{piece}:"));
                    pieces = vec![(at + 1, String::new())];
                }
                '=' if quoted.is_none() && head.is_none() && only && piece.starts_with("arg.") => {
                    let name = piece["arg.".len()..].to_owned();
                    if name.is_empty() {
                        return Err(self.fault(at, "missing argument name after `arg.`"));
                    }
                    head = Some(name);
                    pieces = vec![(at + 1, String::new())];
                }
                c => piece.push(c),
            }
        }
        if let Some(at) = quoted {
            return Err(self.fault(at, "unclosed quotation mark"));
        }
        let (at, piece) = &pieces[0];
        if head.is_none() && !literal {
            if piece.starts_with("arg.") {
                return Err(self.fault(*at, "missing `=PATTERN`: expected `arg.NAME=PATTERN`"));
            }
            if let Some((word, _)) = piece.split_once(':') {
                let near = nearest(word, ["server", "hint"]);
                let near = near.map(|near| format!("; did you mean `{near}:`?")).unwrap_or_default();
                return Err(self.fault(*at, &format!("unknown prefix `{word}:`{near}")));
            }
        }
        Ok((head, pieces))
    }

    fn patterns(&self, pieces: &[Piece]) -> Result<Vec<Pattern>, InvalidCondition> {
        let pattern = |(at, piece): &Piece| {
            Pattern::read(piece).map_err(|error| {
                let cut = piece.len() == 1 || !piece.ends_with('/');
                let hint = if cut { "; quote blanks and bars with quotation marks" } else { "" };
                self.fault(*at, &format!("{error}{hint}"))
            })
        };
        pieces.iter().map(pattern).collect()
    }

    fn hints(&self, pieces: &[Piece]) -> Result<Vec<Hint>, InvalidCondition> {
        let hint = |(at, piece): &Piece| {
            let found = HINTS.iter().find(|(name, _)| name == piece).map(|(_, hint)| *hint);
            found.ok_or_else(|| {
                let known = HINTS.map(|(name, _)| name).join(", ");
                self.fault(*at, &format!("unknown hint `{piece}`: expected {known}"))
            })
        };
        pieces.iter().map(hint).collect()
    }

    fn position(&mut self) -> usize {
        self.chars.peek().map_or_else(|| self.text.chars().count(), |(at, _)| *at)
    }

    fn fault(&self, at: usize, reason: &str) -> InvalidCondition {
        InvalidCondition { text: self.text.to_owned(), position: at + 1, reason: reason.to_owned() }
    }
}
