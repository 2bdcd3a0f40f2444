//! `wharf list` and `wharf get`.

use serde_json::{Value, json};
use wharf_testkit::Script;

use crate::remote::remote;
use crate::{PROJECT, Person, USER, good, ran, screen, traced};

/// One server for everything that can stand in the way of one.
fn everything() -> Person {
    let person = Person::new();
    let trace = person.path("started");
    person
        .with(USER, "demo", &good())
        .with(USER, "gone", &json!({"command": "no-such-server", "args": ["--token", "0123456789"]}))
        .with(USER, "again", &good())
        .with(USER, "off", &json!({"command": "x", "disabled": true}))
        .with(USER, "odd", &json!({"command": "x", "url": "https://x.test/"}))
        .with(PROJECT, "demo", &json!({"command": "other"}))
        .with(PROJECT, "waits", &traced(&trace))
}

#[test]
fn every_server_is_listed_with_its_state_or_what_stands_in_its_way() {
    let person = everything();
    let ran = person.run(&["list"]);
    insta::assert_snapshot!(person.screen(&ran));
    assert!(!person.path("started").exists());
}

#[test]
fn programs_are_told_the_same() {
    let person = everything();
    let ran = person.run(&["list", "--json", "-q"]);
    let told: Value = serde_json::from_str(&ran.out).unwrap();
    assert_eq!((ran.code, &told["version"]), (0, &json!(1)));
    let lines: Vec<String> = told["servers"].as_array().unwrap().iter().map(Value::to_string).collect();
    let shown = crate::Ran { code: ran.code, out: lines.join("\n") + "\n", err: String::new() };
    insta::assert_snapshot!(person.screen(&shown));
}

#[test]
fn the_configuration_alone_can_be_looked_at() {
    let person = everything();
    let never = person.path("never");
    let person = person.with(USER, "never", &traced(&never));
    insta::assert_snapshot!(person.screen(&person.run(&["list", "--no-connect", "-q"])));
    assert!(!never.exists());
}

#[test]
fn a_server_that_is_required_and_cannot_be_reached_makes_the_list_fail() {
    let person = Person::new().with(USER, "demo", &good()).with(USER, "gone", &json!({"command": "no-such-server"}));
    assert_eq!(person.run(&["list"]).code, 0);
    let person = person.with(USER, "gone", &json!({"command": "no-such-server", "required": true}));
    assert_eq!(person.run(&["list"]).code, 4);
    assert_eq!(Person::new().run(&["list", "--mcp", "gone=no-such-server"]).code, 4);
}

#[test]
fn an_empty_list_says_how_to_begin() {
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
fn many_servers_are_connected_and_listed_together() {
    let servers = (0..12).map(|_| remote(Script::good())).collect::<Vec<_>>();
    let person = servers.iter().enumerate().fold(Person::new(), |person, (n, server)| {
        person.with(USER, &format!("web{n}"), &json!({"url": server.url()}))
    });
    let ran = person.run(&["list"]);
    assert_eq!((ran.code, ran.out.matches("✓ connected").count()), (0, 12), "{}", ran.err);
}

#[test]
fn everything_about_one_server_is_shown_but_its_secrets() {
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
fn a_server_that_cannot_be_used_is_shown_with_the_reason() {
    let person = everything();
    let names = ["gone", "off", "odd", "waits", "again", "gon"];
    let screens: Vec<String> = names.iter().map(|name| person.screen(&person.run(&["get", name]))).collect();
    insta::assert_snapshot!(screens.join("\n"));
}

#[test]
fn a_terminal_sees_the_servers_while_they_connect_and_nothing_is_left_of_it() {
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
