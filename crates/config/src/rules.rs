//! Which servers may be used at all: allow and deny lists, and an organisation that allows nobody else.
//!
//! Rules only ever take away. Every list has its say: a server that one of them denies, or that one of them does not
//! allow, is not used. What cannot be understood denies as well, since it may have been the rule that mattered.

use std::path::PathBuf;

use super::address::{self, Parts};
use super::server::{Scope, Server, StdioConfig, TransportConfig};
use super::text::At;
use wharf_io::address::{default_port, normalize_host};

/// Everything that says which servers may be used.
#[derive(Clone, Debug, Default)]
pub struct Rules {
    pub(super) lists: Vec<List>,
    /// The organisation's file that shuts out everybody else, and why it does.
    pub(super) exclusive: Option<Exclusive>,
}

/// What one file says about which servers may be used.
#[derive(Clone, Debug, Default)]
pub(super) struct List {
    pub(super) file: PathBuf,
    pub(super) scope: Option<Scope>,
    /// Only these; `None` means all, and an empty list means none.
    pub(super) allowed: Option<Vec<Pattern>>,
    pub(super) denied: Vec<Pattern>,
    /// Whether something in it could not be understood.
    pub(super) broken: bool,
}

/// Why only the organisation's servers may be used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Exclusive {
    /// A file says so.
    Said(PathBuf),
    /// A file cannot be understood, so it may say so.
    Unknown(PathBuf),
}

/// What an entry of a list matches.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Pattern {
    /// An address with `*` in it.
    Url(UrlPattern),
    /// A program and all its arguments.
    Command(Vec<String>),
    Name(String),
}

/// How addresses are compared with patterns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Reading {
    /// As it is written: to be allowed.
    Exact,
    /// However a server may read it: to be denied.
    Generous,
}

/// Host and path are matched apart, so that no `*` of a host reaches into a path: `https://*.example.com/*` does not
/// match `https://evil.example/.example.com/`. A pattern without a path covers the whole host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct UrlPattern {
    scheme: Option<String>,
    host: String,
    path: Option<String>,
}

impl Rules {
    /// Whether a server may be used; if not, why. Also for servers that are added while running.
    pub fn permits(&self, server: &Server) -> Result<(), String> {
        match &self.exclusive {
            Some(Exclusive::Said(file)) if server.scope != Scope::Enterprise => {
                return Err(format!("the organisation allows only its own servers ({})", file.display()));
            }
            Some(Exclusive::Unknown(file)) if server.scope != Scope::Enterprise => {
                return Err(format!(
                    "the organisation's file {} cannot be understood, so nothing else is allowed",
                    file.display()
                ));
            }
            _ => {}
        }
        self.lists.iter().try_for_each(|list| list.permits(server))
    }

    /// These and others: what either of them forbids is forbidden.
    #[must_use]
    pub fn and(&self, others: &Self) -> Self {
        let lists = self.lists.iter().chain(&others.lists).cloned().collect();
        Self { lists, exclusive: self.exclusive.clone().or_else(|| others.exclusive.clone()) }
    }
}

impl List {
    fn permits(&self, server: &Server) -> Result<(), String> {
        // What the organisation requires, a person does not forbid.
        let is_required = server.scope == Scope::Enterprise && server.settings.required;
        if is_required && self.scope != Some(Scope::Enterprise) {
            return Ok(());
        }
        let file = self.file.display();
        if self.broken {
            return Err(format!("the rules in {file} cannot be understood, so nothing is allowed"));
        }
        if self.has_addresses() && address_of(server).is_some_and(|url| address::check_url(&url).is_err()) {
            return Err(format!("its address cannot be compared with the rules in {file}"));
        }
        if self.denied.iter().any(|pattern| pattern.matches(server, Reading::Generous)) {
            return Err(format!("{file} denies it"));
        }
        match &self.allowed {
            Some(allowed) if !allows(allowed, server) => Err(format!("{file} does not allow it")),
            _ => Ok(()),
        }
    }

    fn has_addresses(&self) -> bool {
        let patterns = self.denied.iter().chain(self.allowed.iter().flatten());
        patterns.into_iter().any(|pattern| matches!(pattern, Pattern::Url(_)))
    }
}

/// Where a server is found.
fn address_of(server: &Server) -> Option<String> {
    match &server.reach {
        TransportConfig::Http(remote) | TransportConfig::Sse(remote) | TransportConfig::WebSocket(remote) => {
            Some(remote.url.clone())
        }
        TransportConfig::Managed(manage) => {
            let host = std::net::SocketAddr::new(manage.host, manage.port);
            Some(format!("http://{host}{}", manage.path))
        }
        TransportConfig::Stdio(_) | TransportConfig::Custom(..) => None,
    }
}

