//! Worker processes: this test binary, started again.

use std::collections::BTreeSet;
use std::ops::RangeInclusive;
use std::os::unix::process::ExitStatusExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use serde::{Deserialize, Serialize};
use sqlx::{Connection as _, SqliteConnection};
use tempfile::TempDir;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::sync::watch;
use wharf_protocol::BoxFuture;
use wharf_verify::failpoint::{self, Action, Failpoint};
use wharf_verify::store::{Recovery, RunStore, RunSummary, SqliteOptions, SqliteStore, StoreLocation, open_store};
use wharf_verify::worker::Stop;
use wharf_verify::{Trial, Worker, WorkerOptions};

use super::ledger::Ledger;
use crate::runner::{PaidRunner, Provider, all_keys};
use crate::store_kit::{run_id, trials};

/// The variable that makes a test process a worker.
const PLAN: &str = "WHARF_TEST_WORKER";

/// The failpoints: name, how often they are passed before, and how many steps are in flight and executed by then, with one
/// trial in flight.
pub(crate) const POINTS: [(&str, u32, RangeInclusive<usize>); 9] = [
    ("during_migration", 3, 0..=0),
    ("after_claim", 0, 0..=0),
    ("after_intent", 7, 0..=0),
    ("before_result", 7, 1..=1),
    ("after_blob_write", 3, 1..=1),
    ("after_result", 7, 0..=0),
    // The result of the last step is queued, and may not be on disk yet.
    ("before_finalize", 2, 0..=1),
    ("before_counters", 2, 0..=1),
    ("after_commit", 2, 0..=0),
];

/// What a worker process does.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct WorkerPlan {
    /// A file, or the URL of a database.
    pub(crate) store: PathBuf,
    pub(crate) report: PathBuf,
    pub(crate) port: u16,
    pub(crate) worker: String,
    pub(crate) recovery: Recovery,
    pub(crate) trials: u32,
    pub(crate) failpoint: Option<(String, u32)>,
    pub(crate) in_flight: usize,
    /// In milliseconds.
    pub(crate) lease: u64,
    /// In milliseconds.
    pub(crate) heartbeat: u64,
    /// Pages by which the database may grow.
    pub(crate) extra_pages: Option<u32>,
}

/// How a process ended.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Death {
    Killed,
    Exited,
    Failed,
}

pub(crate) struct Process(Child);

/// A run in a store, with everything that its processes share.
pub(crate) struct CrashRun {
    folder: TempDir,
    /// The database of the run, if its store is not a file.
    database: Option<PathBuf>,
    plan: Vec<Trial>,
    port: u16,
    recovery: Recovery,
}

fn block_on<T>(future: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(future)
}

impl CrashRun {
    pub(crate) fn new(count: u32, ledger: &Ledger) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let plan = trials(count, &["j", "k"]);
        Self { folder, database: None, plan, port: ledger.port, recovery: Recovery::Repeat }
    }

    /// Uses a database as the store.
    pub(crate) fn with_database(self, url: &str) -> Self {
        Self { database: Some(url.into()), ..self }
    }

    pub(crate) fn with_recovery(self, recovery: Recovery) -> Self {
        Self { recovery, ..self }
    }

    pub(crate) fn expected_keys(&self) -> BTreeSet<String> {
        all_keys(&self.plan).into_iter().collect()
    }

    /// Returns the plan of a worker with one trial in flight.
    pub(crate) fn worker(&self, name: &str) -> WorkerPlan {
        WorkerPlan {
            store: self.database.clone().unwrap_or_else(|| self.store_path()),
            report: self.report_path(name),
            port: self.port,
            worker: name.to_owned(),
            recovery: self.recovery,
            trials: u32::try_from(self.plan.len()).unwrap(),
            failpoint: None,
            in_flight: 1,
            lease: 400,
            heartbeat: 80,
            extra_pages: None,
        }
    }

    fn store_path(&self) -> PathBuf {
        self.folder.path().join("runs.db")
    }

    /// Opens the store of the run.
    pub(crate) async fn open(&self) -> Arc<dyn RunStore> {
        open(&self.worker("").store).await
    }

    fn report_path(&self, name: &str) -> PathBuf {
        self.folder.path().join(format!("{name}.json"))
    }
}

