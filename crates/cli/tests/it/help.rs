//! Help texts, manual pages, colors and the version.

use crate::{Person, on_terminal, ran, wharf};

fn help(command: &str) -> String {
    let words: Vec<&str> = command.split(' ').chain(["-h"]).collect();
    ran(wharf(&words)).out
}

#[test]
fn own_options_come_first_and_global_ones_have_their_own_heading() {
    for command in ["call", "run", "list", "verify run", "verify status"] {
        let help = help(command);
        let own = help.find("\nOptions:\n").unwrap_or_else(|| panic!("{help}"));
        let global = help.find("\nGlobal options:\n").unwrap_or_else(|| panic!("{help}"));
        assert!(own < global, "{help}");
        assert!(help[..global].contains("-h, --help") && help[global..].contains("--json"), "{help}");
        assert!(!help[..global].contains("--config-root"), "{help}");
    }
}

#[test]
fn help_lists_only_the_global_options_that_apply() {
    let has = |command: &str, option: &str| help(command).contains(&format!("{option} "));
    for (command, options) in [
        ("call", "--mcp --only-mcp --header --env --protocol --timeout --connect-timeout --project --profile --json"),
        ("run", "--mcp --only-mcp --timeout --json --color"),
        ("add", "--header --env --timeout"),
        ("demo", "--mcp --json"),
        ("remove", "--project --config-root --json"),
        ("verify run", "--timeout --connect-timeout --json"),
        ("verify status", "--config-root --json"),
    ] {
        options.split(' ').for_each(|option| assert!(has(command, option), "{command} {option}"));
    }
    for (command, options) in [
        ("add", "--mcp --only-mcp"),
        ("remove", "--mcp --only-mcp --header --env --protocol --timeout --connect-timeout"),
        ("approve", "--mcp --timeout --profile"),
        ("verify run", "--mcp --only-mcp --header --env"),
        ("verify preset save", "--mcp --connect-timeout --project"),
        ("verify import", "--mcp --config-root --profile"),
        ("completions", "--mcp --json --verbose --color"),
        ("man", "--mcp --json --verbose --color"),
    ] {
        options.split(' ').for_each(|option| assert!(!has(command, option), "{command} {option}"));
    }
    // A script may pass them to every command.
    let person = Person::new();
    assert_eq!(person.run(&["--json", "--timeout", "5", "remove", "x", "--mcp", "a=b"]).code, 2);
    assert_eq!(person.run(&["man", "--json", "--verbose"]).code, 0);
}

#[test]
fn help_of_a_command_and_of_one_that_connects_to_nothing() {
    insta::assert_snapshot!("call", help("call"));
    insta::assert_snapshot!("remove", help("remove"));
    insta::assert_snapshot!("man", help("man"));
}

#[test]
fn every_command_has_a_manual_page() {
    let folder = tempfile::tempdir().unwrap();
    let dir = folder.path().join("man1");
    let written = ran(wharf(&["man", "--dir", dir.to_str().unwrap()]));
    assert_eq!((written.code, written.out.as_str()), (0, ""), "{}", written.err);
    let names: Vec<String> =
        std::fs::read_dir(&dir).unwrap().map(|file| file.unwrap().file_name().into_string().unwrap()).collect();
    for name in ["wharf.1", "wharf-add.1", "wharf-verify.1", "wharf-verify-run.1", "wharf-verify-preset-save.1"] {
        assert!(names.contains(&name.to_owned()), "{names:?}");
    }
    assert!(written.err.contains(&format!("wrote {} manual pages to ", names.len())), "{}", written.err);
    let run = std::fs::read_to_string(dir.join("wharf-verify-run.1")).unwrap();
    assert!(run.contains(".TH wharf-verify-run 1") && run.contains("fail\\-under") && !run.contains("only\\-mcp"));
    assert_eq!(ran(wharf(&["man", "verify", "run"])).out.trim(), run.trim());
    let unknown = ran(wharf(&["man", "verify", "rn"]));
    assert_eq!(unknown.err, "error: unknown command `verify rn`\nhint: did you mean `run`?\n");
    assert_eq!(unknown.code, 2);
}

#[test]
fn dumb_terminals_and_no_color_have_no_color() {
    let shown = |variables: &[(&str, &str)], line: &str| {
        let mut command = on_terminal(&format!("{} {line}", env!("CARGO_BIN_EXE_wharf")));
        command.envs(variables.iter().copied());
        String::from_utf8(command.output().unwrap().stdout).unwrap()
    };
    assert!(shown(&[("TERM", "dumb")], "get nothing --color always").contains("\u{1b}["));
    for line in ["--help", "tools", "get nothing"] {
        assert!(shown(&[], line).contains("\u{1b}["), "{line}");
        for plain in [&[("TERM", "dumb"), ("CI", "true")], &[("NO_COLOR", "1"), ("A", "b")]] {
            let seen = shown(plain, line);
            assert!(!seen.contains('\u{1b}'), "{plain:?} {line}: {seen:?}");
        }
    }
}

#[test]
fn commands_have_short_names() {
    let person = Person::new();
    let list = person.run(&["ls", "--json"]);
    assert_eq!((list.code, list.out.as_str()), (0, "{\"version\":1,\"servers\":[],\"problems\":[]}\n"));
    assert_eq!(person.run(&["rm", "x"]).err, person.run(&["remove", "x"]).err);
}

#[test]
fn the_version_is_json_if_json_is_requested() {
    let version: serde_json::Value = serde_json::from_str(&ran(wharf(&["-V", "--json"])).out).unwrap();
    let release = version["release"].as_str().unwrap();
    assert!(version["version"] == 1 && release.starts_with(env!("CARGO_PKG_VERSION")), "{version}");
}

#[test]
fn the_version_has_the_commit_and_its_date() {
    let out = ran(wharf(&["--version"])).out;
    let rest = out.strip_prefix(&format!("wharf {}", env!("CARGO_PKG_VERSION"))).unwrap();
    let has_git = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../.git").exists();
    let commit = rest.trim_end().strip_prefix(" (").and_then(|rest| rest.strip_suffix(')'));
    match commit.and_then(|commit| commit.split_once(' ')) {
        Some((commit, date)) => {
            assert!(commit.len() >= 7 && commit.chars().all(|digit| digit.is_ascii_hexdigit()), "{out}");
            assert!(date.len() == 10 && date.split('-').all(|part| part.parse::<u16>().is_ok()), "{out}");
        }
        None => assert!(!has_git && rest == "\n", "{out}"),
    }
}

#[test]
fn manual_pages_follow_no_link_and_wait_for_no_pipe() {
    let person = Person::new();
    person.write("project/mine", "mine");
    std::fs::create_dir_all(person.path("project/man1")).unwrap();
    std::os::unix::fs::symlink(person.path("project/mine"), person.path("project/man1/wharf.1")).unwrap();
    assert_eq!(person.run(&["man", "--dir", "man1"]).code, 0);
    assert_eq!(person.read("project/mine"), "mine");
    assert!(person.read("project/man1/wharf.1").contains("wharf"));
    std::fs::remove_file(person.path("project/man1/wharf.1")).unwrap();
    let pipe = person.path("project/man1/wharf.1");
    assert!(std::process::Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    let refused = person.run(&["man", "--dir", "man1"]);
    assert_eq!(refused.code, 2);
    assert!(refused.err.contains("it exists and is not a regular file"), "{}", refused.err);
}
