//! The store in a file: creation, permissions, versions, damage and a full disk.

use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use sqlx::{Connection as _, SqliteConnection};
use tempfile::TempDir;
use wharf_verify::Verdict;
use wharf_verify::failpoint::{self, Action, Failpoint};
use wharf_verify::journal::{StepKind, StepStart};
use wharf_verify::store::{Claim, ClaimedTrial, Recovery, RunStore, SqliteOptions, SqliteStore, StoreError};

use crate::store_contract;
use crate::store_kit::{answer, planned, run_id, step, trials, unit_result};

const LONG: std::time::Duration = std::time::Duration::from_secs(600);

async fn store(folder: &TempDir) -> SqliteStore {
    SqliteStore::open(&folder.path().join("runs.db")).await.unwrap()
}

async fn claimed(store: &SqliteStore) -> ClaimedTrial {
    planned(store, &run_id("run"), &trials(1, &["j"])).await;
    let claim = Claim { run: &run_id("run"), worker: "a", limit: 1, lease: LONG };
    store.claim(&claim).await.unwrap().pop().unwrap()
}

async fn execute(path: &Path, sql: &'static str) {
    let mut connection = SqliteConnection::connect(&format!("sqlite://{}?mode=rwc", path.display())).await.unwrap();
    sqlx::raw_sql(sql).execute(&mut connection).await.unwrap();
    connection.close().await.unwrap();
}

fn mode(path: &Path) -> u32 {
    std::fs::metadata(path).unwrap().permissions().mode() & 0o777
}

#[tokio::test]
async fn the_store_fulfils_the_contract() {
    let folder = tempfile::tempdir().unwrap();
    let number = std::cell::Cell::new(0);
    store_contract::check(async || {
        number.set(number.get() + 1);
        SqliteStore::open(&folder.path().join(format!("{}.db", number.get()))).await.unwrap()
    })
    .await;
}

#[tokio::test]
async fn only_the_owner_can_read_the_files() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("new/folder/runs.db");
    let store = SqliteStore::open(&path).await.unwrap();
    planned(&store, &run_id("run"), &trials(1, &["j"])).await;
    for file in std::fs::read_dir(path.parent().unwrap()).unwrap() {
        assert_eq!(mode(&file.unwrap().path()), 0o600);
    }
    assert_eq!(mode(path.parent().unwrap()), 0o700);
}

#[tokio::test]
async fn processes_that_open_a_new_store_at_once_all_succeed() {
    let folder = tempfile::tempdir().unwrap();
    let opened = futures_util::future::join_all((0..8).map(|_| store(&folder))).await;
    assert_eq!(opened.len(), 8);
}

#[tokio::test]
async fn files_of_other_programs_and_newer_versions_are_refused_and_not_changed() {
    let folder = tempfile::tempdir().unwrap();
    let reason = async |path: &Path| match SqliteStore::open(path).await.map(drop) {
        Err(StoreError::Open { reason, .. }) => reason,
        other => panic!("{other:?}"),
    };
    let foreign = folder.path().join("foreign.db");
    execute(&foreign, "CREATE TABLE theirs (id INTEGER)").await;
    assert_eq!(reason(&foreign).await, "it is a database of another program");
    let text = folder.path().join("text.db");
    std::fs::write(&text, "not a database at all, but long enough to have a header of one hundred bytes".repeat(9))
        .unwrap();
    assert_eq!(reason(&text).await, "file is not a database");
    let newer = folder.path().join("newer.db");
    SqliteStore::open(&newer).await.unwrap().close().await.unwrap();
    execute(&newer, "PRAGMA user_version = 99").await;
    let expected = "it was written by a newer version of Wharf (format 99; this version supports 6)";
    assert_eq!(reason(&newer).await, expected);
    assert_eq!(reason(folder.path()).await, "not a regular file");
}

#[tokio::test]
async fn a_file_of_an_older_version_is_upgraded_with_its_runs() {
    const FIRST: &str = include_str!("../../src/store/migrations/sqlite/0001.sql");
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("runs.db");
    execute(&path, FIRST).await;
    execute(
        &path,
        "PRAGMA application_id = 0x57687266; PRAGMA user_version = 1; \
         INSERT INTO run (id, benchmark, settings, created, state, passed, units) \
         VALUES ('run', 'old', '{\"mode\": \"x\"}', 5000, 'finished', 3, 3); \
         INSERT INTO trial (run, id, position, in_plan, question, model, replicate, state) \
         VALUES ('run', 't', 0, 1, 'q', 'm', 0, 'done')",
    )
    .await;
    let store = SqliteStore::open(&path).await.unwrap();
    let (summary, settings) = store.run(&run_id("run")).await.unwrap();
    assert_eq!((&*summary.benchmark, summary.created, summary.progress.passed), ("old", 5, 3));
    assert_eq!(settings, serde_json::json!({"mode": "x"}));
    assert_eq!(store.trials(&run_id("run"), 0, 9).await.unwrap().len(), 1);
}

