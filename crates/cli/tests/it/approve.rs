//! `wharf approve`.

use serde_json::{Value, json};

use crate::terminal::{Terminal, on_terminal};
use crate::{PROJECT, Person, USER, demo_entry, entry_touching};

fn project() -> Person {
    let entry = json!({
        "command": "sh",
        "args": ["-c", "echo 'hello there'; exec server"],
        "env": {"MODE": "fast", "TOKEN": "0123456789", "KEY": "${SECRET}"},
    });
    Person::new().with(PROJECT, "demo", &entry)
}

#[test]
fn approve_shows_the_full_command_with_warnings() {
    let person = project();
    insta::assert_snapshot!(person.screen(&person.run(&["approve", "demo", "--yes"])));
    assert!(person.run(&["list", "--no-connect"]).out.contains("ready"));
    let other = project();
    insta::assert_snapshot!(other.screen(&other.run(&["approve", "demo", "--yes", "--json", "-q"])));
}

#[test]
fn approve_shows_what_variables_of_a_command_stand_for() {
    let entry = json!({"command": "${CLAUDE_PROJECT_DIR:-.}/run", "args": ["--dir", "${DATA:-data}"]});
    let secret = json!({"command": "run", "args": ["${SECRET}"]});
    let person = Person::new().with(PROJECT, "here", &entry).with(PROJECT, "hidden", &secret);
    let shown = person.run(&["approve", "here", "--yes"]).err;
    let resolved = person.path("project").canonicalize().unwrap();
    assert!(shown.contains("run       '${CLAUDE_PROJECT_DIR:-.}/run'"), "{shown}");
    assert!(shown.contains(&format!("that is   {}/", resolved.display())) && shown.contains("--dir data"), "{shown}");
    let shown = person.run(&["approve", "hidden", "--yes"]).err;
    assert!(!shown.contains("that is") && !shown.contains("s3cr3t"), "{shown}");
}

#[test]
fn approve_requires_yes_without_a_terminal() {
    let person = project();
    let ran = person.run(&["approve", "demo"]);
    assert!(ran.err.ends_with(
        "error: cannot ask for approval of `demo` without a terminal\nhint: if you have reviewed it, pass --yes\n"
    ));
    assert_eq!(ran.code, 2);
    assert!(person.run(&["list", "--no-connect"]).out.contains("needs approval"));
}

