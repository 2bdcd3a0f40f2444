//! `wharf verify report`.

use std::os::unix::fs::PermissionsExt as _;
use std::path::PathBuf;
use std::process::Command;

use serde_json::{Value, json};

use super::{json_of, quickstart};
use crate::Person;

fn root(name: &str) -> PathBuf {
    [env!("CARGO_MANIFEST_DIR"), "../..", name].iter().collect()
}

/// Runs the quickstart and returns the id of the run.
fn finished(person: &Person) -> String {
    let ran = quickstart(person, &["--json"]);
    json_of(&ran)["run"].as_str().unwrap().to_owned()
}

#[test]
fn the_report_of_the_latest_run_is_one_private_file() {
    let person = Person::new();
    let run = finished(&person);
    let ran = person.run(&["verify", "report"]);
    assert_eq!((ran.code, ran.out.as_str()), (0, format!("report-{run}.html\n").as_str()), "{}", ran.err);
    let file = person.path("project").join(format!("report-{run}.html"));
    let html = std::fs::read_to_string(&file).unwrap();
    assert!(html.starts_with("<!doctype html>") && html.ends_with("</html>\n"));
    assert_eq!(std::fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600, "it holds conversations");
    let named = person.run(&["verify", "report", &run, "-o", "again.html", "--json"]);
    assert_eq!(json_of(&named), json!({"version": 1, "run": run, "output": "again.html"}));
    assert_eq!(person.read("project/again.html"), html, "the same run gives the same file");
    let rows = person.run(&["verify", "report", "-o", "rows.csv"]);
    assert_eq!(rows.code, 0, "{}", rows.err);
    assert!(person.read("project/rows.csv").starts_with("unit,trial,question,"));
    let ran = quickstart(&person, &["--output", "run.html"]);
    assert_eq!(ran.code, 0, "{}", ran.err);
    assert!(person.read("project/run.html").starts_with("<!doctype html>"));
}

#[test]
fn a_report_needs_a_run() {
    let person = Person::new();
    let without = person.run(&["verify", "report"]);
    assert_eq!(without.code, 2);
    assert!(without.err.contains("no runs in ") && without.err.contains("wharf verify run"), "{}", without.err);
    assert!(!person.path("home/.local/state/wharf/verify.db").exists(), "looking creates nothing");
    finished(&person);
    let unknown = person.run(&["verify", "report", "nosuch", "-o", "no.html"]);
    assert_eq!(unknown.code, 2);
    assert!(unknown.err.contains("unknown run `nosuch`"), "{}", unknown.err);
    let format = person.run(&["verify", "report", "-o", "report.xlsx"]);
    assert!(format.err.contains("unknown format `xlsx`"), "{}", format.err);
    assert!(!person.path("project/no.html").exists());
}

#[test]
fn the_report_shows_questions_and_answers_in_chromium() {
    let person = Person::new();
    finished(&person);
    let ran = person.run(&["verify", "report", "-o", "report.html"]);
    assert_eq!(ran.code, 0, "{}", ran.err);
    let mut node = Command::new(root(".peers/node_modules/node/bin/node"));
    node.arg(root("peers/report_page.mjs")).arg("text").arg(person.path("project/report.html")).arg(person.path(""));
    let output = node.output().expect("`scripts/peers` installs it");
    let found: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(found["problems"], json!([]));
    let (overview, unit) = (found["seen"]["overview"].as_str().unwrap(), found["seen"]["unit"].as_str().unwrap());
    for text in [
        "quickstart",
        "careful",
        "hasty",
        "91.7%",
        "64.6% – 98.5%",
        "Small sample",
        "Compared with careful",
        "may be chance",
    ] {
        assert!(overview.contains(text), "{text}: {overview}");
    }
    assert!(unit.contains("Question\n") && unit.contains("Answer\n") && unit.contains("Trace"), "{unit}");
    assert!(!unit.contains("The text of the question is not in this run."), "{unit}");
}
