//! Addresses of servers: which URLs can be used, and when two hosts are the same.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use http::Uri;

use crate::percent;

/// The schemes of HTTP.
pub const HTTP_SCHEMES: &[&str] = &["http", "https"];
/// The schemes of WebSocket.
pub const WEBSOCKET_SCHEMES: &[&str] = &["ws", "wss"];

/// What is wrong with an address.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum InvalidAddress {
    /// It does not start with a scheme and `://`.
    NoScheme,
    /// Its scheme, given in lower case, is not one of those expected.
    Scheme(String),
    /// A user name or password stands before its host.
    Credentials,
    /// It does not name a host.
    NoHost,
    /// It is not a valid URL, because of an unescaped character for example.
    Malformed,
    /// Its port is not a number up to 65535.
    Port,
    /// Its host is read as an IPv4 address by the system although it is not written as one: `127.1`, `2130706433`.
    NumericHost,
    /// Its path has a part `.` or `..`, plain or escaped.
    DotSegment,
}

/// Parses the address of a server, which needs a host and one of the schemes given. The scheme of the result is in lower
/// case.
pub fn parse(url: &str, schemes: &[&str]) -> Result<Uri, InvalidAddress> {
    let (scheme, rest) = url.split_once("://").ok_or(InvalidAddress::NoScheme)?;
    let scheme = scheme.to_ascii_lowercase();
    if !schemes.contains(&scheme.as_str()) {
        return Err(InvalidAddress::Scheme(scheme));
    }
    let authority = rest.split(['/', '?', '#']).next().unwrap_or_default();
    if authority.contains('@') {
        return Err(InvalidAddress::Credentials);
    }
    if authority.is_empty() || authority.starts_with(':') {
        return Err(InvalidAddress::NoHost);
    }
    let uri: Uri = format!("{scheme}://{rest}").parse().map_err(|_| InvalidAddress::Malformed)?;
    if uri.host().is_none_or(str::is_empty) {
        return Err(InvalidAddress::NoHost);
    }
    explicit_port(&uri)?;
    Ok(uri)
}

/// Checks that rules about addresses see the same host and path as the server does.
pub fn check_unambiguous(uri: &Uri) -> Result<(), InvalidAddress> {
    if is_numeric_but_not_ipv4(uri.host().unwrap_or_default()) {
        return Err(InvalidAddress::NumericHost);
    }
    let is_dotted = |part: &str| matches!(percent::decode_unreserved(part).as_str(), "." | "..");
    if uri.path().split('/').any(is_dotted) {
        return Err(InvalidAddress::DotSegment);
    }
    Ok(())
}

/// Returns the port that an address names, if it names one.
///
/// `http::Uri` ignores a port that it cannot read. Secrets would then go to the server at the default port.
pub fn explicit_port(uri: &Uri) -> Result<Option<u16>, InvalidAddress> {
    let authority = uri.authority().map_or("", |authority| authority.as_str());
    let after_user = authority.rsplit_once('@').map_or(authority, |(_, rest)| rest);
    match after_user.rsplit_once(':') {
        // The colons of an IPv6 address stand in brackets.
        Some((_, port)) if !port.ends_with(']') => port.parse().map(Some).map_err(|_| InvalidAddress::Port),
        _ => Ok(None),
    }
}

/// Returns the port that a scheme implies.
pub fn default_port(scheme: &str) -> Option<u16> {
    match scheme {
        "http" | "ws" => Some(80),
        "https" | "wss" => Some(443),
        _ => None,
    }
}

/// Returns one text for all ways to write a host: lower case, without a dot at the end, IPv6 addresses in their shortest
/// form, and IPv4 addresses inside of IPv6 ones as IPv4.
pub fn normalize_host(host: &str) -> String {
    let host = host.trim_end_matches('.').to_ascii_lowercase();
    let inner = host.strip_prefix('[').and_then(|host| host.strip_suffix(']'));
    match inner.map(|inner| inner.parse::<Ipv6Addr>().map(|address| address.to_canonical())) {
        Some(Ok(IpAddr::V4(address))) => address.to_string(),
        Some(Ok(IpAddr::V6(address))) => format!("[{address}]"),
        _ => host,
    }
}

/// Returns whether a host, with or without brackets, is this machine: `localhost` or a loopback address.
pub fn is_loopback_host(host: &str) -> bool {
    let address = host.trim_start_matches('[').trim_end_matches(']');
    address.eq_ignore_ascii_case("localhost") || address.parse::<IpAddr>().is_ok_and(|address| address.is_loopback())
}

