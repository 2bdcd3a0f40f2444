//! Patterns for tool names in filters, policies and hooks.
//!
//! `*` matches any text, and so does `.*`, as in regular expressions. A pattern matches a tool by its own name or its full
//! name. `mcp__github` matches all tools of that server. In filters, `/…/` is a regular expression for whole names.

use std::borrow::Cow;

use regex::Regex;
use wharf_protocol::ServerName;
use wharf_protocol::naming::{PREFIX, plain};

/// A pattern for tool names.
#[derive(Clone, Debug)]
pub struct Pattern {
    text: String,
    expression: Option<Regex>,
    /// Computed once: every call is compared with every rule.
    parts: PatternParts,
}

#[derive(Clone, Debug)]
struct PatternParts {
    /// The text before, between and after the stars. A single piece is an exact name.
    pieces: Box<[Box<str>]>,
    /// Whether it applies to full names only.
    is_prefixed: bool,
    /// Whether it shows where the server name ends.
    ends_server: bool,
}

/// An invalid regular expression between slashes.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("invalid regular expression `{text}`: {reason}")]
pub struct InvalidPattern {
    /// The pattern as written.
    pub text: String,
    /// Why it is invalid.
    pub reason: String,
}

/// Maximum size of a compiled expression: a configuration may come from an untrusted project.
const MAX_EXPRESSION_BYTES: usize = 1 << 20;

/// The names of a tool that patterns match.
#[derive(Clone, Copy, Debug)]
pub struct ToolNames<'a> {
    /// The name that the model uses.
    pub visible: &'a str,
    /// The server of the tool; `None` for a tool of the host.
    pub server: Option<&'a ServerName>,
    /// The name on the server.
    pub tool: &'a str,
}

impl Pattern {
    /// Parses a pattern with `*`. Every text is valid.
    pub fn new(text: &str) -> Self {
        let mut text = text.replace(".*", "*");
        while text.contains("**") {
            text = text.replace("**", "*");
        }
        let pieces: Box<[Box<str>]> = text.split('*').map(Box::from).collect();
        let ends_server = pieces[0].strip_prefix(PREFIX).is_some_and(|named| named.contains("__"));
        let parts = PatternParts { is_prefixed: text.starts_with(PREFIX), ends_server, pieces };
        Self { text, expression: None, parts }
    }

    /// Parses a pattern that may be a regular expression between slashes.
    ///
    /// # Errors
    /// If the regular expression is invalid or too large.
    pub fn read(text: &str) -> Result<Self, InvalidPattern> {
        let invalid = |reason: String| InvalidPattern { text: text.to_owned(), reason };
        let Some(rest) = text.strip_prefix('/') else { return Ok(Self::new(text)) };
        let Some(inner) = rest.strip_suffix('/').filter(|inner| !inner.is_empty()) else {
            return Err(invalid("expected an expression between two slashes".to_owned()));
        };
        let whole = format!("^(?:{inner})$");
        let compiled = regex::RegexBuilder::new(&whole).size_limit(MAX_EXPRESSION_BYTES).build();
        let expression = compiled.map_err(|error| {
            let error = error.to_string();
            invalid(error.lines().last().unwrap_or_default().trim_start_matches("error: ").to_owned())
        })?;
        let is_prefixed = text.trim_start_matches(['/', '^', '(', '?', ':']).starts_with(PREFIX);
        let ends_server = text.matches("__").nth(1).is_some();
        let parts = PatternParts { pieces: Box::default(), is_prefixed, ends_server };
        Ok(Self { text: text.to_owned(), expression: Some(expression), parts })
    }

    /// Returns the pattern as written, with every `.*` as `*` unless it is a regular expression.
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// Returns the server of a pattern for full names, if the pattern shows where the server name ends.
    pub fn server(&self) -> Option<&str> {
        let named = self.text.strip_prefix(PREFIX)?;
        let literal = named.split('*').next().unwrap_or_default();
        let server = literal.split("__").next().filter(|server| !server.is_empty())?;
        Some(server)
    }

