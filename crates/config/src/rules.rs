//! Which servers may be used: allow and deny lists, and exclusive enterprise files.
//!
//! Rules only restrict. A server that any list denies, or that any list does not allow, is not used. An invalid rule
//! denies everything, since it may have been the rule that mattered.

use std::path::{Path, PathBuf};

use wharf_io::address::{default_port, normalize_host};

use crate::address::{self, UrlParts};
use crate::cursor::Cursor;
use crate::entry_name;
use crate::server::{Scope, Server, StdioConfig, TransportConfig};

/// The rules of all files about which servers may be used.
#[derive(Clone, Debug, Default)]
pub struct Rules {
    pub(super) lists: Vec<RuleList>,
    /// Set if only enterprise servers may be used.
    pub(super) exclusive: Option<Exclusive>,
}

/// The allow and deny lists of one file.
#[derive(Clone, Debug)]
pub(crate) struct RuleList {
    file: PathBuf,
    /// `None` for a file that does not speak for its scope.
    pub(super) scope: Option<Scope>,
    /// `None` allows all servers; an empty list allows none.
    pub(super) allowed: Option<Vec<ServerPattern>>,
    pub(super) denied: Vec<ServerPattern>,
    /// Whether a rule could not be read.
    pub(super) is_invalid: bool,
}

/// Why only enterprise servers may be used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Exclusive {
    /// This file is exclusive.
    Declared(PathBuf),
    /// This file cannot be read, so it may be exclusive.
    Assumed(PathBuf),
}

/// An item of an allow or deny list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum ServerPattern {
    /// A URL that may contain `*`.
    Url(UrlPattern),
    /// A program and all its arguments.
    Command(Vec<String>),
    Name(String),
}

/// How a URL is compared with a pattern.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum MatchMode {
    /// As written, for allow lists.
    Exact,
    /// In every form that a server may treat as the same, for deny lists.
    Lenient,
}

/// A URL pattern. Host and path are matched separately, so that a `*` in the host does not match a `/`:
/// `https://*.example.com/*` does not match `https://evil.example/.example.com/`. Without a path, it matches the whole
/// host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct UrlPattern {
    scheme: Option<String>,
    host: String,
    path: Option<String>,
}

impl Rules {
    /// Checks whether a server may be used. Also applies to servers that are added while running.
    ///
    /// # Errors
    /// Returns the reason if the server may not be used.
    pub fn permits(&self, server: &Server) -> Result<(), String> {
        match &self.exclusive {
            Some(Exclusive::Declared(file)) if server.scope != Scope::Enterprise => {
                return Err(format!("{} allows only enterprise servers", file.display()));
            }
            Some(Exclusive::Assumed(file)) if server.scope != Scope::Enterprise => {
                let file = file.display();
                return Err(format!("the enterprise file {file} is invalid, so only enterprise servers are allowed"));
            }
            _ => {}
        }
        self.lists.iter().try_for_each(|list| list.permits(server))
    }

    /// Combines two sets of rules: what either of them denies is denied.
    #[must_use]
    pub fn and(&self, others: &Self) -> Self {
        let lists = self.lists.iter().chain(&others.lists).cloned().collect();
        Self { lists, exclusive: self.exclusive.clone().or_else(|| others.exclusive.clone()) }
    }
}

impl RuleList {
    /// Creates the rules of a file that allow everything.
    pub(crate) fn new(file: &Path, scope: Option<Scope>) -> Self {
        Self { file: file.to_owned(), scope, allowed: None, denied: Vec::new(), is_invalid: false }
    }

    fn permits(&self, server: &Server) -> Result<(), String> {
        // A user cannot deny what the enterprise requires.
        let is_required = server.scope == Scope::Enterprise && server.settings.required;
        if is_required && self.scope != Some(Scope::Enterprise) {
            return Ok(());
        }
        let file = self.file.display();
        if self.is_invalid {
            return Err(format!("the rules in {file} are invalid, so no server is allowed"));
        }
        if self.has_urls() && url_of(server).is_some_and(|url| address::check_url(&url).is_err()) {
            return Err(format!("its URL cannot be compared with the rules in {file}"));
        }
        if self.denied.iter().any(|pattern| pattern.matches(server, MatchMode::Lenient)) {
            return Err(format!("{file} denies it"));
        }
        match &self.allowed {
            Some(allowed) if !allows(allowed, server) => Err(format!("{file} does not allow it")),
            _ => Ok(()),
        }
    }

