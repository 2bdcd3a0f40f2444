//! `wharf verify`: benchmarks with scripted models and live tools.

mod check;
mod compare;
mod convert;
mod judging;
mod outputs;
mod postgres;
mod presets;
mod report;
mod resume;
mod scenario;
mod trace;
mod trust;
mod tutorial;
mod work;

use std::path::PathBuf;

use serde_json::{Value, json};
use wharf_testkit::models::Turn;

use crate::run::models::Provider;
use crate::{Person, RunOutput, ran};

/// The folder of an example benchmark.
fn example(name: &str) -> PathBuf {
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/benchmarks").join(name);
    folder.canonicalize().unwrap()
}

/// Runs the quickstart as a user, with more arguments.
fn quickstart(person: &Person, more: &[&str]) -> RunOutput {
    let folder = example("quickstart");
    let benchmark = folder.join("benchmark.yaml");
    let models = folder.join("models.yaml");
    let (benchmark, models) = (benchmark.to_str().unwrap(), models.to_str().unwrap());
    let arguments = [&["verify", "run", benchmark, "--models", models, "--judge", "judge"], more].concat();
    person.run(&arguments)
}

#[test]
fn a_wrong_key_exits_with_2_if_no_unit_could_run() {
    let body = json!({"type": "error", "error": {"type": "authentication_error", "message": "invalid x-api-key"}});
    let refused = || Turn::status(401, &[], body.to_string());
    let checked = json!({"fields": [{"name": "sum", "check": {"trace_contains": {"substring": "4"}}}]});
    let question = |id: &str| json!({"id": id, "question": "2+2?", "template": checked});
    let person = Person::new();
    let benchmark = json!({"name": "sums", "questions": [question("a"), question("b")]});
    person.write("project/benchmark.json", &benchmark.to_string());
    let run = |turns: [Turn; 2]| {
        let provider = Provider::new(turns);
        let arguments = ["verify", "run", "benchmark.json", "-m", "anthropic:x", "--concurrency", "1"];
        let mut command = person.wharf(&arguments);
        provider.env(&mut command);
        ran(command)
    };
    let none = run([refused(), refused()]);
    assert_eq!(none.code, 2, "{}", none.err);
    assert!(none.err.contains("error: no unit could run: the provider rejected the API key"), "{}", none.err);
    let some = run([Turn::text("4"), refused()]);
    assert_eq!(some.code, 1, "{}", some.err);
}

fn json_of(ran: &RunOutput) -> Value {
    serde_json::from_str(&ran.out).unwrap_or_else(|_| panic!("{} {}", ran.out, ran.err))
}

/// Replaces the parts of a text that differ between runs: run ids, durations and paths.
fn normalized(person: &Person, text: &str) -> String {
    let text = text.replace(person.path("").to_str().unwrap().trim_end_matches('/'), "~");
    let text = text.replace(example("").to_str().unwrap().trim_end_matches('/'), "EXAMPLES");
    let is_id = |word: &str| word.len() == 20 && word.bytes().filter(|byte| *byte == b'-').count() == 2;
    let words = text.split_inclusive([' ', '\n', '"', '=']).map(|word| {
        let bare = word.trim_end_matches([' ', '\n', '"', '=']);
        if is_id(bare) { word.replace(bare, "RUN") } else { word.to_owned() }
    });
    words.collect()
}

/// Replaces the times of models.
fn without_times(mut report: Value) -> Value {
    for model in report["models"].as_array_mut().unwrap() {
        model["p50_millis"] = json!(0);
        model["p95_millis"] = json!(0);
    }
    report
}

#[test]
fn the_quickstart_shows_what_passed_and_why_the_rest_did_not() {
    let person = Person::new();
    let ran = quickstart(&person, &[]);
    assert_eq!(ran.code, 0, "a failed unit has a verdict: {}", ran.err);
    let lines: Vec<String> = ran.out.lines().map(|line| line.split(" ms").next().unwrap().to_owned()).collect();
    let models: Vec<&String> = lines.iter().take(3).collect();
    assert!(models[1].starts_with("careful  91.7 %    64.6 % – 98.5 %  11      1       0        –"), "{models:?}");
    assert!(models[2].starts_with("hasty    41.7 %    19.3 % – 68.0 %  5       7       0        –"), "{models:?}");
    insta::assert_snapshot!(lines[4..].join("\n"));
}

