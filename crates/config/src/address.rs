//! URLs of servers: whether one can be reached at all, and when two of them are the same.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use http::Uri;
use http::uri::{Authority, Scheme};

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
    let unusable = |why, hint| Err(Unusable { why, hint });
    let (scheme, rest) = match url.split_once("://") {
        Some((scheme, rest)) => (scheme.to_ascii_lowercase(), rest),
        None => return unusable("is no URL: it has no scheme", Some("begin it with `https://`")),
    };
    match (family, scheme.as_str()) {
        (Family::Http, "http" | "https") | (Family::WebSocket, "ws" | "wss") => {}
        (Family::Http, "ws" | "wss") => return unusable("is the URL of a web socket", Some("set `type` to `ws`")),
        (Family::WebSocket, "http") => return unusable("is no URL of a web socket", Some("begin it with `ws://`")),
        (Family::WebSocket, "https") => return unusable("is no URL of a web socket", Some("begin it with `wss://`")),
        _ => return unusable("has a scheme that no server is reached by", Some("begin it with `https://`")),
    }
    let authority = rest.split(['/', '?', '#']).next().unwrap_or_default();
    if authority.contains('@') {
        return unusable("has a name or password in it", Some("send it as a header, `Authorization` as a rule"));
    }
    if authority.is_empty() || authority.starts_with(':') {
        return unusable("is no URL: it has no host", None);
    }
    let Ok(uri) = url.parse::<Uri>() else {
        return unusable("is no valid URL", Some("write blanks and other special characters as `%20` and so on"));
    };
    // A port that is none is kept by the parser and fails only when somebody connects.
    let after_host = authority.rsplit_once(']').map_or(authority, |(_, after)| after);
    if after_host.contains(':') && uri.port_u16().is_none() {
        return unusable("has a port that is none", Some("ports are 1 to 65535"));
    }
    if is_number_in_disguise(uri.host().unwrap_or_default()) {
        return unusable("has a host that is a number in disguise", Some("write all four parts of it: 127.0.0.1"));
    }
    if dotted(uri.path()) {
        return unusable("has `.` or `..` as a part of its path", Some("write the path that is meant"));
    }
    Ok(())
}

/// Whether a path says "here" or "one up", plainly or encoded: rules would see another path than the server.
fn dotted(path: &str) -> bool {
    path.split('/').any(|part| {
        let part = part.to_ascii_lowercase().replace("%2e", ".");
        part == "." || part == ".."
    })
}

/// Whether a host would be taken for an IPv4 address although it is not written as one: `127.1`, `2130706433`, `0x7f.1`.
/// Rules would see a name.
fn is_number_in_disguise(host: &str) -> bool {
    let host = host.trim_end_matches('.');
    let last = host.rsplit('.').next().unwrap_or_default().to_ascii_lowercase();
    let is_decimal = !last.is_empty() && last.bytes().all(|byte| byte.is_ascii_digit());
    let is_hex = last.strip_prefix("0x").is_some_and(|digits| digits.bytes().all(|byte| byte.is_ascii_hexdigit()));
    (is_decimal || is_hex) && host.parse::<Ipv4Addr>().is_err()
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
    let host = normal_host(authority.host());
    let usual = match scheme {
        "http" | "ws" => 80,
        "https" | "wss" => 443,
        _ => 0,
    };
    let port = authority.port_u16().unwrap_or(usual);
    let with_port = format!("{host}:{port}");
    (if port == usual { host } else { with_port.clone() }, with_port)
}

/// One text for all ways to write a host: no case, no dot at the end, and numbers as they are usually written.
pub(crate) fn normal_host(host: &str) -> String {
    let host = host.trim_end_matches('.').to_ascii_lowercase();
    let inner = host.strip_prefix('[').and_then(|host| host.strip_suffix(']'));
    match inner.map(|inner| inner.parse::<Ipv6Addr>().map(|address| address.to_canonical())) {
        Some(Ok(IpAddr::V4(address))) => address.to_string(),
        Some(Ok(IpAddr::V6(address))) => format!("[{address}]"),
        _ => host,
    }
}

/// A path with characters written out that need no `%`, one slash for several, and none at the end.
pub(crate) fn plain_path(path: &str) -> String {
    let bytes = path.as_bytes();
    let (mut plain, mut at) = (Vec::with_capacity(bytes.len()), 0);
    while at < bytes.len() {
        let digits = path.get(at + 1..at + 3).filter(|_| bytes[at] == b'%');
        let decoded = digits.and_then(|digits| u8::from_str_radix(digits, 16).ok());
        if let Some(byte) = decoded.filter(|byte| byte.is_ascii_alphanumeric() || b"-._~".contains(byte)) {
            plain.push(byte);
            at += 3;
            continue;
        }
        if bytes[at] != b'/' || plain.last() != Some(&b'/') {
            plain.push(bytes[at]);
        }
        at += 1;
    }
    // Only whole characters were replaced, and by ASCII.
    String::from_utf8_lossy(&plain).trim_end_matches('/').to_owned()
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
