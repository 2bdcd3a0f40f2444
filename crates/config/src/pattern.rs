//! Patterns for the names of tools, as filters, policies and hooks write them.
//!
//! `*` stands for any text, and so does `.*`, which people write who know regular expressions. A pattern fits a tool by
//! its own name or by its full one. `mcp__github` alone means everything of that server. Where names are chosen,
//! `/…/` is a regular expression for whole names.

use std::borrow::Cow;

use regex::Regex;
use wharf_protocol::ServerName;

use wharf_protocol::naming::{PREFIX, plain};

/// One pattern.
#[derive(Clone, Debug)]
pub struct Pattern {
    text: String,
    expression: Option<Regex>,
    /// What can be seen of the text alone, looked at once: every call is compared with every rule.
    parts: Parts,
}

#[derive(Clone, Debug)]
struct Parts {
    /// What stands before, between and after its stars; one piece alone stands for itself only.
    pieces: Box<[Box<str>]>,
    /// Whether it is about full names and nothing else.
    is_prefixed: bool,
    /// Whether it says where a server's name ends.
    ends_server: bool,
}

/// What stands between slashes and is no regular expression.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{text}` is no regular expression: {reason}")]
pub struct InvalidPattern {
    /// As it is written.
    pub text: String,
    /// What is wrong with it.
    pub reason: String,
}

/// The most memory one expression may take, compiled: a configuration may come from anybody.
const LARGEST_EXPRESSION: usize = 1 << 20;

/// The names of one tool, as patterns see them.
#[derive(Clone, Copy, Debug)]
pub struct ToolNames<'a> {
    /// What the model calls it.
    pub visible: &'a str,
    /// The server it lives on.
    pub server: Option<&'a ServerName>,
    /// Its own name.
    pub tool: &'a str,
}

impl Pattern {
    /// Reads a pattern with `*`; every text is one.
    pub fn new(text: &str) -> Self {
        let mut text = text.replace(".*", "*");
        while text.contains("**") {
            text = text.replace("**", "*");
        }
        let pieces: Box<[Box<str>]> = text.split('*').map(Box::from).collect();
        let ends_server = pieces[0].strip_prefix(PREFIX).is_some_and(|named| named.contains("__"));
        let parts = Parts { is_prefixed: text.starts_with(PREFIX), ends_server, pieces };
        Self { text, expression: None, parts }
    }

    /// Reads a pattern that may be a regular expression between slashes.
    ///
    /// # Errors
    /// If what stands between slashes is no regular expression, or one that takes too much memory.
    pub fn read(text: &str) -> Result<Self, InvalidPattern> {
        let invalid = |reason: String| InvalidPattern { text: text.to_owned(), reason };
        let Some(rest) = text.strip_prefix('/') else { return Ok(Self::new(text)) };
        let Some(inner) = rest.strip_suffix('/').filter(|inner| !inner.is_empty()) else {
            return Err(invalid("an expression stands between two slashes".to_owned()));
        };
        let whole = format!("^(?:{inner})$");
        let compiled = regex::RegexBuilder::new(&whole).size_limit(LARGEST_EXPRESSION).build();
        let expression = compiled.map_err(|error| {
            let error = error.to_string();
            invalid(error.lines().last().unwrap_or_default().trim_start_matches("error: ").to_owned())
        })?;
        let is_prefixed = text.trim_start_matches(['/', '^', '(', '?', ':']).starts_with(PREFIX);
        let ends_server = text.matches("__").nth(1).is_some();
        let parts = Parts { pieces: Box::default(), is_prefixed, ends_server };
        Ok(Self { text: text.to_owned(), expression: Some(expression), parts })
    }

    /// As it is written, with every `.*` as `*` unless it is an expression.
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// The server that a pattern for full names begins with, as far as it says where its name ends.
    pub fn server(&self) -> Option<&str> {
        let named = self.text.strip_prefix(PREFIX)?;
        let literal = named.split('*').next().unwrap_or_default();
        let server = literal.split("__").next().filter(|server| !server.is_empty())?;
        Some(server)
    }

    /// Whether a pattern for full names can fit a tool of this server.
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

    /// Whether it stands for itself only.
    pub fn is_exact(&self) -> bool {
        self.parts.pieces.len() == 1
    }

    /// Whether it fits any text.
    pub fn fits(&self, text: &str) -> bool {
        match &self.expression {
            Some(expression) => expression.is_match(text),
            None => glob(&self.parts.pieces, text),
        }
    }

    /// Whether it fits a tool.
    pub fn fits_tool(&self, named: &ToolNames<'_>) -> bool {
        let Some(server) = named.server else { return self.fits(named.tool) || self.fits(named.visible) };
        // A server may give its tool any name, that of another server's tool too; such a pattern is about full names.
        if !self.parts.is_prefixed && self.fits(named.tool) {
            return true;
        }
        if self.is_exact() {
            // What can be read in two ways means only what is shown under it.
            let plain_name = || !server.as_str().contains("__") && self.text == full(named, server);
            return self.text == named.visible || self.is_whole(server) || plain_name();
        }
        let fits_full = || match full(named, server) {
            Cow::Borrowed(_) => false, // It is the visible one.
            Cow::Owned(full) => self.fits(&full),
        };
        self.keeps_to(server) && (self.fits(named.visible) || fits_full())
    }

