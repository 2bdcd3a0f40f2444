//! `wharf verify compare`.

use serde_json::{Value, json};

use super::{example, json_of, quickstart};
use crate::Person;

/// Runs the quickstart and returns the id of the run.
fn run_of(person: &Person, more: &[&str]) -> String {
    let ran = quickstart(person, &[more, &["--json"]].concat());
    json_of(&ran)["run"].as_str().unwrap().to_owned()
}

#[test]
fn the_same_models_show_no_change() {
    let person = Person::new();
    let (a, b) = (run_of(&person, &[]), run_of(&person, &[]));
    let ran = person.run(&["verify", "compare", &a, &b]);
    assert_eq!(ran.code, 0, "{}", ran.err);
    let lines: Vec<Vec<&str>> =
        ran.out.lines().map(|line| line.split("  ").filter(|cell| !cell.is_empty()).collect()).collect();
    let cell = |row: usize, column: usize| lines[row][column].trim();
    assert_eq!((cell(1, 0), cell(1, 1), cell(1, 2), cell(1, 3)), ("careful", "12", "91.7 %", "91.7 %"));
    assert_eq!((cell(2, 0), cell(2, 4), cell(2, 9)), ("hasty", "+0.0 %", "not significant"));
    assert_eq!(lines.len(), 3, "no question changed: {}", ran.out);
}

#[test]
fn a_significant_regression_fails_with_the_questions() {
    let person = Person::new();
    let text = std::fs::read_to_string(example("quickstart").join("benchmark.yaml")).unwrap();
    let ids = text.lines().filter_map(|line| line.trim().strip_prefix("- id: ")).filter(|id| *id != "moon");
    let only: Vec<&str> = ids.flat_map(|id| ["--only", id]).collect();
    let run = run_of(&person, &only);
    let ran = person.run(&["verify", "compare", &run, &run, "--model-a", "careful", "--model-b", "hasty"]);
    assert_eq!(ran.code, 1);
    assert!(ran.err.contains("error: hasty became significantly worse"), "{}", ran.err);
    assert!(ran.out.contains("careful → hasty") && ran.out.contains("0.016  worse"), "{}", ran.out);
    assert_eq!(ran.out.matches("1 of 1  0 of 1  worse").count(), 7, "{}", ran.out);
    let better = person.run(&["verify", "compare", &run, &run, "--model-a", "hasty", "--model-b", "careful", "--json"]);
    let report = json_of(&better);
    assert_eq!((better.code, &report["ok"]), (0, &json!(true)), "{}", better.err);
    assert_eq!(report["models"][0]["outcome"], "improvement");
    assert_eq!(report["models"][0]["changes"].as_array().unwrap().len(), 7);
    assert_eq!((&report["version"], &report["differences"]), (&json!(1), &json!([])));
}

#[test]
fn different_questions_are_refused_unless_allowed() {
    let person = Person::new();
    let (a, b) = (run_of(&person, &[]), run_of(&person, &["--limit", "3"]));
    let refused = person.run(&["verify", "compare", &a, &b]);
    assert_eq!((refused.code, refused.out.as_str()), (2, ""));
    let expected = "the runs are not comparable: the runs have other questions: only the first has ";
    assert!(refused.err.contains(expected), "{}", refused.err);
    assert!(refused.err.contains("hint: compare them anyway with --allow-different"), "{}", refused.err);
    let allowed = person.run(&["verify", "compare", &a, &b, "--allow-different", "--json"]);
    let report = json_of(&allowed);
    assert_eq!((allowed.code, &report["models"][0]["questions"]), (0, &json!(3)), "{}", allowed.err);
    assert_eq!(report["differences"][0]["kind"], "questions");
    assert!(allowed.err.contains("warning: the runs have other questions"), "{}", allowed.err);
}

#[test]
fn changed_templates_judges_and_tools_are_refused() {
    let person = Person::new();
    let folder = example("quickstart");
    for name in ["benchmark.yaml", "models.yaml", "careful.yaml", "hasty.yaml", "judge.yaml"] {
        person.write(&format!("project/{name}"), &std::fs::read_to_string(folder.join(name)).unwrap());
    }
    let run = || -> String {
        let arguments = ["verify", "run", "benchmark.yaml", "--models", "models.yaml", "--judge", "judge", "--json"];
        let ran = person.run(&[&arguments[..], &["--trust"]].concat());
        json_of(&ran)["run"].as_str().unwrap_or_else(|| panic!("{}", ran.err)).to_owned()
    };
    let before = run();
    let refusal = |run: &str| {
        let ran = person.run(&["verify", "compare", &before, run]);
        assert_eq!(ran.code, 2, "{}", ran.out);
        ran.err
    };
    let benchmark = person.read("project/benchmark.yaml");
    person.write("project/benchmark.yaml", &benchmark.replace("truth: 42", "truth: 43"));
    let template = refusal(&run());
    assert!(template.contains("the traits of `product` differ"), "{template}");
    person.write("project/benchmark.yaml", &benchmark);
    let judge = person.read("project/judge.yaml");
    person.write("project/judge.yaml", &format!("{judge}\n# another judge\n"));
    let judges = refusal(&run());
    assert!(judges.contains("the settings of the judges differ"), "{judges}");
}

#[test]
fn runs_of_two_stores_are_compared() {
    let person = Person::new();
    let a = run_of(&person, &["--store", "a.db"]);
    let b = run_of(&person, &["--store", "b.db"]);
    let ran = person.run(&["verify", "compare", &a, &b, "--store", "a.db", "--store-b", "b.db", "--json"]);
    let report: Value = json_of(&ran);
    assert_eq!((ran.code, &report["a"]["run"], &report["b"]["run"]), (0, &json!(a), &json!(b)), "{}", ran.err);
    let missing = person.run(&["verify", "compare", &a, &b, "--store", "a.db", "--store-b", "none.db"]);
    assert_eq!(missing.code, 2);
    assert!(missing.err.contains("no runs: none.db does not exist"), "{}", missing.err);
    assert!(!person.path("project/none.db").exists(), "reading creates nothing");
    let unknown = person.run(&["verify", "compare", &a, "nosuch", "--store", "a.db"]);
    assert!(unknown.err.contains("unknown run `nosuch`"), "{}", unknown.err);
    let model = person.run(&["verify", "compare", &a, &a, "--store", "a.db", "--model-a", "nosuch"]);
    assert!(model.err.contains("hint: its models are careful, hasty"), "{}", model.err);
}
