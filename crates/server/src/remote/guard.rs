//! Checks of `Host` and `Origin`: a web page must not reach a local server by DNS rebinding.

use http::Uri;
use http::header::{HOST, HeaderMap, HeaderValue, ORIGIN};
use http::uri::Authority;

const LOOPBACK: [&str; 3] = ["localhost", "127.0.0.1", "[::1]"];

/// The host names that requests may use.
pub(crate) struct Guard {
    allowed: Vec<Name>,
}

#[derive(PartialEq)]
struct Name {
    host: String,
    port: Option<u16>,
}

impl Guard {
    pub(crate) fn new(allowed_hosts: Option<&[String]>) -> Self {
        let listed = allowed_hosts.unwrap_or_default().iter().map(String::as_str);
        Self { allowed: LOOPBACK.into_iter().chain(listed).filter_map(Name::parse).collect() }
    }

    /// Fails with the reason if a request is not allowed.
    pub(crate) fn check(&self, uri: &Uri, headers: &HeaderMap) -> Result<(), &'static str> {
        if !self.host_is_allowed(uri, headers) {
            return Err("Host not allowed");
        }
        if !self.origin_is_allowed(headers) {
            return Err("Origin not allowed");
        }
        Ok(())
    }

    /// HTTP/2 and requests in absolute form name the host in the URI. If header and URI both name one, both are checked.
    fn host_is_allowed(&self, uri: &Uri, headers: &HeaderMap) -> bool {
        let mut hosts = headers.get_all(HOST).iter();
        let named = match (hosts.next(), hosts.next()) {
            (None, _) => None,
            (Some(host), None) => Some(host),
            (Some(_), Some(_)) => return false,
        };
        let in_header = named.map(|host| text(host).and_then(Name::parse).is_some_and(|name| self.allows(&name)));
        let in_uri = uri.authority().map(|authority| Name::of(authority).is_some_and(|name| self.allows(&name)));
        in_header.or(in_uri).is_some() && in_header != Some(false) && in_uri != Some(false)
    }

    fn origin_is_allowed(&self, headers: &HeaderMap) -> bool {
        let mut origins = headers.get_all(ORIGIN).iter();
        match (origins.next(), origins.next()) {
            (None, _) => true,
            (Some(origin), None) => text(origin).and_then(Name::of_origin).is_some_and(|name| self.allows(&name)),
            (Some(_), Some(_)) => false,
        }
    }

    /// An allowed name without a port matches every port.
    fn allows(&self, name: &Name) -> bool {
        self.allowed.iter().any(|allowed| allowed.host == name.host && (allowed.port.is_none() || allowed == name))
    }
}

impl Name {
    fn parse(text: &str) -> Option<Self> {
        Self::of(&text.parse().ok()?)
    }

    fn of(authority: &Authority) -> Option<Self> {
        // `localhost@elsewhere` is a user name and a host, which no well-behaved client sends.
        if authority.as_str().contains('@') {
            return None;
        }
        let port = match authority.as_str().strip_prefix(authority.host())? {
            "" => None,
            port => Some(port.strip_prefix(':')?.parse().ok()?),
        };
        Some(Self { host: authority.host().to_ascii_lowercase(), port })
    }

    fn of_origin(origin: &str) -> Option<Self> {
        let (default_port, authority) = match origin.split_once("://")? {
            ("http", authority) => (80, authority),
            ("https", authority) => (443, authority),
            _ => return None,
        };
        let name = Self::parse(authority)?;
        Some(Self { port: name.port.or(Some(default_port)), ..name })
    }
}

fn text(value: &HeaderValue) -> Option<&str> {
    value.to_str().ok()
}

#[cfg(test)]
mod tests;
