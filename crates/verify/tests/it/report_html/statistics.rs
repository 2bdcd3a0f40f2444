//! The statistics in a report.

use serde_json::{Value, json};
use wharf_verify::report::HtmlWriter;
use wharf_verify::{Failure, FailureCategory, TrialId, UnitId, UnitResult, Verdict};

use super::parts::overview;
use super::sample::Sample;

const SAMPLE: Sample = Sample { questions: 2, models: 1, judges: 2, replicates: 3 };

/// Returns the overview of a report over the sample, with other verdicts in the order of the plan.
fn overview_of(verdicts: &[Verdict]) -> Value {
    let mut writer = HtmlWriter::new(Vec::new(), SAMPLE.input()).unwrap();
    for (place, (mut unit, verdict)) in SAMPLE.all_units().into_iter().zip(verdicts).enumerate() {
        unit.verdict = *verdict;
        unit.failure = (*verdict == Verdict::Failed).then(|| failure(FailureCategory::Content));
        unit.millis = 100 * (place as u64 + 1);
        let trial = u32::try_from(place / 2).unwrap();
        unit.usage.cost_usd = (trial > 0).then(|| 0.01 * f64::from(trial));
        unit.assertions.iter_mut().for_each(|assertion| assertion.path_efficiency = None);
        unit.assertions[1].path_efficiency = (trial < 2).then(|| 1.0 / f64::from(trial + 1));
        writer.add(&unit).unwrap();
    }
    overview(&String::from_utf8(writer.finish().unwrap()).unwrap())
}

fn failure(category: FailureCategory) -> Failure {
    Failure { category, group: category.group(), stage: String::new(), reason: String::new() }
}

const P: Verdict = Verdict::Passed;
const F: Verdict = Verdict::Failed;
const I: Verdict = Verdict::Invalid;

// Two judges for each of three attempts at two questions: a, b, a, b, a, b.
const VERDICTS: [Verdict; 12] = [P, P, P, F, F, F, P, P, P, P, P, I];

#[test]
fn attempts_are_counted_for_each_judge() {
    let found = overview_of(&VERDICTS);
    let model = &found["results"][0];
    assert_eq!(
        (model["passed"].as_u64(), model["failed"].as_u64(), model["invalid"].as_u64()),
        (Some(8), Some(3), Some(1))
    );
    // First question: 2 of 3 with judge a, 1 of 3 with judge b. Second one: 3 of 3, and 2 of 2 (too few for k = 3).
    assert_eq!(
        model["repeated"],
        json!({"k": 3, "questions": 3, "pass_at_k": 1.0, "pass_all_k": 1.0 / 3.0, "agreement": 2.0 / 3.0})
    );
    let flaky = found["flaky"].as_array().unwrap();
    let row = |flaky: &Value| (flaky["judge"].clone(), flaky["passed"].clone(), flaky["scored"].clone());
    assert_eq!(
        flaky.iter().map(row).collect::<Vec<_>>(),
        [(json!("judge-a"), json!(2), json!(3)), (json!("judge-b"), json!(1), json!(3)),]
    );
}

#[test]
fn agreement_counts_the_answers_that_all_judges_scored() {
    let found = overview_of(&VERDICTS);
    let agreement = &found["agreement"];
    assert_eq!((agreement["trials"].as_u64(), agreement["unanimous"].as_f64()), (Some(5), Some(0.8)));
    assert_eq!(agreement["pairs"][0]["judges"], json!(["judge-a", "judge-b"]));
    // Observed 4/5; by chance 0.7² + 0.3² = 0.58.
    assert!((agreement["fleiss_kappa"].as_f64().unwrap() - 0.22 / 0.42).abs() < 1e-9);
}

#[test]
fn tools_count_once_for_each_answer_and_times_for_each_unit() {
    let found = overview_of(&VERDICTS);
    let model = &found["results"][0];
    let units = SAMPLE.all_units();
    let results = |unit: &UnitResult| unit.trace.iter().filter(|message| message.tool_result.is_some()).count();
    let expected: usize = units.iter().step_by(2).map(results).sum();
    assert_eq!(model["tools"]["all"], expected);
    assert_eq!(model["trials"], 6);
    assert_eq!(model["units"], 12);
    assert!((model["p95_millis"].as_f64().unwrap() - 1_145.0).abs() < 1e-9);
}

#[test]
fn costs_and_path_efficiency_count_once_for_each_answer() {
    let found = overview_of(&VERDICTS);
    let model = &found["results"][0];
    // One answer has no price; the others cost 1 to 5 cents.
    let close = |found: &Value, expected: f64| assert!((found.as_f64().unwrap() - expected).abs() < 1e-9, "{found}");
    close(&model["answer_cost"]["p50"], 0.03);
    close(&model["answer_cost"]["p95"], 0.048);
    close(&model["path_efficiency"], 0.75);
}

#[test]
fn failures_are_grouped_and_the_rest_is_counted() {
    let found = overview_of(&VERDICTS);
    let model = &found["results"][0];
    assert_eq!(model["failures"], json!([{"category": "content", "group": "content", "units": 3}]));
    assert_eq!(model["uncategorized"], 1);
    let keyword = &found["keywords"][0];
    assert_eq!(
        (keyword["keyword"].as_str(), keyword["passed"].as_u64(), keyword["scored"].as_u64()),
        (Some("berths"), Some(3), Some(6))
    );
    assert!(keyword["interval"]["low"].as_f64().unwrap() > 0.18);
}

#[test]
fn one_attempt_and_one_judge_have_neither_repetition_nor_agreement() {
    let sample = Sample { questions: 3, models: 1, judges: 1, replicates: 1 };
    let mut writer = HtmlWriter::new(Vec::new(), sample.input()).unwrap();
    for (place, mut unit) in sample.all_units().into_iter().enumerate() {
        unit.trial = TrialId(format!("t{place}").into());
        unit.unit = UnitId(format!("u{place}").into());
        writer.add(&unit).unwrap();
    }
    let found = overview(&String::from_utf8(writer.finish().unwrap()).unwrap());
    assert_eq!(found["results"][0]["repeated"], Value::Null);
    assert_eq!(found["agreement"], Value::Null);
    assert_eq!(found["flaky"], json!([]));
}
