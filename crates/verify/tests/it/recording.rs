//! Recordings and replays.

use std::os::unix::fs::PermissionsExt as _;
use std::path::PathBuf;
use std::sync::Arc;

use tempfile::TempDir;
use tokio::sync::watch;
use wharf_protocol::{Redactor, Secret};
use wharf_verify::recording::{Recording, RecordingError, result_digest, write_recording};
use wharf_verify::store::{Claim, ClaimedTrial, ResultPages, RunStore, SqliteStore};
use wharf_verify::worker::{Stop, WorkerEnd, WorkerReport};
use wharf_verify::{Budget, RunId, Trial, UnitId, Verdict, Worker, WorkerOptions};

use crate::runner::{Counting, PaidRunner};
use crate::store_kit::{planned, run_id, trials, unit_result};

struct Fixture {
    folder: TempDir,
    store: Arc<SqliteStore>,
    provider: Arc<Counting>,
}

impl Fixture {
    async fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let store = Arc::new(SqliteStore::open(&folder.path().join("runs.db")).await.unwrap());
        Self { folder, store, provider: Arc::default() }
    }

    async fn run(&self, run: &RunId, plan: &[Trial], budget: Budget) -> WorkerReport {
        planned(&*self.store, run, plan).await;
        self.work(WorkerOptions { budget, in_flight: 1, ..WorkerOptions::new(run.clone(), "live") }).await
    }

    async fn replay(&self, run: &RunId, plan: &[Trial], recording: Recording) -> WorkerReport {
        planned(&*self.store, run, plan).await;
        let replay = Some(Arc::new(recording));
        self.work(WorkerOptions { replay, ..WorkerOptions::new(run.clone(), "replay") }).await
    }

    async fn work(&self, options: WorkerOptions) -> WorkerReport {
        let (_stop, stopped) = watch::channel(Stop::No);
        let runner = PaidRunner::new(self.provider.clone());
        let store = Arc::clone(&self.store) as Arc<dyn RunStore>;
        Worker::new(store, runner, options, stopped).run().await.unwrap()
    }

    async fn record(&self, run: &RunId, redactor: &Redactor) -> (PathBuf, u64) {
        let path = self.folder.path().join("recordings/run.jsonl");
        let written = write_recording(&*self.store, run, &path, redactor).await.unwrap();
        (path, written)
    }

    async fn digests(&self, run: &RunId) -> Vec<String> {
        let results = self.store.results(run, None, 1000).await.unwrap();
        results.iter().map(|placed| result_digest(&placed.result, &Redactor::default())).collect()
    }
}

#[tokio::test]
async fn a_replay_pays_nothing_and_gives_the_same_results() {
    let fixture = Fixture::new().await;
    let plan = trials(40, &["j", "k"]);
    assert_eq!(fixture.run(&run_id("live"), &plan, Budget::default()).await.end, WorkerEnd::Finished);
    let paid = fixture.provider.total();
    let (path, written) = fixture.record(&run_id("live"), &Redactor::default()).await;
    assert_eq!(written, 40);
    assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
    let recording = Recording::open(&path).await.unwrap();
    assert_eq!((recording.len(), recording.header().benchmark.as_str()), (40, "a-benchmark"));
    let unit = recording.trial(&plan[3]).await.unwrap().unwrap().units[1].clone();
    let report = fixture.replay(&run_id("replay"), &plan, recording).await;
    assert_eq!((report.end, report.progress.passed), (WorkerEnd::Finished, 80));
    assert_eq!(fixture.provider.total(), paid);
    let digests = fixture.digests(&run_id("replay")).await;
    assert_eq!(digests, fixture.digests(&run_id("live")).await);
    assert_eq!((unit.judge.as_deref(), unit.result), (Some("k"), digests[7].clone()));
    assert_eq!(report.progress.usage.total_tokens(), 0, "a replay records no steps");
}

#[tokio::test]
async fn an_interrupted_run_has_a_recording_of_what_is_finished() {
    let fixture = Fixture::new().await;
    let plan = trials(5, &["j"]);
    let budget = Budget { max_tokens: Some(1_200), ..Budget::default() };
    let report = fixture.run(&run_id("live"), &plan, budget).await;
    assert!(matches!(report.end, WorkerEnd::Budget(_)));
    let (path, written) = fixture.record(&run_id("live"), &Redactor::default()).await;
    assert_eq!((written, report.progress.done), (2, 2));
    let report = fixture.replay(&run_id("replay"), &plan, Recording::open(&path).await.unwrap()).await;
    assert_eq!((report.end, report.unfinished_count, report.progress.done), (WorkerEnd::Unfinished, 3, 2));
    let reason = &report.unfinished[0].reason;
    assert!(reason.ends_with("model `model-a`, replicate 1 is not in the recording"), "{reason}");
}

#[tokio::test]
async fn a_run_that_goes_on_while_it_is_recorded_loses_no_trial() {
    let fixture = Fixture::new().await;
    let (run, plan) = (run_id("live"), trials(300, &["j", "k"]));
    planned(&*fixture.store, &run, &plan).await;
    let claim = Claim { run: &run, worker: "a", limit: 300, lease: std::time::Duration::from_secs(600) };
    let claimed = fixture.store.claim(&claim).await.unwrap();
    let finish = async |index: usize, unit: usize| {
        let ClaimedTrial { lease, trial, .. } = &claimed[index];
        let result = unit_result(trial, &trial.units[unit].id, Verdict::Passed);
        fixture.store.finish_unit(lease, &result).await.unwrap().await.unwrap();
    };
    for index in 0..300 {
        finish(index, 0).await;
    }
    let mut pages = ResultPages::new(&*fixture.store, &run);
    let mut units: Vec<UnitId> = pages.next().await.unwrap().unwrap().iter().map(|of| of.unit.clone()).collect();
    for index in 0..300 {
        finish(index, 1).await;
    }
    while let Some(page) = pages.next().await.unwrap() {
        units.extend(page.iter().map(|of| of.unit.clone()));
    }
    let read = units.len();
    units.sort();
    units.dedup();
    assert_eq!(units.len(), read, "a result was read twice");
    assert!(claimed.iter().all(|claimed| units.contains(&claimed.trial.units[0].id)), "a result is missing");
    assert_eq!(fixture.record(&run, &Redactor::default()).await.1, 300);
}

