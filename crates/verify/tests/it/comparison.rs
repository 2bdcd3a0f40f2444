//! Comparison of two runs.

use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use tempfile::TempDir;
use wharf_verify::comparison::{
    ComparedRun, Comparison, ComparisonError, ComparisonOutcome, Difference, ModelComparison, compare,
};
use wharf_verify::store::{Claim, NewRun, SqliteStore};
use wharf_verify::{RunId, RunStore, Trial, TrialId, Unit, UnitId, UnitResult, Verdict, digest};

use crate::store_kit::unit_result;

const P: Verdict = Verdict::Passed;
const F: Verdict = Verdict::Failed;
const I: Verdict = Verdict::Invalid;

struct Store {
    _folder: TempDir,
    store: SqliteStore,
}

/// A run to be stored: for each model and question, the verdicts of its replicates.
struct Recorded<'a> {
    id: &'a str,
    benchmark: &'a str,
    settings: Value,
    models: &'a [(&'a str, &'a [&'a [Verdict]])],
    tool_set: &'a str,
    /// Units that stay without a result.
    unfinished: usize,
}

impl<'a> Recorded<'a> {
    fn new(id: &'a str, models: &'a [(&'a str, &'a [&'a [Verdict]])]) -> Self {
        Self { id, benchmark: "ports", settings: settings(), models, tool_set: "t", unfinished: 0 }
    }

    fn trials(&self) -> Vec<Trial> {
        let mut trials = Vec::new();
        for (model, questions) in self.models {
            for (number, replicates) in questions.iter().enumerate() {
                for replicate in 1..=replicates.len() {
                    let key = digest(&(self.id, model, number, replicate));
                    trials.push(Trial {
                        id: TrialId(key.clone().into()),
                        question: format!("q{}", number + 1).parse().unwrap(),
                        model: (*model).to_owned(),
                        replicate: u32::try_from(replicate).unwrap(),
                        units: vec![Unit { id: UnitId(key.into()), judge: Some("judge".to_owned()) }],
                    });
                }
            }
        }
        trials
    }

    fn verdict(&self, trial: &Trial) -> Verdict {
        let (_, questions) = self.models.iter().find(|(model, _)| *model == trial.model).unwrap();
        let number: usize = trial.question.as_str()[1..].parse().unwrap();
        questions[number - 1][trial.replicate as usize - 1]
    }
}

fn settings() -> Value {
    let question = |id: &str| json!({"id": id, "question": "?", "digest": format!("digest of {id}")});
    json!({
        "benchmark": {"questions": [question("q1"), question("q2"), question("q3")]},
        "judges": [{"label": "judge", "settings": {"name": "j"}}],
        "evaluation": {"mode": "template_only"},
        "judge_prompt_version": 1,
    })
}

impl Store {
    async fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let store = SqliteStore::open(&folder.path().join("runs.db")).await.unwrap();
        Self { _folder: folder, store }
    }

    async fn add(&self, run: &Recorded<'_>, change: impl Fn(&mut UnitResult)) {
        let id = RunId(run.id.into());
        let (benchmark, settings) = (run.benchmark.to_owned(), run.settings.clone());
        self.store.create_run(&NewRun { id: id.clone(), benchmark, settings }).await.unwrap();
        let trials = run.trials();
        self.store.set_plan(&id, Arc::new(trials)).await.unwrap();
        let claim = Claim { run: &id, worker: "w", limit: 1_000, lease: Duration::from_secs(600) };
        let claimed = self.store.claim(&claim).await.unwrap();
        let finished = claimed.len() - run.unfinished;
        for claimed in &claimed[..finished] {
            let mut result = unit_result(&claimed.trial, &claimed.trial.units[0].id, run.verdict(&claimed.trial));
            run.tool_set.clone_into(&mut result.tool_set);
            change(&mut result);
            self.store.finish_unit(&claimed.lease, &result).await.unwrap().await.unwrap();
            self.store.release(&claimed.lease).await.unwrap();
        }
    }

    async fn compare(&self, models: [Option<&str>; 2]) -> Result<Comparison, ComparisonError> {
        let (a, b) = (RunId("a".into()), RunId("b".into()));
        let side = |run, model| ComparedRun { store: &self.store, run, model };
        compare(side(&a, models[0]), side(&b, models[1])).await
    }
}

/// Compares two runs of one model.
async fn compared(a: &[&[Verdict]], b: &[&[Verdict]]) -> ModelComparison {
    let store = Store::new().await;
    store.add(&Recorded::new("a", &[("m", a)]), |_| ()).await;
    store.add(&Recorded::new("b", &[("m", b)]), |_| ()).await;
    let mut comparison = store.compare([None, None]).await.unwrap();
    assert_eq!(comparison.differences, []);
    comparison.models.remove(0)
}

#[tokio::test]
async fn a_model_that_fails_many_more_questions_is_a_regression() {
    let good: Vec<&[Verdict]> = vec![&[P]; 10];
    let mut bad: Vec<&[Verdict]> = vec![&[F]; 7];
    bad.extend([&[P][..]; 3]);
    let found = compared(&good, &bad).await;
    assert_eq!((found.questions, found.regressed, found.improved), (10, 7, 0));
    assert!((found.p - 0.015_625).abs() < 1e-9, "{}", found.p);
    assert_eq!((found.accuracy_a, found.outcome), (Some(1.0), ComparisonOutcome::Regression));
    let difference = found.difference.unwrap();
    assert!((difference.value + 0.7).abs() < 1e-9 && difference.high < 0.0, "{difference:?}");
    let changed: Vec<&str> = found.changes.iter().map(|change| change.question.as_str()).collect();
    assert_eq!(changed, ["q1", "q2", "q3", "q4", "q5", "q6", "q7"]);
    let improved = compared(&bad, &good).await;
    assert_eq!((improved.outcome, improved.improved), (ComparisonOutcome::Improvement, 7));
}

#[tokio::test]
async fn five_changes_are_too_few_for_significance() {
    let found = compared(&[&[P], &[P], &[P], &[P], &[P], &[F]], &[&[F], &[F], &[F], &[F], &[F], &[F]]).await;
    assert_eq!((found.regressed, found.outcome), (5, ComparisonOutcome::NotSignificant));
    let mixed = compared(&[&[P], &[F], &[P]], &[&[F], &[P], &[P]]).await;
    let order: Vec<&str> = mixed.changes.iter().map(|change| change.question.as_str()).collect();
    assert_eq!(order, ["q1", "q2"], "regressed ones first");
    assert!((mixed.p - 1.0).abs() < 1e-9);
}

#[tokio::test]
async fn replicates_of_a_question_are_not_independent_evidence() {
    let found = compared(&[&[P; 10], &[P; 10], &[P; 10]], &[&[F; 10], &[F; 10], &[F; 10]]).await;
    assert_eq!((found.questions, found.regressed), (3, 3));
    assert_eq!(found.outcome, ComparisonOutcome::NotSignificant, "three questions, however often they were asked");
    let some = compared(&[&[P, P], &[P, P]], &[&[P, F, F, F], &[P, P]]).await;
    assert_eq!((some.accuracy_a, some.accuracy_b), (Some(1.0), Some(0.625)), "every question counts once");
}

#[tokio::test]
async fn units_that_are_not_scored_do_not_count() {
    let found = compared(&[&[P], &[P, I], &[P]], &[&[I], &[F, P], &[P]]).await;
    assert_eq!((found.questions, found.regressed), (2, 1));
    assert_eq!(found.unscored.iter().map(ToString::to_string).collect::<Vec<_>>(), ["q1"]);
    let nothing = compared(&[&[P]], &[&[I]]).await;
    assert_eq!((nothing.outcome, nothing.difference), (ComparisonOutcome::NothingCompared, None));
}

#[tokio::test]
async fn costs_and_times_have_intervals_too() {
    let store = Store::new().await;
    let verdicts: &[&[Verdict]] = &[&[P], &[P], &[P]];
    store.add(&Recorded::new("a", &[("m", verdicts)]), |_| ()).await;
    let change = |unit: &mut UnitResult| {
        unit.millis += 88;
        unit.usage.cost_usd = unit.usage.cost_usd.map(|cost| cost * 2.0);
    };
    store.add(&Recorded::new("b", &[("m", verdicts)]), change).await;
    let found = store.compare([None, None]).await.unwrap();
    let model = &found.models[0];
    assert!((model.cost.unwrap().value - 0.01).abs() < 1e-9);
    assert!((model.millis.unwrap().low - 88.0).abs() < 1e-9);
}

/// Returns the differences between an ordinary run and a changed one.
async fn differences(change: impl Fn(&mut Recorded<'_>)) -> Vec<Difference> {
    let store = Store::new().await;
    let models: &[(&str, &[&[Verdict]])] = &[("m", &[&[P], &[P], &[F]])];
    store.add(&Recorded::new("a", models), |_| ()).await;
    let mut other = Recorded::new("b", models);
    change(&mut other);
    store.add(&other, |_| ()).await;
    store.compare([None, None]).await.unwrap().differences
}

#[tokio::test]
async fn runs_that_measure_something_else_are_different() {
    assert_eq!(differences(|_| ()).await, []);
    let texts = |found: Vec<Difference>| found.iter().map(ToString::to_string).collect::<Vec<_>>();
    let benchmark = differences(|run| run.benchmark = "other").await;
    assert_eq!(texts(benchmark), ["the benchmarks are `ports` and `other`"]);
    let checks = differences(|run| run.settings["benchmark"]["questions"][1]["digest"] = json!("changed")).await;
    assert_eq!(texts(checks), ["the text, the template, the assertions or the traits of `q2` differ"]);
    let judges = differences(|run| run.settings["judges"] = json!([{"label": "strict"}])).await;
    assert_eq!(texts(judges), ["the judges are `judge` and `strict`"]);
    let judge_settings = differences(|run| run.settings["judges"][0]["settings"]["name"] = json!("k")).await;
    assert_eq!(texts(judge_settings), ["the settings of the judges differ"]);
    for key in ["evaluation", "embedding", "judge_prompt_version"] {
        assert_eq!(differences(|run| run.settings[key] = json!(2)).await, [Difference::Evaluation], "{key}");
    }
    let tools = differences(|run| run.tool_set = "u").await;
    assert_eq!(texts(tools), ["the models were offered other tools for `q1`, `q2`, `q3`"]);
    let fewer = differences(|run| run.models = &[("m", &[&[P], &[P]])]).await;
    assert_eq!(texts(fewer), ["the runs have other questions: only the first has `q3`"]);
    let unfinished = differences(|run| run.unfinished = 1).await;
    assert!(texts(unfinished).contains(&"run `b` is unfinished: 1 units have no result".to_owned()));
}

#[tokio::test]
async fn models_are_paired_by_label_or_by_choice() {
    let store = Store::new().await;
    let (good, bad): (&[&[Verdict]], &[&[Verdict]]) = (&[&[P], &[P]], &[&[F], &[F]]);
    store.add(&Recorded::new("a", &[("x", good), ("y", bad)]), |_| ()).await;
    store.add(&Recorded::new("b", &[("y", good), ("z", bad)]), |_| ()).await;
    let labels = |found: &Comparison| {
        found.models.iter().map(|model| format!("{} {}", model.model_a, model.model_b)).collect::<Vec<_>>()
    };
    assert_eq!(labels(&store.compare([None, None]).await.unwrap()), ["y y"]);
    assert_eq!(labels(&store.compare([Some("x"), Some("z")]).await.unwrap()), ["x z"]);
    let unknown = store.compare([Some("z"), None]).await.unwrap_err();
    assert_eq!(unknown.to_string(), "run `a` has no results of model `z`");
    let none = store.compare([Some("x"), None]).await.unwrap_err();
    assert_eq!(none.to_string(), "the runs have no model in common");
    let (a, missing) = (RunId("a".into()), RunId("c".into()));
    let side = |run| ComparedRun { store: &store.store, run, model: None };
    assert_eq!(compare(side(&a), side(&missing)).await.unwrap_err().to_string(), "unknown run `c`");
}