#[test]
fn json_output_summarizes_each_model() {
    let person = Person::new();
    let ran = quickstart(&person, &["--json"]);
    let report = without_times(json_of(&ran));
    let text = serde_json::to_string_pretty(&report).unwrap();
    insta::assert_snapshot!(normalized(&person, &text));
}

#[test]
fn replicates_add_a_table_of_repeated_attempts() {
    let person = Person::new();
    let ran = quickstart(&person, &["--replicates", "2"]);
    let lines: Vec<&str> = ran.out.lines().collect();
    assert!(lines[4].starts_with("MODEL    K  PASS@K  PASS^K  STABLE   TOOLS    P95 TIME"), "{}", ran.out);
    assert!(lines[5].starts_with("careful  2  91.7 %  91.7 %  100.0 %  90.9 %"), "{}", ran.out);
    assert!(lines[6].starts_with("hasty    2  41.7 %  41.7 %  100.0 %  100.0 %"), "{}", ran.out);
    assert!(lines[5].ends_with("content 2") && lines[6].ends_with("content 14"), "{}", ran.out);
    let run = person.run(&["verify", "status"]).out.lines().nth(1).unwrap().split(' ').next().unwrap().to_owned();
    let status = person.run(&["verify", "status", &run]);
    assert!(status.out.contains("PASS@K"), "{}", status.out);
    let once = quickstart(&person, &[]);
    assert!(!once.out.contains("P95 TIME"), "one attempt has no second table: {}", once.out);
    let verbose = quickstart(&person, &["-v"]);
    assert!(verbose.out.contains("P95 TIME") && !verbose.out.contains("PASS@K"), "{}", verbose.out);
}

#[test]
fn the_demo_runs_the_quickstart() {
    let person = Person::new();
    let ran = person.run(&["demo", "--json"]);
    let report = json_of(&ran);
    assert_eq!((ran.code, &report["ok"]), (0, &json!(true)), "{}", ran.err);
    let models = report["benchmark"]["models"].as_array().unwrap();
    let counts: Vec<_> = models.iter().map(|model| (&model["passed"], &model["failed"], &model["invalid"])).collect();
    assert_eq!(counts, [(&json!(11), &json!(1), &json!(0)), (&json!(5), &json!(7), &json!(0))]);
    let text = person.run(&["demo"]);
    assert!(text.out.contains("found 1969-07-16, expected 1969-07-20"), "{}", text.out);
    assert!(!person.path("home/.local/state/wharf/verify.db").exists(), "the demo leaves no run behind");
}

#[test]
fn limits_must_be_finite_numbers() {
    let person = Person::new();
    for (flag, number) in [("--fail-under", "nan"), ("--max-cost", "inf"), ("--max-time", "nan")] {
        let ran = quickstart(&person, &[flag, number]);
        assert_eq!(ran.code, 2, "{flag} {number}");
        assert!(ran.err.contains(&format!("{flag}: expected a finite number")), "{}", ran.err);
    }
}

#[test]
fn a_limit_of_the_cost_names_the_models_that_it_does_not_count() {
    let person = Person::new();
    let benchmark = json!({"name": "b", "questions": [{"id": "q", "question": "?", "trace": [{"max_calls": 1}]}]});
    person.write("project/benchmark.json", &benchmark.to_string());
    let model = "openai-endpoint:http://127.0.0.1:9/v1#local";
    let ran = person.run(&["verify", "run", "benchmark.json", "-m", model, "--max-cost", "1"]);
    assert!(
        ran.err.contains(&format!("warning: --max-cost does not count {model}: the price is not known")),
        "{}",
        ran.err
    );
    assert!(!quickstart(&person, &["--limit", "1", "--max-cost", "1"]).err.contains("does not count"));
}

#[test]
fn a_keyword_selects_questions() {
    let person = Person::new();
    let ran = quickstart(&person, &["--keyword", "no such keyword"]);
    assert_eq!(ran.code, 2);
    assert!(ran.err.contains("no question has the keyword `no such keyword`"), "{}", ran.err);
}

#[test]
fn a_threshold_applies_to_each_model() {
    let person = Person::new();
    let low = quickstart(&person, &["--fail-under", "40"]);
    assert_eq!(low.code, 0, "{}", low.err);
    let high = quickstart(&person, &["--fail-under", "90"]);
    assert_eq!(high.code, 1);
    assert!(high.err.contains("error: hasty reached 41.7 %, less than 90 %"), "{}", high.err);
    assert!(!high.err.contains("careful"), "{}", high.err);
}

