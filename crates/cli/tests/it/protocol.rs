//! The protocol of a server: detection, selection, cache.

use std::path::Path;
use std::process::Command;

use serde_json::{Value, json};
use wharf_testkit::{Script, Step};

use crate::{RunOutput, Server, ran, wharf};

/// Calls `add` on a server.
fn add(server: &Server, more: &[&str]) -> RunOutput {
    server.run(&[&["call", "s", "add", "a=2", "b=3"], more].concat())
}

#[test]
fn a_slow_start_does_not_fail_protocol_detection() {
    let server = Server::new(&Script::good().at_start([Step::Wait(11_000)]));
    let ran = add(&server, &[]);
    assert_eq!((ran.code, ran.out.as_str()), (0, "5\n"), "{}", ran.err);
}

#[test]
fn a_server_that_exits_on_discover_is_restarted_with_the_legacy_protocol() {
    let server = Server::new(&Script::good().on("server/discover", [Step::Exit(1)]));
    let ran = add(&server, &[]);
    assert_eq!((ran.code, ran.out.as_str()), (0, "5\n"), "{}", ran.err);
}

#[test]
fn a_server_that_ignores_discover_is_initialized_with_the_legacy_protocol() {
    let server = Server::new(&Script::good().on("server/discover", [Step::Hang]));
    let ran = add(&server, &[]);
    assert_eq!((ran.code, ran.out.as_str()), (0, "5\n"), "{}", ran.err);
}

#[test]
fn the_protocol_can_be_set_for_all_servers_or_one() {
    let server = Server::new(&Script::good());
    for choice in [&["--protocol", "legacy"][..], &["--protocol", "modern", "--protocol", "s=auto"]] {
        assert_eq!(add(&server, choice).code, 0, "{choice:?}");
    }
    let refused = add(&server, &["--protocol", "modern"]);
    let expected = "error: s: the server refused the session: it does not support the modern protocol (error -32601: no method \
        server/discover)\nhint: omit --protocol to detect what the server supports\n";
    assert_eq!((refused.code, refused.err.as_str()), (4, expected));
}

#[test]
fn an_invalid_protocol_lists_the_valid_ones() {
    let server = Server::new(&Script::good());
    let unknown = add(&server, &["--protocol", "legcy"]);
    let expected = "error: --protocol legcy: invalid protocol mode \"legcy\": expected auto, legacy or modern\nhint: did you mean `legacy`?\n";
    assert_eq!((unknown.code, unknown.err.as_str()), (2, expected));
    let demo = ran(wharf(&["demo", "--protocol", "nonsense"]));
    assert_eq!(demo.code, 2, "{}", demo.err);
    // A protocol for a server that is not used is allowed.
    let mcp = server.mcp();
    let other = mcp.replacen("s=", "t=", 1);
    let two = ran(wharf(&["tools", "s", "--mcp", &mcp, "--mcp", &other, "--protocol", "t=modern"]));
    assert_eq!(two.code, 0, "{}", two.err);
    let unknown_server = add(&server, &["--protocol", "t=auto"]);
    let expected = "error: --protocol t=auto: unknown server `t`\nhint: available: s\n";
    assert_eq!((unknown_server.code, unknown_server.err.as_str()), (2, expected));
}

#[test]
fn json_and_verbose_output_show_the_protocol() {
    let server = Server::new(&Script::good());
    let report: Value = serde_json::from_str(&server.run(&["tools", "--json"]).out).unwrap();
    assert_eq!(report["servers"][0]["protocol"], json!("2025-11-25"));
    let version_line = "s: scripted 1.0, protocol 2025-11-25 (legacy)\n";
    assert_eq!(add(&server, &["-v"]).err, version_line);
    assert_eq!(server.run(&["tools", "-v"]).err, format!("{version_line}s: `add`: no description\n"));
}

/// Returns the same call with a home directory, where the detected protocol is cached.
fn call_with_home(server: &Server, home: &Path) -> Command {
    let mut command = wharf(&["call", "s", "add", "a=2", "b=3", "--mcp", &server.mcp()]);
    command.env("HOME", home);
    command
}

#[test]
fn the_detected_protocol_is_cached_between_runs() {
    let server = Server::new(&Script::good().on("server/discover", [Step::Touch("$/asked".into()), Step::Exit(1)]));
    let home = server.path().join("home");
    let asked = server.path().join("asked");
    assert_eq!(ran(call_with_home(&server, &home)).code, 0);
    assert!(std::fs::remove_file(&asked).is_ok());
    assert_eq!(ran(call_with_home(&server, &home)).code, 0);
    assert!(!asked.exists());
    let cached = std::fs::read_to_string(home.join(".cache/wharf/servers.json")).unwrap();
    assert!(cached.contains("legacy") && !cached.contains("script"), "{cached}");
    // An invalid cache file counts as empty.
    std::fs::write(home.join(".cache/wharf/servers.json"), "garbage").unwrap();
    assert_eq!(ran(call_with_home(&server, &home)).code, 0);
    assert!(asked.exists());
}