async fn open(location: &Path) -> Arc<dyn RunStore> {
    open_store(&StoreLocation::parse(location).unwrap()).await.unwrap()
}

impl WorkerPlan {
    /// Returns whether the process has opened the store.
    pub(crate) fn is_open(&self) -> bool {
        self.open_path().exists()
    }

    fn open_path(&self) -> PathBuf {
        self.report.with_extension("open")
    }

    /// Starts the process.
    pub(crate) fn start(&self) -> Process {
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.args(["crash::process::worker_process", "--exact", "--nocapture"]);
        command.env(PLAN, serde_json::to_string(self).unwrap()).stdout(Stdio::null());
        Process(command.spawn().unwrap())
    }
}

impl CrashRun {
    pub(crate) fn report(&self, name: &str) -> serde_json::Value {
        serde_json::from_slice(&std::fs::read(self.report_path(name)).unwrap()).unwrap()
    }

    pub(crate) fn summary(&self) -> RunSummary {
        block_on(async {
            let store = SqliteStore::open(&self.store_path()).await.unwrap();
            let summary = store.run(&run_id("run")).await.unwrap().0;
            store.close().await.unwrap();
            summary
        })
    }

    /// Returns the steps with a result.
    pub(crate) fn recorded_steps(&self) -> BTreeSet<String> {
        self.query("SELECT request FROM step WHERE state = 'done'").into_iter().collect()
    }

    /// Returns the steps with an intent.
    pub(crate) fn intents(&self) -> BTreeSet<String> {
        self.query("SELECT request FROM step").into_iter().collect()
    }

    /// Returns the number of attempts that ended with a worker.
    pub(crate) fn interrupted_attempts(&self) -> u64 {
        self.query("SELECT request FROM step WHERE state = 'interrupted'").len() as u64
    }

    /// Returns whether no other process holds the lock for writing.
    pub(crate) fn is_writable(&self) -> bool {
        block_on(async {
            let path = self.store_path();
            let options = sqlx::sqlite::SqliteConnectOptions::new().filename(path).busy_timeout(Duration::ZERO);
            let mut connection = SqliteConnection::connect_with(&options).await.unwrap();
            sqlx::raw_sql("BEGIN IMMEDIATE; ROLLBACK").execute(&mut connection).await.is_ok()
        })
    }

    /// Nothing is there before the first migration is complete.
    fn query(&self, sql: &'static str) -> Vec<String> {
        block_on(async {
            let address = format!("sqlite://{}", self.store_path().display());
            let mut connection = SqliteConnection::connect(&address).await.unwrap();
            let table = sqlx::query_scalar::<_, i64>("SELECT COUNT(*) FROM sqlite_schema WHERE name = 'step'");
            if table.fetch_one(&mut connection).await.unwrap() == 0 {
                return Vec::new();
            }
            sqlx::query_scalar(sql).fetch_all(&mut connection).await.unwrap()
        })
    }
}

impl Process {
    pub(crate) fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.0), signal).unwrap();
    }

    pub(crate) fn kill_after(mut self, pause: Duration) {
        std::thread::sleep(pause);
        self.0.kill().unwrap();
        self.0.wait().unwrap();
    }

    /// Returns whether it has ended.
    pub(crate) fn has_ended(&mut self) -> bool {
        self.0.try_wait().unwrap().is_some()
    }

    pub(crate) fn wait(mut self) -> Death {
        let status = self.0.wait().unwrap();
        match (status.signal(), status.success()) {
            (Some(9), _) => Death::Killed,
            (None, true) => Death::Exited,
            _ => Death::Failed,
        }
    }
}

