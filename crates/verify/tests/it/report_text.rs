//! Markdown and JUnit XML, read by parsers of other projects.

use std::io::Write as _;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use serde_json::{Value, json};
use wharf_verify::report::Format;
use wharf_verify::{Failure, FailureCategory, Trial, UnitResult, Verdict};

use crate::report::Run;
use crate::store_kit::{trials, unit_result};

/// Texts that would be markup, links, mentions or other cells. Question ids have no control characters.
const ATTACKS: [&str; 9] = [
    "a|b \\| c \\\\| d",
    "`x` ``y`` ```z",
    "</details><script>alert(1)</script>",
    "@octocat fixes #1 at https://evil.example",
    "![x](http://evil.example/x.png) [y](javascript:alert(1))",
    "**bold** _it_ <!-- c --> &lt;b&gt; ]]> \"q\" 'p'",
    "| --- | --- |",
    "\u{202e}reversed\u{200b}",
    "| `a` | \\",
];

fn number(trial: &Trial) -> usize {
    trial.question.as_str().trim_start_matches("question-").parse().unwrap()
}

fn attack(place: usize) -> &'static str {
    ATTACKS[place % ATTACKS.len()]
}

/// A unit whose names are attacks. The first unit passes, the last two are not scored.
fn hostile(trial: &Trial, place: usize) -> UnitResult {
    let number = number(trial);
    let verdict = match number {
        1 => Verdict::Passed,
        8 => Verdict::Invalid,
        9 => Verdict::Indeterminate,
        _ => Verdict::Failed,
    };
    let mut unit = unit_result(trial, &trial.units[place].id, verdict);
    unit.question = attack(number).trim().parse().unwrap();
    attack(number + 1).clone_into(&mut unit.model.label);
    if verdict == Verdict::Failed {
        let category = FailureCategory::Content;
        let reason = format!("{}\n\n# {}\0", attack(number + 2), attack(number + 3));
        unit.failure = Some(Failure { category, group: category.group(), stage: String::new(), reason });
    } else if verdict != Verdict::Passed {
        unit.reason = Some(attack(number + 2).to_owned());
    }
    unit.response = Some(format!("{}\r\n\u{8}\u{ffff} ]]> & <b>", attack(number)));
    unit
}

/// Runs a reader of `.peers` on a text and returns what it found.
fn read_by(program: &str, arguments: &[&str], text: &[u8]) -> Value {
    let root: PathBuf = [env!("CARGO_MANIFEST_DIR"), "../.."].iter().collect();
    let mut reader = Command::new(root.join(program));
    reader.args(arguments).current_dir(&root).stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut child = reader.spawn().expect("`scripts/peers` installs it");
    child.stdin.take().unwrap().write_all(text).unwrap();
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(text));
    serde_json::from_slice(&output.stdout).unwrap()
}