    /// Returns whether a pattern can match a tool of this server.
    pub fn is_of(&self, server: &str) -> bool {
        let Some(named) = self.text.strip_prefix(PREFIX) else { return true };
        let literal = named.split('*').next().unwrap_or_default();
        let is_of = |server: &str| {
            let rest = literal.strip_prefix(server);
            let is_open = !self.is_exact() && server.starts_with(literal);
            is_open || rest.is_some_and(|rest| rest.is_empty() || rest.starts_with("__"))
        };
        is_of(server) || is_of(&plain(server))
    }

    /// Returns whether it matches a single name only.
    pub fn is_exact(&self) -> bool {
        self.parts.pieces.len() == 1
    }

    /// Returns whether it matches a text.
    pub fn fits(&self, text: &str) -> bool {
        match &self.expression {
            Some(expression) => expression.is_match(text),
            None => glob(&self.parts.pieces, text),
        }
    }

    /// Returns whether it matches a tool.
    pub fn fits_tool(&self, named: &ToolNames<'_>) -> bool {
        let Some(server) = named.server else { return self.fits(named.tool) || self.fits(named.visible) };
        // A server may name its tool like another server's full name; a prefixed pattern matches full names only.
        if !self.parts.is_prefixed && self.fits(named.tool) {
            return true;
        }
        if self.is_exact() {
            // An ambiguous name means only the tool that is visible under it.
            let is_full_name = || !server.as_str().contains("__") && self.text == full_name(named, server);
            return self.text == named.visible || self.is_whole_server(server) || is_full_name();
        }
        let matches_full = || match full_name(named, server) {
            Cow::Borrowed(_) => false, // Same as the visible name.
            Cow::Owned(full) => self.fits(&full),
        };
        self.allows_server(server) && (self.fits(named.visible) || matches_full())
    }

    /// Returns whether it names a whole server.
    fn is_whole_server(&self, server: &ServerName) -> bool {
        let named = self.text.strip_prefix(PREFIX);
        named.is_some_and(|named| named == server.as_str() || named == plain(server.as_str()))
    }

    /// Returns whether the server name in the pattern is this server's. `mcp__github__*` means the server `github` and
    /// not one that calls itself `github__evil`.
    fn allows_server(&self, server: &ServerName) -> bool {
        if !self.parts.ends_server {
            return true;
        }
        if self.expression.is_some() {
            // Where the server name ends in an expression is unknown. A name with `__` must be spelled out.
            return !server.as_str().contains("__") || self.text.contains(server.as_str());
        }
        let Some(named) = self.text.strip_prefix(PREFIX) else { return true };
        let after = |server: &str| named.strip_prefix(server).is_some_and(|rest| rest.starts_with("__"));
        after(server.as_str()) || after(&plain(server.as_str()))
    }
}

impl PartialEq for Pattern {
    fn eq(&self, other: &Self) -> bool {
        // The same text may be parsed in both ways.
        self.text == other.text && self.expression.is_some() == other.expression.is_some()
    }
}

impl Eq for Pattern {}

/// Returns the full name before it is truncated or made unique by a digest.
fn full_name<'a>(named: &ToolNames<'a>, server: &ServerName) -> Cow<'a, str> {
    let server = server.as_str();
    let tool = named.tool;
    let full_length = PREFIX.len() + server.len() + 2 + tool.len();
    if named.visible.len() == full_length && named.visible.ends_with(tool) {
        return Cow::Borrowed(named.visible);
    }
    Cow::Owned(format!("{PREFIX}{}__{}", plain(server), plain(tool)))
}

/// Returns whether a text matches a pattern with `*`. Each piece between stars is searched once, leftmost first.
fn glob(pieces: &[Box<str>], text: &str) -> bool {
    let [start, between @ .., end] = pieces else { return pieces.iter().any(|whole| **whole == *text) };
    let Some(mut left) = text.as_bytes().strip_prefix(start.as_bytes()) else { return false };
    for piece in between {
        let Some(at) = find(left, piece.as_bytes()) else { return false };
        left = &left[at + piece.len()..];
    }
    left.ends_with(end.as_bytes())
}

/// Finds a piece in a text. Names are short, so a search by first letter beats setting up a faster algorithm.
fn find(text: &[u8], piece: &[u8]) -> Option<usize> {
    let Some((first, _)) = piece.split_first() else { return Some(0) };
    text.windows(piece.len()).position(|part| part[0] == *first && part == piece)
}

