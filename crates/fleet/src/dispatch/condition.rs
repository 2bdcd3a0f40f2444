//! The one syntax that says which calls something is about: policies and hooks use it, for every tool.
//!
//! Terms stand side by side and all of them must hold:
//!
//! | term | holds for |
//! |---|---|
//! | `mcp__github__delete_*`, `search` | tools with this full name, or name of their own; `*` is any text |
//! | `mcp__github` | every tool of that server |
//! | `"/mcp__git(hub|lab)__.*/"` | tools whose whole name, or name of their own, fits a regular expression |
//! | `server:git*` | tools of servers with this name |
//! | `hint:destructive` | tools that say so; also `read-only`, `idempotent`, `open-world`, and `unknown` for those that say neither whether they destroy nor whether they only read |
//! | `arg.path=/etc/*` | calls with this argument; `arg.options.force=true` looks inside objects |
//!
//! `|` stands between alternatives in a term, `!` before a term turns it around, and `"…"` holds blanks and bars
//! together. No term at all holds for every call.

use std::cell::OnceCell;
use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};
use serde_json::Value;
use wharf_protocol::{Hints, Json, nearest};

use crate::catalog::Entry;
use wharf_config::Pattern;

/// Which calls something is about.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Condition {
    written: String,
    terms: Vec<Term>,
}

/// A text that is no condition.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{text}` is no condition: at character {position}, {reason}")]
pub struct InvalidCondition {
    /// The text.
    pub text: String,
    /// Where it goes wrong, in characters counted from 1.
    pub position: usize,
    /// What is wrong there.
    pub reason: String,
}

/// What a condition looks at. The arguments are read when the first condition asks for them.
pub(crate) struct Facts<'a> {
    pub(crate) entry: &'a Entry,
    pub(crate) arguments: &'a Json,
    pub(crate) read: OnceCell<Value>,
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
    /// As it was written.
    pub fn as_str(&self) -> &str {
        &self.written
    }

    /// Whether it holds for a call.
    pub fn holds(&self, entry: &Entry, arguments: &Json) -> bool {
        self.holds_for(&Facts::new(entry, arguments))
    }

    /// Whether it holds for some calls of a tool and not for others.
    pub(super) fn looks_at_arguments(&self) -> bool {
        self.terms.iter().any(|term| matches!(term.test, Test::Argument(..)))
    }

    /// The servers it names, as they are written, of which there is none among these.
    pub fn strangers(&self, servers: &[&str]) -> Vec<&str> {
        let mut strangers = Vec::new();
        for Term { test, .. } in self.terms.iter().filter(|term| !term.negated) {
            match test {
                Test::Server(patterns) => {
                    let is_strange = |pattern: &&Pattern| !servers.iter().any(|server| pattern.fits(server));
                    strangers.extend(patterns.iter().filter(is_strange).map(Pattern::as_str));
                }
                Test::Name(patterns) => {
                    let is_strange = |pattern: &&Pattern| !servers.iter().any(|server| pattern.is_of(server));
                    strangers.extend(patterns.iter().filter(is_strange).filter_map(Pattern::server));
                }
                Test::Hint(_) | Test::Argument(..) => {}
            }
        }
        strangers
    }

    pub(crate) fn holds_for(&self, facts: &Facts<'_>) -> bool {
        self.terms.iter().all(|term| term.test.holds(facts) != term.negated)
    }
}

impl<'a> Facts<'a> {
    pub(crate) fn new(entry: &'a Entry, arguments: &'a Json) -> Self {
        Self { entry, arguments, read: OnceCell::new() }
    }

    /// An argument as text, by its name or by the path to it.
    fn argument(&self, path: &str) -> Option<String> {
        let arguments = self.read.get_or_init(|| self.arguments.to_value().unwrap_or_default());
        let found =
            arguments.get(path).or_else(|| path.split('.').try_fold(arguments, |inside, name| inside.get(name)));
        found.map(|found| found.as_str().map_or_else(|| found.to_string(), str::to_owned))
    }
}

