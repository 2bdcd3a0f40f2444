//! URLs of servers: whether one can be reached at all, and when two of them are the same.

use http::Uri;
use http::uri::{Authority, Scheme};
use wharf_io::address::{self, HTTP_SCHEMES, InvalidAddress, WEBSOCKET_SCHEMES};
use wharf_io::percent;

/// Why a text is no address of a server, and how to mend it.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Unusable {
    pub(crate) why: &'static str,
    pub(crate) hint: Option<&'static str>,
}

/// What an address may begin with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Family {
    Http,
    WebSocket,
}

/// An address taken apart: lower case where case means nothing, no usual port, no slash at the end, no fragment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Parts {
    pub(crate) scheme: String,
    /// Host, and port where it is not the usual one.
    pub(crate) host: String,
    /// Host and port, whatever the port is.
    pub(crate) with_port: String,
    /// Path and query; empty for the root.
    pub(crate) path: String,
}

impl Parts {
    /// Every way to write the path that a server may take for the same: as it is, without its query, with characters
    /// written out that need no `%`, and with one slash for several.
    pub(crate) fn paths(&self) -> Vec<String> {
        let (path, query) = self.path.split_once('?').map_or((self.path.as_str(), None), |(a, b)| (a, Some(b)));
        let plain = plain_path(path);
        let asked = query.map(|query| format!("{plain}?{query}"));
        [self.path.clone(), path.to_owned(), plain].into_iter().chain(asked).collect()
    }
}

/// Whether a server can be reached at an address, whatever is spoken there; if not, why, and how to mend it.
pub fn check_url(url: &str) -> Result<(), (&'static str, Option<&'static str>)> {
    let scheme = url.split_once("://").map(|(scheme, _)| scheme.to_ascii_lowercase());
    let is_socket = matches!(scheme.as_deref(), Some("ws" | "wss"));
    let family = if is_socket { Family::WebSocket } else { Family::Http };
    check(url, family).map_err(|unusable| (unusable.why, unusable.hint))
}

/// Whether a server can be reached at an address.
pub(crate) fn check(url: &str, family: Family) -> Result<(), Unusable> {
    let schemes = match family {
        Family::Http => HTTP_SCHEMES,
        Family::WebSocket => WEBSOCKET_SCHEMES,
    };
    let checked = address::parse(url, schemes).and_then(|uri| address::check_unambiguous(&uri));
    checked.map_err(|invalid| unusable(&invalid, family))
}

fn unusable(invalid: &InvalidAddress, family: Family) -> Unusable {
    let (why, hint) = match invalid {
        InvalidAddress::NoScheme => ("is no URL: it has no scheme", Some("begin it with `https://`")),
        InvalidAddress::Scheme(scheme) => match (family, scheme.as_str()) {
            (Family::Http, "ws" | "wss") => ("is the URL of a web socket", Some("set `type` to `ws`")),
            (Family::WebSocket, "http") => ("is no URL of a web socket", Some("begin it with `ws://`")),
            (Family::WebSocket, "https") => ("is no URL of a web socket", Some("begin it with `wss://`")),
            _ => ("has a scheme that no server is reached by", Some("begin it with `https://`")),
        },
        InvalidAddress::Credentials => {
            ("has a name or password in it", Some("send it as a header, `Authorization` as a rule"))
        }
        InvalidAddress::NoHost => ("is no URL: it has no host", None),
        InvalidAddress::Malformed => {
            ("is no valid URL", Some("write blanks and other special characters as `%20` and so on"))
        }
        InvalidAddress::Port => ("has a port that is none", Some("ports are 1 to 65535")),
        InvalidAddress::NumericHost => {
            ("has a host that is a number in disguise", Some("write all four parts of it: 127.0.0.1"))
        }
        InvalidAddress::DotSegment => ("has `.` or `..` as a part of its path", Some("write the path that is meant")),
    };
    Unusable { why, hint }
}

/// An address taken apart; `None` if it is none.
pub(crate) fn parts(url: &str) -> Option<Parts> {
    let uri: Uri = url.parse().ok()?;
    let scheme = uri.scheme().map(Scheme::as_str)?.to_ascii_lowercase();
    let (host, with_port) = hosts(&scheme, uri.authority()?);
    let path = uri.path_and_query().map(ToString::to_string).unwrap_or_default();
    Some(Parts { scheme, host, with_port, path: normal_path(&path) })
}