fn shown(text: &str) -> String {
    let text = text.replace('\u{202e}', "[U+202E]").replace('\u{200b}', "[U+200B]").replace('\0', "[U+0000]");
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

#[tokio::test]
async fn markdown_shows_every_text_and_obeys_none() {
    let trials = trials(9, &["judge"]);
    let run = Run::new(&trials, hostile).await;
    let text = run.export(Format::Markdown).await;
    let found = read_by(".peers/node_modules/node/bin/node", &["peers/markdown.mjs"], &text);
    assert_eq!((&found["headings"], &found["active"]), (&json!(1), &json!([])));
    let html = found["html"].as_array().unwrap();
    assert_eq!(html.len(), 2, "{html:?}");
    assert_eq!(html[0], "<details><summary>Units that did not pass: 8</summary>");
    let (models, units) = (&found["tables"][0], &found["tables"][1]);
    let rows = models.as_array().unwrap();
    assert!(rows.iter().all(|row| row.as_array().unwrap().len() == rows[0].as_array().unwrap().len()), "{models}");
    assert_eq!(rows[1][0], shown(attack(2)));
    let rows = units.as_array().unwrap();
    assert_eq!((rows.len(), &rows[0]), (9, &json!(["question", "model", "verdict", "reason"])));
    for (row, number) in rows[1..].iter().zip(2..) {
        let verdict = match number {
            8 => "invalid",
            9 => "indeterminate",
            _ => "failed",
        };
        let reason = match verdict {
            "failed" => shown(&format!("{} # {}\0", attack(number + 2), attack(number + 3))),
            _ => shown(attack(number + 2)),
        };
        assert_eq!(row, &json!([shown(attack(number)), shown(attack(number + 1)), verdict, reason]));
    }
}

#[tokio::test]
async fn markdown_of_a_large_run_fits_into_a_comment() {
    let trials = trials(400, &["judge"]);
    let run = Run::new(&trials, |trial, place| {
        let mut unit = hostile(trial, place);
        unit.model.label = format!("{} {}", "m".repeat(500), number(trial));
        unit.verdict = Verdict::Failed;
        unit.reason = Some("r".repeat(5_000));
        unit
    })
    .await;
    let text = String::from_utf8(run.export(Format::Markdown).await).unwrap();
    assert!(text.len() < 65_536, "{}", text.len());
    assert!(text.contains("… and 350 more\n"), "what is left out is counted");
}

#[tokio::test]
async fn junit_has_a_test_case_for_every_unit() {
    const READ: &str = "import json, sys, xml.etree.ElementTree as tree
root = tree.fromstring(sys.stdin.buffer.read())
case = lambda c: {**c.attrib, 'children': [{'tag': e.tag, 'text': e.text, **e.attrib} for e in c]}
json.dump({'tag': root.tag, 'suites': [{**s.attrib, 'cases': [case(c) for c in s.iter('testcase')]} for s in root]}, sys.stdout)";
    let trials = trials(9, &["judge"]);
    let run = Run::new(&trials, hostile).await;
    let found = read_by(".peers/py2/bin/python", &["-c", READ], &run.export(Format::JUnit).await);
    assert_eq!(found["tag"], "testsuites");
    let suite = &found["suites"][0];
    assert_eq!(
        (&suite["name"], &suite["tests"], &suite["failures"], &suite["errors"]),
        (&json!("a-benchmark"), &json!("9"), &json!("6"), &json!("2"))
    );
    let cases = suite["cases"].as_array().unwrap();
    assert_eq!((cases.len(), &cases[0]["children"], &cases[0]["time"]), (9, &json!([]), &json!("0.012")));
    for (case, number) in cases.iter().zip(1..) {
        assert_eq!(case["name"], shown(attack(number)));
        assert_eq!(case["classname"], shown(attack(number + 1)));
        let answer = format!("answer: {}\n[U+0008][U+FFFF] ]]> & <b>", attack(number));
        let answer = answer.replace('\u{202e}', "[U+202E]").replace('\u{200b}', "[U+200B]");
        let (tag, kind) = match number {
            1 => continue,
            8 => ("error", "invalid"),
            9 => ("error", "indeterminate"),
            _ => ("failure", "content"),
        };
        let child = &case["children"][0];
        assert_eq!((&child["tag"], &child["type"], &child["text"]), (&json!(tag), &json!(kind), &json!(answer)));
        assert!(child["message"].as_str().unwrap().starts_with(&shown(attack(number + 2))), "{child}");
    }
}

/// A unit of a scenario with a turn that failed.
fn of_scenario(trial: &Trial, place: usize) -> UnitResult {
    let mut unit = unit_result(trial, &trial.units[place].id, Verdict::Failed);
    let field = json!({"name": "city", "check": "exact_match", "passed": false, "score": 0.0, "weight": 1.0,
        "extracted": "Rome", "truth": "Paris", "reason": "found \"Rome\""});
    unit.scenario = serde_json::from_value(json!({
        "end": "completed",
        "turns": [
            {"turn": "ask", "prompt": "?", "messages": 1, "passed": false,
             "template": {"passed": false, "score": 0.0, "fields": [field]},
             "assertions": [
                {"assertion": "called look", "passed": false, "reason": "no call"},
                {"assertion": "path efficiency", "passed": true, "path_efficiency": 0.5}]},
            {"turn": "doubt", "prompt": "?", "messages": 0,
             "assertions": [{"assertion": "path efficiency", "passed": true, "path_efficiency": 1.0}]},
        ],
        "outcome": [{"name": "firm", "passed": false, "reason": "turn `ask` failed"}],
    }))
    .unwrap();
    unit
}

#[tokio::test]
async fn turns_and_criteria_of_a_scenario_are_in_reports() {
    let run = Run::new(&trials(1, &["judge"]), of_scenario).await;
    let text = String::from_utf8(run.export(Format::JUnit).await).unwrap();
    for line in [
        "turn ask: field city: found &quot;Rome&quot;",
        "turn ask: assertion called look: no call",
        "criterion firm: turn `ask` failed",
    ] {
        assert!(text.contains(line), "{line}\n{text}");
    }
    let (store, id) = run.parts();
    let summary = wharf_verify::report::summarize(store, id).await.unwrap();
    assert_eq!(summary.models[0].statistics.path_efficiency, Some(0.75));
}

#[tokio::test]
async fn numbers_of_tokens_that_no_provider_can_mean_do_not_overflow() {
    let run = Run::new(&trials(2, &["judge"]), |trial, place| {
        let mut unit = unit_result(trial, &trial.units[place].id, Verdict::Passed);
        unit.usage.input_tokens = u64::MAX;
        unit.usage.output_tokens = u64::MAX;
        unit.judge_usage.input_tokens = 7;
        unit.judge_usage.output_tokens = 7;
        unit
    })
    .await;
    for format in [Format::Html, Format::Json, Format::Markdown, Format::Csv] {
        assert!(!run.export(format).await.is_empty());
    }
    let (store, id) = run.parts();
    for log in wharf_verify::report::inspect_logs(store, id).await.unwrap() {
        log.write(store, id, &mut Vec::new()).await.unwrap();
    }
}

#[tokio::test]
async fn junit_names_replicates_and_judges() {
    let mut trials = trials(1, &["judge-a", "judge-b"]);
    trials[0].replicate = 2;
    let settings = json!({"judges": [{"label": "judge-a"}, {"label": "judge-b"}]});
    let passed = |trial: &Trial, place: usize| unit_result(trial, &trial.units[place].id, Verdict::Passed);
    let run = Run::with_settings(settings, &trials, passed).await;
    let text = String::from_utf8(run.export(Format::JUnit).await).unwrap();
    for name in ["question-1 #2 [judge-a]", "question-1 #2 [judge-b]"] {
        assert!(text.contains(&format!("classname=\"model-a\" name=\"{name}\"")), "{text}");
    }
}
