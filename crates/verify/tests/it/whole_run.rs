//! The pipeline over the real store: a worker runs a plan, a recording replays it, and a provider failure is run again.

use std::sync::Arc;

use serde_json::json;
use tokio::sync::watch;
use wharf_agent::ModelErrorKind;
use wharf_protocol::{Redactor, Role};
use wharf_testkit::{Script, soon};
use wharf_verify::recording::{Recording, write_recording};
use wharf_verify::store::{Rerun, RunStore, SqliteStore};
use wharf_verify::worker::{Stop, WorkerEnd, WorkerReport};
use wharf_verify::{RunId, Worker, WorkerOptions};

use crate::pipeline_kit::*;
use crate::store_kit::{planned, run_id};

async fn work(setup: &Setup, store: &Arc<SqliteStore>, run: &RunId, replay: Option<Recording>) -> WorkerReport {
    let tool_sets = setup.tool_sets().await;
    let plan = setup.plan(&tool_sets).unwrap();
    planned(&**store, run, &plan.trials().collect::<Vec<_>>()).await;
    continue_work(setup, store, run, replay).await
}

async fn continue_work(
    setup: &Setup,
    store: &Arc<SqliteStore>,
    run: &RunId,
    replay: Option<Recording>,
) -> WorkerReport {
    let runner = Arc::new(setup.runner(setup.tool_sets().await));
    let (_stop, stopped) = watch::channel(Stop::No);
    let options = WorkerOptions { replay: replay.map(Arc::new), ..WorkerOptions::new(run.clone(), "w") };
    let worker = Worker::new(Arc::clone(store) as Arc<dyn RunStore>, runner.clone(), options, stopped);
    let report = soon(worker.run()).await.unwrap();
    soon(runner.close()).await;
    report
}

async fn results(store: &SqliteStore, run: &RunId) -> Vec<String> {
    let results = store.results(run, None, 1000).await.unwrap();
    results.iter().map(|placed| serde_json::to_string(&placed.result).unwrap()).collect()
}

#[tokio::test]
async fn a_replay_of_a_whole_run_gives_the_same_bytes_without_servers_or_requests() {
    // Fails once for every question, calls a tool, then answers.
    let answering = Fake::new("fake-1", |seen, number| match seen.messages.last().unwrap().role {
        Role::Tool => Ok(says(&format!("It is Paris, {}.", seen.messages.len()))),
        _ if number % 3 == 0 => Err(error(ModelErrorKind::RateLimit)),
        _ => Ok(calls(&[("c", "mcp__s__echo", json!({"text": "hello"}))])),
    });
    let judge = judge(|seen, number| {
        Ok(says(&if number % 4 == 0 {
            "?".to_owned()
        } else if seen.text().contains("q1") {
            right().to_string()
        } else {
            wrong().to_string()
        }))
    });
    let mut setup = Setup::new(city_question(), &answering, &judge).server("s", Script::good());
    let first = setup.benchmark.questions.remove(0);
    for id in ["q1", "q2", "q3"] {
        let mut question = first.clone();
        question.id = id.parse().unwrap();
        question.question = format!("What is the capital in {id}?");
        setup.benchmark.questions.push(question);
    }
    setup.models[0].settings.middleware.model_retry.initial_delay = 0.0;
    setup.replicates = 3;
    let folder = tempfile::tempdir().unwrap();
    let store = Arc::new(SqliteStore::open(&folder.path().join("runs.db")).await.unwrap());
    let (live, replayed) = (run_id("live"), run_id("replayed"));
    let report = work(&setup, &store, &live, None).await;
    assert_eq!((report.end, report.progress.done, report.progress.passed), (WorkerEnd::Finished, 9, 3));
    let paid = answering.count() + judge.count();
    let path = folder.path().join("run.jsonl");
    write_recording(&*store, &live, &path, &Redactor::default()).await.unwrap();
    let report = work(&setup, &store, &replayed, Some(Recording::open(&path).await.unwrap())).await;
    assert_eq!((report.end, report.progress.done), (WorkerEnd::Finished, 9), "{:?}", report.unfinished);
    assert_eq!(results(&store, &replayed).await, results(&store, &live).await);
    assert_eq!(answering.count() + judge.count(), paid);
    assert_eq!(setup.workbench.opened.load(std::sync::atomic::Ordering::SeqCst), 0);
}

#[tokio::test]
async fn a_scenario_is_recorded_and_replayed_through_a_store() {
    let (setup, answering, judge) = crate::scenario::two_turns();
    let folder = tempfile::tempdir().unwrap();
    let store = Arc::new(SqliteStore::open(&folder.path().join("runs.db")).await.unwrap());
    let (live, replayed) = (run_id("live"), run_id("replayed"));
    let report = work(&setup, &store, &live, None).await;
    assert_eq!((report.end, report.progress.passed), (WorkerEnd::Finished, 2));
    let paid = answering.count() + judge.count();
    let path = folder.path().join("run.jsonl");
    assert_eq!(write_recording(&*store, &live, &path, &Redactor::default()).await.unwrap(), 1);
    let report = work(&setup, &store, &replayed, Some(Recording::open(&path).await.unwrap())).await;
    assert_eq!((report.end, report.progress.passed), (WorkerEnd::Finished, 2), "{:?}", report.unfinished);
    assert_eq!(results(&store, &replayed).await, results(&store, &live).await);
    assert_eq!(answering.count() + judge.count(), paid);
}

#[tokio::test]
async fn a_provider_failure_is_invalid_and_can_be_run_again() {
    let answering =
        Fake::new(
            "fake-1",
            |_, number| {
                if number < 3 { Err(error(ModelErrorKind::Server)) } else { Ok(says("It is Paris.")) }
            },
        );
    let mut setup = Setup::new(city_question(), &answering, &judge_says(right()));
    setup.models[0].settings.middleware.model_retry.initial_delay = 0.0;
    let folder = tempfile::tempdir().unwrap();
    let store = Arc::new(SqliteStore::open(&folder.path().join("runs.db")).await.unwrap());
    let run = run_id("live");
    let report = work(&setup, &store, &run, None).await;
    assert_eq!((report.end, report.progress.invalid, report.progress.failed), (WorkerEnd::Finished, 1, 0));
    assert_eq!(store.rerun(&run, &Rerun::ProviderFailures).await.unwrap(), 1);
    let report = continue_work(&setup, &store, &run, None).await;
    assert_eq!((report.progress.passed, report.progress.invalid, answering.count()), (1, 0, 4));
}
