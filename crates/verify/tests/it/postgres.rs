//! The store in a PostgreSQL database, on a real server: its schema, its versions, and a server that goes away.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;
use wharf_testkit::{Postgres, soon, until};
use wharf_verify::failpoint::{self, Action, Failpoint};
use wharf_verify::journal::{StepKind, StepStart};
use wharf_verify::store::{
    Claim, ClaimedTrial, Lack, NewRun, PostgresOptions, PostgresStore, PostgresUrl, Recovery, RunState, RunStore,
    StoreError, StoreLocation, WorkerRecord, open_store,
};
use wharf_verify::worker::{Stop, WorkerEnd};
use wharf_verify::{Verdict, Worker, WorkerOptions};

use crate::runner::{Counting, PaidRunner};
use crate::store_contract;
use crate::store_kit::{answer, planned, run_id, step, trials, unit_result};

const LONG: Duration = Duration::from_secs(600);
/// Ends all connections of the stores.
const CUT: &str = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'wharf'";

fn url(text: &str) -> PostgresUrl {
    text.parse().unwrap()
}

async fn store(postgres: &Postgres, database: &str) -> PostgresStore {
    PostgresStore::open(&url(&postgres.create_database(database))).await.unwrap()
}

async fn refusal(text: &str) -> StoreError {
    match PostgresStore::open(&url(text)).await {
        Err(error) => error,
        Ok(_) => panic!("{text} was opened"),
    }
}

fn reason(error: StoreError) -> String {
    match error {
        StoreError::Open { reason, .. } => reason,
        other => panic!("{other:?}"),
    }
}

async fn claimed(store: &dyn RunStore, count: u32) -> Vec<ClaimedTrial> {
    planned(store, &run_id("run"), &trials(count, &["j"])).await;
    let claim = Claim { run: &run_id("run"), worker: "a", limit: count, lease: LONG };
    store.claim(&claim).await.unwrap()
}

/// Does everything that a trial with one step writes.
async fn finish(store: &dyn RunStore, claimed: &ClaimedTrial) {
    let begun = store.begin_step(&claimed.lease, &step(StepKind::Model, "request"), Recovery::Indeterminate).await;
    let StepStart::Execute(number) = begun.unwrap() else { panic!("the step is known") };
    let body = claimed.trial.question.as_str();
    let step = store.finish_step(&claimed.lease, number, answer(body)).await.unwrap();
    let result = unit_result(&claimed.trial, &claimed.open_units[0], Verdict::Passed);
    let unit = store.finish_unit(&claimed.lease, &result).await.unwrap();
    step.await.unwrap();
    unit.await.unwrap();
    store.release(&claimed.lease).await.unwrap();
}

async fn assert_finished(store: &dyn RunStore, count: u64) {
    let progress = store.progress(&run_id("run")).await.unwrap();
    assert_eq!((progress.done, progress.passed, progress.running), (count, count, 0));
    assert_eq!(progress.usage.total_tokens(), 100 * count, "every result is counted once");
    assert_eq!(store.results(&run_id("run"), None, 1_000).await.unwrap().len() as u64, count);
}

#[tokio::test]
async fn the_store_fulfils_the_contract() {
    let postgres = Postgres::start().await;
    let number = std::cell::Cell::new(0);
    store_contract::check(async || {
        number.set(number.get() + 1);
        store(&postgres, &format!("contract_{}", number.get())).await
    })
    .await;
}

#[tokio::test]
async fn processes_that_open_a_new_store_at_once_all_succeed() {
    let postgres = Postgres::start().await;
    let url = url(&postgres.create_database("runs"));
    let opened = futures_util::future::join_all((0..8).map(|_| PostgresStore::open(&url))).await;
    assert!(opened.iter().all(Result::is_ok), "{:?}", opened.into_iter().find_map(Result::err));
}

#[tokio::test]
async fn newer_formats_and_tables_of_other_programs_are_refused_and_not_changed() {
    let postgres = Postgres::start().await;
    let newer = postgres.create_database("newer");
    PostgresStore::open(&url(&newer)).await.unwrap().close().await.unwrap();
    postgres.execute("newer", "UPDATE wharf.store_format SET version = 99");
    let expected = "it was written by a newer version of Wharf (format 99; this version supports 3)";
    assert_eq!(reason(refusal(&newer).await), expected);
    let foreign = postgres.create_database("foreign");
    postgres.execute("foreign", "CREATE SCHEMA theirs; CREATE TABLE theirs.run (id INTEGER)");
    let theirs = format!("{foreign}?options=-csearch_path%3Dtheirs");
    assert_eq!(reason(refusal(&theirs).await), "the schema `theirs` has tables of another program");
    let tables = "SELECT COUNT(*) FROM pg_tables WHERE schemaname = 'theirs'";
    assert_eq!(postgres.execute("foreign", tables), "1");
}

