//! `--output`, `--record` and `--replay`.

use std::os::unix::fs::PermissionsExt as _;

use serde_json::{Value, json};

use super::{example, json_of, quickstart};
use crate::Person;

#[test]
fn every_format_holds_every_result() {
    let person = Person::new();
    let names = ["r.json", "r.jsonl", "r.csv", "r.parquet", "r.md", "r.xml"];
    let outputs: Vec<&str> = names.iter().flat_map(|name| ["--output", *name]).collect();
    let ran = quickstart(&person, &[&outputs[..], &["--json"]].concat());
    assert_eq!(json_of(&ran)["outputs"], json!(names));
    let read = |name: &str| std::fs::read(person.path("project").join(name)).unwrap();
    let report: Value = serde_json::from_slice(&read("r.json")).unwrap();
    assert_eq!(report["results"].as_array().unwrap().len(), 24);
    let lines = String::from_utf8(read("r.jsonl")).unwrap();
    let lines: Vec<Value> = lines.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(&Value::Array(lines), &report["results"]);
    assert!(String::from_utf8(read("r.csv")).unwrap().starts_with("unit,trial,question,"));
    assert!(read("r.parquet").starts_with(b"PAR1"));
    assert!(String::from_utf8(read("r.md")).unwrap().contains("| `careful` | 91.7 % | 64.6 % – 98.5 % | 11 | 1 | 0 |"));
    assert_eq!(String::from_utf8(read("r.xml")).unwrap().matches("<testcase ").count(), 24);
    for name in names {
        let mode = std::fs::metadata(person.path("project").join(name)).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600, "{name} holds conversations");
    }
    let left: Vec<_> =
        std::fs::read_dir(person.path("project")).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert!(left.iter().all(|name| !name.to_str().unwrap().contains("tmp")), "{left:?}");
}

#[test]
fn an_output_that_cannot_be_written_is_an_error_before_the_run() {
    let person = Person::new();
    for (output, expected) in [
        ("r.xlsx", "unknown format `xlsx`"),
        ("no/such/r.csv", "is not a directory"),
        ("logs/", "there is no such directory"),
    ] {
        let ran = quickstart(&person, &["--output", output]);
        assert_eq!(ran.code, 2);
        assert!(ran.err.contains(expected), "{}", ran.err);
    }
    assert!(!person.path("home/.local/state/wharf/verify.db").exists(), "nothing was planned");
}

#[test]
fn a_replay_gives_the_same_bytes_without_models_or_servers() {
    let person = Person::new();
    let live = quickstart(&person, &["--record", "run.jsonl", "--output", "live.jsonl", "--output", "live.csv"]);
    assert_eq!(live.code, 0, "{}", live.err);
    let mode = std::fs::metadata(person.path("project/run.jsonl")).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    let replay = ["--replay", "run.jsonl", "--output", "again.jsonl", "--output", "again.csv"];
    let ran = quickstart(&person, &replay);
    assert_eq!(ran.code, 0, "{}", ran.err);
    assert_eq!(ran.out, live.out);
    for (live, again) in [("live.jsonl", "again.jsonl"), ("live.csv", "again.csv")] {
        let read = |name: &str| person.read(&format!("project/{name}"));
        assert_eq!(read(live), read(again), "{live}");
    }
}

#[test]
fn a_replay_that_differs_from_its_recording_fails_with_the_difference() {
    let person = Person::new();
    let recorded = quickstart(&person, &["--limit", "1", "--record", "run.jsonl"]);
    assert_eq!(recorded.code, 0, "{}", recorded.err);
    let ran = quickstart(&person, &["--limit", "2", "--replay", "run.jsonl"]);
    assert_eq!(ran.code, 1);
    assert!(ran.err.contains("question `pi`") && ran.err.contains("is not in the recording"), "{}", ran.err);
    let missing = quickstart(&person, &["--replay", "nothing.jsonl"]);
    assert_eq!(missing.code, 2);
    assert!(missing.err.contains("hint: record a run with --record FILE"), "{}", missing.err);
}

#[test]
fn several_judges_have_a_verdict_of_their_panel_and_an_agreement() {
    let person = Person::new();
    person.write("project/second.yaml", &std::fs::read_to_string(example("quickstart").join("judge.yaml")).unwrap());
    let ran = quickstart(
        &person,
        &["--judge", "scripted:second.yaml", "--panel", "unanimity", "--only", "product", "--json"],
    );
    assert_eq!(ran.code, 0, "{}", ran.err);
    let report = json_of(&ran);
    let panel = &report["models"][0]["panel"];
    assert_eq!((&panel["rule"], &panel["passed"]), (&json!("unanimity"), &json!(1)), "{report}");
    assert_eq!(report["agreement"]["pairs"][0]["agreed"], json!(1.0), "{report}");
    let shown = person.run(&["verify", "status", report["run"].as_str().unwrap()]);
    assert!(shown.out.contains("unanimity") && shown.out.contains("KAPPA"), "{}", shown.out);
}

#[test]
fn an_output_does_not_replace_another_file_of_the_run() {
    let person = Person::new();
    let benchmark = example("quickstart").join("benchmark.yaml");
    person.write("project/benchmark.yaml", &std::fs::read_to_string(benchmark).unwrap());
    let models = example("quickstart").join("models.yaml");
    let run = ["verify", "run", "benchmark.yaml", "--models", models.to_str().unwrap(), "--judge", "judge"];
    let before = person.read("project/benchmark.yaml");
    for (more, expected) in [
        (&["--store", "s.json", "--output", "./s.json"][..], "--output ./s.json: the file is the store of this run"),
        (&["--store", "s.db", "--record", "s.db"], "--record s.db: the file is the store of this run"),
        (&["--record", "benchmark.yaml"], "--record benchmark.yaml: the file is the benchmark of this run"),
        (&["--record", "r.json", "--output", "r.json"], "--output r.json: the file is the recording of this run"),
        (&["--output", "r.csv", "--output", "./r.csv"], "--output ./r.csv: the file is another output of this run"),
    ] {
        let ran = person.run(&[&run[..], more].concat());
        assert_eq!(ran.code, 2, "{}", ran.err);
        assert!(ran.err.contains(expected), "{}", ran.err);
    }
    assert_eq!(person.read("project/benchmark.yaml"), before);
}

#[test]
fn a_recording_is_replaced_only_by_one_of_the_same_run() {
    let person = Person::new();
    let first = quickstart(&person, &["--limit", "2", "--record", "run.jsonl"]);
    assert_eq!(first.code, 0, "{}", first.err);
    let recorded = person.read("project/run.jsonl");
    let second = quickstart(&person, &["--limit", "1", "--record", "run.jsonl"]);
    assert_eq!(second.code, 2);
    assert!(second.err.contains("the file exists and is a recording of run"), "{}", second.err);
    assert_eq!(person.read("project/run.jsonl"), recorded);
    let resumed = quickstart(&person, &["--limit", "2", "--resume", "--record", "run.jsonl"]);
    assert_eq!(resumed.code, 0, "{}", resumed.err);
    assert_eq!(person.read("project/run.jsonl"), recorded);
}

#[test]
fn a_file_that_could_not_be_written_is_not_reported_as_written() {
    let person = Person::new();
    let ran = quickstart(&person, &["--limit", "1", "--output", "/proc/r.csv", "--json"]);
    assert_eq!(ran.code, 1, "{}", ran.err);
    assert!(ran.err.contains("cannot write /proc/r.csv") && !ran.err.contains("wrote /proc/r.csv"), "{}", ran.err);
    assert_eq!(json_of(&ran)["outputs"], json!([]));
}