/// A name proves nothing: where a list has addresses, a remote server has to match one, and where it has commands, a
/// local one has to match one of those. Names count only where it has neither.
fn allows(allowed: &[Pattern], server: &Server) -> bool {
    let decisive = |pattern: &&Pattern| match server.reach {
        TransportConfig::Stdio(_) | TransportConfig::Managed(_) => matches!(pattern, Pattern::Command(_)),
        TransportConfig::Http(_) | TransportConfig::Sse(_) | TransportConfig::WebSocket(_) => {
            matches!(pattern, Pattern::Url(_))
        }
        TransportConfig::Custom(..) => false,
    };
    if allowed.iter().any(|pattern| decisive(&pattern)) {
        allowed.iter().filter(decisive).any(|pattern| pattern.matches(server, Reading::Exact))
    } else {
        allowed.iter().any(|pattern| pattern.matches(server, Reading::Exact))
    }
}

impl Pattern {
    fn matches(&self, server: &Server, reading: Reading) -> bool {
        match (self, &server.reach) {
            (Self::Name(name), _) => server.name.as_str() == name,
            (Self::Url(pattern), _) => {
                let url = address_of(server).and_then(|url| address::parts(&url));
                url.is_some_and(|url| pattern.matches(&url, reading))
            }
            (Self::Command(argv), TransportConfig::Stdio(launch)) => same_argv(argv, launch),
            (Self::Command(argv), TransportConfig::Managed(manage)) => same_argv(argv, &manage.launch),
            _ => false,
        }
    }

    /// Reads an entry of a list: exactly one of three keys.
    fn read(at: &At<'_>) -> Option<Self> {
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

fn same_argv(argv: &[String], launch: &StdioConfig) -> bool {
    argv.split_first().is_some_and(|(command, args)| *command == launch.command && *args == *launch.args)
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
        // What is behind the last `:` is the port, unless it belongs to an address in brackets.
        let (name, port) = match host.rsplit_once(':').filter(|(_, port)| !port.contains(']')) {
            Some((name, port)) => (name, format!(":{port}")),
            None => (host.as_str(), String::new()),
        };
        let mut host = format!("{}{port}", normalize_host(name));
        let usual = scheme.as_deref().and_then(default_port).map(|port| format!(":{port}"));
        if let Some(usual) = usual
            && host.ends_with(&usual)
        {
            host.truncate(host.len() - usual.len());
        }
        Self { scheme, host, path }
    }

    fn matches(&self, url: &Parts, reading: Reading) -> bool {
        self.scheme.as_ref().is_none_or(|scheme| glob(scheme, &url.scheme))
            && (glob(&self.host, &url.host) || glob(&self.host, &url.with_port))
            && self.path.as_ref().is_none_or(|path| {
                // `/*` covers the root as well, whose slash is not kept.
                let covers = |path: &str, written: &String| glob(path, written) || glob(path, &format!("{written}/"));
                match reading {
                    Reading::Exact => covers(path, &url.path),
                    Reading::Generous => {
                        let plain = address::plain_path(path);
                        url.paths().iter().any(|written| covers(path, written) || covers(&plain, written))
                    }
                }
            })
    }
}

/// Whether a text matches a pattern in which `*` stands for anything. Takes time in proportion to both, never more.
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

/// The patterns of a list; what is wrong with it otherwise.
pub(super) fn patterns<'a>(at: &At<'a>) -> Result<Vec<Pattern>, At<'a>> {
    if !at.is_list() {
        return Err(at.clone());
    }
    at.items().map(|item| Pattern::read(&item).ok_or(item)).collect()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn stars_match_anything_and_nothing() {
        assert!(glob("*", ""));
        assert!(glob("a*c", "ac"));
        assert!(glob("a*b*c", "a1b2b3c"));
        assert!(!glob("a*b", "ab1"));
        assert!(!glob("ab*ab", "ab"));
        assert!(!glob("a", "ab"));
    }

    #[test]
    fn a_star_in_a_host_stays_in_the_host() {
        let matches =
            |pattern: &str, url: &str| UrlPattern::read(pattern).matches(&address::parts(url).unwrap(), Reading::Exact);
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
    fn what_is_denied_is_denied_however_it_is_written() {
        let denied = |pattern: &str, url: &str| {
            UrlPattern::read(pattern).matches(&address::parts(url).unwrap(), Reading::Generous)
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
        fn a_text_matches_itself_with_anything_left_out(text in "[a-c*]{0,8}", cut in 0usize..8) {
            let cut = text.char_indices().map(|(index, _)| index).nth(cut).unwrap_or(text.len());
            let plain = text.replace('*', "x");
            let pattern = format!("{}*", &plain[..cut]);
            prop_assert!(glob(&pattern, &plain));
            prop_assert!(glob(&plain, &plain));
        }
    }
}
