//! Missing, invalid, huge and changing files, and finding the project.

use std::fs;
use std::path::Path;

use insta::assert_snapshot;
use proptest::prelude::*;
use wharf_config::{ProjectFile, Scope, Severity, Variables, WatchedFiles, find_project, project_root, read_server};

use super::{Machine, one};

#[test]
fn missing_files_are_not_a_problem() {
    let machine = Machine::new();
    assert_eq!(machine.list(), "");
    assert_eq!(machine.problems(Severity::Note), "");
}

#[test]
fn an_invalid_file_affects_that_file_only() {
    let machine =
        Machine::new().local("{\n  \"mcpServers\": {\n    \"x\" {}\n  }\n}").user(&one(r#"{"command": "x"}"#));
    assert_eq!(machine.list(), "user x ready");
    assert_snapshot!(machine.problems(Severity::Note), @"error: local.json:3: invalid JSON: expected colon after the string or word in object property");
    let problem = machine.load().problems.remove(0);
    assert_eq!((problem.line, problem.column), (3, 9));
}

#[test]
fn invalid_files_are_errors_with_a_reason() {
    let problems = |text: &str| Machine::new().user(text).problems(Severity::Note);
    assert_eq!(problems(""), "");
    assert_eq!(problems("\u{feff}{}"), "");
    assert_eq!(problems("// nothing yet"), "");
    assert_eq!(
        problems("{\"a\": 1} x"),
        "error: user.json:1: invalid JSON: text cannot contain more than one JSON value"
    );
    assert_eq!(problems("[]"), "error: user.json:1: expected an object with `mcpServers`, found a list");
    assert_eq!(problems("{'a': 1}"), "error: user.json:1: invalid JSON: single-quoted strings are not allowed");
    assert_eq!(problems(&" ".repeat(1 << 20)), "");
    assert_eq!(problems(&" ".repeat((1 << 20) + 1)), "error: user.json: longer than 1048576 bytes");
    let deep = format!("{{\"policy\": {}{}}}", "[".repeat(100), "]".repeat(100));
    assert_eq!(problems(&deep), "error: user.json:1: nested more than 64 levels deep");
    let bottomless = "[".repeat(1 << 19);
    assert!(problems(&bottomless).starts_with("error: user.json:1: invalid JSON: "));
    assert_eq!(
        problems(r#"{"mcpServers": []}"#),
        "error: user.json:1: mcpServers: expected an object of servers, found a list"
    );
    assert_eq!(
        problems(r#"{"mcp_servers": {}}"#),
        "warning: user.json:1: mcp_servers: unknown key `mcp_servers`; did you mean `mcpServers`?"
    );
    assert_eq!(
        problems(r#"{"github": {"command": "x"}}"#),
        "warning: user.json:1: github: unknown key `github`; if it is a server, move it into `mcpServers`"
    );
}

#[test]
fn invalid_utf8_is_reported_with_its_line() {
    let machine = Machine::new();
    fs::write(machine.path("user.json"), b"{\n\"a\": \"\xff\"}").unwrap();
    assert_eq!(machine.problems(Severity::Note), "error: user.json:2: invalid UTF-8; save the file as UTF-8");
}

#[test]
fn a_pipe_is_not_read() {
    let machine = Machine::new();
    let made = std::process::Command::new("mkfifo").arg(machine.path("user.json")).status().unwrap();
    assert!(made.success());
    assert_eq!(machine.problems(Severity::Note), "error: user.json: cannot read the file: not a regular file");
}

#[test]
fn messages_contain_no_control_characters() {
    let machine = Machine::new().user("{\"mcpServers\": {\"a\\u001b[2Jb\\u202e\": {\"command\": 1, \"\\u0007\": 1}}}");
    let problems = machine.problems(Severity::Note);
    assert!(!problems.contains(['\u{1b}', '\u{7}', '\u{202e}']) && problems.contains("\\u{1b}[2J"), "{problems}");
    let json = serde_json::to_string(&machine.load().problems[0].message).unwrap();
    assert!(!json.contains('\u{1b}'));
}

#[test]
fn a_changed_content_is_detected_and_a_touched_file_is_not() {
    let machine = Machine::new().user("{}");
    let user = machine.path("user.json");
    let missing = machine.path("later.json");
    let mut watched = WatchedFiles::new([user.clone(), missing.clone()]);
    assert!(!watched.changed());
    fs::write(&user, "{}").unwrap();
    assert!(!watched.changed());
    // The same length, perhaps within one tick of the file system's clock.
    fs::write(&user, "[]").unwrap();
    assert!(watched.changed() && !watched.changed() && !watched.changed());
    fs::write(&missing, "{}").unwrap();
    fs::write(&user, "{ }").unwrap();
    assert!(watched.changed() && !watched.changed());
    fs::remove_file(&missing).unwrap();
    assert!(watched.changed() && !watched.changed());
    // Replaced by another file, as editors and Wharf do.
    fs::write(machine.path("new"), "{  }").unwrap();
    fs::rename(machine.path("new"), &user).unwrap();
    assert!(watched.changed() && !watched.changed());
}

#[test]
fn changes_within_one_tick_of_the_clock_are_detected() {
    let machine = Machine::new().user("0");
    let file = machine.path("user.json");
    let mut watched = WatchedFiles::new([file.clone()]);
    for round in 0..200 {
        fs::write(&file, (round % 2 + 1).to_string()).unwrap();
        assert!(watched.changed(), "round {round}");
    }
}

#[test]
fn the_project_file_is_searched_up_to_the_repository_root() {
    let machine = Machine::new();
    let home = machine.path("home");
    let repository = home.join("repo");
    let deep = home.join("repo/a/b");
    fs::create_dir_all(&deep).unwrap();
    fs::create_dir(repository.join(".git")).unwrap();
    let find = |start: &Path| find_project(start, Some(&home)).map(|project| project.root);
    fs::write(home.join(".mcp.json"), "{}").unwrap();
    assert_eq!(find(&deep), None, "the search ends at the repository");
    assert_eq!(project_root(&deep, Some(&home), &|_| false), repository);
    fs::write(repository.join(".mcp.json"), "{}").unwrap();
    assert_eq!(find(&deep), Some(repository.clone()));
    fs::write(home.join("repo/a/.mcp.json"), "{}").unwrap();
    assert_eq!(find(&deep), Some(home.join("repo/a")));
    assert_eq!(find_project(&deep, None), Some(ProjectFile::at(&home.join("repo/a"))));
}

#[test]
fn the_home_directory_is_a_project_only_if_the_search_starts_there() {
    let machine = Machine::new();
    let home = machine.path("home");
    fs::create_dir_all(home.join("plain")).unwrap();
    fs::write(home.join(".mcp.json"), "{}").unwrap();
    assert_eq!(find_project(&home.join("plain"), Some(&home)), None);
    assert_eq!(find_project(&home, Some(&home)).unwrap().root, home);
    assert_eq!(project_root(&home.join("plain"), Some(&home), &|_| false), home.join("plain"));
}

#[test]
fn outside_a_repository_a_known_directory_is_the_project_of_its_subfolders() {
    let machine = Machine::new();
    let home = machine.path("home");
    let deep = home.join("plain/sub/deep");
    fs::create_dir_all(&deep).unwrap();
    let known = home.join("plain");
    let is_known = |dir: &Path| dir == known || dir == home;
    assert_eq!(project_root(&deep, Some(&home), &is_known), known);
    // The home directory is not a project, unless the search starts there.
    assert_eq!(project_root(&home.join("other"), Some(&home), &is_known), home.join("other"));
    // A repository, or a project's file, is nearer to what is meant.
    fs::create_dir(home.join("plain/sub/.git")).unwrap();
    assert_eq!(project_root(&deep, Some(&home), &is_known), home.join("plain/sub"));
}

proptest! {
    #[test]
    fn reading_any_text_does_not_panic(text in r#"(\{|\}|\[|\]|,|:|"|"url"|"command"|"args"|"env"|"manage"|"tools"|true|null|-1|1e999|"\$\{"|"é"|\\u0000|//|\n| ){0,24}"#) {
        let _ = read_server("x", &text, Scope::Project, &Variables::none());
    }

    #[test]
    fn reading_any_value_of_any_key_does_not_panic(
        key in proptest::sample::select(vec!["type", "command", "args", "env", "cwd", "url", "headers", "headersHelper", "timeout", "protocol", "tools", "bindings", "manage", "enabled"]),
        value in proptest::sample::select(vec!["null", "1", "-1.5", "1e400", "\"\"", "\"${\"", "\" é\"", "[]", "[1]", "{}", "{\"\": \"\"}", "{\"a\": {\"b\": 1}}", "true", "[\"\"]"]),
        base in proptest::sample::select(vec!["\"command\": \"x\"", "\"url\": \"https://a\"", "\"manage\": {}, \"command\": \"x\""]),
    ) {
        let _ = read_server("x", &format!("{{{base}, \"{key}\": {value}}}"), Scope::Project, &Variables::none());
    }
}
