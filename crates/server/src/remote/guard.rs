//! Which `Host` and `Origin` are let in: a web page must not reach a local server through a name of its own.

use http::Uri;
use http::header::{HOST, HeaderMap, HeaderValue, ORIGIN};
use http::uri::Authority;

const LOOPBACK: [&str; 3] = ["localhost", "127.0.0.1", "[::1]"];

/// The names a request may give.
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

    /// Says what is wrong with a request that may not come in.
    pub(crate) fn check(&self, uri: &Uri, headers: &HeaderMap) -> Result<(), &'static str> {
        if !self.host_is_allowed(uri, headers) {
            return Err("this Host is not allowed");
        }
        if !self.origin_is_allowed(headers) {
            return Err("this Origin is not allowed");
        }
        Ok(())
    }

    /// HTTP/2 and requests in absolute form name the host in the URI. Where there are two names, both have to be good.
    fn host_is_allowed(&self, uri: &Uri, headers: &HeaderMap) -> bool {
        let mut hosts = headers.get_all(HOST).iter();
        let named = match (hosts.next(), hosts.next()) {
            (None, _) => None,
            (Some(host), None) => Some(host),
            (Some(_), Some(_)) => return false,
        };
        let in_header = named.map(|host| text(host).and_then(Name::parse).is_some_and(|name| self.knows(&name)));
        let in_uri = uri.authority().map(|authority| Name::of(authority).is_some_and(|name| self.knows(&name)));
        in_header.or(in_uri).is_some() && in_header != Some(false) && in_uri != Some(false)
    }

    fn origin_is_allowed(&self, headers: &HeaderMap) -> bool {
        let mut origins = headers.get_all(ORIGIN).iter();
        match (origins.next(), origins.next()) {
            (None, _) => true,
            (Some(origin), None) => text(origin).and_then(Name::of_origin).is_some_and(|name| self.knows(&name)),
            (Some(_), Some(_)) => false,
        }
    }

    /// An allowed name without a port stands for all its ports.
    fn knows(&self, name: &Name) -> bool {
        self.allowed.iter().any(|allowed| allowed.host == name.host && (allowed.port.is_none() || allowed == name))
    }
}

impl Name {
    fn parse(text: &str) -> Option<Self> {
        Self::of(&text.parse().ok()?)
    }

    fn of(authority: &Authority) -> Option<Self> {
        // `localhost@elsewhere` is a user name and a host, which nobody who means well sends.
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
        let (usual_port, authority) = match origin.split_once("://")? {
            ("http", authority) => (80, authority),
            ("https", authority) => (443, authority),
            _ => return None,
        };
        let name = Self::parse(authority)?;
        Some(Self { port: name.port.or(Some(usual_port)), ..name })
    }
}

fn text(value: &HeaderValue) -> Option<&str> {
    value.to_str().ok()
}

#[cfg(test)]
mod tests;
