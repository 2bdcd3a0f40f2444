//! `wharf verify check`.

use serde_json::json;

use super::{example, json_of};
use crate::{Person, screen};

fn check(person: &Person, more: &[&str]) -> crate::RunOutput {
    let folder = example("quickstart");
    let benchmark = folder.join("benchmark.yaml");
    let models = folder.join("models.yaml");
    let arguments = [benchmark.to_str().unwrap(), "--models", models.to_str().unwrap(), "--judge", "judge"];
    person.run(&[&["verify", "check"], &arguments[..], more].concat())
}

#[test]
fn check_prints_what_a_run_would_do_and_starts_nothing() {
    let person = Person::new();
    insta::assert_snapshot!(screen(&check(&person, &["-v"])));
    let report = json_of(&check(&person, &["--json", "--replicates", "3"]));
    assert_eq!((&report["estimate"]["units"], &report["replicates"]), (&json!(72), &json!(3)));
    assert_eq!(report["stages"].as_array().unwrap().last(), Some(&json!("finalize")));
    assert!(!person.path("home/.local").exists(), "nothing is written");
}

#[test]
fn a_benchmark_is_checked_without_a_model() {
    let person = Person::new();
    let benchmark = example("quickstart").join("benchmark.yaml");
    let check = |more: &[&str]| person.run(&[&["verify", "check", benchmark.to_str().unwrap()], more].concat());
    let ran = check(&["--limit", "2"]);
    assert_eq!(ran.code, 0, "{}", ran.err);
    assert!(ran.out.contains("questions   2: ") && ran.out.contains("models      none"), "{}", ran.out);
    assert!(ran.out.contains("judges      none; needed for 2 questions"), "{}", ran.out);
    let hint =
        "hint: pass a model with -m MODEL and a judge with --judge MODEL for the number of units and an estimate\n";
    assert_eq!(ran.err, hint);
    let ran = check(&["--limit", "2", "--judge", "scripted:x.yaml"]);
    assert_eq!(ran.err, "hint: pass a model with -m MODEL for the number of units and an estimate\n");
    let report = json_of(&check(&["--json"]));
    assert_eq!((report["questions"].as_array().unwrap().len(), &report["estimate"]), (12, &json!(null)));
    assert_eq!(check(&["--only", "nothing"]).code, 2);
}

#[test]
fn every_problem_of_a_benchmark_is_reported_with_its_line_and_path() {
    let person = Person::new();
    let text = "name: broken\nquestions:\n  - id: a\n    question: How much?\n    template:\n      fields:\n        \
        - { name: x, type: int, description: d, truth: 1, check: numeric_exat }\n  - id: a\n    queston: Again?\n    \
        question: Again?\n    trace: [{ called: x }]\n";
    person.write("project/broken.yaml", text);
    let ran = person.run(&["verify", "check", "broken.yaml", "-m", "scripted:none.yaml"]);
    insta::assert_snapshot!(screen(&ran));
}

#[test]
fn mcp_settings_in_a_file_of_settings_are_rejected() {
    let person = Person::new();
    person.write("project/run.yaml", "replicates: 2\nmcp_urls_dict: {time: uvx mcp-server-time}\nreplicate: 3\n");
    let ran = check(&person, &["--config", "run.yaml"]);
    assert_eq!(ran.code, 2);
    let expected = "error: run.yaml:2: mcp_urls_dict: MCP settings do not belong in a verification config";
    assert!(ran.err.contains(expected), "{}", ran.err);
    assert!(ran.err.contains("run.yaml:3: replicate: unknown key\nhint: did you mean `replicates`?"), "{}", ran.err);
}

#[test]
fn servers_of_the_command_line_are_rejected() {
    let person = Person::new();
    let folder = example("quickstart");
    let benchmark = folder.join("benchmark.yaml");
    let model = format!("scripted:{}", folder.join("careful.yaml").display());
    let arguments = ["verify", "run", benchmark.to_str().unwrap(), "-m", &model, "--judge", &model];
    let ran = person.run(&[&arguments[..], &["--mcp", "time=uvx mcp-server-time"]].concat());
    assert_eq!(ran.code, 2);
    assert!(ran.err.contains("--mcp has no effect on a verification run"), "{}", ran.err);
}

#[test]
fn a_model_may_not_judge_its_own_answers_unless_told() {
    let person = Person::new();
    let folder = example("quickstart");
    let benchmark = folder.join("benchmark.yaml");
    let model = format!("scripted:{}", folder.join("careful.yaml").display());
    let arguments = ["verify", "check", benchmark.to_str().unwrap(), "-m", &model, "--judge", &model];
    let ran = person.run(&arguments);
    assert_eq!(ran.code, 2);
    assert!(ran.err.contains("are the same model: a model may not judge its own answers"), "{}", ran.err);
    assert!(ran.err.contains("hint: choose another --judge, or pass --allow-self-judging"), "{}", ran.err);
    let ran = person.run(&[&arguments[..], &["--allow-self-judging"]].concat());
    assert_eq!(ran.code, 0, "{}", ran.err);
}