    fn has_urls(&self) -> bool {
        let patterns = self.denied.iter().chain(self.allowed.iter().flatten());
        patterns.into_iter().any(|pattern| matches!(pattern, ServerPattern::Url(_)))
    }
}

/// Returns the URL of a server.
fn url_of(server: &Server) -> Option<String> {
    match &server.transport {
        TransportConfig::Http(remote) | TransportConfig::Sse(remote) | TransportConfig::WebSocket(remote) => {
            Some(remote.url.clone())
        }
        TransportConfig::Managed(managed) => {
            let host = std::net::SocketAddr::new(managed.host, managed.port);
            Some(format!("http://{host}{}", managed.path))
        }
        TransportConfig::Stdio(_) | TransportConfig::Custom(..) => None,
    }
}

/// Checks an allow list. A name proves nothing: if the list has URLs, a remote server must match one of them, and if it
/// has commands, a local server must match one of those. Names count only if it has neither.
fn allows(allowed: &[ServerPattern], server: &Server) -> bool {
    let decisive = |pattern: &&ServerPattern| match server.transport {
        TransportConfig::Stdio(_) | TransportConfig::Managed(_) => matches!(pattern, ServerPattern::Command(_)),
        TransportConfig::Http(_) | TransportConfig::Sse(_) | TransportConfig::WebSocket(_) => {
            matches!(pattern, ServerPattern::Url(_))
        }
        TransportConfig::Custom(..) => false,
    };
    if allowed.iter().any(|pattern| decisive(&pattern)) {
        allowed.iter().filter(decisive).any(|pattern| pattern.matches(server, MatchMode::Exact))
    } else {
        allowed.iter().any(|pattern| pattern.matches(server, MatchMode::Exact))
    }
}

impl ServerPattern {
    fn matches(&self, server: &Server, mode: MatchMode) -> bool {
        match (self, &server.transport) {
            (Self::Name(name), _) => entry_name::means(name, server.name.as_str()),
            (Self::Url(pattern), _) => {
                let url = url_of(server).and_then(|url| address::parts(&url));
                url.is_some_and(|url| pattern.matches(&url, mode))
            }
            (Self::Command(argv), TransportConfig::Stdio(process)) => same_argv(argv, process),
            (Self::Command(argv), TransportConfig::Managed(managed)) => same_argv(argv, &managed.launch),
            _ => false,
        }
    }

    /// Reads an item of a list: an object with exactly one of three keys.
    fn read(at: &Cursor<'_>) -> Option<Self> {
        let mut fields = at.fields();
        let (Some((key, value)), None) = (fields.next(), fields.next()) else { return None };
        match key {
            "serverName" => Some(Self::Name(value.text()?.to_owned())),
            "serverUrl" => Some(Self::Url(UrlPattern::read(value.text()?))),
            "serverCommand" => {
                let words: Option<Vec<String>> = value.items().map(|item| item.text().map(str::to_owned)).collect();
                words.filter(|words| !words.is_empty()).map(Self::Command)
            }
            _ => None,
        }
    }
}

fn same_argv(argv: &[String], process: &StdioConfig) -> bool {
    argv.split_first().is_some_and(|(command, args)| *command == process.command && *args == *process.args)
}

impl UrlPattern {
    fn read(text: &str) -> Self {
        let (scheme, rest) = match text.split_once("://") {
            Some((scheme, rest)) => (Some(scheme.to_ascii_lowercase()), rest),
            None => (None, text),
        };
        let (host, path) = match rest.find('/') {
            Some(slash) => (&rest[..slash], Some(rest[slash..].trim_end_matches('/').to_owned())),
            None => (rest, None),
        };
        let host = host.to_ascii_lowercase();
        // The port follows the last `:`, unless that is part of an address in brackets.
        let (name, port) = match host.rsplit_once(':').filter(|(_, port)| !port.contains(']')) {
            Some((name, port)) => (name, format!(":{port}")),
            None => (host.as_str(), String::new()),
        };
        let mut host = format!("{}{port}", normalize_host(name));
        let default_port = scheme.as_deref().and_then(default_port).map(|port| format!(":{port}"));
        if let Some(default_port) = default_port
            && host.ends_with(&default_port)
        {
            host.truncate(host.len() - default_port.len());
        }
        Self { scheme, host, path }
    }

