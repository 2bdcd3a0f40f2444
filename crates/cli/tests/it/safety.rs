//! Untrusted input: project files, reused names and organization rules must not bypass protections.

use serde_json::json;
use wharf_testkit::free_port;

use crate::{PROJECT, Person, USER, demo_entry, entry_touching};

#[test]
fn only_mcp_cannot_bypass_the_organization_by_reusing_a_name() {
    let person = Person::new();
    let started = person.path("started");
    let line = entry_touching(&started)["args"][1].as_str().unwrap().to_owned();
    let mcp = format!("x=sh -c '{line}'");
    for rules in [
        json!({"exclusive": true, "mcpServers": {"x": demo_entry()}}),
        json!({"deniedMcpServers": [{"serverCommand": ["sh", "-c", line]}], "mcpServers": {"x": {}}}),
    ] {
        person.write("managed.json", &rules.to_string());
        let mut command = person.wharf(&["tools", "--only-mcp", "--mcp", &mcp]);
        command.env("WHARF_MANAGED_CONFIG", person.path("managed.json"));
        let ran = crate::ran(command);
        assert!(ran.code == 2 && ran.err.contains("server `x` is not allowed"), "{}", ran.err);
    }
    assert!(!started.exists());
}

#[test]
fn a_named_pipe_is_rejected_as_a_configuration_file() {
    let person = Person::new();
    let pipe = person.path("pipe");
    assert!(std::process::Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    let mut command = person.wharf(&["list"]);
    command.env("WHARF_MANAGED_CONFIG", &pipe);
    let ran = crate::ran(command);
    assert!(ran.code == 2 && ran.err.contains("not a file"), "{}", ran.err);
    let from = pipe.to_str().unwrap();
    assert!(person.run(&["import", "cursor", "--from", from]).err.contains("not a file"));
}

#[test]
fn project_files_are_imported_only_into_the_project_scope() {
    let person = Person::new();
    let started = person.path("started");
    person.write("project/.cursor/mcp.json", &json!({"mcpServers": {"theirs": entry_touching(&started)}}).to_string());
    person.write("home/.cursor/mcp.json", &json!({"mcpServers": {"mine": demo_entry()}}).to_string());
    let ran = person.run(&["import", "cursor"]);
    assert!(ran.out.contains("mine") && !ran.out.contains("theirs"), "{}", ran.out);
    assert!(ran.err.contains("project/.cursor/mcp.json: it belongs to the project"), "{}", ran.err);
    let ran = person.run(&["import", "cursor", "-s", "project"]);
    assert!(ran.out.contains("theirs") && ran.out.contains("touch"), "{}", ran.out);
    assert!(person.run(&["call", "theirs", "now"]).err.contains("needs your approval"));
    assert!(!started.exists());
}

#[test]
fn an_invalid_project_entry_does_not_hide_a_user_server() {
    let person = Person::new().with(USER, "demo", &demo_entry()).with(PROJECT, "demo", &json!({}));
    assert_eq!(person.run(&["call", "demo", "now"]).code, 0);
    assert_eq!(person.run(&["get", "demo"]).code, 0);
}

#[test]
fn an_invalid_header_disables_only_its_server() {
    let odd = json!({"url": "https://odd.test/mcp", "headers": {"Content-Type": "text/plain"}});
    let person = Person::new().with(USER, "demo", &demo_entry()).with(USER, "odd", &odd);
    let ran = person.run(&["tools"]);
    assert!(ran.code == 0 && ran.out.contains("calculate"), "{}", ran.err);
    assert!(ran.err.contains("mcpServers.odd.headers.Content-Type: the client sets this header"), "{}", ran.err);
}

#[test]
fn control_characters_in_files_are_escaped() {
    let person = Person::new().with(PROJECT, "evil\u{1b}[2J\nname", &json!({"command": "x"})).with(
        USER,
        "lines",
        &json!({"command": "x", "args": ["a\nb\tc"], "enabled": false}),
    );
    for arguments in [&["list", "--no-connect"][..], &["list"], &["get", "lines"], &["get", "evil\u{1b}[2J\nname"]] {
        let ran = person.run(arguments);
        assert!(!ran.out.contains('\u{1b}') && !ran.err.contains('\u{1b}'), "{arguments:?}");
        assert!(!ran.out.contains("\nname") && !ran.out.contains("a\nb"), "{}", ran.out);
    }
    assert!(person.run(&["get", "lines"]).out.contains(r"a\nb\tc"));
}

#[test]
fn enable_overrides_a_disabled_entry() {
    let mut off = demo_entry();
    off["enabled"] = json!(false);
    let person = Person::new().with(USER, "demo", &off);
    assert_eq!(person.run(&["call", "demo", "now"]).code, 2);
    assert_eq!(person.run(&["enable", "demo"]).code, 0);
    let ran = person.run(&["call", "demo", "now"]);
    assert_eq!((ran.code, ran.err.as_str()), (0, ""));
    assert!(person.run(&["list"]).out.contains("connected"));
}

#[test]
fn calls_are_rejected_while_the_user_file_is_invalid() {
    let person = Person::new().with(PROJECT, "demo", &demo_entry());
    assert_eq!(person.run(&["approve", "demo", "-y", "-q"]).code, 0);
    assert_eq!(person.run(&["call", "demo", "now"]).code, 0);
    person.write(USER, r#"{"policy": {"deny": ["*"]},,}"#);
    let ran = person.run(&["call", "demo", "now"]);
    assert!(ran.code == 2 && ran.err.contains("cannot read the rules and hooks of the user scope"), "{}", ran.err);
    // Listing its tools still works.
    assert_eq!(person.run(&["tools", "demo"]).code, 0);
}

#[test]
fn the_log_directory_of_a_managed_server_is_created() {
    let port = free_port();
    let line = format!("echo hello; exec sleep 60 # {port}");
    let entry = json!({"command": "sh", "args": ["-c", line], "manage": {"port": port, "startupTimeout": 1000}});
    let person = Person::new().with(USER, "slow", &entry);
    let ran = person.run(&["list"]);
    assert!(ran.out.contains("did not listen"), "{}", ran.out);
    assert_eq!(person.read("home/.cache/wharf/logs/slow.log"), "hello\n");
}

#[test]
fn remove_reports_success_despite_other_invalid_files() {
    let person = Person::new().with(USER, "mine", &demo_entry());
    person.write(PROJECT, "{,}");
    let ran = person.run(&["remove", "mine"]);
    assert!(ran.code == 0 && ran.err.contains("removed `mine`"), "{}", ran.err);
    let person = Person::new().with(PROJECT, "ours", &demo_entry());
    person.write("home/.local/state/wharf/approvals.json", "nonsense");
    let ran = person.run(&["remove", "ours"]);
    assert!(ran.code == 2 && ran.err.contains("removed `ours`"), "{}", ran.err);
    assert!(ran.err.contains("the server was removed, but its approval was not"), "{}", ran.err);
}

#[test]
fn a_header_for_an_unused_server_is_an_error() {
    let person = Person::new().with(USER, "there", &json!({"url": "https://a.test/mcp"}));
    let ran = person.run(&["tools", "--mcp", "here=https://a.test/mcp", "-H", "X: y"]);
    assert!(ran.code == 2 && ran.err.contains("--header is for a server that is not used"), "{}", ran.err);
}

#[test]
fn symlinks_out_of_the_project_are_not_written() {
    let person = Person::new();
    person.write("theirs.json", "{}");
    std::os::unix::fs::symlink("../theirs.json", person.path(PROJECT)).unwrap();
    for arguments in [&["add", "-s", "project", "x", "run"][..], &["remove", "x", "-s", "project"]] {
        let ran = person.run(arguments);
        assert!(ran.code == 2 && ran.err.contains("outside of the project"), "{}", ran.err);
    }
    assert_eq!(person.read("theirs.json"), "{}");
}