#[tokio::test]
async fn stores_in_two_schemas_of_a_database_are_separate() {
    let postgres = Postgres::start().await;
    let database = postgres.create_database("runs");
    let first = PostgresStore::open(&url(&database)).await.unwrap();
    let other = format!("{database}?options=-csearch_path%3D%22Team%5C%20A%22%2Cpublic");
    let second = PostgresStore::open(&url(&other)).await.unwrap();
    planned(&first, &run_id("one"), &trials(1, &["j"])).await;
    assert_eq!(second.runs().await.unwrap(), []);
    planned(&second, &run_id("two"), &trials(1, &["j"])).await;
    let ids = "SELECT id FROM wharf.run UNION ALL SELECT id FROM \"Team A\".run";
    assert_eq!(postgres.execute("runs", ids), "one\ntwo");
    // Over the unix socket it is the same database.
    let socket = PostgresStore::open(&url(&postgres.socket_url("runs"))).await.unwrap();
    assert_eq!(socket.runs().await.unwrap().len(), 1);
}

#[tokio::test]
async fn a_role_without_the_right_to_create_can_work() {
    let postgres = Postgres::start().await;
    store(&postgres, "runs").await.close().await.unwrap();
    postgres.execute(
        "runs",
        "CREATE ROLE worker LOGIN; GRANT USAGE ON SCHEMA wharf TO worker; \
         GRANT SELECT, INSERT, UPDATE ON ALL TABLES IN SCHEMA wharf TO worker",
    );
    let worker = PostgresStore::open(&url(&postgres.socket_url_of("worker", "runs"))).await.unwrap();
    for claimed in claimed(&worker, 2).await {
        finish(&worker, &claimed).await;
    }
    assert_finished(&worker, 2).await;
    // Without the tables, the reason is the server's.
    postgres.create_database("empty");
    let empty = postgres.socket_url_of("worker", "empty");
    assert_eq!(reason(refusal(&empty).await), "permission denied for database empty");
}

#[tokio::test]
async fn a_commit_with_an_unknown_outcome_is_looked_up() {
    let postgres = Postgres::start().await;
    let store = store(&postgres, "runs").await;
    let claimed = claimed(&store, 1).await.remove(0);
    for point in [0, 1, 2] {
        failpoint::arm(Failpoint::AfterCommit, point, Action::Fail);
    }
    finish(&store, &claimed).await;
    assert_finished(&store, 1).await;
}

#[tokio::test]
async fn a_server_that_crashes_and_restarts_loses_nothing() {
    let mut postgres = Postgres::start_durable().await;
    let store = store(&postgres, "runs").await;
    let claimed = claimed(&store, 60).await;
    let work = futures_util::future::join_all(claimed.iter().map(|claimed| finish(&store, claimed)));
    let crashes = async {
        for done in [5, 25] {
            until(async || {
                let count = postgres.execute("runs", "SELECT COUNT(*) FROM wharf.unit WHERE verdict IS NOT NULL");
                count.parse::<u64>().unwrap() >= done
            })
            .await;
            postgres.crash().await;
            postgres.restart().await;
        }
    };
    soon(async { futures_util::join!(work, crashes) }).await;
    assert_finished(&store, 60).await;
    let steps = postgres.execute("runs", "SELECT state, COUNT(*) FROM wharf.step GROUP BY state");
    assert_eq!(steps, "done|60", "no intent was written twice");
}

#[tokio::test]
async fn connections_that_are_cut_at_random_lose_nothing() {
    let postgres = Arc::new(Postgres::start().await);
    let store = store(&postgres, "runs").await;
    let claimed = claimed(&store, 120).await;
    for batch in claimed.chunks(6) {
        let work = futures_util::future::join_all(batch.iter().map(|claimed| finish(&store, claimed)));
        let cut = async {
            for _ in 0..2 {
                let cut = Arc::clone(&postgres);
                tokio::task::spawn_blocking(move || cut.execute("postgres", CUT)).await.unwrap();
            }
        };
        soon(async { futures_util::join!(work, cut) }).await;
    }
    assert_finished(&store, 120).await;
    assert_eq!(postgres.execute("runs", "SELECT COUNT(*) FROM wharf.step"), "120");
}