impl Test {
    fn holds(&self, facts: &Facts<'_>) -> bool {
        let entry = facts.entry;
        match self {
            Self::Name(patterns) => {
                let named = entry.named();
                patterns.iter().any(|pattern| pattern.fits_tool(&named))
            }
            Self::Server(patterns) => {
                let server = entry.server.as_ref();
                server.is_some_and(|server| patterns.iter().any(|pattern| pattern.fits(server.as_str())))
            }
            Self::Hint(hints) => hints.iter().any(|hint| hint.holds(entry.hints)),
            Self::Argument(name, patterns) => {
                let found = facts.argument(name);
                found.is_some_and(|found| patterns.iter().any(|pattern| pattern.fits(&found)))
            }
        }
    }
}

impl Hint {
    fn holds(self, hints: Hints) -> bool {
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
        Ok(Self { written: text.to_owned(), terms })
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
        condition.written
    }
}

impl fmt::Display for Condition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.terms.is_empty() { "*" } else { &self.written })
    }
}

/// An alternative, and the place it begins at.
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
            return Err(self.fault(start, "an alternative is empty"));
        }
        let test = match head.as_deref() {
            None => Test::Name(self.patterns(&first)?),
            Some("server:") => Test::Server(self.patterns(&first)?),
            Some("hint:") => Test::Hint(self.hints(&first)?),
            // A path may begin and end with a slash and be no expression.
            Some(argument) => {
                Test::Argument(argument.to_owned(), first.iter().map(|(_, piece)| Pattern::new(piece)).collect())
            }
        };
        Ok(Term { negated, test })
    }

    /// What a term is about, `None` for names, and its alternatives.
    fn alternatives(&mut self) -> Result<(Option<String>, Vec<Piece>), InvalidCondition> {
        let (mut head, mut pieces) = (None, vec![(self.position(), String::new())]);
        let (mut quoted, mut literal) = (None, false);
        while let Some((at, c)) = self.chars.next_if(|(_, c)| quoted.is_some() || !c.is_whitespace()) {
            let only = pieces.len() == 1;
            let (_, piece) = pieces.last_mut().expect("there is always one");
            match c {
                '"' => (quoted, literal) = (quoted.is_none().then_some(at), true),
                '|' if quoted.is_none() => pieces.push((at + 1, String::new())),
                ':' if quoted.is_none() && head.is_none() && only && matches!(&**piece, "server" | "hint") => {
                    head = Some(format!("{piece}:"));
                    pieces = vec![(at + 1, String::new())];
                }
                '=' if quoted.is_none() && head.is_none() && only && piece.starts_with("arg.") => {
                    let name = piece["arg.".len()..].to_owned();
                    if name.is_empty() {
                        return Err(self.fault(at, "`arg.` needs the name of an argument"));
                    }
                    head = Some(name);
                    pieces = vec![(at + 1, String::new())];
                }
                c => piece.push(c),
            }
        }
        if let Some(at) = quoted {
            return Err(self.fault(at, "a quotation mark is never closed"));
        }
        let (at, piece) = &pieces[0];
        if head.is_none() && !literal {
            if piece.starts_with("arg.") {
                return Err(self.fault(*at, "an argument needs `=` and a pattern: `arg.NAME=PATTERN`"));
            }
            if let Some((word, _)) = piece.split_once(':') {
                let near = nearest(word, ["server", "hint"]);
                let near = near.map(|near| format!("; did you mean `{near}:`?")).unwrap_or_default();
                return Err(self.fault(*at, &format!("there is no `{word}:`{near}")));
            }
        }
        Ok((head, pieces))
    }

    fn patterns(&self, pieces: &[Piece]) -> Result<Vec<Pattern>, InvalidCondition> {
        let pattern = |(at, piece): &Piece| {
            Pattern::read(piece).map_err(|error| {
                let cut = piece.len() == 1 || !piece.ends_with('/');
                let hint = if cut { "; quotation marks hold blanks and bars together" } else { "" };
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
                self.fault(*at, &format!("there is no hint `{piece}`; there are {known}"))
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
