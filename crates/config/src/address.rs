//! Checks and compares URLs of servers.

use http::Uri;
use http::uri::{Authority, Scheme};
use wharf_io::address::{self, HTTP_SCHEMES, InvalidAddress, WEBSOCKET_SCHEMES};
use wharf_io::percent;

use crate::cursor::Cursor;
use crate::problem::Problem;

/// Why a text is not the URL of a server.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct InvalidUrl {
    pub(crate) reason: &'static str,
    /// How to fix it.
    pub(crate) hint: Option<&'static str>,
}

/// Which schemes a URL may have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Family {
    Http,
    WebSocket,
}

/// The normalized parts of a URL: lower case where case is insignificant, no default port, no trailing slash, no
/// fragment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct UrlParts {
    pub(crate) scheme: String,
    /// The host, with a port if it is not the default one.
    pub(crate) host: String,
    /// The host with its port, also if it is the default one.
    pub(crate) with_port: String,
    /// The path and query; empty for the root.
    pub(crate) path: String,
}

impl InvalidUrl {
    /// Returns the error for an invalid URL.
    pub(crate) fn problem(&self, at: &Cursor<'_>) -> Problem {
        let problem = at.error(format!("invalid URL: {}", self.reason));
        match self.hint {
            Some(hint) => problem.with_hint(hint),
            None => problem,
        }
    }
}

impl UrlParts {
    /// Returns all spellings of the path that a server may treat as the same: as written, without the query, with
    /// unnecessary `%` escapes decoded, and with repeated slashes merged.
    pub(crate) fn paths(&self) -> Vec<String> {
        let (path, query) = self.path.split_once('?').map_or((self.path.as_str(), None), |(a, b)| (a, Some(b)));
        let plain = decode_path(path);
        let with_query = query.map(|query| format!("{plain}?{query}"));
        [self.path.clone(), path.to_owned(), plain].into_iter().chain(with_query).collect()
    }
}

/// Checks the URL of a server, over HTTP or WebSocket.
///
/// # Errors
/// Returns the reason, and how to fix it.
pub fn check_url(url: &str) -> Result<(), (&'static str, Option<&'static str>)> {
    let scheme = url.split_once("://").map(|(scheme, _)| scheme.to_ascii_lowercase());
    let is_socket = matches!(scheme.as_deref(), Some("ws" | "wss"));
    let family = if is_socket { Family::WebSocket } else { Family::Http };
    check(url, family).map_err(|invalid| (invalid.reason, invalid.hint))
}

/// Checks the URL of a server.
pub(crate) fn check(url: &str, family: Family) -> Result<(), InvalidUrl> {
    let schemes = match family {
        Family::Http => HTTP_SCHEMES,
        Family::WebSocket => WEBSOCKET_SCHEMES,
    };
    let checked = address::parse(url, schemes).and_then(|uri| address::check_unambiguous(&uri));
    checked.map_err(|invalid| describe(&invalid, family))
}

fn describe(invalid: &InvalidAddress, family: Family) -> InvalidUrl {
    let (reason, hint) = match invalid {
        InvalidAddress::NoScheme => ("no scheme", Some("start it with `https://`")),
        InvalidAddress::Scheme(scheme) => match (family, scheme.as_str()) {
            (Family::Http, "ws" | "wss") => ("WebSocket scheme", Some("set `type` to `ws`")),
            (Family::WebSocket, "http") => ("not a WebSocket scheme", Some("start it with `ws://`")),
            (Family::WebSocket, "https") => ("not a WebSocket scheme", Some("start it with `wss://`")),
            _ => ("unsupported scheme", Some("start it with `https://`")),
        },
        InvalidAddress::Credentials => {
            ("contains a user name or password", Some("use a header, usually `Authorization`"))
        }
        InvalidAddress::NoHost => ("no host", None),
        InvalidAddress::Malformed => {
            ("invalid character", Some("escape special characters, for example a space as `%20`"))
        }
        InvalidAddress::Port => ("invalid port", Some("use a port from 1 to 65535")),
        InvalidAddress::NumericHost => ("ambiguous numeric host", Some("write all four parts, as in 127.0.0.1")),
        InvalidAddress::DotSegment => ("`.` or `..` in the path", Some("write the resolved path")),
    };
    InvalidUrl { reason, hint }
}

/// Splits a URL into normalized parts; `None` if it is invalid.
pub(crate) fn parts(url: &str) -> Option<UrlParts> {
    let uri: Uri = url.parse().ok()?;
    let scheme = uri.scheme().map(Scheme::as_str)?.to_ascii_lowercase();
    let (host, with_port) = hosts(&scheme, uri.authority()?);
    let path = uri.path_and_query().map(ToString::to_string).unwrap_or_default();
    Some(UrlParts { scheme, host, with_port, path: normalize_path(&path) })
}

