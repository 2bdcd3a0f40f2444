//! Problems of a benchmark: where, what, and how to fix it.

use std::fmt;

/// A problem of a benchmark file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// The line, counted from 1; 0 if the problem concerns the whole file.
    pub line: usize,
    /// The path of keys, such as `questions[2].template.fields[0].check`; empty for the whole file.
    pub path: String,
    /// What is wrong.
    pub message: String,
    /// How to fix it.
    pub hint: Option<String>,
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.line > 0 {
            write!(f, "line {}: ", self.line)?;
        }
        write_finding(f, &self.path, &self.message, self.hint.as_deref())
    }
}

fn write_finding(f: &mut fmt::Formatter<'_>, path: &str, message: &str, hint: Option<&str>) -> fmt::Result {
    if !path.is_empty() {
        write!(f, "{path}: ")?;
    }
    f.write_str(message)?;
    hint.map_or(Ok(()), |hint| write!(f, " ({hint})"))
}

/// A problem before its line is known.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Finding {
    pub(crate) path: Path,
    pub(crate) message: String,
    pub(crate) hint: Option<String>,
}

impl Finding {
    pub(crate) fn new(path: Path, message: impl Into<String>) -> Self {
        Self { path, message: message.into(), hint: None }
    }

    #[must_use]
    pub(crate) fn with_hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_finding(f, &self.path.to_string(), &self.message, self.hint.as_deref())
    }
}

/// A path of keys and positions in a file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Path(Vec<Segment>);

/// One step of a path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Segment {
    Key(String),
    Index(usize),
}

impl Path {
    /// Returns the path of a key in the mapping at this path.
    pub(crate) fn key(&self, key: &str) -> Self {
        self.clone().with(Segment::Key(key.to_owned()))
    }

    /// Returns the path of an item in the list at this path.
    pub(crate) fn index(&self, index: usize) -> Self {
        self.clone().with(Segment::Index(index))
    }

    /// Returns the path of something below this path.
    pub(crate) fn join(&self, below: &Self) -> Self {
        Self(self.0.iter().chain(&below.0).cloned().collect())
    }

    pub(crate) fn segments(&self) -> &[Segment] {
        &self.0
    }

    fn with(mut self, segment: Segment) -> Self {
        self.0.push(segment);
        self
    }
}

/// A path that borrows from the places above it: reading a file makes a path only for problems.
#[derive(Clone, Copy)]
pub(crate) enum Place<'a> {
    Root(&'a Path),
    Key(&'a Place<'a>, &'a str),
    Index(&'a Place<'a>, usize),
}

impl Place<'_> {
    pub(crate) fn path(&self) -> Path {
        match self {
            Self::Root(path) => (*path).clone(),
            Self::Key(above, key) => above.path().with(Segment::Key((*key).to_owned())),
            Self::Index(above, index) => above.path().with(Segment::Index(*index)),
        }
    }
}

impl fmt::Display for Path {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let is_plain = |key: &str| {
            !key.is_empty()
                && key.len() <= MAX_PLAIN_KEY_BYTES
                && key.chars().all(|c| c.is_alphanumeric() || "_-/".contains(c))
        };
        for (position, segment) in self.0.iter().enumerate() {
            match segment {
                Segment::Index(index) => write!(f, "[{index}]")?,
                Segment::Key(key) if is_plain(key) => {
                    if position > 0 {
                        f.write_str(".")?;
                    }
                    f.write_str(key)?;
                }
                Segment::Key(key) => write!(f, "[{}]", quoted(key))?,
            }
        }
        Ok(())
    }
}

/// Longer keys are quoted and cut.
const MAX_PLAIN_KEY_BYTES: usize = 64;
/// The maximum length of a value in a message, in characters.
const MAX_QUOTED_CHARS: usize = 80;

/// Quotes a text of a file for a message: on one line, without control characters, and cut if it is long.
pub(crate) fn quoted(text: &str) -> String {
    serde_json::Value::from(cut(text, MAX_QUOTED_CHARS)).to_string()
}

/// Returns a value as JSON for a message, cut if it is long.
pub(crate) fn shown_json(value: &serde_json::Value) -> String {
    cut(&value.to_string(), MAX_QUOTED_CHARS)
}

/// Cuts a text to a number of characters, and marks the cut.
pub(crate) fn cut(text: &str, max_chars: usize) -> String {
    match text.char_indices().nth(max_chars) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_show_keys_and_positions_and_quote_unusual_keys() {
        let path = Path::default().key("questions").index(2).key("template").key("fields").index(0).key("check");
        assert_eq!(path.to_string(), "questions[2].template.fields[0].check");
        assert_eq!(Path::default().key("servers").key("a b\n").to_string(), "servers[\"a b\\n\"]");
        assert_eq!(Path::default().to_string(), "");
        assert!(Path::default().key(&"k".repeat(500)).to_string().len() < 100);
    }

    #[test]
    fn quoted_values_are_short_and_stay_on_one_line() {
        assert_eq!(quoted("a\nb"), "\"a\\nb\"");
        assert!(quoted(&"x".repeat(1000)).chars().count() <= 83);
    }
}
