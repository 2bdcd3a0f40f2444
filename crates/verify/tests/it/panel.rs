//! Panels: the verdict of several judges, and how far they agree.

use serde_json::{Value, json};
use wharf_verify::Verdict::{self, Failed, Indeterminate, Invalid, Passed};
use wharf_verify::report::{Format, summarize};

use crate::report::{Run, number};
use crate::store_kit::{trials, unit_result};

/// Runs one trial for each row, with a judge for each verdict of the row.
async fn run(rows: Vec<Vec<Verdict>>) -> Run {
    run_with(json!({}), rows).await
}

async fn run_with(settings: Value, rows: Vec<Vec<Verdict>>) -> Run {
    let judges = ["a", "b", "c"];
    let trials = trials(u32::try_from(rows.len()).unwrap(), &judges[..rows[0].len()]);
    Run::with_settings(settings, &trials, |trial, place| {
        let verdict = rows[number(trial) as usize - 1][place];
        unit_result(trial, &trial.units[place].id, verdict)
    })
    .await
}

async fn exported(run: &Run) -> Value {
    serde_json::from_slice(&run.export(Format::Json).await).unwrap()
}

#[tokio::test]
async fn a_majority_passes_an_answer_and_judges_without_a_verdict_do_not_vote() {
    let rows = vec![
        vec![Passed, Passed, Failed],
        vec![Passed, Failed, Failed],
        vec![Passed, Failed, Invalid],
        vec![Passed, Invalid, Indeterminate],
        vec![Indeterminate, Invalid, Invalid],
        vec![Passed, Passed, Passed],
    ];
    let run = run(rows).await;
    let report = exported(&run).await;
    assert_eq!(report["panel"]["rule"], "majority");
    let verdicts: Vec<String> = report["panel"]["trials"]
        .as_array()
        .unwrap()
        .iter()
        .map(|trial| {
            format!(
                "{} {} {}/{}/{}",
                trial["question"], trial["verdict"], trial["passed"], trial["failed"], trial["unscored"]
            )
        })
        .collect();
    insta::assert_snapshot!(verdicts.join("\n").replace('"', ""), @"
    question-1 passed 2/1/0
    question-2 failed 1/2/0
    question-3 failed 1/1/1
    question-4 passed 1/0/2
    question-5 indeterminate 0/0/3
    question-6 passed 3/0/0
    ");
    let summary = summarize(&run.store, &run.id).await.unwrap();
    let panel = summary.models[0].panel.as_ref().unwrap();
    assert_eq!((panel.passed, panel.failed, panel.unscored, panel.accuracy), (3, 2, 1, Some(0.6)));
    let agreement = summary.agreement.unwrap();
    assert_eq!((agreement.trials, agreement.unanimous), (3, Some(1.0 / 3.0)), "answers that all three scored");
    let pairs: Vec<_> = agreement.pairs.iter().map(|pair| (pair.judges.join("-"), pair.trials, pair.agreed)).collect();
    let expected = [("a-b", 4, Some(0.5)), ("a-c", 3, Some(1.0 / 3.0)), ("b-c", 3, Some(2.0 / 3.0))];
    assert_eq!(pairs, expected.map(|(judges, trials, agreed)| (judges.to_owned(), trials, agreed)));
}

#[tokio::test]
async fn kappa_measures_agreement_beyond_chance() {
    // Both pass 20, only the first one 5, only the second one 10, both fail 15: Cohen's kappa is 0.4.
    let mut rows = Vec::new();
    for (count, row) in [(20, [Passed, Passed]), (5, [Passed, Failed]), (10, [Failed, Passed]), (15, [Failed, Failed])]
    {
        rows.extend(std::iter::repeat_n(row.to_vec(), count));
    }
    let found = run(rows).await;
    let agreement = summarize(&found.store, &found.id).await.unwrap().agreement.unwrap();
    assert!((agreement.pairs[0].cohen_kappa.unwrap() - 0.4).abs() < 1e-9);
    assert_eq!((agreement.pairs[0].agreed, agreement.trials), (Some(0.7), 50));
    assert!(agreement.fleiss_kappa.is_some_and(|kappa| kappa > 0.3 && kappa < 0.4), "{agreement:?}");
    // Chance agrees as well with judges that pass everything.
    let found = run(vec![vec![Passed, Passed]; 3]).await;
    let agreement = summarize(&found.store, &found.id).await.unwrap().agreement.unwrap();
    assert_eq!((agreement.pairs[0].cohen_kappa, agreement.fleiss_kappa, agreement.unanimous), (None, None, Some(1.0)));
}

#[tokio::test]
async fn one_judge_is_no_panel() {
    let run = run(vec![vec![Passed], vec![Failed]]).await;
    let summary = summarize(&run.store, &run.id).await.unwrap();
    assert_eq!((summary.agreement, &summary.models[0].panel), (None, &None));
    let report = exported(&run).await;
    assert_eq!((report.get("panel"), report["models"][0].get("panel")), (None, None));
}

#[tokio::test]
async fn unanimity_is_a_rule_of_the_run() {
    let rows = vec![vec![Passed, Passed, Failed], vec![Passed, Passed, Invalid]];
    let run = run_with(json!({"config": {"panel": "unanimity"}}), rows).await;
    let summary = summarize(&run.store, &run.id).await.unwrap();
    let panel = summary.models[0].panel.as_ref().unwrap();
    assert_eq!((panel.passed, panel.failed), (1, 1));
}
