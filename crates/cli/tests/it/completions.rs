//! Shell completion, in bash.

use std::process::Command;

use serde_json::json;

use crate::{PROJECT, Person, USER, demo_entry};

/// Returns the completions of bash at the end of a line, without options.
fn completions(person: &Person, line: &str) -> Vec<String> {
    all_completions(person, line).into_iter().filter(|word| !word.starts_with('-')).collect()
}

fn all_completions(person: &Person, line: &str) -> Vec<String> {
    let script = r#"
        source <(wharf completions bash)
        COMP_LINE="$1"; COMP_POINT=${#COMP_LINE}; COMP_TYPE=9
        read -ra COMP_WORDS <<< "$COMP_LINE"
        [[ "$COMP_LINE" == *" " ]] && COMP_WORDS+=("")
        COMP_CWORD=$(( ${#COMP_WORDS[@]} - 1 ))
        spec=$(complete -p wharf); func=$(sed -E 's/.*-F ([^ ]+).*/\1/' <<< "$spec")
        compopt() { :; }
        "$func" wharf "${COMP_WORDS[$COMP_CWORD]}" "${COMP_WORDS[$COMP_CWORD-1]}"
        printf '%s\n' "${COMPREPLY[@]}"
    "#;
    let folder = std::path::Path::new(env!("CARGO_BIN_EXE_wharf")).parent().unwrap();
    let mut bash = Command::new("bash");
    bash.args(["--norc", "-c", script, "bash", line]).env_clear().current_dir(person.path("project"));
    bash.env("HOME", person.path("home")).env("PATH", format!("{}:/usr/bin:/bin", folder.display()));
    let output = bash.output().unwrap();
    let out = String::from_utf8(output.stdout).unwrap();
    let err = String::from_utf8(output.stderr).unwrap();
    assert_eq!(err, "", "{line}");
    out.lines().map(|word| word.trim().to_owned()).filter(|word| !word.is_empty()).collect()
}

#[test]
fn servers_and_tools_complete_without_starting_servers() {
    let person = Person::new().with(USER, "github", &demo_entry()).with(PROJECT, "docs", &json!({"command": "x"}));
    let person = person.with(USER, "gitlab", &json!({"command": "no-such-server"}));
    assert_eq!(completions(&person, "wharf call gi"), ["github", "gitlab"]);
    assert_eq!(completions(&person, "wharf remove "), ["docs", "github", "gitlab"]);
    assert_eq!(completions(&person, "wharf approve d"), ["docs"]);
    assert_eq!(completions(&person, "wharf login git"), ["github", "gitlab"]);
    assert_eq!(completions(&person, "wharf logout d"), ["docs"]);
    assert!(completions(&person, "wharf call github ").is_empty());
    assert_eq!(person.run(&["tools", "github"]).code, 0);
    assert_eq!(completions(&person, "wharf call github c"), ["calculate", "crash"]);
    assert_eq!(completions(&person, "wharf call github w"), ["write_note"]);
    assert_eq!(completions(&person, "wharf call github calculate "), ["a=", "operation=", "b="]);
    assert_eq!(completions(&person, "wharf call github calculate a=1 "), ["operation=", "b="]);
    assert_eq!(completions(&person, "wharf call github calculate op"), ["operation="]);
    assert!(completions(&person, "wharf call github no-such-tool ").is_empty());
}

#[test]
fn options_are_completed_where_one_is_typed_or_nothing_else_fits() {
    let person = Person::new().with(USER, "github", &demo_entry());
    assert_eq!(all_completions(&person, "wharf get "), ["github"]);
    assert!(all_completions(&person, "wharf get -").contains(&"--no-connect".to_owned()));
    assert!(all_completions(&person, "wharf get --").contains(&"--help".to_owned()));
    assert!(all_completions(&person, "wharf list ").contains(&"--no-connect".to_owned()));
    assert!(all_completions(&person, "wharf ").iter().all(|word| !word.starts_with('-')));
}

#[test]
fn manual_pages_prompts_and_resources_complete() {
    let person = Person::new().with(USER, "github", &demo_entry());
    assert_eq!(completions(&person, "wharf man ver"), ["verify"]);
    assert_eq!(completions(&person, "wharf man verify ch"), ["check"]);
    person.write("home/.cache/wharf/prompts.json", r#"{"github": {"review": ["branch", "depth"]}}"#);
    person.write("home/.cache/wharf/resources.json", r#"{"github": {"notes://a": [], "x://$(id)": []}}"#);
    assert_eq!(completions(&person, "wharf prompt github "), ["review"]);
    assert_eq!(completions(&person, "wharf prompt github review branch=x "), ["depth="]);
    assert_eq!(completions(&person, "wharf read github "), ["notes://a"]);
}

#[test]
fn commands_scopes_transports_and_protocols_complete() {
    let person = Person::new();
    assert_eq!(completions(&person, "wharf appr"), ["approve"]);
    assert_eq!(completions(&person, "wharf add --scope "), ["local", "user", "project"]);
    assert_eq!(completions(&person, "wharf add -t "), ["stdio", "http", "sse", "ws"]);
    assert_eq!(completions(&person, "wharf tools --protocol "), ["auto", "legacy", "modern"]);
    assert_eq!(completions(&person, "wharf import c"), ["claude-code", "claude-desktop", "cursor", "codex"]);
}

#[test]
fn names_with_shell_syntax_are_not_completed() {
    let person = Person::new().with(PROJECT, "good", &demo_entry()).with(PROJECT, "$(id)", &demo_entry());
    // The name of the second server has none.
    assert_eq!(completions(&person, "wharf get "), ["good", "id"]);
    person.write(
        "home/.cache/wharf/tools.json",
        r#"{"good": {"fine": ["a", "$(id)", "b c"], "$(id)": [], "a;b": [], "a b": []}}"#,
    );
    assert_eq!(completions(&person, "wharf call good "), ["fine"]);
    assert_eq!(completions(&person, "wharf call good fine "), ["a="]);
}
