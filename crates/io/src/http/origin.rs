//! The origin of a URI.

use http::Uri;

use super::error::HttpError;
use crate::address::{default_port, explicit_port};

/// The key for sharing connections: scheme, host and port.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Origin {
    pub(super) secure: bool,
    pub(super) host: String,
    pub(super) port: u16,
}

impl Origin {
    pub(super) fn of(uri: &Uri) -> Result<Self, HttpError> {
        let scheme = uri.scheme_str().unwrap_or_default();
        let secure = match scheme {
            "http" | "ws" => false,
            "https" | "wss" => true,
            _ => return Err(HttpError::Unreachable(format!("unsupported scheme in `{uri}`: expected http or https"))),
        };
        let host = uri.host().filter(|host| !host.is_empty());
        let host = host.ok_or_else(|| HttpError::Unreachable(format!("missing host in `{uri}`")))?;
        let host = host.trim_start_matches('[').trim_end_matches(']').to_ascii_lowercase();
        let port = explicit_port(uri).ok().and_then(|port| port.or_else(|| default_port(scheme)));
        let port = port.ok_or_else(|| HttpError::Unreachable(format!("invalid port in `{uri}`")))?;
        Ok(Self { secure, host, port })
    }

    fn scheme(&self) -> &'static str {
        if self.secure { "https" } else { "http" }
    }

    /// Returns the value of the `Host` header: without the default port.
    pub(super) fn authority(&self) -> String {
        let host = if self.host.contains(':') { format!("[{}]", self.host) } else { self.host.clone() };
        if default_port(self.scheme()) == Some(self.port) { host } else { format!("{host}:{}", self.port) }
    }
}

impl std::fmt::Display for Origin {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}://{}", self.scheme(), self.authority())
    }
}
