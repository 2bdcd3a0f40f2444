//! Completion, in a real shell.

use std::process::Command;

use serde_json::json;

use crate::{PROJECT, Person, USER, good};

/// What bash offers at the end of a line.
fn offered(person: &Person, line: &str) -> Vec<String> {
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
    let (out, err) = (String::from_utf8(output.stdout).unwrap(), String::from_utf8(output.stderr).unwrap());
    assert_eq!(err, "", "{line}");
    out.lines().map(|word| word.trim().to_owned()).filter(|word| !word.is_empty() && !word.starts_with('-')).collect()
}

#[test]
fn servers_and_tools_are_offered_without_starting_any() {
    let person = Person::new().with(USER, "github", &good()).with(PROJECT, "docs", &json!({"command": "x"}));
    let person = person.with(USER, "gitlab", &json!({"command": "no-such-server"}));
    assert_eq!(offered(&person, "wharf call gi"), ["github", "gitlab"]);
    assert_eq!(offered(&person, "wharf remove "), ["docs", "github", "gitlab"]);
    assert_eq!(offered(&person, "wharf approve d"), ["docs"]);
    assert_eq!(offered(&person, "wharf login git"), ["github", "gitlab"]);
    assert_eq!(offered(&person, "wharf logout d"), ["docs"]);
    assert!(offered(&person, "wharf call github ").is_empty());
    assert_eq!(person.run(&["tools", "github"]).code, 0);
    assert_eq!(offered(&person, "wharf call github c"), ["calculate", "crash"]);
    assert_eq!(offered(&person, "wharf call github w"), ["write_note"]);
}

#[test]
fn commands_scopes_transports_and_protocols_are_offered() {
    let person = Person::new();
    assert_eq!(offered(&person, "wharf appr"), ["approve"]);
    assert_eq!(offered(&person, "wharf add --scope "), ["local", "user", "project"]);
    assert_eq!(offered(&person, "wharf add -t "), ["stdio", "http", "sse", "ws"]);
    assert_eq!(offered(&person, "wharf tools --protocol "), ["auto", "legacy", "modern"]);
    assert_eq!(offered(&person, "wharf import c"), ["claude-code", "claude-desktop", "cursor", "codex"]);
}

#[test]
fn a_shell_is_offered_only_words_that_mean_nothing_to_it() {
    let person = Person::new().with(PROJECT, "good", &good()).with(PROJECT, "$(id)", &good());
    assert_eq!(offered(&person, "wharf get "), ["good"]);
    person.write("home/.cache/wharf/tools.json", r#"{"good": ["fine", "$(id)", "a;b", "a b"]}"#);
    assert_eq!(offered(&person, "wharf call good "), ["fine"]);
}