/// The host with its port if that is not the usual one, and with it in any case.
fn hosts(scheme: &str, authority: &Authority) -> (String, String) {
    let host = address::normalize_host(authority.host());
    let usual = address::default_port(scheme).unwrap_or(0);
    let port = authority.port_u16().unwrap_or(usual);
    let with_port = format!("{host}:{port}");
    (if port == usual { host } else { with_port.clone() }, with_port)
}

/// A path with characters written out that need no `%`, one slash for several, and none at the end.
pub(crate) fn plain_path(path: &str) -> String {
    let decoded = percent::decode_unreserved(path);
    let mut plain = String::with_capacity(decoded.len());
    for character in decoded.chars() {
        if character != '/' || !plain.ends_with('/') {
            plain.push(character);
        }
    }
    plain.trim_end_matches('/').to_owned()
}

/// Without the slash at the end, also where a query follows.
fn normal_path(path: &str) -> String {
    match path.split_once('?') {
        Some((path, query)) if !query.is_empty() => format!("{}?{query}", path.trim_end_matches('/')),
        Some((path, _)) => path.trim_end_matches('/').to_owned(),
        None => path.trim_end_matches('/').to_owned(),
    }
}

/// One text for all ways to write an address.
pub(crate) fn normal(url: &str) -> String {
    parts(url).map_or_else(|| url.to_owned(), |parts| format!("{}://{}{}", parts.scheme, parts.host, parts.path))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn an_address_is_the_same_however_it_is_dressed(
            host in "[a-z]{1,4}(\\.[a-z]{1,4}){0,2}", path in "(/[a-zA-Z0-9]{1,3}){0,3}", port in 1u16.., shout: bool, slash: bool,
        ) {
            let plain = format!("https://{host}{}{path}", if port == 443 { String::new() } else { format!(":{port}") });
            let dressed_host = if shout { host.to_uppercase() } else { host.clone() };
            let dressed = format!("HTTPS://{dressed_host}:{port}{path}{}#f", if slash { "/" } else { "" });
            prop_assert_eq!(normal(&dressed), plain.clone());
            prop_assert_eq!(normal(&plain), plain.clone());
            let other = format!("{plain}x");
            prop_assert_ne!(normal(&other), plain);
        }
    }

    #[test]
    fn ways_to_write_the_same_address_are_the_same() {
        for url in [
            "https://a.example/mcp",
            "HTTPS://A.Example:443/mcp/",
            "https://a.example./mcp#top",
            "https://a.example/mcp?",
        ] {
            assert_eq!(normal(url), "https://a.example/mcp", "{url}");
        }
        assert_eq!(normal("http://[::1]:8000/"), "http://[::1]:8000");
        for other in
            ["https://a.example/MCP", "http://a.example/mcp", "https://a.example:8443/mcp", "https://a.example/mcp?x=1"]
        {
            assert_ne!(normal(other), "https://a.example/mcp", "{other}");
        }
    }

    #[test]
    fn an_address_that_cannot_work_says_why() {
        let why = |url: &str| check(url, Family::Http).unwrap_err().why;
        assert_eq!(why("example.com/mcp"), "is no URL: it has no scheme");
        assert_eq!(why("ftp://example.com"), "has a scheme that no server is reached by");
        assert_eq!(why("https:///mcp"), "is no URL: it has no host");
        assert_eq!(why("https://:80/mcp"), "is no URL: it has no host");
        assert_eq!(why("https://a:99999/mcp"), "has a port that is none");
        assert_eq!(why("https://a/m cp"), "is no valid URL");
        assert_eq!(why("https://me:pw@a/mcp"), "has a name or password in it");
        assert_eq!(why("https://a/ok/%2E%2e/secret"), "has `.` or `..` as a part of its path");
        assert_eq!(why("ws://a/mcp"), "is the URL of a web socket");
        for host in ["127.1", "2130706433", "0x7f.0.0.1", "0177.0.0.1", "127.0.0.1.2", "127.0.0.01"] {
            assert_eq!(why(&format!("https://{host}./mcp")), "has a host that is a number in disguise", "{host}");
        }
        assert_eq!(check("http://127.0.0.1./mcp", Family::Http), Ok(()));
        assert_eq!(check("http://v1.example/mcp", Family::Http), Ok(()));
        assert_eq!(check("http://[::1]:8000/mcp", Family::Http), Ok(()));
        assert_eq!(check("wss://a", Family::WebSocket), Ok(()));
    }
}