    /// Whether it names a whole server.
    fn is_whole(&self, server: &ServerName) -> bool {
        let named = self.text.strip_prefix(PREFIX);
        named.is_some_and(|named| named == server.as_str() || named == plain(server.as_str()))
    }

    /// `mcp__github__*` means the server `github` and not one that calls itself `github__evil`: where a pattern says
    /// where the server's name ends, it has to be this server's.
    fn keeps_to(&self, server: &ServerName) -> bool {
        if !self.parts.ends_server {
            return true;
        }
        if self.expression.is_some() {
            // It cannot be seen where in an expression a server's name ends. One with `__` in it has to be spelled out.
            return !server.as_str().contains("__") || self.text.contains(server.as_str());
        }
        let Some(named) = self.text.strip_prefix(PREFIX) else { return true };
        let after = |server: &str| named.strip_prefix(server).is_some_and(|rest| rest.starts_with("__"));
        after(server.as_str()) || after(&plain(server.as_str()))
    }
}

impl PartialEq for Pattern {
    fn eq(&self, other: &Self) -> bool {
        // A text may be read in both ways.
        self.text == other.text && self.expression.is_some() == other.expression.is_some()
    }
}

impl Eq for Pattern {}

/// The full name before it is cut or told from others by a digest.
fn full<'a>(named: &ToolNames<'a>, server: &ServerName) -> Cow<'a, str> {
    let (server, tool) = (server.as_str(), named.tool);
    let whole = PREFIX.len() + server.len() + 2 + tool.len();
    if named.visible.len() == whole && named.visible.ends_with(tool) {
        return Cow::Borrowed(named.visible);
    }
    Cow::Owned(format!("{PREFIX}{}__{}", plain(server), plain(tool)))
}

/// Whether a text fits a pattern with `*`. What stands between two stars is looked for once, as far to the left as it is.
fn glob(pieces: &[Box<str>], text: &str) -> bool {
    let [start, between @ .., end] = pieces else { return pieces.iter().any(|whole| **whole == *text) };
    let Some(mut left) = text.as_bytes().strip_prefix(start.as_bytes()) else { return false };
    for piece in between {
        let Some(at) = find(left, piece.as_bytes()) else { return false };
        left = &left[at + piece.len()..];
    }
    left.ends_with(end.as_bytes())
}

/// Names are short: looking for the first letter is done before any cleverer search is ready.
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
    fn a_tool_is_meant_by_its_own_name_by_its_full_one_and_by_its_server() {
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
    fn a_server_cannot_slip_under_the_pattern_of_another() {
        assert!(!fits("mcp__github__*", "github__evil", "search"));
        assert!(fits("mcp__github__evil__*", "github__evil", "search"));
        assert!(!fits("mcp__a__b*", "a__bc", "x"));
        // Nor by what it calls its tools.
        assert!(!fits("mcp__github__*", "evil", "mcp__github__delete"));
        assert!(!fits("mcp__github__delete", "evil", "mcp__github__delete"));
        assert!(fits("mcp__a__b__c", "a", "b__c") && !fits("mcp__a__b__c", "a__b", "c"));
        assert!(fits("*", "evil", "mcp__github__delete"));
    }

    #[test]
    fn a_name_that_was_cut_or_changed_is_still_found_by_what_people_write() {
        let long = "a_tool_with_a_name_of_more_than_sixty_four_characters_in_all_its_glory";
        assert!(fits(&format!("mcp__github__{long}"), "github", long) && fits("mcp__github__a_tool*", "github", long));
        assert!(fits("mcp__files__read_file", "files", "read file") && fits("read file", "files", "read file"));
    }

    #[test]
    fn an_expression_means_whole_names_and_no_server_slips_under_it() {
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
    fn what_is_no_expression_is_said_to_be_none() {
        let reason = |text| Pattern::read(text).unwrap_err().to_string();
        insta::assert_snapshot!([reason("/a(b/"), reason("/*/"), reason("//"), reason("/a|b"), reason("/(a{1000}){1000}/")].join("\n"), @"
        `/a(b/` is no regular expression: unclosed group
        `/*/` is no regular expression: repetition operator missing expression
        `//` is no regular expression: an expression stands between two slashes
        `/a|b` is no regular expression: an expression stands between two slashes
        `/(a{1000}){1000}/` is no regular expression: Compiled regex exceeds size limit of 1048576 bytes.
        ");
    }

    #[test]
    fn stars_that_invite_going_back_end_soon() {
        let text = "a".repeat(10_000);
        assert!(!Pattern::new(&format!("{}b", "a*".repeat(200))).fits(&text));
    }
}
