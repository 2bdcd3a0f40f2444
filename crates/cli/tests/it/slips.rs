//! What people get wrong, and what they are told: nothing that was meant to protect them is passed over in silence.

use serde_json::{Value, json};

use crate::configured::Home;
use crate::{PROJECT, Person, Ran, USER, good};

fn with_file(text: &str) -> Person {
    let person = Person::new();
    person.write(USER, text);
    person
}

#[test]
fn a_misspelt_event_of_a_hook_stops_calls() {
    let hook = json!([{"hooks": [{"type": "command", "command": "false"}]}]);
    let home = |event: &str| {
        let script = wharf_testkit::Script::good();
        Home::new().saying("hooks", json!({event: hook.clone()})).child("s", &script, json!({}))
    };
    let ran = home("PreToolUze").run(&["call", "s", "add", "a=1", "b=2"]);
    assert!(ran.code == 2 && ran.err.contains("unknown event; did you mean `PreToolUse`?"), "{}", ran.err);
    // What other hosts have besides calls concerns nobody here.
    assert_eq!(home("SessionStart").run(&["call", "s", "add", "a=1", "b=2"]).code, 0);
}

#[test]
fn permissions_of_another_host_are_told_to_be_without_effect() {
    let ran = with_file(r#"{"permissions": {"deny": ["mcp__x"]}}"#).run(&["list"]);
    insta::assert_snapshot!(ran.err.lines().skip(1).collect::<Vec<_>>().join("\n"), @r#"
    hint: write rules for calls in `policy`: {"policy": {"deny": ["mcp__SERVER__TOOL"]}}
    no servers configured
    hint: add one: wharf add NAME URL|COMMAND, or import those of another program: wharf import HOST
    "#);
    assert!(ran.err.contains("permissions: not applied: it neither allows nor denies anything here"), "{}", ran.err);
}

#[test]
fn rules_and_hooks_that_cannot_be_read_are_a_problem_for_the_doctor_and_in_lists() {
    let person = with_file(r#"{"policy": "x", "hooks": 3}"#);
    let ran = person.run(&["doctor"]);
    insta::assert_snapshot!(person.screen(&ran), @r#"
    exit 2
    --- stdout
    configuration
      ✗ start and scope  /home/.config/wharf/mcp.json:1: policy: invalid: invalid type: string "x", expected an object with `mode`, `allow`, `ask`, `deny` and `rules`
                         fix: no tool is called while a rule is invalid
      ✗ start and scope  /home/.config/wharf/mcp.json:1: hooks: invalid: hooks: expected an object of events
                         fix: no tool is called while a hook is invalid

    0 servers: 0 ok, 0 suggestions, 2 problems
    --- stderr
    "#);
    let listed = person.run(&["list", "--json"]);
    assert!(listed.err.contains("policy: invalid: ") && listed.out.contains("invalid: "), "{}", listed.out);
}

#[test]
fn a_rule_for_a_server_that_is_not_there_is_told_with_the_one_that_is() {
    let file =
        json!({"mcpServers": {"demo": good()}, "policy": {"deny": ["mcp__dmeo__*", "server:demo", "mcp__demo__x"]}});
    let person = with_file(&file.to_string());
    let told = "rule `mcp__dmeo__*` names the unknown server `dmeo`";
    let doctor = person.run(&["doctor"]);
    assert!(doctor.out.contains(told) && doctor.out.contains("did you mean `demo`?"), "{}", doctor.out);
    assert_eq!(doctor.out.matches("names the unknown server").count(), 1, "{}", doctor.out);
    assert!(person.run(&["tools", "-v"]).err.contains(told) && !person.run(&["tools"]).err.contains(told));
}

#[test]
fn a_broken_entry_that_is_required_is_missed() {
    let person = Person::new().with(USER, "demo", &good()).with(USER, "odd", &json!({"command": 3}));
    assert_eq!([&["list"], &["tools"]].map(|arguments| person.run(arguments).code), [0, 0]);
    let person = person.with(USER, "odd", &json!({"command": 3, "required": true}));
    let codes = [&["list"][..], &["tools"], &["list", "--no-connect"]].map(|arguments| person.run(arguments).code);
    assert_eq!(codes, [2, 2, 2]);
    // One of a lower scope takes no part.
    let person = Person::new().with(USER, "demo", &good()).with(PROJECT, "demo", &json!({"required": true}));
    assert_eq!(person.run(&["list"]).code, 0);
}

#[test]
fn a_broken_entry_that_is_switched_off_troubles_nobody() {
    let odd = json!({"command": 3, "required": true});
    let person = Person::new().with(USER, "demo", &good()).with(USER, "odd", &odd);
    assert!(person.run(&["list"]).err.contains("error: "));
    let ran = person.run(&["disable", "odd"]);
    assert_eq!((ran.code, ran.err.as_str()), (0, "disabled `odd` for you in this project\n"));
    let ran = person.run(&["list"]);
    assert_eq!((ran.code, ran.err.as_str()), (0, ""));
    assert!(ran.out.contains("- disabled") && ran.out.contains("disabled in `disabledServers`"), "{}", ran.out);
    assert!(person.run(&["call", "odd", "x"]).err.contains("`odd` is disabled"));
    assert!(person.run(&["enable", "odd"]).err.contains("still not used: command: expected a string, found a number"));
}

#[test]
fn what_waits_for_a_variable_is_written_and_the_variable_is_named() {
    let person = Person::new();
    let ran = person.run(&["add", "-s", "project", "-e", "GH_TOKEN", "gh", "sh"]);
    let told = "warning: gh.env.GH_TOKEN: variable `GH_TOKEN` is not set: the server cannot start until it is";
    assert!(ran.code == 0 && ran.err.contains(told) && ran.err.contains("added `gh`"), "{}", ran.err);
    // It is approved by the hand that wrote it, for when the variable is there.
    let mut later = person.wharf(&["list", "--no-connect"]);
    later.env("GH_TOKEN", "x");
    assert!(crate::ran(later).out.contains("ready"));
    let ran = person.run(&["add", "-s", "user", "web", "https://${NO_HOST}/mcp"]);
    assert!(ran.code == 0 && ran.err.contains("variable `NO_HOST` is not set"), "{}", ran.err);
    let ran = person.run(&["add", "-s", "project", "tool", "${NO_FOLDER}/bin/tool"]);
    assert!(ran.code == 0 && ran.err.contains("variable `NO_FOLDER` is not set"), "{}", ran.err);
    // Elsewhere it is said what is the matter.
    assert!(person.run(&["approve", "gh"]).err.contains("the variable GH_TOKEN is not set"));
    let out = person.run(&["list"]).out;
    assert!(out.contains(" the variable GH_TOKEN is not set") && !out.contains("GH_TOKEN: "), "{out}");
}

fn vscode(servers: &Value) -> (Person, Ran) {
    let person = Person::new();
    person
        .write("mcp.json", &json!({"servers": servers, "inputs": [{"id": "gh", "type": "promptString"}]}).to_string());
    let from = person.path("mcp.json").display().to_string();
    let ran = person.run(&["import", "vscode", "--from", &from, "-s", "user"]);
    (person, ran)
}

#[test]
fn an_import_tells_what_to_set_what_is_off_and_whether_anything_came_of_it() {
    let asked =
        json!({"gh": {"command": "sh", "env": {"T": "${input:gh}"}}, "off": {"command": "sh", "disabled": true}});
    let (person, ran) = vscode(&asked);
    assert_eq!(ran.code, 0, "{}", ran.err);
    assert!(
        ran.out.contains("set the variable GH instead") && ran.out.contains("variable `GH` is not set"),
        "{}",
        ran.out
    );
    assert!(ran.out.contains("disabled, as at the host"), "{}", ran.out);
    assert!(person.read(USER).contains("${GH}"));
    assert_eq!(vscode(&json!({"odd": {"args": []}})).1.code, 1);
}

#[test]
fn what_an_address_is_given_for_is_said() {
    let person = Person::new();
    let ran = person.run(&["add", "-t", "stdio", "y", "http://127.0.0.1/"]);
    assert!(ran.code == 2 && ran.err.contains("-t stdio expects a command"), "{}", ran.err);
    let ran = person.run(&["add", "-f", "y", "sh"]);
    assert!(ran.err.contains("added `y`"), "{}", ran.err);
    let ran = person.run(&["add", "-f", "y", "cat"]);
    assert!(ran.err.contains("replaced `y` (stdio) in the local scope"), "{}", ran.err);
}

#[test]
fn what_is_shown_of_a_server_is_what_its_entry_says() {
    let person = Person::new().with(USER, "demo", &good());
    let told: Value = serde_json::from_str(&person.run(&["get", "demo", "--json"]).out).unwrap();
    assert_eq!((&told["server"]["state"], &told["server"]["required"]), (&json!("connected"), &json!(false)));
}

#[test]
fn a_misspelt_key_is_the_reason_that_is_listed() {
    let person = Person::new().with(USER, "typo", &json!({"commnad": "uvx", "args": ["x"]}));
    let ran = person.run(&["list"]);
    assert!(ran.out.contains("unknown key `commnad`; did you mean `command`?"), "{}", ran.out);
    assert!(!ran.err.contains("requires `command`"), "{}", ran.err);
}

#[test]
fn what_died_or_was_left_out_is_listed_with_its_last_words_and_how_to_approve_is_said_once() {
    let dying = json!({"command": "sh", "args": ["-c", "echo first >&2; echo no database >&2; exit 3"]});
    let mut demo = good();
    demo["excludeTools"] = json!(["now"]);
    let person = Person::new().with(USER, "dying", &dying).with(USER, "demo", &demo);
    let person = person.with(PROJECT, "one", &json!({"command": "a"}));
    let person = person.with(PROJECT, "two", &json!({"command": "b"}));
    insta::assert_snapshot!(person.screen(&person.run(&["list"])), @r"
    exit 0
    --- stdout
    SERVER  SCOPE    TRANSPORT  STATE        TOOLS         DETAILS
    dying   user     stdio      ✗ failed                   the server exited with status 3 before it was ready: no database
    demo    user     stdio      ✓ connected  4 (1 hidden)  WHARF __demo-server
    one     project  stdio      · pending                  needs approval
    two     project  stdio      · pending                  needs approval
    --- stderr
    hint: review and approve them: wharf approve --all
    ");
    let told = person.run(&["tools"]).err;
    assert!(told.contains(
        "dying: failed: the server exited with status 3 before it was ready; last line on stderr: no database"
    ));
    let coloured = person.run(&["list", "--color", "always"]).out;
    assert!(
        coloured.contains("\u{1b}[32m✓ connected\u{1b}[0m") && coloured.contains("✗ failed\u{1b}[0m"),
        "{coloured:?}"
    );
    let coloured = person.run(&["doctor", "demo", "--color", "always"]).out;
    assert!(coloured.contains("  \u{1b}[32m✓\u{1b}[0m start and scope"), "{coloured:?}");
    // Nothing is known of a server that is not there.
    assert_eq!(person.run(&["context", "dying"]).out, "");
}

#[test]
fn who_is_not_let_in_is_told_the_command_to_sign_in_and_the_doctor_knows_the_header_too() {
    let locked = crate::remote::refuse(401, &[("www-authenticate", "Bearer realm=\"x\"")], "");
    let remote = crate::remote::remote(wharf_testkit::Script::good().on("initialize", [locked]));
    let person = Person::new().with(USER, "locked", &json!({"url": remote.url()}));
    let told = person.run(&["tools"]).err;
    let wanted = r#""headers": {"Authorization": "Bearer ${NAME}"}"#;
    assert!(told.ends_with("hint: sign in: wharf login locked\n"), "{told}");
    let told = person.screen(&person.run(&["doctor"]));
    assert!(told.contains("sign in: wharf login locked; or add the header to its entry"), "{told}");
    assert!(told.contains("its entry (/home/.config/wharf/mcp.json:3)") && told.contains(wanted), "{told}");
    let mcp = format!("locked={}", remote.url());
    let told = Person::new().run(&["tools", "--mcp", &mcp]).err;
    assert!(told.ends_with("hint: sign in: wharf login locked --mcp locked=URL\n"), "{told}");
    let told = Person::new().run(&["doctor", "--mcp", &mcp]);
    assert!((told.out + &told.err).contains("-H 'Authorization: Bearer …'"));
    // A sign-in would not be used beside a header.
    let entry = json!({"url": remote.url(), "headers": {"Authorization": "Bearer ${SECRET}"}});
    let person = Person::new().with(USER, "locked", &entry);
    let told = [person.run(&["doctor"]), person.run(&["list"])].map(|ran| ran.out + &ran.err).concat();
    assert!(told.contains("add the header to its entry") && !told.contains("wharf login"), "{told}");
}

#[test]
fn what_is_added_is_looked_at() {
    let person = Person::new();
    let ran = person.run(&["add", "z", "example.com/mcp"]);
    assert!(ran.code == 2 && ran.err.contains("did you mean https://example.com/mcp?"), "{}", ran.err);
    let ran = person.run(&["add", "z", "no-such-program"]);
    assert!(ran.code == 0 && ran.err.contains("command `no-such-program` not found"), "{}", ran.err);
    let ran = person.run(&["add", "-t", "streamable-http", "web", "https://example.com/mcp"]);
    assert!(ran.code == 0 && ran.err.contains("added `web` (http)"), "{}", ran.err);
    let secret = "Authorization: Bearer sk-12345678901234567890";
    let ran = person.run(&["add", "-s", "project", "secret", "https://example.org/mcp", "-H", secret]);
    assert!(ran.err.contains("use a variable: `Bearer ${TOKEN}`"), "{}", ran.err);
    let ran = person.run(&["list", "--timeout", "x"]);
    assert!(ran.code == 2 && ran.err.contains("expected a number of seconds"), "{}", ran.err);
}

#[test]
fn messages_on_a_terminal_break_between_words() {
    let person = Person::new();
    let command = format!("stty cols 40; {} call somebody something", env!("CARGO_BIN_EXE_wharf"));
    let mut script = crate::on_terminal(&command);
    script.current_dir(person.path("project")).env("HOME", person.path("home")).env("TERM", "dumb");
    let seen = String::from_utf8(script.output().unwrap().stdout).unwrap();
    let lines: Vec<&str> = seen.lines().map(str::trim_end).collect();
    assert_eq!(
        lines,
        ["error: unknown server `somebody`", "hint: no servers configured; add one", "  with `wharf add`"]
    );
}
