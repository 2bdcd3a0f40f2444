//! What is spoken with a server: found out, chosen, remembered.

use std::path::Path;
use std::process::Command;

use serde_json::{Value, json};
use wharf_testkit::{Script, Step};

use crate::{Ran, Server, ran, wharf};

/// Calls `add` on a server.
fn add(server: &Server, more: &[&str]) -> Ran {
    server.run(&[&["call", "s", "add", "a=2", "b=3"], more].concat())
}

#[test]
fn a_server_that_takes_long_to_start_is_waited_for_in_either_way() {
    let server = Server::new(&Script::good().at_start([Step::Wait(11_000)]));
    let ran = add(&server, &[]);
    assert_eq!((ran.code, ran.out.as_str()), (0, "5\n"), "{}", ran.err);
}

#[test]
fn a_server_that_ends_over_a_question_it_does_not_know_is_started_again_and_greeted() {
    let server = Server::new(&Script::good().on("server/discover", [Step::Exit(1)]));
    let ran = add(&server, &[]);
    assert_eq!((ran.code, ran.out.as_str()), (0, "5\n"), "{}", ran.err);
}

#[test]
fn a_server_that_is_silent_about_a_question_it_does_not_know_is_greeted_beside() {
    let server = Server::new(&Script::good().on("server/discover", [Step::Hang]));
    let ran = add(&server, &[]);
    assert_eq!((ran.code, ran.out.as_str()), (0, "5\n"), "{}", ran.err);
}

#[test]
fn what_to_speak_can_be_chosen_for_all_servers_and_for_one() {
    let server = Server::new(&Script::good());
    for choice in [&["--protocol", "legacy"][..], &["--protocol", "modern", "--protocol", "s=auto"]] {
        assert_eq!(add(&server, choice).code, 0, "{choice:?}");
    }
    let refused = add(&server, &["--protocol", "modern"]);
    let said = "error: s: the server refused the session: it does not support the modern protocol (error -32601: no method \
        server/discover)\nhint: omit --protocol to detect what the server supports\n";
    assert_eq!((refused.code, refused.err.as_str()), (4, said));
}

#[test]
fn a_choice_that_is_none_is_told_with_those_there_are() {
    let server = Server::new(&Script::good());
    let unknown = add(&server, &["--protocol", "legcy"]);
    let said = "error: --protocol legcy: invalid protocol mode \"legcy\": expected auto, legacy or modern\nhint: did you mean `legacy`?\n";
    assert_eq!((unknown.code, unknown.err.as_str()), (2, said));
    let demo = ran(wharf(&["demo", "--protocol", "nonsense"]));
    assert_eq!(demo.code, 2, "{}", demo.err);
    // One that is named and not wanted may have a choice too.
    let (mcp, other) = (server.mcp(), server.mcp().replacen("s=", "t=", 1));
    let two = ran(wharf(&["tools", "s", "--mcp", &mcp, "--mcp", &other, "--protocol", "t=modern"]));
    assert_eq!(two.code, 0, "{}", two.err);
    let nobody = add(&server, &["--protocol", "t=auto"]);
    let said = "error: --protocol t=auto: unknown server `t`\nhint: available: s\n";
    assert_eq!((nobody.code, nobody.err.as_str()), (2, said));
}

#[test]
fn programs_are_told_what_is_spoken_and_people_who_ask() {
    let server = Server::new(&Script::good());
    let told: Value = serde_json::from_str(&server.run(&["tools", "--json"]).out).unwrap();
    assert_eq!(told["servers"][0]["protocol"], json!("2025-11-25"));
    let spoken = "s: scripted 1.0, protocol 2025-11-25 (legacy)\n";
    assert_eq!(add(&server, &["-v"]).err, spoken);
    assert_eq!(server.run(&["tools", "-v"]).err, format!("{spoken}s: `add`: no description\n"));
}

/// The same call in a home, so that what was found out is kept.
fn at_home(server: &Server, home: &Path) -> Command {
    let mut command = wharf(&["call", "s", "add", "a=2", "b=3", "--mcp", &server.mcp()]);
    command.env("HOME", home);
    command
}

#[test]
fn what_a_server_speaks_is_remembered_from_one_run_to_the_next() {
    let server = Server::new(&Script::good().on("server/discover", [Step::Touch("$/asked".into()), Step::Exit(1)]));
    let (home, asked) = (server.path().join("home"), server.path().join("asked"));
    assert_eq!(ran(at_home(&server, &home)).code, 0);
    assert!(std::fs::remove_file(&asked).is_ok());
    assert_eq!(ran(at_home(&server, &home)).code, 0);
    assert!(!asked.exists());
    let kept = std::fs::read_to_string(home.join(".cache/wharf/servers.json")).unwrap();
    assert!(kept.contains("legacy") && !kept.contains("script"), "{kept}");
    // A memory that cannot be read is an empty one.
    std::fs::write(home.join(".cache/wharf/servers.json"), "garbage").unwrap();
    assert_eq!(ran(at_home(&server, &home)).code, 0);
    assert!(asked.exists());
}