#[tokio::test]
async fn a_server_that_stays_away_is_an_error_that_names_it_without_the_password() {
    let mut postgres = Postgres::start().await;
    let location = format!("postgres://wharf@127.0.0.1:{}/runs", postgres.port());
    let url = url(&postgres.create_database("runs"));
    let options = PostgresOptions { retry_time: Duration::from_millis(200) };
    let store = PostgresStore::open_with(&url, options).await.unwrap();
    planned(&store, &run_id("run"), &trials(1, &["j"])).await;
    // The wrong password, and the wrong database.
    let wrong = postgres.url("runs").replace(postgres.password(), "hush-hush");
    let expected = format!("cannot open the store {location}: password authentication failed for user \"wharf\"");
    assert_eq!(refusal(&wrong).await.to_string(), expected);
    assert_eq!(reason(refusal(&postgres.url("none")).await), "database \"none\" does not exist");
    postgres.crash().await;
    let refused = "Connection refused (os error 111)";
    assert_eq!(reason(refusal(&postgres.url("runs")).await), refused);
    let claim = Claim { run: &run_id("run"), worker: "a", limit: 1, lease: LONG };
    let errors = [
        store.progress(&run_id("run")).await.unwrap_err().to_string(),
        store.claim(&claim).await.unwrap_err().to_string(),
    ];
    for error in errors {
        assert!(error.starts_with(&format!("the store failed: {location}: ")), "{error}");
        assert!(!error.contains(postgres.password()), "{error}");
    }
    // It is used again as soon as it is back.
    postgres.restart().await;
    assert_eq!(store.claim(&claim).await.unwrap().len(), 1);
}

#[tokio::test]
async fn damaged_results_are_errors() {
    let postgres = Postgres::start().await;
    let store = store(&postgres, "runs").await;
    finish(&store, &claimed(&store, 1).await[0]).await;
    postgres.execute("runs", "UPDATE wharf.blob SET bytes = '\\x0011223344'");
    assert!(matches!(store.results(&run_id("run"), None, 1).await, Err(StoreError::Failed(_))));
}

#[tokio::test]
async fn results_can_be_queried_with_sql() {
    let postgres = Postgres::start().await;
    let store = store(&postgres, "runs").await;
    finish(&store, &claimed(&store, 1).await[0]).await;
    let row = postgres.execute("runs", "SELECT question, model, judge, verdict, cost_usd FROM wharf.result");
    assert_eq!(row, "question-1|model-a|j|passed|0.01");
}

#[tokio::test]
async fn equal_contents_are_stored_once() {
    let postgres = Postgres::start().await;
    let store = store(&postgres, "runs").await;
    let claimed = claimed(&store, 20).await;
    futures_util::future::join_all(claimed.iter().map(|claimed| finish(&store, claimed))).await;
    // A result and a body for each trial, and one trace for all.
    assert_eq!(postgres.execute("runs", "SELECT COUNT(*) FROM wharf.blob"), "41");
}

/// A worker without trials polls after ten minutes. It gets the trial that another one hands back at once.
#[tokio::test]
async fn trials_that_are_handed_back_wake_a_waiting_worker() {
    let postgres = Postgres::start().await;
    let location = StoreLocation::Postgres(url(&postgres.create_database("runs")));
    let store = open_store(&location).await.unwrap();
    let held = claimed(&*store, 1).await.remove(0);
    let (_stop, stopped) = watch::channel(Stop::No);
    let options = WorkerOptions { poll: LONG, ..WorkerOptions::new(run_id("run"), "waiting") };
    let provider = Arc::new(Counting::default());
    let waiting = open_store(&location).await.unwrap();
    let worker = Worker::new(waiting, PaidRunner::new(provider), options, stopped);
    let hand_back = async {
        let listening = "SELECT COUNT(*) FROM pg_stat_activity WHERE query LIKE 'LISTEN%' AND state = 'idle'";
        until(async || postgres.execute("runs", listening) == "1").await;
        store.release(&held.lease).await.unwrap();
    };
    let (report, ()) = soon(async { futures_util::join!(worker.run(), hand_back) }).await;
    assert_eq!(report.unwrap().end, WorkerEnd::Finished);
}

