//! Judges against the labels of people: right ones, liars, and judges that return garbage.

use std::sync::Arc;

use serde_json::{Value, json};
use tokio::sync::watch;
use wharf_testkit::soon;
use wharf_verify::judge_check::{Confusion, FieldScore, JudgeCheck, JudgeScore, Labels};
use wharf_verify::store::{RunStore, SqliteStore};
use wharf_verify::worker::{Stop, WorkerEnd};
use wharf_verify::{Benchmark, ToolSets, Worker, WorkerOptions};

use crate::pipeline_kit::*;
use crate::store_kit::{planned, run_id};

fn questions() -> Benchmark {
    let mut other = city_question();
    other["id"] = json!("same-text");
    let assertion_only = json!({"id": "calls", "question": "?", "trace": [{"max_calls": 1}]});
    benchmark(json!({"name": "b", "questions": [city_question(), other, assertion_only]}))
}

fn labels() -> Value {
    json!([
        {"question": "capital", "answer": "It is Paris.", "label": "passed", "fields": {"city": format!("paris {TRUTH} ")}},
        {"question": "capital", "answer": "It is Rome.", "label": "failed", "fields": {"city": "Rome"}},
        {"question": "same-text", "answer": "Perhaps Paris?", "label": "failed"},
        {"question": "capital", "answer": "I return garbage.", "label": "passed"},
    ])
}

/// Scores judges in a store.
async fn scores(judges: &[(&str, Arc<Fake>)]) -> Vec<JudgeScore> {
    let check = JudgeCheck::new(&questions(), Labels::parse(&labels().to_string(), false, &questions()).unwrap());
    let mut setup = Setup::new(city_question(), &Fake::answering("never asked"), &judges[0].1);
    setup.benchmark = check.benchmark().clone();
    setup.models = check.models().to_vec();
    setup.judges = judges.iter().map(|(label, judge)| judge_model(label, judge)).collect();
    let mut plan = setup.plan(&ToolSets::default()).unwrap();
    check.limit(&mut plan);
    assert_eq!((plan.len(), check.labels()), (4, 4));
    let folder = tempfile::tempdir().unwrap();
    let store = Arc::new(SqliteStore::open(&folder.path().join("runs.db")).await.unwrap());
    let run = run_id("check");
    planned(&*store, &run, &plan.trials().collect::<Vec<_>>()).await;
    let runner = Arc::new(setup.runner(ToolSets::default()));
    let (_stop, stopped) = watch::channel(Stop::No);
    let options = WorkerOptions::new(run.clone(), "w");
    let worker = Worker::new(Arc::clone(&store) as Arc<dyn RunStore>, runner, options, stopped);
    assert_eq!(soon(worker.run()).await.unwrap().end, WorkerEnd::Finished);
    check.score(&*store, &run).await.unwrap()
}

#[tokio::test]
async fn each_judge_is_scored_against_the_labels() {
    let honest = judge(|seen, _| {
        let text = seen.last_user();
        Ok(says(&match () {
            () if text.contains("Paris") => right().to_string(),
            () if text.contains("Rome") => wrong().to_string(),
            () => "no idea".to_owned(),
        }))
    });
    let lying = judge_says(right());
    let scores = scores(&[("honest", honest), ("lying", lying)]).await;
    let [honest, lying] = &scores[..] else { panic!("{scores:?}") };
    assert_eq!((honest.judge.as_str(), honest.scored, honest.unscored), ("honest", 3, 1));
    assert!((honest.accuracy.unwrap() - 2.0 / 3.0).abs() < 1e-9);
    let expected = Confusion { rightly_passed: 1, wrongly_passed: 1, rightly_failed: 1, wrongly_failed: 0 };
    assert_eq!((honest.confusion, honest.fields), (expected, Some(FieldScore { compared: 2, same: 2 })));
    assert!((honest.kappa.unwrap() - 0.4).abs() < 1e-9, "{:?}", honest.kappa);
    let expected = Confusion { rightly_passed: 2, wrongly_passed: 2, rightly_failed: 0, wrongly_failed: 0 };
    assert_eq!((lying.scored, lying.accuracy, lying.kappa, lying.confusion), (4, Some(0.5), Some(0.0), expected));
    assert_eq!(lying.fields, Some(FieldScore { compared: 2, same: 1 }));
    assert!(honest.interval.is_some_and(|interval| interval.low < 0.66 && interval.high > 0.67));
}

#[test]
fn a_file_has_one_list_or_one_label_per_line() {
    let lines: Vec<String> = labels().as_array().unwrap().iter().map(Value::to_string).collect();
    let parse = |text: &str, has_lines| Labels::parse(text, has_lines, &questions());
    assert_eq!(parse(&format!("{}\n\n", lines.join("\n")), true), parse(&labels().to_string(), false));
    let yaml = "- question: capital\n  answer: It is Paris.\n  label: passed\n";
    assert!(parse(yaml, false).is_ok());
}

#[test]
fn problems_of_a_file_name_the_label_or_the_line() {
    let label = |changes: Value| {
        let mut label = json!({"question": "capital", "answer": "a", "label": "passed"});
        label.as_object_mut().unwrap().extend(changes.as_object().unwrap().clone());
        json!([{"question": "capital", "answer": "a", "label": "failed"}, label]).to_string()
    };
    let cases = [
        ("[]".to_owned(), false),
        (label(json!({"question": "capitol"})), false),
        (label(json!({"question": "calls"})), false),
        (label(json!({"fields": {"town": "x"}})), false),
        (label(json!({"fields": {"city": 7}})), false),
        ("- question: capital\n  answer: a\n  label: maybe\n".to_owned(), false),
        ("{\"question\": \"capital\"}\n".to_owned(), true),
        ("\n{\"question\": \"capital\", \"answer\": \"a\", \"label\": \"passed\", \"x\": 1}\n".to_owned(), true),
    ];
    let problem = |(text, has_lines): (String, bool)| {
        let error = Labels::parse(&text, has_lines, &questions()).unwrap_err();
        format!("{:?} {}{}", error.line, error.message, error.hint.map(|hint| format!(" ({hint})")).unwrap_or_default())
    };
    insta::assert_snapshot!(cases.map(problem).join("\n"), @r#"
    None expected 1 to 100000 labels, found 0
    None label 2: unknown question "capitol" (did you mean `capital`?)
    None label 2: question `calls` has no template that a judge fills
    None label 2: unknown field "town"
    None label 2: `city`: expected a string, found the number 7
    Some(3) unknown variant `maybe`, expected `passed` or `failed`
    Some(1) missing field `answer`
    Some(2) unknown field `x`, expected one of `question`, `answer`, `label`, `fields`
    "#);
}
