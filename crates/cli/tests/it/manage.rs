//! `wharf remove`, `wharf enable` and `wharf disable`.

use serde_json::json;

use crate::{PROJECT, Person, USER, demo_entry};

#[test]
fn remove_deletes_the_server_from_its_file() {
    let person = Person::new().with(USER, "demo", &demo_entry()).with(USER, "stays", &demo_entry());
    insta::assert_snapshot!(person.screen(&person.run(&["remove", "demo"])), @r"
    exit 0
    --- stdout
    --- stderr
    removed `demo` from the user scope, in /home/.config/wharf/mcp.json
    ");
    assert!(!person.read(USER).contains("demo\"") && person.read(USER).contains("stays"));
    let json = person.run(&["remove", "stays", "--json"]);
    insta::assert_snapshot!(person.screen(&json), @r#"
    exit 0
    --- stdout
    {"version":1,"name":"stays","scope":"user","file":"/home/.config/wharf/mcp.json"}
    --- stderr
    "#);
}

#[test]
fn removing_a_server_in_several_scopes_requires_a_scope() {
    let person = Person::new().with(USER, "demo", &demo_entry()).with(PROJECT, "demo", &demo_entry());
    insta::assert_snapshot!(person.screen(&person.run(&["remove", "demo"])), @r"
    exit 2
    --- stdout
    --- stderr
    error: server `demo` is in several scopes: user, project
    hint: choose one: wharf remove demo -s user
    ");
    assert_eq!(person.run(&["remove", "demo", "-s", "project"]).code, 0);
    assert_eq!(person.run(&["remove", "demo"]).code, 0);
    let gone = person.run(&["remove", "demo"]);
    assert!(gone.code == 2 && gone.err.contains("unknown server `demo`"), "{}", gone.err);
    assert_eq!(person.run(&["remove", "demo", "-s", "local"]).code, 2);
}

#[test]
fn removing_a_project_server_revokes_its_approval() {
    let person = Person::new();
    assert_eq!(person.run(&["add", "-q", "-s", "project", "demo", "srv"]).code, 0);
    let before = person.read(PROJECT);
    assert_eq!(person.run(&["remove", "demo", "-q"]).code, 0);
    person.write(PROJECT, &before);
    assert!(person.run(&["list", "--no-connect"]).out.contains("needs approval"));
}

#[test]
fn an_invalid_server_can_be_removed() {
    let person = Person::new().with(USER, "odd", &json!({"command": 7}));
    assert_eq!(person.run(&["remove", "odd", "-q"]).code, 0);
    assert_eq!(person.run(&["list"]).code, 0);
}

#[test]
fn disable_and_enable_apply_only_to_the_current_user() {
    let person = Person::new().with(USER, "demo", &demo_entry());
    let before = person.read(USER);
    insta::assert_snapshot!(person.screen(&person.run(&["disable", "demo"])), @r"
    exit 0
    --- stdout
    --- stderr
    disabled `demo` for you in this project
    ");
    insta::assert_snapshot!(person.screen(&person.run(&["call", "demo", "now"])), @r"
    exit 2
    --- stdout
    --- stderr
    error: server `demo` is disabled in `disabledServers` of the local scope
    hint: enable it: wharf enable demo
    ");
    assert!(person.run(&["list"]).out.contains("- disabled"));
    assert_eq!(person.read(USER), before);
    assert_eq!(
        person.run(&["enable", "demo", "--json"]).out,
        "{\"version\":1,\"servers\":[{\"name\":\"demo\",\"standing\":\"ready\",\"reason\":null}]}\n"
    );
    assert_eq!(person.run(&["call", "demo", "now"]).code, 0);
}

#[test]
fn several_servers_are_enabled_and_disabled_together() {
    let person = Person::new().with(USER, "a", &demo_entry()).with(USER, "b", &demo_entry());
    let unknown = person.run(&["disable", "a", "bb"]);
    assert_eq!((unknown.code, unknown.err.lines().next()), (2, Some("error: unknown server `bb`")));
    assert!(person.run(&["list", "--no-connect", "--json"]).out.contains("\"standing\":\"ready\""), "none of them");
    let disabled = person.run(&["disable", "a", "b"]);
    let lines = "disabled `a` for you in this project\ndisabled `b` for you in this project\n";
    assert_eq!((disabled.code, disabled.err.as_str()), (0, lines));
    assert!(!person.run(&["list", "--no-connect", "--json"]).out.contains("\"standing\":\"ready\""));
    let enabled = person.run(&["enable", "b", "a", "--json"]);
    let value: serde_json::Value = serde_json::from_str(&enabled.out).unwrap();
    assert_eq!((&value["servers"][0]["name"], &value["servers"][1]["name"]), (&"b".into(), &"a".into()));
}

#[test]
fn enable_warns_when_the_organization_disables_the_server() {
    let person = Person::new().with(USER, "demo", &demo_entry());
    person.write("managed.json", r#"{"disabledServers": ["demo"]}"#);
    let mut command = person.wharf(&["enable", "demo"]);
    command.env("WHARF_MANAGED_CONFIG", person.path("managed.json"));
    let ran = crate::ran(command);
    assert!(
        ran.err.contains("warning: `demo` is still not used: disabled in `disabledServers` of the enterprise scope"),
        "{}",
        ran.err
    );
    assert_eq!(person.run(&["disable", "dem"]).err, "error: unknown server `dem`\nhint: did you mean `demo`?\n");
}