/// Two statements for each of the five steps, one for the result, one for the release; what transactions and claims add is
/// shared by the trials in flight.
#[tokio::test]
async fn a_unit_takes_few_statements() {
    const TRIALS: u32 = 200;
    let postgres = Postgres::start().await;
    let store = Arc::new(store(&postgres, "runs").await);
    postgres.execute("runs", "CREATE EXTENSION pg_stat_statements");
    planned(&*store, &run_id("run"), &trials(TRIALS, &["j"])).await;
    postgres.execute("runs", "SELECT pg_stat_statements_reset()");
    let (_stop, stopped) = watch::channel(Stop::No);
    let options = WorkerOptions { in_flight: 16, ..WorkerOptions::new(run_id("run"), "a") };
    let worker = Worker::new(store.clone(), PaidRunner::new(Arc::new(Counting::default())), options, stopped);
    assert_eq!(soon(worker.run()).await.unwrap().end, WorkerEnd::Finished);
    let count = |sql: &str| postgres.execute("runs", sql).parse::<f64>().unwrap() / f64::from(TRIALS);
    let statements = count("SELECT SUM(calls) FROM pg_stat_statements");
    let commits = count("SELECT SUM(calls) FROM pg_stat_statements WHERE query = 'COMMIT'");
    assert!(statements < 20.0, "{statements} statements and {commits} commits for a unit");
}

#[tokio::test]
async fn a_run_of_another_result_format_is_not_claimed() {
    let postgres = Postgres::start().await;
    let store = store(&postgres, "runs").await;
    planned(&store, &run_id("run"), &trials(1, &["j"])).await;
    postgres.execute("runs", "UPDATE wharf.run SET format = format + 1");
    let claim = Claim { run: &run_id("run"), worker: "a", limit: 1, lease: LONG };
    assert!(store.claim(&claim).await.unwrap().is_empty());
    assert!(store.claimable_runs("a").await.unwrap().is_empty());
    postgres.execute("runs", "UPDATE wharf.run SET format = format - 1");
    assert_eq!(store.claim(&claim).await.unwrap().len(), 1);
}

/// The roles of the documentation are enough, and no more than that.
#[tokio::test]
async fn documented_roles_can_do_their_work_and_nothing_else() {
    let postgres = Postgres::start().await;
    let owner = store(&postgres, "runs").await;
    let document = include_str!("../../../../docs/scale.md");
    let roles = document.split("```sql\n").nth(1).unwrap().split("```").next().unwrap();
    postgres.execute("runs", roles);
    let open = async |user: &str| PostgresStore::open(&url(&postgres.socket_url_of(user, "runs"))).await.unwrap();
    let coordinator = open("wharf_coordinator").await;
    let worker = open("wharf_worker").await;
    let reader = open("wharf_reader").await;
    let run = run_id("run");
    planned(&coordinator, &run, &trials(2, &["j"])).await;
    let record = WorkerRecord {
        id: "a".to_owned(),
        host: "host".to_owned(),
        pid: 1,
        version: "1".to_owned(),
        slots: 1,
        run: Some(run.clone()),
    };
    worker.register(&record).await.unwrap();
    let lack = Lack { model: Some("other".to_owned()), question: None, judge: None, reason: "no key".to_owned() };
    worker.set_lacks("a", &run, vec![lack]).await.unwrap();
    let claim = Claim { run: &run, worker: "a", limit: 9, lease: LONG };
    for claimed in worker.claim(&claim).await.unwrap() {
        worker.renew(&claim).await.unwrap();
        finish(&worker, &claimed).await;
    }
    worker.set_state(&run, RunState::Finished).await.unwrap();
    worker.unregister("a").await.unwrap();
    assert_finished(&reader, 2).await;
    reader.activity(&run).await.unwrap();
    let is_denied = |outcome: Result<(), StoreError>| match outcome {
        Err(StoreError::Failed(reason)) => reason.contains("permission denied"),
        _ => false,
    };
    assert!(is_denied(reader.set_state(&run, RunState::Running).await));
    assert!(is_denied(worker.delete_run(&run).await));
    let new = NewRun { id: run_id("new"), benchmark: "b".to_owned(), settings: serde_json::json!({}) };
    assert!(is_denied(worker.create_run(&new).await));
    owner.delete_run(&run).await.unwrap();
    assert!(owner.delete_unreferenced().await.unwrap() > 0);
}