/// Returns the host with its port unless it is the default one, and the host with any port.
fn hosts(scheme: &str, authority: &Authority) -> (String, String) {
    let host = address::normalize_host(authority.host());
    let default_port = address::default_port(scheme).unwrap_or(0);
    let port = authority.port_u16().unwrap_or(default_port);
    let with_port = format!("{host}:{port}");
    (if port == default_port { host } else { with_port.clone() }, with_port)
}

/// Decodes unnecessary `%` escapes, merges repeated slashes and removes a trailing one.
pub(crate) fn decode_path(path: &str) -> String {
    let decoded = percent::decode_unreserved(path);
    let mut plain = String::with_capacity(decoded.len());
    for character in decoded.chars() {
        if character != '/' || !plain.ends_with('/') {
            plain.push(character);
        }
    }
    plain.trim_end_matches('/').to_owned()
}

/// Removes a trailing slash, also before a query.
fn normalize_path(path: &str) -> String {
    match path.split_once('?') {
        Some((path, query)) if !query.is_empty() => format!("{}?{query}", path.trim_end_matches('/')),
        Some((path, _)) => path.trim_end_matches('/').to_owned(),
        None => path.trim_end_matches('/').to_owned(),
    }
}

/// Returns the normalized form of a URL.
pub(crate) fn normalize(url: &str) -> String {
    parts(url).map_or_else(|| url.to_owned(), |parts| format!("{}://{}{}", parts.scheme, parts.host, parts.path))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn equivalent_urls_normalize_to_the_same_text(
            host in "[a-z]{1,4}(\\.[a-z]{1,4}){0,2}", path in "(/[a-zA-Z0-9]{1,3}){0,3}", port in 1u16.., uppercase: bool, slash: bool,
        ) {
            let plain = format!("https://{host}{}{path}", if port == 443 { String::new() } else { format!(":{port}") });
            let other_host = if uppercase { host.to_uppercase() } else { host.clone() };
            let other_spelling = format!("HTTPS://{other_host}:{port}{path}{}#f", if slash { "/" } else { "" });
            prop_assert_eq!(normalize(&other_spelling), plain.clone());
            prop_assert_eq!(normalize(&plain), plain.clone());
            let other = format!("{plain}x");
            prop_assert_ne!(normalize(&other), plain);
        }
    }

    #[test]
    fn spellings_of_one_url_are_equal_and_other_urls_differ() {
        for url in [
            "https://a.example/mcp",
            "HTTPS://A.Example:443/mcp/",
            "https://a.example./mcp#top",
            "https://a.example/mcp?",
        ] {
            assert_eq!(normalize(url), "https://a.example/mcp", "{url}");
        }
        assert_eq!(normalize("http://[::1]:8000/"), "http://[::1]:8000");
        for other in
            ["https://a.example/MCP", "http://a.example/mcp", "https://a.example:8443/mcp", "https://a.example/mcp?x=1"]
        {
            assert_ne!(normalize(other), "https://a.example/mcp", "{other}");
        }
    }

    #[test]
    fn invalid_urls_have_a_reason() {
        let reason = |url: &str| check(url, Family::Http).unwrap_err().reason;
        assert_eq!(reason("example.com/mcp"), "no scheme");
        assert_eq!(reason("ftp://example.com"), "unsupported scheme");
        assert_eq!(reason("https:///mcp"), "no host");
        assert_eq!(reason("https://:80/mcp"), "no host");
        assert_eq!(reason("https://a:99999/mcp"), "invalid port");
        assert_eq!(reason("https://a/m cp"), "invalid character");
        assert_eq!(reason("https://me:pw@a/mcp"), "contains a user name or password");
        assert_eq!(reason("https://a/ok/%2E%2e/secret"), "`.` or `..` in the path");
        assert_eq!(reason("ws://a/mcp"), "WebSocket scheme");
        for host in ["127.1", "2130706433", "0x7f.0.0.1", "0177.0.0.1", "127.0.0.1.2", "127.0.0.01"] {
            assert_eq!(reason(&format!("https://{host}./mcp")), "ambiguous numeric host", "{host}");
        }
        assert_eq!(check("http://127.0.0.1./mcp", Family::Http), Ok(()));
        assert_eq!(check("http://v1.example/mcp", Family::Http), Ok(()));
        assert_eq!(check("http://[::1]:8000/mcp", Family::Http), Ok(()));
        assert_eq!(check("wss://a", Family::WebSocket), Ok(()));
    }
}
