//! What somebody else may write, and what it must not come to: files of a project, names that are taken, rules.

use serde_json::json;
use wharf_testkit::free_port;

use crate::{PROJECT, Person, USER, good, traced};

#[test]
fn only_mcp_does_not_get_past_the_organisation_by_taking_one_of_its_names() {
    let person = Person::new();
    let started = person.path("started");
    let line = traced(&started)["args"][1].as_str().unwrap().to_owned();
    let mcp = format!("x=sh -c '{line}'");
    for rules in [
        json!({"exclusive": true, "mcpServers": {"x": good()}}),
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
fn a_pipe_is_no_file_with_rules_and_is_not_waited_for() {
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
fn an_import_takes_a_projects_file_only_into_the_project_where_it_waits_for_approval() {
    let person = Person::new();
    let started = person.path("started");
    person.write("project/.cursor/mcp.json", &json!({"mcpServers": {"theirs": traced(&started)}}).to_string());
    person.write("home/.cursor/mcp.json", &json!({"mcpServers": {"mine": good()}}).to_string());
    let ran = person.run(&["import", "cursor"]);
    assert!(ran.out.contains("mine") && !ran.out.contains("theirs"), "{}", ran.out);
    assert!(ran.err.contains("project/.cursor/mcp.json: it belongs to the project"), "{}", ran.err);
    let ran = person.run(&["import", "cursor", "-s", "project"]);
    assert!(ran.out.contains("theirs") && ran.out.contains("touch"), "{}", ran.out);
    assert!(person.run(&["call", "theirs", "now"]).err.contains("needs your approval"));
    assert!(!started.exists());
}

#[test]
fn a_project_takes_no_server_away_by_breaking_one_of_its_name() {
    let person = Person::new().with(USER, "demo", &good()).with(PROJECT, "demo", &json!({}));
    assert_eq!(person.run(&["call", "demo", "now"]).code, 0);
    assert_eq!(person.run(&["get", "demo"]).code, 0);
}

#[test]
fn a_header_that_cannot_be_sent_costs_its_server_and_not_the_others() {
    let odd = json!({"url": "https://odd.test/mcp", "headers": {"Content-Type": "text/plain"}});
    let person = Person::new().with(USER, "demo", &good()).with(USER, "odd", &odd);
    let ran = person.run(&["tools"]);
    assert!(ran.code == 0 && ran.out.contains("calculate"), "{}", ran.err);
    assert!(ran.err.contains("mcpServers.odd.headers.Content-Type: the client sets this header"), "{}", ran.err);
}

#[test]
fn nothing_in_a_file_draws_on_the_screen() {
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
fn what_was_switched_on_is_on() {
    let mut off = good();
    off["enabled"] = json!(false);
    let person = Person::new().with(USER, "demo", &off);
    assert_eq!(person.run(&["call", "demo", "now"]).code, 2);
    assert_eq!(person.run(&["enable", "demo"]).code, 0);
    let ran = person.run(&["call", "demo", "now"]);
    assert_eq!((ran.code, ran.err.as_str()), (0, ""));
    assert!(person.run(&["list"]).out.contains("connected"));
}

#[test]
fn while_a_persons_file_cannot_be_read_nothing_is_called() {
    let person = Person::new().with(PROJECT, "demo", &good());
    assert_eq!(person.run(&["approve", "demo", "-y", "-q"]).code, 0);
    assert_eq!(person.run(&["call", "demo", "now"]).code, 0);
    person.write(USER, r#"{"policy": {"deny": ["*"]},,}"#);
    let ran = person.run(&["call", "demo", "now"]);
    assert!(ran.code == 2 && ran.err.contains("cannot read the rules and hooks of the user scope"), "{}", ran.err);
    // It can still be looked at.
    assert_eq!(person.run(&["tools", "demo"]).code, 0);
}

#[test]
fn a_managed_server_needs_no_place_for_its_log() {
    let port = free_port();
    let line = format!("echo hello; exec sleep 60 # {port}");
    let entry = json!({"command": "sh", "args": ["-c", line], "manage": {"port": port, "startupTimeout": 1000}});
    let person = Person::new().with(USER, "slow", &entry);
    let ran = person.run(&["list"]);
    assert!(ran.out.contains("did not listen"), "{}", ran.out);
    assert_eq!(person.read("home/.cache/wharf/logs/slow.log"), "hello\n");
}

#[test]
fn a_file_that_is_broken_or_approvals_that_are_do_not_hide_what_was_removed() {
    let person = Person::new().with(USER, "mine", &good());
    person.write(PROJECT, "{,}");
    let ran = person.run(&["remove", "mine"]);
    assert!(ran.code == 0 && ran.err.contains("removed `mine`"), "{}", ran.err);
    let person = Person::new().with(PROJECT, "ours", &good());
    person.write("home/.local/state/wharf/approvals.json", "nonsense");
    let ran = person.run(&["remove", "ours"]);
    assert!(ran.code == 2 && ran.err.contains("removed `ours`"), "{}", ran.err);
    assert!(ran.err.contains("the server was removed, but its approval was not"), "{}", ran.err);
}

#[test]
fn a_header_for_a_server_that_is_not_used_is_not_dropped_in_silence() {
    let person = Person::new().with(USER, "there", &json!({"url": "https://a.test/mcp"}));
    let ran = person.run(&["tools", "--mcp", "here=https://a.test/mcp", "-H", "X: y"]);
    assert!(ran.code == 2 && ran.err.contains("--header is for a server that is not used"), "{}", ran.err);
}

#[test]
fn a_project_is_not_a_way_to_write_elsewhere() {
    let person = Person::new();
    person.write("theirs.json", "{}");
    std::os::unix::fs::symlink("../theirs.json", person.path(PROJECT)).unwrap();
    for arguments in [&["add", "-s", "project", "x", "run"][..], &["remove", "x", "-s", "project"]] {
        let ran = person.run(arguments);
        assert!(ran.code == 2 && ran.err.contains("outside of the project"), "{}", ran.err);
    }
    assert_eq!(person.read("theirs.json"), "{}");
}
