//! `wharf list` and `wharf get`.

use serde_json::{Value, json};
use wharf_testkit::Script;

use crate::remote::remote;
use crate::terminal::on_terminal;
use crate::{PROJECT, Person, USER, demo_entry, entry_touching, ran, screen};

/// Returns a configuration with one server for each state.
fn everything() -> Person {
    let person = Person::new();
    let trace = person.path("started");
    person
        .with(USER, "demo", &demo_entry())
        .with(USER, "gone", &json!({"command": "no-such-server", "args": ["--token", "0123456789"]}))
        .with(USER, "again", &demo_entry())
        .with(USER, "off", &json!({"command": "x", "disabled": true}))
        .with(USER, "odd", &json!({"command": "x", "url": "https://x.test/"}))
        .with(PROJECT, "demo", &json!({"command": "other"}))
        .with(PROJECT, "waits", &entry_touching(&trace))
}

#[test]
fn every_server_is_listed_with_its_state_or_failure() {
    let person = everything();
    let ran = person.run(&["list"]);
    insta::assert_snapshot!(person.screen(&ran));
    assert!(!person.path("started").exists());
}

#[test]
fn json_output_lists_the_same_servers() {
    let person = everything();
    let ran = person.run(&["list", "--json", "-q"]);
    let report: Value = serde_json::from_str(&ran.out).unwrap();
    assert_eq!((ran.code, &report["version"]), (0, &json!(1)));
    let lines: Vec<String> = report["servers"].as_array().unwrap().iter().map(Value::to_string).collect();
    let shown = crate::RunOutput { code: ran.code, out: lines.join("\n") + "\n", err: String::new() };
    insta::assert_snapshot!(person.screen(&shown));
}

#[test]
fn no_connect_lists_only_the_configuration() {
    let person = everything();
    let never = person.path("never");
    let person = person.with(USER, "never", &entry_touching(&never));
    insta::assert_snapshot!(person.screen(&person.run(&["list", "--no-connect", "-q"])));
    assert!(!never.exists());
}

#[test]
fn an_unreachable_required_server_fails_the_list() {
    let person =
        Person::new().with(USER, "demo", &demo_entry()).with(USER, "gone", &json!({"command": "no-such-server"}));
    assert_eq!(person.run(&["list"]).code, 0);
    let person = person.with(USER, "gone", &json!({"command": "no-such-server", "required": true}));
    assert_eq!(person.run(&["list"]).code, 4);
    assert_eq!(Person::new().run(&["list", "--mcp", "gone=no-such-server"]).code, 4);
}

