//! Where the prompt of a run comes from: an argument, stdin, or both.

use serde_json::Value;

use crate::terminal::on_terminal;
use crate::{Person, RunOutput, ran_with_input, run_output};

fn person() -> Person {
    let person = Person::new();
    person.write("project/turns.yaml", "- text: hello\n");
    person
}

fn run_with(input: &str, prompt: &[&str]) -> RunOutput {
    let person = person();
    let command = person.wharf(&[&["run", "-m", "scripted:turns.yaml", "--json"], prompt].concat());
    ran_with_input(command, input)
}

fn prompt(input: &str, given: &[&str]) -> String {
    let ran = run_with(input, given);
    let report: Value = serde_json::from_str(&ran.out).unwrap_or_else(|_| panic!("{}", ran.err));
    report["prompt"].as_str().unwrap().to_owned()
}

#[test]
fn the_prompt_is_an_argument_the_text_on_stdin_or_both() {
    assert_eq!(prompt("", &["go"]), "go");
    assert_eq!(prompt("What time is it?\n", &["-"]), "What time is it?\n");
    assert_eq!(prompt("What time is it?\n", &[]), "What time is it?\n");
    assert_eq!(prompt("a\nb\n", &["Summarize this"]), "Summarize this\n\na\nb\n");
}

#[test]
fn an_empty_prompt_is_an_error() {
    for (input, given) in [("", &[][..]), (" \n", &[]), ("", &["-"]), ("", &[" "]), ("text", &[""])] {
        let ran = run_with(input, given);
        assert_eq!((ran.code, ran.err.as_str()), (2, "error: the prompt is empty\n"), "{input:?} {given:?}");
    }
    let person = person();
    let line =
        format!("cd {}; {} run -m scripted:turns.yaml", person.path("project").display(), env!("CARGO_BIN_EXE_wharf"));
    let ran = run_output(&on_terminal(&line).output().unwrap());
    assert!(ran.code == 2 && ran.out.contains("no prompt given"), "{}", ran.out);
}

#[test]
fn a_silent_pipe_delays_a_run_with_a_prompt_only_shortly() {
    let person = person();
    let mut command = person.wharf(&["run", "-m", "scripted:turns.yaml", "go"]);
    let child = command.stdin(std::process::Stdio::piped()).spawn().unwrap();
    // `wait_with_output` would close the pipe.
    let mut child = child;
    let open = child.stdin.take();
    let ran = run_output(&child.wait_with_output().unwrap());
    drop(open);
    assert_eq!((ran.code, ran.out.as_str()), (0, "hello\n"));
    assert!(ran.err.contains("warning: stdin is a pipe without data for 3 s; continuing without it"), "{}", ran.err);
}

#[test]
fn files_of_earlier_runs_are_overwritten_only_with_force() {
    let person = person();
    let run = |more: &[&str]| person.run(&[&["run", "-m", "scripted:turns.yaml", "go"], more].concat());
    for option in ["--record", "--checkpoint"] {
        let file = format!("{option}.jsonl").trim_start_matches('-').to_owned();
        assert_eq!(run(&[option, &file]).code, 0);
        let before = person.read(&format!("project/{file}"));
        let refused = run(&[option, &file]);
        let expected = format!("error: {file} already exists\nhint: overwrite it with --force\n");
        assert_eq!((refused.code, refused.err.as_str()), (2, expected.as_str()));
        assert_eq!(person.read(&format!("project/{file}")), before);
        assert_eq!(run(&[option, &file, "--force"]).code, 0);
        // What another program created for it is empty.
        person.write("project/empty.jsonl", "");
        std::fs::set_permissions(
            person.path("project/empty.jsonl"),
            std::os::unix::fs::PermissionsExt::from_mode(0o600),
        )
        .unwrap();
        assert_eq!(run(&[option, "empty.jsonl"]).code, 0);
        std::fs::remove_file(person.path("project/empty.jsonl")).unwrap();
    }
    person.write("project/notes.txt", "mine");
    assert_eq!(run(&["--checkpoint", "notes.txt"]).code, 2);
    assert_eq!(person.read("project/notes.txt"), "mine");
}

#[test]
fn an_unfinished_run_is_not_overwritten() {
    let person = person();
    person.write("project/calls.yaml", "- tools:\n    - {name: nothing}\n- text: done\n");
    let run = ["run", "-m", "scripted:calls.yaml", "--max-turns", "1", "--checkpoint", "run.jsonl", "go"];
    assert_eq!(person.run(&run).code, 1);
    let refused = person.run(&run);
    let expected = "error: run.jsonl has an unfinished run\nhint: continue it: --resume run.jsonl, or overwrite it with \
                    --force\n";
    assert_eq!((refused.code, refused.err.as_str()), (2, expected));
    assert_eq!(person.run(&["run", "-m", "scripted:calls.yaml", "--resume", "run.jsonl", "--max-turns", "3"]).code, 0);
}