#[cfg(test)]
mod tests {
    use super::*;
    use wharf_protocol::ToolRef;
    use wharf_protocol::visible_name;

    fn fits(pattern: &str, server: &str, tool: &str) -> bool {
        let server: ServerName = server.parse().unwrap();
        let visible = visible_name(&ToolRef { server: server.clone(), tool: tool.into() });
        Pattern::read(pattern).unwrap().fits_tool(&ToolNames { visible: &visible, server: Some(&server), tool })
    }

    #[test]
    fn a_tool_matches_by_own_name_full_name_and_server() {
        for pattern in
            ["search", "mcp__github__search", "mcp__github", "mcp__github__*", "mcp__github__.*", "*", "s*ch"]
        {
            assert!(fits(pattern, "github", "search"), "{pattern}");
        }
        for pattern in ["sea", "mcp__git", "mcp__github__", "mcp__gitlab__*", "", "s*c", "mcp__github__x*"] {
            assert!(!fits(pattern, "github", "search"), "{pattern}");
        }
        assert!(fits("mcp__.*__write.*", "files", "write_file"));
        assert!(fits("mcp__git*", "github", "search") && fits("mcp__my_server", "my.server", "x"));
    }

    #[test]
    fn a_server_cannot_match_the_pattern_of_another() {
        assert!(!fits("mcp__github__*", "github__evil", "search"));
        assert!(fits("mcp__github__evil__*", "github__evil", "search"));
        assert!(!fits("mcp__a__b*", "a__bc", "x"));
        // Nor by the names of its tools.
        assert!(!fits("mcp__github__*", "evil", "mcp__github__delete"));
        assert!(!fits("mcp__github__delete", "evil", "mcp__github__delete"));
        assert!(fits("mcp__a__b__c", "a", "b__c") && !fits("mcp__a__b__c", "a__b", "c"));
        assert!(fits("*", "evil", "mcp__github__delete"));
    }

    #[test]
    fn truncated_and_changed_names_match_their_original() {
        let long = "a_tool_with_a_name_of_more_than_sixty_four_characters_in_all_its_glory";
        assert!(fits(&format!("mcp__github__{long}"), "github", long) && fits("mcp__github__a_tool*", "github", long));
        assert!(fits("mcp__files__read_file", "files", "read file") && fits("read file", "files", "read file"));
    }

    #[test]
    fn an_expression_matches_whole_names_of_the_right_server() {
        for pattern in ["/search|find/", "/s.{4}h/", "/mcp__git(hub|lab)__s.*/", "/(?i)SEARCH/", "/^mcp__.*$/", "/.*/"]
        {
            assert!(fits(pattern, "github", "search"), "{pattern}");
        }
        for pattern in ["/sea/", "/earch/", "/mcp__github/", "/mcp__(a|b)__.*/", "/Search/"] {
            assert!(!fits(pattern, "github", "search"), "{pattern}");
        }
        assert!(!fits("/mcp__(github|gitlab)__.*/", "github__evil", "search"));
        assert!(!fits("/mcp__github__delete/", "evil", "mcp__github__delete"));
        assert!(!fits("/(?:mcp__github__delete)/", "evil", "mcp__github__delete"));
        assert!(fits("/mcp__github__evil__.*/", "github__evil", "search"));
        assert!(fits("/mcp__.*/", "github__evil", "search"));
    }

    #[test]
    fn an_invalid_expression_is_an_error() {
        let reason = |text| Pattern::read(text).unwrap_err().to_string();
        insta::assert_snapshot!([reason("/a(b/"), reason("/*/"), reason("//"), reason("/a|b"), reason("/(a{1000}){1000}/")].join("\n"), @"
        invalid regular expression `/a(b/`: unclosed group
        invalid regular expression `/*/`: repetition operator missing expression
        invalid regular expression `//`: expected an expression between two slashes
        invalid regular expression `/a|b`: expected an expression between two slashes
        invalid regular expression `/(a{1000}){1000}/`: Compiled regex exceeds size limit of 1048576 bytes.
        ");
    }

    #[test]
    fn many_stars_do_not_cause_backtracking() {
        let text = "a".repeat(10_000);
        assert!(!Pattern::new(&format!("{}b", "a*".repeat(200))).fits(&text));
    }
}