#[test]
fn only_selected_questions_and_models_run() {
    let person = Person::new();
    let report = json_of(&quickstart(&person, &["-m", "careful", "--only", "moon", "--only", "pi", "--json"]));
    assert_eq!((&report["planned"], &report["models"][0]["units"]), (&json!(2), &json!(2)));
    let report = json_of(&quickstart(&person, &["-m", "careful", "--limit", "3", "--replicates", "2", "--json"]));
    assert_eq!(report["planned"], 6);
    let unknown = quickstart(&person, &["--only", "mon"]);
    assert_eq!(unknown.code, 2);
    assert!(unknown.err.contains("unknown question `mon`") && unknown.err.contains("did you mean `moon`?"));
}

#[test]
fn a_missing_judge_is_a_usage_error() {
    let person = Person::new();
    let folder = example("quickstart");
    let benchmark = folder.join("benchmark.yaml");
    let model = format!("scripted:{}", folder.join("careful.yaml").display());
    let ran = person.run(&["verify", "run", benchmark.to_str().unwrap(), "-m", &model]);
    assert_eq!(ran.code, 2);
    assert!(ran.err.contains("question `product` needs a judge"), "{}", ran.err);
    assert!(ran.err.contains("hint: choose one with --judge MODEL"), "{}", ran.err);
    assert!(!person.path("home/.local/state/wharf/verify.db").exists(), "nothing was planned");
}

#[test]
fn a_budget_stops_a_run_and_says_how_to_resume() {
    let person = Person::new();
    let ran = quickstart(&person, &["--max-time", "0.000001"]);
    assert_eq!(ran.code, 1, "{}", ran.err);
    assert!(ran.err.contains("error: the time limit") && ran.err.contains("resume with:\n  wharf verify run"));
    let resumed = quickstart(&person, &["--resume", "--json"]);
    assert_eq!((resumed.code, &json_of(&resumed)["state"]), (0, &json!("finished")), "{}", resumed.err);
}

#[test]
fn status_lists_runs_and_shows_one() {
    let person = Person::new();
    let none = person.run(&["verify", "status"]);
    assert!(none.code == 0 && none.err.contains("no runs"), "{}", none.err);
    let run = json_of(&quickstart(&person, &["--json"]))["run"].as_str().unwrap().to_owned();
    let list = person.run(&["verify", "status"]);
    let row = list.out.lines().nth(1).unwrap();
    assert!(row.starts_with(&format!("{run}  quickstart  finished  24/24  16      8       0")), "{}", list.out);
    let listed = json_of(&person.run(&["verify", "status", "--json"]));
    assert_eq!((&listed["version"], &listed["runs"][0]["progress"]["passed"]), (&json!(1), &json!(16)));
    let one = person.run(&["verify", "status", &run]);
    assert!(one.out.contains("careful  91.7 %") && one.out.contains("expected 1969-07-20"), "{}", one.out);
    let unknown = person.run(&["verify", "status", "nothing"]);
    assert_eq!(unknown.code, 2);
    assert!(unknown.err.contains("unknown run `nothing`"), "{}", unknown.err);
}

#[test]
fn servers_of_real_sdks_answer_a_benchmark() {
    let person = Person::new();
    let root = wharf_testkit::peers();
    let folder = example("time-and-git");
    let repository = person.path("repository");
    let git = |arguments: &[&str]| {
        let mut git = std::process::Command::new("git");
        git.args(["-C", repository.to_str().unwrap(), "-c", "user.name=A", "-c", "user.email=a@example.com"]);
        assert!(git.args(arguments).output().unwrap().status.success());
    };
    std::fs::create_dir(&repository).unwrap();
    git(&["init", "--initial-branch", "harbor"]);
    git(&["commit", "--allow-empty", "--message", "Lay the keel"]);
    let benchmark = folder.join("benchmark.yaml");
    let models = folder.join("models.yaml");
    let arguments = ["verify", "run", benchmark.to_str().unwrap(), "--models", models.to_str().unwrap()];
    let mut wharf = person.wharf(&[&arguments[..], &["--judge", "judge", "--trust", "--json"]].concat());
    let peers = root.join(".peers/py2/bin");
    wharf.env("PATH", format!("{}:/usr/bin:/bin", peers.display())).current_dir(&repository);
    let ran = ran(wharf);
    let report = json_of(&ran);
    assert_eq!(ran.code, 0, "{report} {}", ran.err);
    assert_eq!((&report["models"][0]["passed"], &report["models"][0]["failed"]), (&json!(3), &json!(1)), "{report}");
}
