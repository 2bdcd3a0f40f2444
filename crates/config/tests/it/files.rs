//! Files that are missing, odd, huge or changing, and the project they belong to.

use std::fs;
use std::path::Path;

use insta::assert_snapshot;
use proptest::prelude::*;
use wharf_config::{ProjectFile, Scope, Severity, Variables, WatchedFiles, find_project, project_root, read_server};

use super::{Machine, one};

#[test]
fn no_files_are_no_servers_and_no_problems() {
    let machine = Machine::new();
    assert_eq!(machine.list(), "");
    assert_eq!(machine.problems(Severity::Note), "");
}

#[test]
fn a_file_that_is_no_json_costs_that_file_only() {
    let machine =
        Machine::new().local("{\n  \"mcpServers\": {\n    \"x\" {}\n  }\n}").user(&one(r#"{"command": "x"}"#));
    assert_eq!(machine.list(), "user x ready");
    assert_snapshot!(machine.problems(Severity::Note), @"error: local.json:3: is no valid JSON: expected colon after the string or word in object property");
    let problem = machine.load().problems.remove(0);
    assert_eq!((problem.line, problem.column), (3, 9));
}

#[test]
fn odd_files_are_told_apart() {
    let said = |text: &str| Machine::new().user(text).problems(Severity::Note);
    assert_eq!(said(""), "");
    assert_eq!(said("\u{feff}{}"), "");
    assert_eq!(said("// nothing yet"), "");
    assert_eq!(
        said("{\"a\": 1} x"),
        "error: user.json:1: is no valid JSON: text cannot contain more than one JSON value"
    );
    assert_eq!(said("[]"), "error: user.json:1: is a list, but has to be an object with `mcpServers`");
    assert_eq!(said("{'a': 1}"), "error: user.json:1: is no valid JSON: single-quoted strings are not allowed");
    assert_eq!(said(&" ".repeat(1 << 20)), "");
    assert_eq!(said(&" ".repeat((1 << 20) + 1)), "error: user.json: is longer than 1048576 bytes");
    let deep = format!("{{\"policy\": {}{}}}", "[".repeat(100), "]".repeat(100));
    assert_eq!(said(&deep), "error: user.json:1: is nested too deeply");
    let bottomless = "[".repeat(1 << 19);
    assert!(said(&bottomless).starts_with("error: user.json:1: is no valid JSON: "));
    assert_eq!(
        said(r#"{"mcpServers": []}"#),
        "error: user.json:1: mcpServers: is a list, but has to be an object of servers"
    );
    assert_eq!(
        said(r#"{"mcp_servers": {}}"#),
        "warning: user.json:1: mcp_servers: `mcp_servers` is no key of a configuration; did you mean `mcpServers`?"
    );
    assert_eq!(
        said(r#"{"github": {"command": "x"}}"#),
        "warning: user.json:1: github: `github` is no key of a configuration; if it is a server, put it into `mcpServers`"
    );
}

#[test]
fn what_is_no_text_says_in_which_line() {
    let machine = Machine::new();
    fs::write(machine.path("user.json"), b"{\n\"a\": \"\xff\"}").unwrap();
    assert_eq!(machine.problems(Severity::Note), "error: user.json:2: is no UTF-8 text; save it as UTF-8");
}

#[test]
fn a_pipe_is_not_waited_for() {
    let machine = Machine::new();
    let made = std::process::Command::new("mkfifo").arg(machine.path("user.json")).status().unwrap();
    assert!(made.success());
    assert_eq!(machine.problems(Severity::Note), "error: user.json: cannot be read: it is no file");
}

#[test]
fn a_file_cannot_draw_on_the_screen() {
    let machine = Machine::new().user("{\"mcpServers\": {\"a\\u001b[2Jb\\u202e\": {\"command\": 1, \"\\u0007\": 1}}}");
    let said = machine.problems(Severity::Note);
    assert!(!said.contains(['\u{1b}', '\u{7}', '\u{202e}']) && said.contains("\\u{1b}[2J"), "{said}");
    let json = serde_json::to_string(&machine.load().problems[0].message).unwrap();
    assert!(!json.contains('\u{1b}'));
}

#[test]
fn a_change_of_content_is_noticed_and_a_touch_is_not() {
    let machine = Machine::new().user("{}");
    let (user, missing) = (machine.path("user.json"), machine.path("later.json"));
    let mut watched = WatchedFiles::new([user.clone(), missing.clone()]);
    assert!(!watched.changed());
    fs::write(&user, "{}").unwrap();
    assert!(!watched.changed());
    // The same length, perhaps within one tick of the clock.
    fs::write(&user, "[]").unwrap();
    assert!(watched.changed() && !watched.changed() && !watched.changed());
    fs::write(&missing, "{}").unwrap();
    fs::write(&user, "{ }").unwrap();
    assert!(watched.changed() && !watched.changed());
    fs::remove_file(&missing).unwrap();
    assert!(watched.changed() && !watched.changed());
    // Another file in its place, as editors and this program write.
    fs::write(machine.path("new"), "{  }").unwrap();
    fs::rename(machine.path("new"), &user).unwrap();
    assert!(watched.changed() && !watched.changed());
}

#[test]
fn changes_within_one_tick_of_the_clock_are_noticed() {
    let machine = Machine::new().user("0");
    let file = machine.path("user.json");
    let mut watched = WatchedFiles::new([file.clone()]);
    for round in 0..200 {
        fs::write(&file, (round % 2 + 1).to_string()).unwrap();
        assert!(watched.changed(), "round {round}");
    }
}

#[test]
fn the_project_is_where_its_file_is_up_to_the_repository() {
    let machine = Machine::new();
    let home = machine.path("home");
    let (repository, deep) = (home.join("repo"), home.join("repo/a/b"));
    fs::create_dir_all(&deep).unwrap();
    fs::create_dir(repository.join(".git")).unwrap();
    let find = |start: &Path| find_project(start, Some(&home)).map(|project| project.root);
    fs::write(home.join(".mcp.json"), "{}").unwrap();
    assert_eq!(find(&deep), None, "what lies above the repository is not asked");
    assert_eq!(project_root(&deep, Some(&home)), repository);
    fs::write(repository.join(".mcp.json"), "{}").unwrap();
    assert_eq!(find(&deep), Some(repository.clone()));
    fs::write(home.join("repo/a/.mcp.json"), "{}").unwrap();
    assert_eq!(find(&deep), Some(home.join("repo/a")));
    assert_eq!(find_project(&deep, None), Some(ProjectFile::at(&home.join("repo/a"))));
}

#[test]
fn the_home_folder_is_a_project_only_for_whoever_is_there() {
    let machine = Machine::new();
    let home = machine.path("home");
    fs::create_dir_all(home.join("plain")).unwrap();
    fs::write(home.join(".mcp.json"), "{}").unwrap();
    assert_eq!(find_project(&home.join("plain"), Some(&home)), None);
    assert_eq!(find_project(&home, Some(&home)).unwrap().root, home);
    assert_eq!(project_root(&home.join("plain"), Some(&home)), home.join("plain"));
}

proptest! {
    #[test]
    fn no_entry_makes_reading_panic(text in r#"(\{|\}|\[|\]|,|:|"|"url"|"command"|"args"|"env"|"manage"|"tools"|true|null|-1|1e999|"\$\{"|"é"|\\u0000|//|\n| ){0,24}"#) {
        let _ = read_server("x", &text, Scope::Project, &Variables::none());
    }

    #[test]
    fn no_value_of_any_key_makes_reading_panic(
        key in proptest::sample::select(vec!["type", "command", "args", "env", "cwd", "url", "headers", "headersHelper", "timeout", "protocol", "tools", "bindings", "manage", "enabled"]),
        value in proptest::sample::select(vec!["null", "1", "-1.5", "1e400", "\"\"", "\"${\"", "\" é\"", "[]", "[1]", "{}", "{\"\": \"\"}", "{\"a\": {\"b\": 1}}", "true", "[\"\"]"]),
        base in proptest::sample::select(vec!["\"command\": \"x\"", "\"url\": \"https://a\"", "\"manage\": {}, \"command\": \"x\""]),
    ) {
        let _ = read_server("x", &format!("{{{base}, \"{key}\": {value}}}"), Scope::Project, &Variables::none());
    }
}