#[tokio::test]
async fn a_changed_request_or_judge_is_not_answered_from_the_recording() {
    let fixture = Fixture::new().await;
    let plan = trials(1, &["j"]);
    fixture.run(&run_id("live"), &plan, Budget::default()).await;
    let (path, _) = fixture.record(&run_id("live"), &Redactor::default()).await;
    // The digest of a request changes if the request does.
    let text = std::fs::read_to_string(&path).unwrap();
    std::fs::write(&path, text.replace("question-1-1-second", "something-else")).unwrap();
    let report = fixture.replay(&run_id("replay"), &plan, Recording::open(&path).await.unwrap()).await;
    let reason = &report.unfinished[0].reason;
    assert!(reason.starts_with("a model request (question-1-1) is not in the recording; the question,"), "{reason}");
    std::fs::write(&path, text).unwrap();
    let other = trials(1, &["another"]);
    let report = fixture.replay(&run_id("other"), &other, Recording::open(&path).await.unwrap()).await;
    let reason = &report.unfinished[0].reason;
    assert!(reason.starts_with("the judge of this unit is not in the recording"), "{reason}");
}

#[tokio::test]
async fn a_replay_with_another_verdict_or_result_than_the_recorded_one_is_not_finished() {
    let fixture = Fixture::new().await;
    let plan = trials(1, &["j"]);
    fixture.run(&run_id("live"), &plan, Budget::default()).await;
    let (path, _) = fixture.record(&run_id("live"), &Redactor::default()).await;
    let text = std::fs::read_to_string(&path).unwrap();
    let recorded = fixture.digests(&run_id("live")).await.remove(0);
    let unit = plan[0].units[0].id.to_string();
    let version = format!("\"wharf\":\"{}\"", env!("CARGO_PKG_VERSION"));
    assert!(text.contains(&version) && text.contains(&format!("\"unit\":\"{unit}\"")), "{text}");
    let other = "0".repeat(64);
    let changed_result = text.replace(&recorded, &other);
    let changed_verdict = text.replace("\"verdict\":\"passed\"", "\"verdict\":\"failed\"");
    for (name, text, expected) in [
        ("same", text.clone(), None),
        ("result", changed_result.clone(), Some("the result of a unit differs from the recorded one")),
        ("verdict", changed_verdict, Some("the verdict of a unit differs from the recorded one")),
        // Another version may describe a result in other words, and another unit is evaluated in another way.
        ("version", changed_result.replace(&version, "\"wharf\":\"0.0.1\""), None),
        ("unit", changed_result.replace(&format!("\"unit\":\"{unit}\""), "\"unit\":\"another\""), None),
    ] {
        std::fs::write(&path, text).unwrap();
        let report = fixture.replay(&run_id(name), &plan, Recording::open(&path).await.unwrap()).await;
        let reasons: Vec<&str> = report.unfinished.iter().map(|trial| trial.reason.as_str()).collect();
        assert_eq!(reasons, Vec::from_iter(expected), "{name}");
    }
}

#[tokio::test]
async fn secrets_are_not_in_a_recording() {
    let fixture = Fixture::new().await;
    let plan = trials(1, &["j"]);
    fixture.run(&run_id("live"), &plan, Budget::default()).await;
    // The bodies of the runner repeat this text.
    let redactor = Redactor::new([Secret::new("question-1-1-second")]);
    let (path, _) = fixture.record(&run_id("live"), &redactor).await;
    let text = std::fs::read_to_string(&path).unwrap();
    assert_eq!(text.matches("question-1-1-second").count(), 1, "only the request that the test made up:\n{text}");
}

#[tokio::test]
async fn files_that_are_not_recordings_are_errors_with_a_line() {
    let folder = tempfile::tempdir().unwrap();
    let header = r#"{"format":"wharf-verify-recording","version":1,"benchmark":"b","settings":{}}"#;
    let trial = r#"{"question":"q","model":"m","replicate":1,"units":[],"steps":[]}"#;
    let newer = header.replace("\"version\":1", "\"version\":2");
    let cases = [
        (String::new(), 1, "the file is empty"),
        ("{\"kind\":\"cassette\"}\n".to_owned(), 1, "not a recording of a verification run"),
        (newer, 1, "written by a newer version of Wharf (format 2; this version supports 1)"),
        (format!("{header}\n{trial}\n{{\"question\":"), 3, "EOF while parsing a value at line 1 column 12"),
        (format!("{header}\n{trial}\n{trial}\n"), 3, "question `q`, model `m`, replicate 1 appears twice"),
    ];
    for (text, expected_line, expected) in cases {
        let path = folder.path().join("recording.jsonl");
        std::fs::write(&path, text).unwrap();
        match Recording::open(&path).await {
            Err(RecordingError::Invalid { line, reason, .. }) => {
                assert_eq!((line, reason.as_str()), (expected_line, expected));
            }
            other => panic!("{other:?}"),
        }
    }
    assert!(matches!(Recording::open(folder.path()).await, Err(RecordingError::Io { .. })));
}