#[test]
fn an_empty_list_prints_a_hint() {
    let ran = Person::new().run(&["list"]);
    insta::assert_snapshot!(screen(&ran), @r"
    exit 0
    --- stdout
    --- stderr
    no servers configured
    hint: add one: wharf add NAME URL|COMMAND, or import those of another program: wharf import HOST
    ");
    assert_eq!(Person::new().run(&["list", "--json"]).out, "{\"version\":1,\"servers\":[],\"problems\":[]}\n");
}

#[test]
fn many_servers_are_listed() {
    let servers = (0..12).map(|_| remote(Script::good())).collect::<Vec<_>>();
    let person = servers.iter().enumerate().fold(Person::new(), |person, (n, server)| {
        person.with(USER, &format!("web{n}"), &json!({"url": server.url()}))
    });
    let ran = person.run(&["list"]);
    assert_eq!((ran.code, ran.out.matches("✓ connected").count()), (0, 12), "{}", ran.err);
}

#[test]
fn get_shows_a_server_without_its_secrets() {
    let entry = json!({
        "command": env!("CARGO_BIN_EXE_wharf"),
        "args": ["__demo-server"],
        "env": {"TOKEN": "0123456789", "OTHER": "${SECRET:-fallback}"},
        "timeout": 5000,
        "tools": ["now"],
        "required": true,
    });
    let person = Person::new().with(USER, "demo", &entry).with(PROJECT, "demo", &json!({"command": "other"}));
    let ran = person.run(&["get", "demo", "-q"]);
    insta::assert_snapshot!(person.screen(&ran));
    let json = person.run(&["get", "demo", "--json", "-q"]);
    insta::assert_snapshot!(person.screen(&json));
    for shown in [ran, json] {
        assert!(!shown.out.contains("0123456789") && !shown.out.contains("fallback"), "{}", shown.out);
    }
}

#[test]
fn get_wraps_values_between_words_on_a_narrow_terminal() {
    let entry = json!({"command": "no-such-server", "args": ["--first-option", "--second-option", "--third-option"]});
    let person = Person::new().with(USER, "long", &entry);
    let line = format!("stty cols 60 rows 50; {} get long --no-connect", env!("CARGO_BIN_EXE_wharf"));
    let mut command = on_terminal(&line);
    command.env("HOME", person.path("home")).current_dir(person.path("project"));
    let out = crate::run_output(&command.output().unwrap()).out.replace('\r', "");
    let rows = "  command    no-such-server --first-option --second-option\n             --third-option\n";
    assert!(out.contains(rows), "{out}");
}

#[test]
fn a_file_that_cannot_be_read_is_not_called_an_empty_configuration() {
    let person = Person::new();
    person.write(PROJECT, r#"{"mcpServers": {"#);
    for command in ["list", "tools"] {
        let ran = person.run(&[command]);
        assert_eq!(ran.code, 2, "{}", ran.err);
        assert!(ran.err.contains(".mcp.json:1: invalid JSON"), "{}", ran.err);
        assert!(ran.err.contains("no server can be used until the configuration is fixed"), "{}", ran.err);
        assert!(!ran.err.contains("wharf add"), "{}", ran.err);
    }
    let get = person.run(&["get", "x"]);
    assert!(get.err.ends_with("hint: fix the configuration first; show its problems: wharf doctor\n"), "{}", get.err);
}

#[test]
fn get_shows_why_a_server_cannot_be_used() {
    let person = everything();
    let names = ["gone", "off", "odd", "waits", "again", "gon"];
    let screens: Vec<String> = names.iter().map(|name| person.screen(&person.run(&["get", name]))).collect();
    insta::assert_snapshot!(screens.join("\n"));
}

#[test]
fn the_startup_display_is_cleared_before_the_result() {
    let slow = crate::Server::new(&Script::good().at_start([wharf_testkit::Step::Wait(700)]));
    let command = format!("{} list --mcp '{}' --protocol legacy", env!("CARGO_BIN_EXE_wharf"), slow.mcp());
    let seen_on = |terminal: &str| {
        let mut script = crate::on_terminal(&command);
        script.env("TERM", terminal).env("HOME", slow.path());
        String::from_utf8(script.output().unwrap().stdout).unwrap()
    };
    let seen = seen_on("xterm");
    assert!(seen.contains("connecting, 0 s"), "{seen:?}");
    // The last control sequence before the answer clears the line.
    let (_, answer) = seen.rsplit_once("\r\u{1b}[2K").unwrap();
    assert!(answer.starts_with("SERVER"), "{answer:?}");
    assert!(!seen_on("dumb").contains('\u{1b}'));
    let piped = ran(crate::wharf(&["list", "--mcp", &slow.mcp()]));
    assert_eq!(piped.err, "");
}

#[test]
fn a_server_that_another_one_replaces_is_not_shown_as_disabled() {
    let person = everything();
    let ran = person.run(&["list"]);
    let row = |start: &str| ran.out.lines().find(|line| line.starts_with(start)).unwrap().to_owned();
    let shadowed = ran.out.lines().find(|line| line.starts_with("demo") && line.contains("project")).unwrap();
    assert!(shadowed.contains("- shadowed") && shadowed.ends_with("shadowed by the user scope: other"), "{shadowed}");
    assert!(row("again").contains("- duplicate"), "{}", ran.out);
    assert!(row("off").contains("- disabled"), "{}", ran.out);
    let report: Value = serde_json::from_str(&person.run(&["list", "--json", "-q"]).out).unwrap();
    let states: Vec<&Value> = report["servers"].as_array().unwrap().iter().map(|server| &server["state"]).collect();
    assert!(states.iter().all(|state| *state != "shadowed"), "the states of programs stay the same");
}

#[test]
fn the_local_scope_is_found_from_subfolders_without_a_repository() {
    let person = Person::new();
    let folder = person.path("home/plain");
    let deep = folder.join("sub/deep");
    std::fs::create_dir_all(&deep).unwrap();
    let at = |folder: &std::path::Path, arguments: &[&str]| {
        let mut command = person.wharf(arguments);
        command.current_dir(folder);
        ran(command)
    };
    assert_eq!(at(&folder, &["add", "here", "true"]).code, 0);
    let names = |folder: &std::path::Path| {
        let report: Value = serde_json::from_str(&at(folder, &["list", "--no-connect", "--json"]).out).unwrap();
        report["servers"].as_array().unwrap().len()
    };
    assert_eq!((names(&deep), names(&person.path("home"))), (1, 0));
}
