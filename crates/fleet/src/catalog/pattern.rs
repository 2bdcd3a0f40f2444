//! Patterns for the names of tools, as filters, policies and hooks write them.
//!
//! `*` stands for any text, and so does `.*`, which people write who know regular expressions. A pattern fits a tool by
//! its own name or by its full one. `mcp__github` alone means everything of that server.

use std::borrow::Cow;

use wharf_protocol::ServerName;

use super::naming::{PREFIX, plain};

/// One pattern.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pattern(String);

/// The names of one tool, as patterns see them.
#[derive(Clone, Copy, Debug)]
pub struct Named<'a> {
    /// What the model calls it.
    pub visible: &'a str,
    /// The server it lives on.
    pub server: Option<&'a ServerName>,
    /// Its own name.
    pub tool: &'a str,
}

impl Pattern {
    /// Reads a pattern; every text is one.
    pub fn new(text: &str) -> Self {
        let mut text = text.replace(".*", "*");
        while text.contains("**") {
            text = text.replace("**", "*");
        }
        Self(text)
    }

    /// As it is written, with every `.*` as `*`.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The server that a pattern for full names begins with, as far as it says where its name ends.
    pub fn server(&self) -> Option<&str> {
        let named = self.0.strip_prefix(PREFIX)?;
        let literal = named.split('*').next().unwrap_or_default();
        let server = literal.split("__").next().filter(|server| !server.is_empty())?;
        Some(server)
    }

    /// Whether a pattern for full names can fit a tool of this server.
    pub fn is_of(&self, server: &str) -> bool {
        let Some(named) = self.0.strip_prefix(PREFIX) else { return true };
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
        !self.0.contains('*')
    }

    /// Whether it fits any text.
    pub fn fits(&self, text: &str) -> bool {
        glob(&self.0, text)
    }

    /// Whether it fits a tool.
    pub fn fits_tool(&self, named: &Named<'_>) -> bool {
        let Some(server) = named.server else { return self.fits(named.tool) || self.fits(named.visible) };
        // A server may give its tool any name, that of another server's tool too; such a pattern is about full names.
        if !self.0.starts_with(PREFIX) && self.fits(named.tool) {
            return true;
        }
        if self.is_exact() {
            // What can be read in two ways means only what is shown under it.
            let plain_name = || !server.as_str().contains("__") && self.0 == full(named, server);
            return self.0 == named.visible || self.is_whole(server) || plain_name();
        }
        let fits_full = || match full(named, server) {
            Cow::Borrowed(_) => false, // It is the visible one.
            Cow::Owned(full) => self.fits(&full),
        };
        self.keeps_to(server) && (self.fits(named.visible) || fits_full())
    }

    /// Whether it names a whole server.
    fn is_whole(&self, server: &ServerName) -> bool {
        let named = self.0.strip_prefix(PREFIX);
        named.is_some_and(|named| named == server.as_str() || named == plain(server.as_str()))
    }

    /// `mcp__github__*` means the server `github` and not one that calls itself `github__evil`: where a pattern says
    /// where the server's name ends, it has to be this server's.
    fn keeps_to(&self, server: &ServerName) -> bool {
        let literal = self.0.split('*').next().unwrap_or_default();
        let Some(named) = literal.strip_prefix(PREFIX) else { return true };
        if !named.contains("__") {
            return true;
        }
        let after = |server: &str| named.strip_prefix(server).is_some_and(|rest| rest.starts_with("__"));
        after(server.as_str()) || after(&plain(server.as_str()))
    }
}

/// The full name before it is cut or told from others by a digest.
fn full<'a>(named: &Named<'a>, server: &ServerName) -> Cow<'a, str> {
    let (server, tool) = (server.as_str(), named.tool);
    let whole = PREFIX.len() + server.len() + 2 + tool.len();
    if named.visible.len() == whole && named.visible.ends_with(tool) {
        return Cow::Borrowed(named.visible);
    }
    Cow::Owned(format!("{PREFIX}{}__{}", plain(server), plain(tool)))
}

/// Whether a text fits a pattern with `*`. Goes back to the last `*` only, so it takes no longer than the product of the
/// two lengths.
fn glob(pattern: &str, text: &str) -> bool {
    let (pattern, text) = (pattern.as_bytes(), text.as_bytes());
    let literal = pattern.iter().position(|byte| *byte == b'*').unwrap_or(pattern.len());
    if !text.starts_with(&pattern[..literal]) {
        return false;
    }
    let (mut p, mut t, mut star) = (literal, literal, None);
    while t < text.len() {
        match pattern.get(p) {
            Some(b'*') if p + 1 == pattern.len() => return true,
            Some(b'*') => {
                star = Some((p + 1, t));
                p += 1;
            }
            Some(byte) if *byte == text[t] => (p, t) = (p + 1, t + 1),
            _ => match star {
                Some((after, from)) => {
                    star = Some((after, from + 1));
                    (p, t) = (after, from + 1);
                }
                None => return false,
            },
        }
    }
    pattern[p..].iter().all(|byte| *byte == b'*')
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::catalog::visible_name;
    use wharf_protocol::ToolRef;

    fn fits(pattern: &str, server: &str, tool: &str) -> bool {
        let server: ServerName = server.parse().unwrap();
        let visible = visible_name(&ToolRef { server: server.clone(), tool: tool.into() });
        Pattern::new(pattern).fits_tool(&Named { visible: &visible, server: Some(&server), tool })
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
    fn stars_that_invite_going_back_end_soon() {
        let text = "a".repeat(10_000);
        assert!(!Pattern::new(&format!("{}b", "a*".repeat(200))).fits(&text));
    }
}
