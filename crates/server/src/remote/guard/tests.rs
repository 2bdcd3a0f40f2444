//! Which requests are allowed, and which are not.

use http::header::{HOST, HeaderMap, ORIGIN};

use super::Guard;

fn check(allowed: &[&str], uri: &str, hosts: &[&str], origins: &[&str]) -> bool {
    let allowed = allowed.iter().map(ToString::to_string).collect::<Vec<_>>();
    let mut headers = HeaderMap::new();
    for host in hosts {
        headers.append(HOST, host.parse().unwrap());
    }
    for origin in origins {
        headers.append(ORIGIN, origin.parse().unwrap());
    }
    Guard::new(Some(&allowed)).check(&uri.parse().unwrap(), &headers).is_ok()
}

#[test]
fn only_loopback_and_listed_hosts_are_allowed() {
    let allowed = ["wharf.example", "ported.example:8443"];
    for (host, expected) in [
        ("localhost", true),
        ("LocalHost:80", true),
        ("127.0.0.1", true),
        ("127.0.0.1:65535", true),
        ("[::1]", true),
        ("[::1]:9000", true),
        ("wharf.example", true),
        ("WHARF.example:1234", true),
        ("ported.example:8443", true),
        ("ported.example:8444", false),
        ("ported.example", false),
        ("localhost.evil.example", false),
        ("evil.example", false),
        ("evil.example:80", false),
        ("127.0.0.2", false),
        ("0.0.0.0", false),
        ("[::2]", false),
        ("localhost@evil.example", false),
        ("evil@localhost", false),
        ("localhost:port", false),
        ("localhost:99999", false),
        ("localhost.", false),
        ("", false),
    ] {
        assert_eq!(check(&allowed, "/mcp", &[host], &[]), expected, "Host: {host}");
    }
}

#[test]
fn every_host_named_in_a_request_must_be_allowed() {
    for (uri, hosts, expected) in [
        ("/mcp", &[][..], false),
        ("http://localhost/mcp", &[], true),
        ("http://evil.example/mcp", &[], false),
        ("http://localhost/mcp", &["localhost"], true),
        ("http://evil.example/mcp", &["localhost"], false),
        ("http://localhost/mcp", &["evil.example"], false),
        ("/mcp", &["localhost", "localhost"], false),
    ] {
        assert_eq!(check(&[], uri, hosts, &[]), expected, "{uri} {hosts:?}");
    }
}

#[test]
fn only_loopback_and_listed_origins_are_allowed() {
    let allowed = ["wharf.example", "ported.example:443"];
    for (origins, expected) in [
        (&[][..], true),
        (&["http://localhost"], true),
        (&["https://localhost:3000"], true),
        (&["http://127.0.0.1:3000"], true),
        (&["http://[::1]:3000"], true),
        (&["https://wharf.example"], true),
        (&["https://ported.example"], true),
        (&["http://ported.example"], false),
        (&["http://evil.example"], false),
        (&["http://localhost.evil.example"], false),
        (&["http://localhost@evil.example"], false),
        (&["http://localhost/path"], false),
        (&["ftp://localhost"], false),
        (&["localhost"], false),
        (&["null"], false),
        (&[""], false),
        (&["http://localhost", "http://localhost"], false),
    ] {
        assert_eq!(check(&allowed, "/mcp", &["localhost"], origins), expected, "Origin: {origins:?}");
    }
}

#[test]
fn without_a_list_only_loopback_is_allowed() {
    let guard = Guard::new(None);
    let headers = |host: &str| HeaderMap::from_iter([(HOST, host.parse().unwrap())]);
    assert_eq!(guard.check(&"/ws".parse().unwrap(), &headers("localhost")), Ok(()));
    assert_eq!(guard.check(&"/ws".parse().unwrap(), &headers("wharf.example")), Err("Host not allowed"));
}
