//! `wharf import`.

use serde_json::{Value, json};

use crate::{Person, USER, demo_entry};

fn desktop() -> Person {
    let person = Person::new();
    let file = json!({"mcpServers": {
        "demo": demo_entry(),
        "my server": {"command": "uvx", "args": ["srv"], "env": {"KEY": "value"}},
        "odd": {"args": ["x"]},
    }});
    person.write("home/.config/Claude/claude_desktop_config.json", &file.to_string());
    person
}

/// Collapses the spaces of a table, because column widths depend on the path of the binary.
fn collapse_spaces(screen: &str) -> String {
    let mut screen = screen.to_owned();
    while screen.contains("   ") {
        screen = screen.replace("   ", "  ");
    }
    screen
}

#[test]
fn import_copies_servers_and_reports_skipped_ones() {
    let person = desktop();
    let tried = person.run(&["import", "claude-desktop", "-s", "user", "--dry-run"]);
    insta::assert_snapshot!("tried", collapse_spaces(&person.screen(&tried)));
    assert!(!person.path(USER).exists());
    let done = person.run(&["import", "claude-desktop", "-s", "user"]);
    insta::assert_snapshot!("done", collapse_spaces(&person.screen(&done)));
    assert_eq!(person.run(&["call", "demo", "now"]).code, 0);
    let again = person.run(&["import", "claude-desktop", "-s", "user", "--json"]);
    insta::assert_snapshot!("again", person.screen(&again));
    let forced = person.run(&["import", "claude-desktop", "-s", "user", "--force", "--json"]);
    let report: Value = serde_json::from_str(&forced.out).unwrap();
    assert_eq!(report["taken"].as_array().unwrap().len(), 2);
}

#[test]
fn import_says_which_servers_share_a_name_and_which_commands_are_missing() {
    let person = desktop().with(USER, "demo", &demo_entry());
    let local = person.run(&["import", "claude-desktop", "--dry-run"]);
    assert!(local.out.contains("shadows the one of the user scope"), "{}", local.out);
    assert!(local.out.contains("command not found: install uv"), "{}", local.out);
    let project = person.run(&["import", "claude-desktop", "-s", "project", "--dry-run"]);
    assert!(project.out.contains("not used: the one of the user scope has precedence"), "{}", project.out);
}

#[test]
fn import_reads_a_named_file_and_reports_a_missing_one() {
    let person = Person::new();
    person.write("codex.toml", "[mcp_servers.x]\ncommand = \"srv\"\n");
    let from = person.path("codex.toml").display().to_string();
    assert_eq!(person.run(&["import", "codex", "--from", &from, "-q"]).code, 0);
    assert!(person.run(&["list", "--no-connect"]).out.contains("srv"));
    let cases: [&[&str]; 3] = [
        &["import", "cursor"],
        &["import", "vscode", "--from", "nowhere.json"],
        &["import", "cursor", "--from", &from],
    ];
    let screens: Vec<String> = cases.iter().map(|case| person.screen(&person.run(case))).collect();
    insta::assert_snapshot!(screens.join("\n"));
    assert_eq!(person.run(&["import", "emacs"]).code, 2);
}

#[test]
fn a_server_for_one_project_stays_out_of_the_user_scope() {
    let person = Person::new();
    let file = r#"{"mcpServers": {"here": {"command": "${workspaceFolder}/run"}, "all": {"command": "run"}}}"#;
    person.write("home/.cursor/mcp.json", file);
    let user = person.run(&["import", "cursor", "-s", "user"]);
    assert_eq!(user.code, 0, "{}", user.err);
    assert!(user.out.contains("uses the directory of the project (`${workspaceFolder}`)"), "{}", user.out);
    let written = person.read(USER);
    assert!(written.contains("\"all\"") && !written.contains("here") && !written.contains("project"), "{written}");
    let local = person.run(&["import", "cursor", "-s", "local"]);
    assert!(local.code == 0 && local.out.contains("project/run"), "{}", local.out);
}
