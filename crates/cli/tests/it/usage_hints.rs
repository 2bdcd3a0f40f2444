//! Typos and other mistakes in configuration and arguments: none is ignored silently, and each has a hint.

use serde_json::{Value, json};

use crate::server_states::Home;
use crate::{PROJECT, Person, RunOutput, USER, demo_entry};

fn with_file(text: &str) -> Person {
    let person = Person::new();
    person.write(USER, text);
    person
}

#[test]
fn a_misspelled_hook_event_blocks_calls() {
    let hook = json!([{"hooks": [{"type": "command", "command": "false"}]}]);
    let home = |event: &str| {
        let script = wharf_testkit::Script::good();
        Home::new().with_key("hooks", json!({event: hook.clone()})).child("s", &script, json!({}))
    };
    let ran = home("PreToolUze").run(&["call", "s", "add", "a=1", "b=2"]);
    assert!(ran.code == 2 && ran.err.contains("unknown event; did you mean `PreToolUse`?"), "{}", ran.err);
    // Events of other hosts that do not concern calls are ignored.
    assert_eq!(home("SessionStart").run(&["call", "s", "add", "a=1", "b=2"]).code, 0);
}

#[test]
fn permissions_of_another_host_have_no_effect_and_are_reported() {
    let ran = with_file(r#"{"permissions": {"deny": ["mcp__x"]}}"#).run(&["list"]);
    insta::assert_snapshot!(ran.err.lines().skip(1).collect::<Vec<_>>().join("\n"), @r#"
    hint: write rules for calls in `policy`: {"policy": {"deny": ["mcp__SERVER__TOOL"]}}
    no servers configured
    hint: add one: wharf add NAME URL|COMMAND, or import those of another program: wharf import HOST
    "#);
    assert!(ran.err.contains("permissions: not applied: it neither allows nor denies anything here"), "{}", ran.err);
}

#[test]
fn doctor_and_list_report_invalid_rules_and_hooks() {
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
fn a_rule_for_an_unknown_server_suggests_the_nearest_name() {
    let file = json!({"mcpServers": {"demo": demo_entry()}, "policy": {"deny": ["mcp__dmeo__*", "server:demo", "mcp__demo__x"]}});
    let person = with_file(&file.to_string());
    let expected = "rule `mcp__dmeo__*` names the unknown server `dmeo`";
    let doctor = person.run(&["doctor"]);
    assert!(doctor.out.contains(expected) && doctor.out.contains("did you mean `demo`?"), "{}", doctor.out);
    assert_eq!(doctor.out.matches("names the unknown server").count(), 1, "{}", doctor.out);
    assert!(person.run(&["tools", "-v"]).err.contains(expected) && !person.run(&["tools"]).err.contains(expected));
}

#[test]
fn an_invalid_required_entry_is_an_error() {
    let person = Person::new().with(USER, "demo", &demo_entry()).with(USER, "odd", &json!({"command": 3}));
    assert_eq!([&["list"], &["tools"]].map(|arguments| person.run(arguments).code), [0, 0]);
    let person = person.with(USER, "odd", &json!({"command": 3, "required": true}));
    let codes = [&["list"][..], &["tools"], &["list", "--no-connect"]].map(|arguments| person.run(arguments).code);
    assert_eq!(codes, [2, 2, 2]);
    // An entry of a lower scope does not count.
    let person = Person::new().with(USER, "demo", &demo_entry()).with(PROJECT, "demo", &json!({"required": true}));
    assert_eq!(person.run(&["list"]).code, 0);
}

#[test]
fn an_invalid_entry_can_be_disabled() {
    let odd = json!({"command": 3, "required": true});
    let person = Person::new().with(USER, "demo", &demo_entry()).with(USER, "odd", &odd);
    let listed = person.run(&["list"]);
    assert!(listed.out.contains("✗ failed") && !listed.err.contains("error: "), "{}", listed.err);
    assert!(listed.err.contains("hint: see where the entry is: wharf get odd"), "{}", listed.err);
    assert!(person.run(&["list", "-v"]).err.contains("error: "));
    let ran = person.run(&["disable", "odd"]);
    assert_eq!((ran.code, ran.err.as_str()), (0, "disabled `odd` for you in this project\n"));
    let ran = person.run(&["list"]);
    assert_eq!((ran.code, ran.err.as_str()), (0, ""));
    assert!(ran.out.contains("- disabled") && ran.out.contains("disabled in `disabledServers`"), "{}", ran.out);
    assert!(person.run(&["call", "odd", "x"]).err.contains("`odd` is disabled"));
    assert!(person.run(&["enable", "odd"]).err.contains("still not used: command: expected a string, found a number"));
}

#[test]
fn add_warns_about_unset_variables() {
    let person = Person::new();
    let ran = person.run(&["add", "-s", "project", "-e", "GH_TOKEN", "gh", "sh"]);
    let expected = "warning: gh.env.GH_TOKEN: variable `GH_TOKEN` is not set: the server cannot start until it is";
    assert!(ran.code == 0 && ran.err.contains(expected) && ran.err.contains("added `gh`"), "{}", ran.err);
    // The server is approved already, and is ready once the variable is set.
    let mut later = person.wharf(&["list", "--no-connect"]);
    later.env("GH_TOKEN", "x");
    assert!(crate::ran(later).out.contains("ready"));
    let ran = person.run(&["add", "-s", "user", "web", "https://${NO_HOST}/mcp"]);
    assert!(ran.code == 0 && ran.err.contains("variable `NO_HOST` is not set"), "{}", ran.err);
    let ran = person.run(&["add", "-s", "project", "tool", "${NO_FOLDER}/bin/tool"]);
    assert!(ran.code == 0 && ran.err.contains("variable `NO_FOLDER` is not set"), "{}", ran.err);
    // Other commands name the unset variable.
    assert!(person.run(&["approve", "gh"]).err.contains("variable `GH_TOKEN` is not set"));
    let out = person.run(&["list"]).out;
    assert!(out.contains(" variable `GH_TOKEN` is not set") && !out.contains("GH_TOKEN: "), "{out}");
}

fn vscode(servers: &Value) -> (Person, RunOutput) {
    let person = Person::new();
    person
        .write("mcp.json", &json!({"servers": servers, "inputs": [{"id": "gh", "type": "promptString"}]}).to_string());
    let from = person.path("mcp.json").display().to_string();
    let ran = person.run(&["import", "vscode", "--from", &from, "-s", "user"]);
    (person, ran)
}

#[test]
fn import_reports_unset_variables_and_disabled_servers() {
    let servers =
        json!({"gh": {"command": "sh", "env": {"T": "${input:gh}"}}, "off": {"command": "sh", "disabled": true}});
    let (person, ran) = vscode(&servers);
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
fn add_reports_a_url_for_stdio_and_replaced_entries() {
    let person = Person::new();
    let ran = person.run(&["add", "-t", "stdio", "y", "http://127.0.0.1/"]);
    assert!(ran.code == 2 && ran.err.contains("-t stdio expects a command"), "{}", ran.err);
    let ran = person.run(&["add", "-f", "y", "sh"]);
    assert!(ran.err.contains("added `y`"), "{}", ran.err);
    let ran = person.run(&["add", "-f", "y", "cat"]);
    assert!(ran.err.contains("replaced `y` (stdio) in the local scope"), "{}", ran.err);
}

#[test]
fn get_shows_the_state_and_the_settings_of_the_entry() {
    let person = Person::new().with(USER, "demo", &demo_entry());
    let report: Value = serde_json::from_str(&person.run(&["get", "demo", "--json"]).out).unwrap();
    assert_eq!((&report["server"]["state"], &report["server"]["required"]), (&json!("connected"), &json!(false)));
}

#[test]
fn list_reports_a_misspelled_key() {
    let person = Person::new().with(USER, "typo", &json!({"commnad": "uvx", "args": ["x"]}));
    let ran = person.run(&["list"]);
    assert!(ran.out.contains("unknown key `commnad`; did you mean `command`?"), "{}", ran.out);
    assert!(!ran.err.contains("requires `command`"), "{}", ran.err);
}

#[test]
fn list_shows_the_last_stderr_line_and_one_approval_hint() {
    let dying = json!({"command": "sh", "args": ["-c", "echo first >&2; echo no database >&2; exit 3"]});
    let mut demo = demo_entry();
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
    let err = person.run(&["tools"]).err;
    assert!(err.contains("dying: failed: the server exited with status 3 before it was ready; stderr: no database"));
    let colored = person.run(&["list", "--color", "always"]).out;
    assert!(colored.contains("\u{1b}[32m✓ connected\u{1b}[0m") && colored.contains("✗ failed\u{1b}[0m"), "{colored:?}");
    let colored = person.run(&["doctor", "demo", "--color", "always"]).out;
    assert!(colored.contains("  \u{1b}[32m✓\u{1b}[0m start and scope"), "{colored:?}");
    // A server that failed to start has no context.
    assert_eq!(person.run(&["context", "dying"]).out, "");
}

#[test]
fn http_401_hints_at_login_or_the_authorization_header() {
    let locked = crate::remote::refuse(401, &[("www-authenticate", "Bearer realm=\"x\"")], "");
    let remote = crate::remote::remote(wharf_testkit::Script::good().on("initialize", [locked]));
    let person = Person::new().with(USER, "locked", &json!({"url": remote.url()}));
    let output = person.run(&["tools"]).err;
    let header = r#""headers": {"Authorization": "Bearer ${NAME}"}"#;
    assert!(output.ends_with("hint: sign in: wharf login locked\n"), "{output}");
    let output = person.screen(&person.run(&["doctor"]));
    assert!(output.contains("sign in: wharf login locked; or add the header to its entry"), "{output}");
    assert!(output.contains("its entry (/home/.config/wharf/mcp.json:3)") && output.contains(header), "{output}");
    let mcp = format!("locked={}", remote.url());
    let output = Person::new().run(&["tools", "--mcp", &mcp]).err;
    assert!(output.ends_with("hint: sign in: wharf login locked --mcp locked=URL\n"), "{output}");
    let output = Person::new().run(&["doctor", "--mcp", &mcp]);
    assert!((output.out + &output.err).contains("-H 'Authorization: Bearer …'"));
    // A configured header takes precedence over a sign-in.
    let entry = json!({"url": remote.url(), "headers": {"Authorization": "Bearer ${SECRET}"}});
    let person = Person::new().with(USER, "locked", &entry);
    let output = [person.run(&["doctor"]), person.run(&["list"])].map(|ran| ran.out + &ran.err).concat();
    assert!(output.contains("add the header to its entry") && !output.contains("wharf login"), "{output}");
}

#[test]
fn add_checks_the_target_and_the_secrets() {
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
fn messages_on_a_terminal_wrap_between_words() {
    let person = Person::new();
    let command = format!("stty cols 40; {} call untested something", env!("CARGO_BIN_EXE_wharf"));
    let mut script = crate::on_terminal(&command);
    script.current_dir(person.path("project")).env("HOME", person.path("home")).env("TERM", "dumb");
    let seen = String::from_utf8(script.output().unwrap().stdout).unwrap();
    let lines: Vec<&str> = seen.lines().map(str::trim_end).collect();
    assert_eq!(
        lines,
        ["error: unknown server `untested`", "hint: no servers configured; add one", "  with `wharf add`"]
    );
}