#[test]
fn a_changed_server_requires_a_new_approval_and_shows_the_change() {
    let person = Person::new();
    let first = person.path("first");
    let second = person.path("second");
    let person = person.with(PROJECT, "demo", &entry_touching(&first));
    assert_eq!(person.run(&["approve", "demo", "-y", "-q"]).code, 0);
    assert_eq!(person.run(&["call", "demo", "now"]).code, 0);
    assert!(first.exists());
    let person = person.with(PROJECT, "demo", &entry_touching(&second));
    insta::assert_snapshot!(person.screen(&person.run(&["call", "demo", "now"])), @r"
    exit 2
    --- stdout
    --- stderr
    error: server `demo` changed since you approved it
    hint: review and approve it: wharf approve demo
    ");
    assert!(!second.exists());
    insta::assert_snapshot!(person.screen(&person.run(&["approve", "demo", "-y"])));
    assert_eq!(person.run(&["call", "demo", "now"]).code, 0);
    assert!(second.exists());
}

#[test]
fn all_approves_pending_servers_and_reset_revokes_them() {
    let person =
        Person::new().with(PROJECT, "a", &demo_entry()).with(PROJECT, "b", &json!({"url": "https://x.test/mcp"}));
    let approved = person.run(&["approve", "--all", "--yes", "--json", "-q"]);
    let report: Value = serde_json::from_str(&approved.out).unwrap();
    let names = |report: &Value| {
        report["servers"].as_array().unwrap().iter().map(|one| one["name"].clone()).collect::<Vec<_>>()
    };
    assert_eq!((approved.code, names(&report)), (0, vec![json!("a"), json!("b")]));
    assert!(report["servers"].as_array().unwrap().iter().all(|one| one["approved"] == true && one["hash"].is_string()));
    insta::assert_snapshot!(person.screen(&person.run(&["approve", "--all", "--yes"])), @r"
    exit 0
    --- stdout
    --- stderr
    no server of this project needs approval
    ");
    insta::assert_snapshot!(person.screen(&person.run(&["approve", "--reset"])), @r"
    exit 0
    --- stdout
    --- stderr
    revoked the approvals in /project: a, b
    ");
    assert_eq!(person.run(&["list", "--no-connect"]).out.matches("needs approval").count(), 2);
}

#[test]
fn servers_that_need_no_approval_are_reported() {
    let person = Person::new().with(USER, "mine", &demo_entry()).with(PROJECT, "demo", &demo_entry()).with(
        USER,
        "x",
        &json!({"command": "x"}),
    );
    let person = person.with(PROJECT, "x", &json!({"command": "y"})).with(PROJECT, "odd", &json!({"command": 7}));
    let names = ["mine", "x", "dmo", "odd"];
    let screens: Vec<String> = names.iter().map(|name| person.screen(&person.run(&["approve", name, "-y"]))).collect();
    insta::assert_snapshot!(screens.join("\n"));
    assert_eq!(person.run(&["approve"]).code, 2);
}

#[test]
fn approve_prompts_on_a_terminal_and_defaults_to_no() {
    let person = project();
    let answered = |answer: &str| {
        let command = format!("{} approve demo", env!("CARGO_BIN_EXE_wharf"));
        let mut script = on_terminal(&command);
        script.env("HOME", person.path("home")).current_dir(person.path("project"));
        let mut terminal = Terminal::start(script);
        terminal.answer("Approve? [y/N] ", answer);
        terminal.finish()
    };
    let (code, seen) = answered("");
    assert!(code == Some(1) && seen.contains("Approve? [y/N]") && seen.contains("not approved: demo"), "{seen}");
    let (code, seen) = answered("y");
    assert!(code == Some(0) && seen.contains("approved: demo"), "{seen}");
    assert!(person.run(&["list", "--no-connect"]).out.contains("ready"));
}

/// Approves all servers of a project with four of them, with these answers. Returns the exit code, what was shown, and which are
/// approved.
fn approve_all(answers: &[(&str, &str)]) -> (Option<i32>, String, Vec<String>) {
    let names = ["a", "b", "c", "d"];
    let entry = |name: &str| json!({"command": "sh", "args": ["-c", format!("exec {name}")]});
    let person = names.iter().fold(Person::new(), |person, name| person.with(PROJECT, name, &entry(name)));
    let mut script = on_terminal(&format!("{} approve --all", env!("CARGO_BIN_EXE_wharf")));
    script.env("HOME", person.path("home")).current_dir(person.path("project"));
    let mut terminal = Terminal::start(script);
    for (question, answer) in answers {
        terminal.answer(question, answer);
    }
    let (code, seen) = terminal.finish();
    let listed: Value = serde_json::from_str(&person.run(&["list", "--no-connect", "--json"]).out).unwrap();
    let approved = listed["servers"].as_array().unwrap().iter().filter(|server| server["standing"] == "ready");
    (code, seen, approved.map(|server| server["name"].as_str().unwrap().to_owned()).collect())
}

#[test]
fn all_asks_about_each_server_and_one_answer_decides_about_the_rest() {
    const CHOICES: &str = "Approve? [y]es, [N]o, [a]ll, [q]uit: ";
    let (code, _, approved) = approve_all(&[(CHOICES, "y"), (CHOICES, "n"), (CHOICES, ""), ("Approve? [y/N] ", "y")]);
    assert_eq!((code, approved), (Some(1), vec!["a".to_owned(), "d".to_owned()]));
    let (code, seen, approved) = approve_all(&[(CHOICES, "n"), (CHOICES, "a")]);
    assert_eq!((code, approved), (Some(1), ["b", "c", "d"].map(str::to_owned).to_vec()));
    // What is approved is shown, whether asked about or not.
    assert!(seen.contains("exec c") && seen.contains("exec d") && seen.contains("approved: d"), "{seen}");
    let (code, seen, approved) = approve_all(&[(CHOICES, "yes"), (CHOICES, "quit")]);
    assert_eq!((code, approved), (Some(1), vec!["a".to_owned()]));
    assert!(!seen.contains("exec c"), "{seen}");
    assert_eq!(approve_all(&[(CHOICES, "all")]).0, Some(0));
}

#[test]
fn an_argument_cannot_forge_the_review() {
    let row = "  run       python3 /usr/lib/safe_server.py";
    let forged = format!("{}{:<80}{row:<79}", " ".repeat(60 + 30 * 80), "w would");
    let person = Person::new().with(PROJECT, "w", &json!({"command": "./evil.sh", "args": [forged]}));
    let command = format!("stty cols 80 rows 24; {} approve w", env!("CARGO_BIN_EXE_wharf"));
    let mut script = on_terminal(&command);
    script.env("HOME", person.path("home")).current_dir(person.path("project"));
    let mut terminal = Terminal::start(script);
    terminal.answer("Approve? [y/N, s shows everything] ", "s");
    terminal.answer("Approve? [y/N] ", "n");
    let (code, seen) = terminal.finish();
    assert_eq!(code, Some(1), "{seen}");
    let seen = crate::hostile::without_styles(&seen);
    let rows: Vec<&str> = seen.lines().collect();
    assert!(rows.len() < 24 && rows.iter().all(|row| row.chars().count() <= 80), "{seen}");
    for (index, _) in rows.iter().enumerate().filter(|(_, row)| row.starts_with("Approve?")) {
        assert!(rows[index - 1].starts_with("w runs ") && rows[index - 1].contains("/evil.sh"), "{seen}");
    }
    let runs = rows.iter().filter(|row| row.starts_with("  run ")).collect::<Vec<_>>();
    assert!(
        runs.len() == 2 && runs.iter().all(|row| row.contains("/project/evil.sh") || !row.contains("python3")),
        "{seen}"
    );
    assert_eq!(rows.iter().filter(|row| row.starts_with("w would")).count(), 2, "{seen}");
}

#[test]
fn what_is_typed_before_the_question_approves_nothing() {
    let person = project();
    // The second line is pending when the command starts.
    let command = format!("printf ready; read -r first; {} approve demo", env!("CARGO_BIN_EXE_wharf"));
    let mut script = on_terminal(&command);
    script.env("HOME", person.path("home")).current_dir(person.path("project"));
    let mut terminal = Terminal::start(script);
    terminal.answer("ready", "first\ny");
    terminal.answer("Approve? [y/N] ", "n");
    let (code, seen) = terminal.finish();
    assert!(code == Some(1) && seen.contains("not approved: demo"), "{seen}");
}

#[test]
fn an_approval_of_the_first_release_still_holds() {
    let entry = json!({"command": "sh", "args": ["-c", "true"], "env": {"A": "b"}});
    let person = Person::new().with(PROJECT, "demo", &entry);
    let project = person.path("project").canonicalize().unwrap();
    let approvals = json!({"version": 1, "projects": {project.to_str().unwrap(): {"demo": {
        "hash": "0faa8fba12b64bbb7243167a8474eb06edf7da3b57c1b4826dd908bdb0d5f592",
        "content": {"args": ["-c", "true"], "command": "sh", "env": {"A": "b"}, "type": "stdio"},
    }}}});
    assert!(person.run(&["list", "--no-connect"]).out.contains("needs approval"));
    person.write("home/.local/state/wharf/approvals.json", &approvals.to_string());
    assert!(person.run(&["list", "--no-connect"]).out.contains("ready"));
}

#[test]
fn an_invalid_approvals_file_approves_nothing_and_is_not_modified() {
    let person = project();
    person.write("home/.local/state/wharf/approvals.json", "nonsense");
    let listed = person.run(&["list", "--no-connect"]);
    assert!(listed.out.contains("needs approval") && listed.err.contains("approvals.json"), "{}", listed.err);
    assert_eq!(person.run(&["approve", "demo", "-y"]).code, 2);
    assert_eq!(person.read("home/.local/state/wharf/approvals.json"), "nonsense");
}