    fn matches(&self, url: &UrlParts, mode: MatchMode) -> bool {
        self.scheme.as_ref().is_none_or(|scheme| glob(scheme, &url.scheme))
            && (glob(&self.host, &url.host) || glob(&self.host, &url.with_port))
            && self.path.as_ref().is_none_or(|path| {
                // `/*` matches the root too, whose slash is removed by normalization.
                let covers = |path: &str, written: &String| glob(path, written) || glob(path, &format!("{written}/"));
                match mode {
                    MatchMode::Exact => covers(path, &url.path),
                    MatchMode::Lenient => {
                        let plain = address::decode_path(path);
                        url.paths().iter().any(|written| covers(path, written) || covers(&plain, written))
                    }
                }
            })
    }
}

/// Returns whether a text matches a pattern in which `*` matches any text. Runs in linear time.
pub(crate) fn glob(pattern: &str, text: &str) -> bool {
    let mut pieces = pattern.split('*');
    let Some(first) = pieces.next() else { return text.is_empty() };
    let Some(mut rest) = text.strip_prefix(first) else { return false };
    let mut pieces: Vec<&str> = pieces.collect();
    let Some(last) = pieces.pop() else { return rest.is_empty() };
    for piece in pieces {
        match rest.find(piece) {
            Some(index) => rest = &rest[index + piece.len()..],
            None => return false,
        }
    }
    rest.ends_with(last)
}

/// Reads the patterns of a list; fails with the invalid value.
pub(crate) fn patterns<'a>(at: &Cursor<'a>) -> Result<Vec<ServerPattern>, Cursor<'a>> {
    if !at.is_list() {
        return Err(at.clone());
    }
    at.items().map(|item| ServerPattern::read(&item).ok_or(item)).collect()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn stars_match_any_text_including_the_empty_one() {
        assert!(glob("*", ""));
        assert!(glob("a*c", "ac"));
        assert!(glob("a*b*c", "a1b2b3c"));
        assert!(!glob("a*b", "ab1"));
        assert!(!glob("ab*ab", "ab"));
        assert!(!glob("a", "ab"));
    }

    #[test]
    fn a_star_in_the_host_does_not_match_the_path() {
        let matches = |pattern: &str, url: &str| {
            UrlPattern::read(pattern).matches(&address::parts(url).unwrap(), MatchMode::Exact)
        };
        assert!(matches("https://*.example.com/*", "https://a.example.com/mcp"));
        assert!(matches("https://*.example.com/*", "https://a.example.com"));
        assert!(!matches("https://*.example.com/*", "https://evil.test/.example.com/"));
        assert!(!matches("https://*.example.com/*", "https://evil.test?.example.com/x"));
        assert!(!matches("https://*.example.com/*", "http://a.example.com/mcp"));
        assert!(matches("https://example.com", "HTTPS://Example.com:443/any/path"));
        assert!(matches("https://Example.com:443/mcp/", "https://example.com/mcp"));
        assert!(matches("*", "wss://anything:1/x"));
        assert!(!matches("https://example.com/mcp", "https://example.com/mcp2"));
    }

    #[test]
    fn deny_rules_match_all_spellings_of_a_url() {
        let denied = |pattern: &str, url: &str| {
            UrlPattern::read(pattern).matches(&address::parts(url).unwrap(), MatchMode::Lenient)
        };
        for url in [
            "https://h.example/mcp",
            "https://h.example/mcp?x=1",
            "https://h.example/%6dcp",
            "https://h.example//mcp",
            "https://H.example.:443/mcp//?x",
        ] {
            for pattern in
                ["https://h.example/mcp", "h.example:*/mcp", "https://h.example./%6Dcp", "h.example:443//mcp"]
            {
                assert!(denied(pattern, url), "{pattern} {url}");
            }
        }
        assert!(!denied("https://h.example/mcp", "https://h.example/mcp2?/mcp"));
        for url in ["http://[::1]:80/x", "http://[0:0:0:0:0:0:0:1]/x", "http://[0::0001]/x"] {
            assert!(denied("http://[::1]", url) && denied("[0:0::1]:*", url), "{url}");
        }
        assert!(denied("http://127.0.0.1:*", "http://[::ffff:127.0.0.1]/x"));
    }

    proptest! {
        #[test]
        fn a_prefix_with_a_star_matches(text in "[a-c*]{0,8}", cut in 0usize..8) {
            let cut = text.char_indices().map(|(index, _)| index).nth(cut).unwrap_or(text.len());
            let plain = text.replace('*', "x");
            let pattern = format!("{}*", &plain[..cut]);
            prop_assert!(glob(&pattern, &plain));
            prop_assert!(glob(&plain, &plain));
        }
    }
}