/// Returns whether the system reads a host as an IPv4 address although it is not written as one. Rules would see a name.
fn is_numeric_but_not_ipv4(host: &str) -> bool {
    let host = host.trim_end_matches('.');
    let last = host.rsplit('.').next().unwrap_or_default().to_ascii_lowercase();
    let is_decimal = !last.is_empty() && last.bytes().all(|byte| byte.is_ascii_digit());
    let is_hex = last.strip_prefix("0x").is_some_and(|digits| digits.bytes().all(|byte| byte.is_ascii_hexdigit()));
    (is_decimal || is_hex) && host.parse::<Ipv4Addr>().is_err()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_invalid_address_is_refused_with_its_reason() {
        for (url, reason) in [
            ("example.com/mcp", InvalidAddress::NoScheme),
            ("javascript:alert(1)", InvalidAddress::NoScheme),
            ("/mcp", InvalidAddress::NoScheme),
            ("FTP://example.com", InvalidAddress::Scheme("ftp".to_owned())),
            ("ws://a/mcp", InvalidAddress::Scheme("ws".to_owned())),
            ("https:///mcp", InvalidAddress::NoHost),
            ("https://:80/mcp", InvalidAddress::NoHost),
            ("https://", InvalidAddress::NoHost),
            ("https://a:99999/mcp", InvalidAddress::Port),
            ("https://a:8o/mcp", InvalidAddress::Port),
            ("https://a:/mcp", InvalidAddress::Port),
            ("https://user:s3/cret@a/mcp", InvalidAddress::Port),
            ("https://a/m cp", InvalidAddress::Malformed),
            ("https://a /mcp", InvalidAddress::Malformed),
            ("https://me:pw@a/mcp", InvalidAddress::Credentials),
            ("https://me@a/mcp", InvalidAddress::Credentials),
        ] {
            assert_eq!(parse(url, HTTP_SCHEMES), Err(reason), "{url}");
        }
    }

    #[test]
    fn a_valid_address_is_parsed_and_its_scheme_is_in_lower_case() {
        for url in ["http://a", "https://a:8443/mcp?x=@", "http://[::1]:8000/mcp", "https://a/@me"] {
            assert!(parse(url, HTTP_SCHEMES).is_ok(), "{url}");
        }
        assert_eq!(parse("WSS://A/Mcp", WEBSOCKET_SCHEMES).unwrap().to_string(), "wss://A/Mcp");
    }

    #[test]
    fn an_address_that_rules_would_misread_is_ambiguous() {
        let check = |url: &str| check_unambiguous(&url.parse().unwrap());
        for host in ["127.1", "2130706433", "0x7f.0.0.1", "0177.0.0.1", "127.0.0.1.2", "127.0.0.01"] {
            assert_eq!(check(&format!("https://{host}./mcp")), Err(InvalidAddress::NumericHost), "{host}");
        }
        for path in [".", "..", "ok/%2E%2e/secret", "a/.%2e"] {
            assert_eq!(check(&format!("https://a/{path}")), Err(InvalidAddress::DotSegment), "{path}");
        }
        for url in ["http://127.0.0.1./mcp", "http://v1.example/...", "http://[::1]:8000/.mcp"] {
            assert_eq!(check(url), Ok(()), "{url}");
        }
    }

    #[test]
    fn an_invalid_port_is_not_ignored() {
        let port = |text: &str| explicit_port(&text.parse().unwrap());
        assert_eq!(port("http://a.test/x:1"), Ok(None));
        assert_eq!(port("http://a.test:80"), Ok(Some(80)));
        assert_eq!(port("http://[::1]/"), Ok(None));
        assert_eq!(port("http://[::1]:8080/"), Ok(Some(8080)));
        for wrong in ["http://a.test:99999/", "http://a.test:8o/", "http://user:s3/cret@a.test", "http://a.test:/"] {
            assert_eq!(port(wrong), Err(InvalidAddress::Port), "{wrong}");
        }
    }

    #[test]
    fn hosts_are_normalized() {
        for (host, normal) in [
            ("A.Example.", "a.example"),
            ("[0:0::1]", "[::1]"),
            ("[::ffff:127.0.0.1]", "127.0.0.1"),
            ("127.0.0.1", "127.0.0.1"),
            ("[nonsense]", "[nonsense]"),
        ] {
            assert_eq!(normalize_host(host), normal, "{host}");
        }
    }

    #[test]
    fn localhost_and_loopback_addresses_are_this_machine() {
        for host in ["localhost", "LocalHost", "127.0.0.1", "127.9.9.9", "::1", "[::1]"] {
            assert!(is_loopback_host(host), "{host}");
        }
        for host in ["localhost.example", "10.0.0.1", "[2001:db8::1]", "", "0.0.0.0"] {
            assert!(!is_loopback_host(host), "{host}");
        }
    }
}