#[tokio::test]
async fn files_of_every_older_version_get_the_same_tables() {
    const VERSIONS: [&str; 3] = [
        include_str!("../../src/store/migrations/sqlite/0001.sql"),
        include_str!("../../src/store/migrations/sqlite/0002.sql"),
        include_str!("../../src/store/migrations/sqlite/0003.sql"),
    ];
    const SCHEMA: &str = "SELECT name || ' ' || sql FROM sqlite_schema WHERE sql IS NOT NULL ORDER BY name";
    let folder = tempfile::tempdir().unwrap();
    let schema = async |path: &Path| -> Vec<String> {
        SqliteStore::open(path).await.unwrap().close().await.unwrap();
        let mut connection = SqliteConnection::connect(&format!("sqlite://{}", path.display())).await.unwrap();
        sqlx::query_scalar(SCHEMA).fetch_all(&mut connection).await.unwrap()
    };
    let newest = schema(&folder.path().join("newest.db")).await;
    assert!(newest.iter().any(|sql| sql.contains("unit_trial ON unit (run, trial, position)")), "{newest:#?}");
    for version in 1..=VERSIONS.len() {
        let path = folder.path().join(format!("{version}.db"));
        for sql in &VERSIONS[..version] {
            execute(&path, sql).await;
        }
        let marks = ["PRAGMA user_version = 1", "PRAGMA user_version = 2", "PRAGMA user_version = 3"];
        execute(&path, marks[version - 1]).await;
        execute(&path, "PRAGMA application_id = 0x57687266").await;
        assert_eq!(schema(&path).await, newest, "version {version}");
    }
    // Some files of version 3 have the newer index.
    let path = folder.path().join("index.db");
    for sql in VERSIONS {
        execute(&path, sql).await;
    }
    execute(&path, "DROP INDEX unit_trial; CREATE INDEX unit_trial ON unit (run, trial, position)").await;
    execute(&path, "PRAGMA application_id = 0x57687266; PRAGMA user_version = 3").await;
    assert_eq!(schema(&path).await, newest);
}

#[tokio::test]
async fn a_full_disk_refuses_the_intent_and_keeps_what_is_there() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("runs.db");
    let first = SqliteStore::open(&path).await.unwrap();
    let claimed = claimed(&first).await;
    let begun = first.begin_step(&claimed.lease, &step(StepKind::Model, "request"), Recovery::Repeat).await.unwrap();
    let StepStart::Execute(number) = begun else { panic!("{begun:?}") };
    first.finish_step(&claimed.lease, number, answer("stored")).await.unwrap().await.unwrap();
    first.close().await.unwrap();
    let pages = u32::try_from(std::fs::metadata(&path).unwrap().len() / 4096).unwrap();
    let full = SqliteStore::open_with(&path, SqliteOptions { max_pages: Some(pages) }).await.unwrap();
    let mut refused = None;
    for request in 0..200 {
        let request = step(StepKind::Model, &format!("{request:064}"));
        if let Err(error) = full.begin_step(&claimed.lease, &request, Recovery::Repeat).await {
            refused = Some(error);
            break;
        }
    }
    assert_eq!(refused, Some(StoreError::Failed("database or disk is full".to_owned())));
    let recorded = full.begin_step(&claimed.lease, &step(StepKind::Model, "request"), Recovery::Repeat).await.unwrap();
    assert_eq!(recorded, StepStart::Recorded(answer("stored")));
}

#[tokio::test]
async fn a_commit_with_an_unknown_outcome_is_looked_up() {
    let folder = tempfile::tempdir().unwrap();
    let store = store(&folder).await;
    let claimed = claimed(&store).await;
    let request = step(StepKind::Tool, "request");
    failpoint::arm(Failpoint::AfterCommit, 0, Action::Fail);
    let begun = store.begin_step(&claimed.lease, &request, Recovery::Indeterminate).await.unwrap();
    let StepStart::Execute(number) = begun else { panic!("{begun:?}") };
    failpoint::arm(Failpoint::AfterCommit, 0, Action::Fail);
    store.finish_step(&claimed.lease, number, answer("x")).await.unwrap().await.unwrap();
    failpoint::arm(Failpoint::AfterCommit, 0, Action::Fail);
    let result = unit_result(&claimed.trial, &claimed.open_units[0], Verdict::Passed);
    store.finish_unit(&claimed.lease, &result).await.unwrap().await.unwrap();
    let progress = store.progress(&run_id("run")).await.unwrap();
    assert_eq!((progress.done, progress.usage.total_tokens()), (1, 100));
}

#[tokio::test]
async fn damaged_results_are_errors() {
    let folder = tempfile::tempdir().unwrap();
    let store = store(&folder).await;
    let claimed = claimed(&store).await;
    let result = unit_result(&claimed.trial, &claimed.open_units[0], Verdict::Passed);
    store.finish_unit(&claimed.lease, &result).await.unwrap().await.unwrap();
    execute(store.path(), "UPDATE blob SET bytes = x'0011223344'").await;
    assert!(matches!(store.results(&run_id("run"), None, 1).await, Err(StoreError::Failed(_))));
}

#[tokio::test]
async fn results_can_be_queried_with_sql() {
    let folder = tempfile::tempdir().unwrap();
    let store = store(&folder).await;
    let claimed = claimed(&store).await;
    let result = unit_result(&claimed.trial, &claimed.open_units[0], Verdict::Passed);
    store.finish_unit(&claimed.lease, &result).await.unwrap().await.unwrap();
    let mut connection = SqliteConnection::connect(&format!("sqlite://{}", store.path().display())).await.unwrap();
    let row: (String, String, Option<String>, String, f64) =
        sqlx::query_as("SELECT question, model, judge, verdict, cost_usd FROM result")
            .fetch_one(&mut connection)
            .await
            .unwrap();
    let expected = ("question-1".to_owned(), "model-a".to_owned(), Some("j".to_owned()), "passed".to_owned(), 0.01);
    assert_eq!(row, expected);
}
