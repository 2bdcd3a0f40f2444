//! `--json` prints one JSON value for every failure of every command.

use std::collections::BTreeSet;

use serde_json::Value;

use crate::{Person, RunOutput, USER, ran, wharf};

/// One failing call of each command. The text is a part of the message.
const FAILING: [(&str, &str, &str); 52] = [
    ("", "tolls", "unrecognized subcommand"),
    ("", "", "requires a subcommand"),
    ("demo", "demo --mcp nameless", "nameless"),
    ("add", "add", "required"),
    ("add", "add --scope nowhere a b", "invalid value"),
    ("add-json", "add-json x {", "JSON"),
    ("import", "import cursor --from /no/such/file", "/no/such/file"),
    ("list", "list --project /no/such/folder", "/no/such/folder"),
    ("get", "get nothing", "unknown server"),
    ("remove", "remove nothing", "unknown server"),
    ("enable", "enable nothing", "unknown server"),
    ("disable", "disable nothing", "unknown server"),
    ("approve", "approve nothing", "unknown server"),
    ("approve", "approve", "required"),
    ("login", "login nothing", "unknown server"),
    ("logout", "logout nothing", "unknown server"),
    ("tools", "tools nothing", "unknown server"),
    ("tools", "tools --mcp nameless", "nameless"),
    ("call", "call nothing now", "unknown server"),
    ("call", "call gone now", "was not found"),
    ("call", "call gone now --timeout 0", "greater than 0"),
    ("run", "run --only-mcp -m nobody Hi", "invalid model"),
    ("run", "run --only-mcp -m openai:gpt-5 Hi", "OPENAI_API_KEY is not set"),
    ("run", "run --only-mcp -m manual:/no/such/file Hi", "/no/such/file"),
    ("run", "run --max-turns zero Hi", "invalid value"),
    ("context", "context nothing", "unknown server"),
    ("doctor", "doctor nothing", "unknown server"),
    ("prompts", "prompts nothing", "unknown server"),
    ("prompt", "prompt nothing x", "unknown server"),
    ("resources", "resources nothing", "unknown server"),
    ("read", "read nothing x:y", "unknown server"),
    ("export", "export cursor nothing", "unknown server"),
    ("logs", "logs nothing", "no log of server"),
    ("repl", "repl nothing", "unknown server"),
    ("search", "search x --project /no/such/directory", "is not a directory"),
    ("verify run", "verify run /no/such/file", "/no/such/file"),
    ("verify check", "verify check /no/such/file", "/no/such/file"),
    ("verify judge-check", "verify judge-check /no/such/file x", "/no/such/file"),
    ("verify status", "verify status nothing", "unknown run `nothing`"),
    ("verify pause", "verify pause nothing --store /dev/null/x", "/dev/null/x does not exist"),
    ("verify resume", "verify resume nothing --store /dev/null/x", "/dev/null/x does not exist"),
    ("verify cancel", "verify cancel nothing --store /dev/null/x", "/dev/null/x does not exist"),
    ("verify priority", "verify priority nothing 5 --store /dev/null/x", "/dev/null/x does not exist"),
    ("verify delete", "verify delete nothing --store /dev/null/x", "/dev/null/x does not exist"),
    ("verify vacuum", "verify vacuum --store /dev/null/x", "/dev/null/x does not exist"),
    ("verify work", "verify work --store /dev/null/x", "cannot open the store /dev/null/x"),
    ("verify trace", "verify trace /no/such/file --benchmark /no/such/file", "/no/such/file"),
    ("verify import", "verify import /no/such/file", "/no/such/file"),
    ("verify export", "verify export /no/such/file", "/no/such/file"),
    ("verify report", "verify report nothing", "no runs"),
    ("verify compare", "verify compare a b", "a"),
    ("verify preset", "verify preset show nothing", "nothing"),
];

/// Commands that print no JSON: their output is a script, or a page.
const WITHOUT_JSON: [&str; 3] = ["completions", "man", "help"];

fn run(person: &Person, line: &str, more: &[&str]) -> RunOutput {
    let words: Vec<&str> = more.iter().copied().chain(line.split(' ').filter(|word| !word.is_empty())).collect();
    person.run(&words)
}

/// Returns the commands that the help lists.
fn listed(path: &str) -> BTreeSet<String> {
    let words: Vec<&str> = path.split(' ').filter(|word| !word.is_empty()).chain(["--help"]).collect();
    let help = ran(wharf(&words)).out;
    let lines = help.lines().skip_while(|line| *line != "Commands:").skip(1).take_while(|line| !line.is_empty());
    let names = lines.filter_map(|line| line.strip_prefix("  ")?.split(' ').next().filter(|name| !name.is_empty()));
    names.filter(|name| !WITHOUT_JSON.contains(name)).map(|name| format!("{path} {name}").trim().to_owned()).collect()
}

#[test]
fn every_failure_of_every_command_is_one_json_value_with_the_same_exit_code() {
    let person = Person::new().with(USER, "gone", &serde_json::json!({"command": "no-such-server"}));
    let mut covered = BTreeSet::new();
    for (command, line, part) in FAILING {
        let text = run(&person, line, &[]);
        assert!(text.code != 0 && text.out.is_empty(), "{line}: {} {}", text.code, text.out);
        let json = run(&person, line, &["--json"]);
        assert_eq!((json.code, json.err.is_empty()), (text.code, false), "{line}: {}", json.err);
        assert_eq!(json.out.matches('\n').count(), 1, "{line}: {}", json.out);
        let value: Value =
            serde_json::from_str(&json.out).unwrap_or_else(|error| panic!("{line}: {error}: {}", json.out));
        let message = value["error"]["message"].as_str().unwrap_or_else(|| panic!("{line}: {value}"));
        assert!(value["version"] == 1 && message.contains(part), "{line}: {value}");
        covered.insert(command.to_owned());
    }
    let mut all = listed("");
    assert!(all.remove("verify") && all.len() > 20, "{all:?}");
    all.extend(listed("verify"));
    let missing: Vec<&String> = all.difference(&covered).collect();
    assert!(missing.is_empty(), "no failure of {missing:?}");
}

#[test]
fn a_failure_has_the_hint_and_the_exit_code() {
    let person = Person::new();
    let value: Value = serde_json::from_str(&run(&person, "call tme now --mcp time=x --json", &[]).out).unwrap();
    let expected = serde_json::json!({"version": 1, "error": {"message": "unknown server `tme`",
        "hint": "did you mean `time`?", "exitCode": 2}});
    assert_eq!(value, expected);
    let value: Value = serde_json::from_str(&run(&person, "tolls --json", &[]).out).unwrap();
    assert_eq!(value["error"]["hint"], "a similar subcommand exists: 'tools'");
}

#[test]
fn other_json_outputs_of_run_have_errors_too() {
    let person = Person::new();
    for output in ["json", "stream-json"] {
        let ran = run(&person, &format!("run --only-mcp -m nobody Hi --output {output}"), &[]);
        let value: Value = serde_json::from_str(&ran.out).unwrap();
        assert!(ran.code == 2 && value["error"]["message"].is_string(), "{value}");
    }
}

#[test]
fn an_option_of_a_servers_command_is_not_ours() {
    let person = Person::new();
    assert_eq!(run(&person, "add a --scope nowhere -- server --json", &[]).out, "");
}
