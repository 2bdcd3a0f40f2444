//! Regular expressions of benchmark files. They match in linear time, and their compiled size is limited.

use std::fmt;

use regex::{Regex, RegexBuilder};
use serde::{Deserialize, Serialize};

/// The maximum size of a compiled expression: a benchmark may come from an untrusted source.
const MAX_EXPRESSION_BYTES: usize = 1 << 20;
/// The maximum length of an expression as written.
const MAX_PATTERN_BYTES: usize = 16 * 1024;

/// A regular expression that was compiled when it was read.
#[derive(Clone, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Expression {
    pattern: String,
    regex: Regex,
}

/// An invalid or too large regular expression.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("invalid regular expression: {reason}")]
pub struct InvalidExpression {
    /// Why it is invalid.
    pub reason: String,
}

/// A flag of a regular expression.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RegexFlag {
    /// Letters match both cases.
    IgnoreCase,
    /// `^` and `$` match at every line.
    Multiline,
    /// `.` matches line ends too.
    DotAll,
    /// White space and comments in the expression are ignored.
    Verbose,
}

impl Expression {
    /// Compiles an expression.
    ///
    /// # Errors
    /// If it is invalid or too large.
    pub fn new(pattern: &str) -> Result<Self, InvalidExpression> {
        Self::with_flags(pattern, &[])
    }

    /// Compiles an expression with flags.
    ///
    /// # Errors
    /// If it is invalid or too large.
    pub fn with_flags(pattern: &str, flags: &[RegexFlag]) -> Result<Self, InvalidExpression> {
        if pattern.len() > MAX_PATTERN_BYTES {
            return Err(InvalidExpression { reason: format!("longer than {MAX_PATTERN_BYTES} bytes") });
        }
        let has = |flag| flags.contains(&flag);
        let compiled = RegexBuilder::new(pattern)
            .size_limit(MAX_EXPRESSION_BYTES)
            .case_insensitive(has(RegexFlag::IgnoreCase))
            .multi_line(has(RegexFlag::Multiline))
            .dot_matches_new_line(has(RegexFlag::DotAll))
            .ignore_whitespace(has(RegexFlag::Verbose))
            .build();
        let regex = compiled.map_err(|error| InvalidExpression { reason: reason(&error) })?;
        Ok(Self { pattern: pattern.to_owned(), regex })
    }

    /// Returns the expression as written.
    pub fn as_str(&self) -> &str {
        &self.pattern
    }

    /// Returns whether it matches anywhere in a text.
    pub fn is_match(&self, text: &str) -> bool {
        self.regex.is_match(text)
    }

    /// Returns the first match in a text: its first group, or else the whole match.
    pub fn first_match<'t>(&self, text: &'t str) -> Option<&'t str> {
        let captures = self.regex.captures(text)?;
        captures.get(1).or_else(|| captures.get(0)).map(|found| found.as_str())
    }

    /// Returns whether it matches at least `count` times, without overlaps.
    pub fn matches_at_least(&self, text: &str, count: usize) -> bool {
        count == 0 || self.regex.find_iter(text).nth(count - 1).is_some()
    }
}

/// Returns the last line of an error, which is its reason; the lines before repeat the expression.
fn reason(error: &regex::Error) -> String {
    match error {
        regex::Error::CompiledTooBig(_) => "it is too large".to_owned(),
        other => {
            let text = other.to_string();
            text.lines().last().unwrap_or_default().trim_start_matches("error: ").to_owned()
        }
    }
}

impl PartialEq for Expression {
    fn eq(&self, other: &Self) -> bool {
        self.pattern == other.pattern
    }
}

impl fmt::Debug for Expression {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Expression({:?})", self.pattern)
    }
}

impl TryFrom<String> for Expression {
    type Error = InvalidExpression;

    fn try_from(pattern: String) -> Result<Self, InvalidExpression> {
        Self::new(&pattern)
    }
}

impl From<Expression> for String {
    fn from(expression: Expression) -> Self {
        expression.pattern
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn expressions_are_limited_in_size() {
        let error = |pattern: &str| Expression::new(pattern).unwrap_err().reason;
        assert_eq!(error(r"((\w{100}){100}){100}"), "it is too large");
        assert_eq!(error(&"a".repeat(20_000)), "longer than 16384 bytes");
        assert_eq!(error("a("), "unclosed group");
    }

    #[test]
    fn flags_change_what_matches() {
        let matches = |flags: &[RegexFlag], pattern: &str, text: &str| {
            Expression::with_flags(pattern, flags).unwrap().is_match(text)
        };
        for (flag, pattern, text) in [
            (RegexFlag::IgnoreCase, "tokyo", "TOKYO"),
            (RegexFlag::Multiline, "^b$", "a\nb"),
            (RegexFlag::DotAll, "a.b", "a\nb"),
            (RegexFlag::Verbose, "a b # comment", "ab"),
        ] {
            assert!(!matches(&[], pattern, text), "{flag:?}");
            assert!(matches(&[flag], pattern, text), "{flag:?}");
        }
    }

    #[test]
    fn the_first_match_is_its_group_or_the_whole() {
        let first = |pattern: &str, text| Expression::new(pattern).unwrap().first_match(text).map(str::to_owned);
        assert_eq!(first("([0-9]+) h", "9 h, 10 h").as_deref(), Some("9"));
        assert_eq!(first("[0-9]+ h", "9 h").as_deref(), Some("9 h"));
        assert_eq!(first("(x)?y", "y").as_deref(), Some("y"));
        assert_eq!(first("x", "y"), None);
    }

    #[test]
    fn matches_are_counted_without_overlaps() {
        let expression = Expression::new("aa").unwrap();
        assert!(expression.matches_at_least("aaaa", 2) && !expression.matches_at_least("aaaa", 3));
        assert!(expression.matches_at_least("", 0) && !expression.matches_at_least("", 1));
    }
}
