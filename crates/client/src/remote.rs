//! Validation of the settings of remote servers.

use http::{HeaderMap, HeaderName, HeaderValue};
use wharf_io::InvalidSettings;

/// Headers that only the client sets.
const RESERVED_HEADERS: [&str; 12] = [
    "accept",
    "connection",
    "content-length",
    "content-type",
    "host",
    "last-event-id",
    "mcp-method",
    "mcp-name",
    "mcp-protocol-version",
    "mcp-session-id",
    "transfer-encoding",
    "upgrade",
];

/// An invalid setting of a remote server.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum InvalidRemote {
    /// The URL is invalid.
    #[error("invalid server URL `{url}`: {reason}")]
    Url {
        /// The URL, without credentials.
        url: String,
        /// What is wrong with it.
        reason: &'static str,
    },
    /// A header is invalid.
    #[error("invalid header `{name}`: {reason}")]
    Header {
        /// The header's name.
        name: String,
        /// What is wrong with it.
        reason: &'static str,
    },
    /// The connection settings are invalid.
    #[error(transparent)]
    Settings(#[from] InvalidSettings),
}

/// Returns whether a header is reserved: the client sets it, and the configuration must not.
pub fn is_reserved_header(name: &str) -> bool {
    let name = name.trim().to_ascii_lowercase();
    RESERVED_HEADERS.contains(&name.as_str()) || name.starts_with("mcp-param-")
}

/// Parses header names and values. The values are marked as sensitive.
pub(crate) fn parse_headers(pairs: &[(String, String)]) -> Result<HeaderMap, InvalidRemote> {
    let mut headers = HeaderMap::new();
    for (name, value) in pairs {
        let (name, value) = parse_header(name, value)?;
        headers.append(name, value);
    }
    Ok(headers)
}

fn parse_header(name: &str, value: &str) -> Result<(HeaderName, HeaderValue), InvalidRemote> {
    let invalid = |reason| InvalidRemote::Header { name: name.to_owned(), reason };
    let parsed: HeaderName = name.trim().parse().map_err(|_| invalid("the name is malformed"))?;
    if is_reserved_header(parsed.as_str()) {
        return Err(invalid("the client sets it"));
    }
    let mut value =
        HeaderValue::from_str(value.trim()).map_err(|_| invalid("the value contains unprintable characters"))?;
    value.set_sensitive(true);
    Ok((parsed, value))
}
