//! URLs of servers: whether one can be reached at all, and when two of them are the same.

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
    /// Path and query; empty for the root.
    pub(crate) path: String,
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

/// An address taken apart; `None` if it is none.
pub(crate) fn parts(url: &str) -> Option<Parts> {
    let uri: Uri = url.parse().ok()?;
    let scheme = uri.scheme().map(Scheme::as_str)?.to_ascii_lowercase();
    let host = normal_host(&scheme, uri.authority()?);
    let path = uri.path_and_query().map(ToString::to_string).unwrap_or_default();
    Some(Parts { scheme, host, path: normal_path(&path) })
}

fn normal_host(scheme: &str, authority: &Authority) -> String {
    let host = authority.host().trim_end_matches('.').to_ascii_lowercase();
    let usual = match scheme {
        "http" | "ws" => 80,
        "https" | "wss" => 443,
        _ => 0,
    };
    match authority.port_u16() {
        Some(port) if port != usual => format!("{host}:{port}"),
        _ => host,
    }
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
        let why = |url| check(url, Family::Http).unwrap_err().why;
        assert_eq!(why("example.com/mcp"), "is no URL: it has no scheme");
        assert_eq!(why("ftp://example.com"), "has a scheme that no server is reached by");
        assert_eq!(why("https:///mcp"), "is no URL: it has no host");
        assert_eq!(why("https://:80/mcp"), "is no URL: it has no host");
        assert_eq!(why("https://a:99999/mcp"), "has a port that is none");
        assert_eq!(why("https://a/m cp"), "is no valid URL");
        assert_eq!(why("https://me:pw@a/mcp"), "has a name or password in it");
        assert_eq!(why("https://a/ok/%2E%2e/secret"), "has `.` or `..` as a part of its path");
        assert_eq!(why("ws://a/mcp"), "is the URL of a web socket");
        assert_eq!(check("http://[::1]:8000/mcp", Family::Http), Ok(()));
        assert_eq!(check("wss://a", Family::WebSocket), Ok(()));
    }
}
