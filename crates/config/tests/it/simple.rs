//! Simple server maps.

use insta::assert_snapshot;
use serde_json::{Map, Value, json};
use wharf_config::simple::{convert, convert_and_validate, convert_one, validate};

fn map(value: &Value) -> Map<String, Value> {
    value.as_object().unwrap().clone()
}

#[test]
fn urls_and_command_lines_become_entries() {
    for (text, entry) in [
        ("http://a/mcp", json!({"type": "http", "url": "http://a/mcp"})),
        ("https://a.example/mcp/", json!({"type": "http", "url": "https://a.example/mcp/"})),
        ("https://a.example/sse", json!({"type": "http", "url": "https://a.example/sse"})),
        ("npx -y @mcp/server-github", json!({"command": "npx", "args": ["-y", "@mcp/server-github"]})),
        ("npx\t-y   pkg ", json!({"command": "npx", "args": ["-y", "pkg"]})),
        ("/usr/bin/server", json!({"command": "/usr/bin/server"})),
        ("httpserver", json!({"command": "httpserver"})),
    ] {
        assert_eq!(convert_one(text), entry, "{text}");
    }
}

#[test]
fn complete_entries_are_unchanged() {
    let written = json!({"a": {"type": "sse", "url": "https://a", "extra": 1}, "b": {"command": "b"}, "c": "https://c", "d": {"url": "https://d"}});
    let converted = convert(&map(&written));
    assert_eq!((&converted["a"], &converted["b"]), (&written["a"], &written["b"]));
    assert_eq!(converted["c"], json!({"type": "http", "url": "https://c"}));
    assert_eq!(converted["d"], json!({"type": "http", "url": "https://d"}));
    assert_eq!(converted.keys().collect::<Vec<_>>(), ["a", "b", "c", "d"]);
}

#[test]
fn every_invalid_server_is_listed() {
    let bad = json!({
        "ok": {"command": "x"},
        "loud": {"type": "HTTP", "url": "https://a"},
        "long": {"type": "streamable_http", "url": "https://a"},
        "no-url": {"type": "http"},
        "no-type": {"url": "https://a"},
        "no-command": {"type": "stdio"},
        "empty": {},
        "both": {"type": "http", "url": "https://a", "command": "x"},
        "odd": {"type": "carrier-pigeon", "url": "https://a"},
        "number": 7,
        "args": {"command": "x", "args": "-y"},
        "address": {"type": "http", "url": "a b"},
        "a name": {"command": "x"},
    });
    let error = validate(&map(&bad)).unwrap_err();
    let lines: Vec<_> = error.servers.iter().map(|(name, reason)| format!("{name}: {reason}")).collect();
    assert_snapshot!(lines.join("\n"), @r"
    no-url: has the type `http` but no URL configured
    no-type: has a `url` but no `type`
    no-command: has the type `stdio` but no `command`
    empty: has neither `url` nor `command`
    both: has both `command` and `url`
    odd: has the unknown type `carrier-pigeon`
    number: is neither a string nor an object
    args: has `args` that are not a list of strings
    address: has the type `http` and an invalid URL: no scheme
    a name: has an invalid name: invalid server name `a name`: contains the character U+0020; use letters, digits, `_`, `.` and `-`
    ");
}

#[test]
fn converting_and_validating_reports_all_invalid_servers_at_once() {
    let good = convert_and_validate(&map(&json!({"a": "https://a", "b": "run it"}))).unwrap();
    assert_eq!(good["b"], json!({"command": "run", "args": ["it"]}));
    let error = convert_and_validate(&map(&json!({"a": "", "b": "https://", "c": "fine"}))).unwrap_err();
    assert_snapshot!(error, @"invalid servers: `a` has neither `url` nor `command`; `b` has the type `http` and an invalid URL: no host");
}
