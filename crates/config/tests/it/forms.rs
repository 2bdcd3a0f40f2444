//! The forms of entries that a project's file may have: the table of the guide is what is tested.

use wharf_config::{Eligibility, Severity, TransportConfig};

use super::{Machine, one};

const GUIDE: &str = include_str!("../../../../docs/configuration.md");

/// A row of the table.
struct Form {
    entry: &'static str,
    server: &'static str,
    note: &'static str,
}

fn forms() -> Vec<Form> {
    let table = GUIDE.split("### Forms of entries").nth(1).unwrap().split("\n\n").nth(2).unwrap();
    let row = |line: &'static str| {
        let (entry, rest) = line.strip_prefix("| `").unwrap().split_once("` | ").unwrap();
        let (server, note) = rest.split_once(" |").unwrap();
        Form { entry, server, note: note.trim().trim_end_matches('|').trim() }
    };
    table.lines().skip(2).map(row).collect()
}

/// Returns what an entry is, in the words of the table's second column.
fn kind(machine: &Machine) -> String {
    match machine.load().servers.as_slice() {
        [found] => {
            assert!(matches!(found.eligibility, Eligibility::NeedsApproval(_)), "{:?}", found.eligibility);
            found.server.transport.kind().as_str().to_owned()
        }
        _ => "error".to_owned(),
    }
}

#[test]
fn every_form_of_the_guide_is_read_as_the_guide_says_and_needs_approval() {
    let forms = forms();
    assert!(forms.len() > 20, "{}", forms.len());
    for Form { entry, server, note } in forms {
        let machine = Machine::new().project(&one(entry));
        assert_eq!(kind(&machine), server, "{entry}\n{}", machine.problems(Severity::Note));
        let is_clean = note.is_empty() || note.starts_with("runs ") || note.contains("requires `type`");
        assert_eq!(machine.problems(Severity::Note).is_empty(), is_clean, "{entry}");
    }
}

#[test]
fn a_relative_command_of_a_project_is_a_program_of_the_project() {
    for Form { entry, note, .. } in forms() {
        let Some(program) = note.strip_prefix("runs `").and_then(|program| program.strip_suffix('`')) else { continue };
        let machine = Machine::new().project(&one(entry));
        let loaded = machine.load();
        let TransportConfig::Stdio(launch) = &loaded.servers[0].server.transport else { panic!("{entry}") };
        let expected = program.replace("/project/", &format!("{}/", machine.root().display()));
        // A leading `./` stays, and means the same.
        assert_eq!(launch.command.replace("/./", "/"), expected, "{entry}");
        assert_eq!(launch.cwd.as_deref(), Some(machine.root().as_path()), "{entry}");
    }
}

#[test]
fn a_name_with_spaces_is_used_as_a_valid_one_with_a_note() {
    let machine = Machine::new().project(r#"{"mcpServers": {"My Server": {"command": "x"}, "a/b": {"command": "y"}}}"#);
    assert_eq!(machine.list(), "project My-Server needs approval\nproject a-b needs approval");
    insta::assert_snapshot!(machine.problems(Severity::Note), @r"
    note: project/.mcp.json:1: mcpServers.My Server: renamed to `My-Server`: names consist of letters, digits, `_`, `.` and `-`
    note: project/.mcp.json:1: mcpServers.a/b: renamed to `a-b`: names consist of letters, digits, `_`, `.` and `-`
    ");
    machine.approve_all();
    assert_eq!(machine.list(), "project My-Server ready\nproject a-b ready");
}

#[test]
fn two_keys_for_one_name_are_a_duplicate() {
    let machine =
        Machine::new().user(r#"{"mcpServers": {"my server": {"command": "x"}, "my-server": {"command": "y"}}}"#);
    assert_eq!(machine.list(), "user my-server broken");
}

#[test]
fn rules_and_lists_mean_the_server_whose_key_they_name() {
    let project = r#"{"mcpServers": {"My Server": {"command": "x"}, "b c": {"command": "y"}}}"#;
    let machine = Machine::new()
        .project(project)
        .enterprise(r#"{"deniedMcpServers": [{"serverName": "My Server"}]}"#)
        .local(r#"{"disabledServers": ["b c"]}"#);
    machine.approve_all();
    assert_eq!(machine.list(), "project My-Server refused\nproject b-c disabled");
}