fn failpoint_named(name: &str) -> Failpoint {
    match name {
        "during_migration" => Failpoint::DuringMigration,
        "after_claim" => Failpoint::AfterClaim,
        "after_intent" => Failpoint::AfterIntent,
        "before_result" => Failpoint::BeforeResult,
        "after_blob_write" => Failpoint::AfterBlobWrite,
        "after_result" => Failpoint::AfterResult,
        "before_finalize" => Failpoint::BeforeFinalize,
        "before_counters" => Failpoint::BeforeCounters,
        "after_commit" => Failpoint::AfterCommit,
        other => panic!("{other}"),
    }
}

/// The provider of the ledger.
struct PaidOverHttp(u16);

impl Provider for PaidOverHttp {
    fn call<'a>(&'a self, key: &'a str) -> BoxFuture<'a, ()> {
        Box::pin(async move {
            let mut stream = tokio::net::TcpStream::connect(("127.0.0.1", self.0)).await.unwrap();
            let request = format!("POST /{key} HTTP/1.1\r\nHost: provider\r\nIdempotency-Key: {key}\r\n\r\n");
            stream.write_all(request.as_bytes()).await.unwrap();
            let mut response = String::new();
            stream.read_to_string(&mut response).await.unwrap();
            assert!(response.starts_with("HTTP/1.1 200"), "{response}");
        })
    }
}

/// Not a test: a worker, in the processes that other tests start.
#[test]
#[expect(clippy::disallowed_methods, reason = "the parent process passes the plan in the environment")]
fn worker_process() {
    let Ok(plan) = std::env::var(PLAN) else { return };
    let plan: WorkerPlan = serde_json::from_str(&plan).unwrap();
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    runtime.block_on(work(plan));
}

async fn work(plan: WorkerPlan) {
    if let Some((name, hits_before)) = &plan.failpoint {
        failpoint::arm(failpoint_named(name), *hits_before, Action::Kill);
    }
    let mut store = open(&plan.store).await;
    // The first process makes the plan; another one may be as fast.
    if !store.progress(&run_id("run")).await.is_ok_and(|progress| progress.units > 0) {
        planned_once(&*store, plan.trials).await;
    }
    if let Some(extra) = plan.extra_pages {
        store.close().await.unwrap();
        let pages = std::fs::metadata(&plan.store).unwrap().len() / 4096;
        let max_pages = Some(u32::try_from(pages).unwrap() + extra);
        store = Arc::new(SqliteStore::open_with(&plan.store, SqliteOptions { max_pages }).await.unwrap());
    }
    std::fs::write(plan.open_path(), "").unwrap();
    let runner = PaidRunner::new(Arc::new(PaidOverHttp(plan.port)));
    let options = WorkerOptions {
        in_flight: plan.in_flight,
        lease: Duration::from_millis(plan.lease),
        heartbeat: Duration::from_millis(plan.heartbeat),
        poll: Duration::from_millis(30),
        recovery: plan.recovery,
        ..WorkerOptions::new(run_id("run"), &plan.worker)
    };
    let (_stop, stopped) = watch::channel(Stop::No);
    let worker = Worker::new(Arc::clone(&store), runner.clone(), options, stopped);
    let report = worker.run().await.unwrap();
    store.close().await.unwrap();
    let report = serde_json::json!({
        "end": format!("{:?}", report.end),
        "lost_leases": report.lost_leases,
        "rejected": runner.rejected.load(Ordering::SeqCst),
    });
    std::fs::write(&plan.report, report.to_string()).unwrap();
}

pub(crate) async fn planned_once(store: &dyn RunStore, count: u32) {
    let plan = trials(count, &["j", "k"]);
    let new = wharf_verify::store::NewRun {
        id: run_id("run"),
        benchmark: "a-benchmark".to_owned(),
        settings: serde_json::Value::Null,
    };
    // Another process may have created it since.
    let _ = store.create_run(&new).await;
    store.set_plan(&run_id("run"), std::sync::Arc::new(plan)).await.unwrap();
}
