//! Worker processes that share one run in PostgreSQL, with a model that answers at once.

use std::process::{Command, Stdio};
use std::sync::Arc;

use tokio::sync::watch;
use tokio::time::Instant;
use wharf::verify::store::{PostgresStore, RunStore};
use wharf::verify::worker::{Stop, WorkerEnd};
use wharf::verify::{Worker, WorkerOptions};
use wharf_testkit::Postgres;

use super::fixture::{Fixture, QUESTIONS};
use super::{options, run_id};

/// Worker processes of each round.
const WORKERS: [u32; 3] = [1, 2, 4];
/// Units of each round. A unit has two steps: a request to the model and one to the judge.
const UNITS: u32 = 4_000;
/// Trials in flight of each worker.
const IN_FLIGHT: usize = 32;
/// Limit of the statements that a unit takes.
const MAX_STATEMENTS: f64 = 12.0;

/// Measures units per second and statements per unit; returns whether the bar is met.
#[expect(clippy::print_stdout, reason = "the purpose of this program is its output")]
pub(crate) async fn compare_workers() -> bool {
    let mut is_met = true;
    for workers in WORKERS {
        let postgres = Postgres::start_durable().await;
        let url = postgres.create_database("runs");
        postgres.execute("runs", "CREATE EXTENSION pg_stat_statements");
        let store = open(&url).await;
        fixture().plan(&store).await;
        postgres.execute("runs", "SELECT pg_stat_statements_reset()");
        let began = Instant::now();
        let program = std::env::current_exe().expect("the path of this program");
        let start = |number| {
            let mut worker = Command::new(&program);
            worker.args(["scale-worker", &url, &format!("worker-{number}")]).stdout(Stdio::null());
            worker.spawn().expect("a worker")
        };
        let mut processes: Vec<_> = (0..workers).map(start).collect();
        for process in &mut processes {
            assert!(process.wait().expect("a status").success(), "a worker failed");
        }
        let seconds = began.elapsed().as_secs_f64();
        let progress = store.progress(&run_id()).await.expect("the progress");
        assert_eq!(progress.passed, u64::from(UNITS));
        let sum = postgres.execute("runs", "SELECT SUM(calls)::BIGINT FROM pg_stat_statements");
        let commits = "SELECT SUM(calls)::BIGINT FROM pg_stat_statements WHERE query = 'COMMIT'";
        let commits = postgres.execute("runs", commits);
        let [statements, commits] =
            [sum, commits].map(|sum| sum.parse::<f64>().unwrap_or(f64::INFINITY) / f64::from(UNITS));
        println!(
            "{workers} workers on PostgreSQL: {:.0} units/s, {statements:.1} statements and {commits:.2} commits for a unit \
             (bar: < {MAX_STATEMENTS} statements)",
            f64::from(UNITS) / seconds
        );
        is_met &= statements < MAX_STATEMENTS;
        store.close().await.expect("a closed store");
    }
    is_met
}

/// Works on the run of the store that the arguments name.
pub(crate) async fn scale_worker() {
    let arguments: Vec<String> = std::env::args().skip(2).collect();
    let [url, name] = arguments.as_slice() else { panic!("expected a URL and a name") };
    let store = Arc::new(open(url).await) as Arc<dyn RunStore>;
    let (_stop, stopped) = watch::channel(Stop::No);
    let options = WorkerOptions { in_flight: IN_FLIGHT, ..options(name) };
    let report = Worker::new(store, fixture().runner(), options, stopped).run().await.expect("a report");
    assert_eq!(report.end, WorkerEnd::Finished);
}

fn fixture() -> Fixture {
    Fixture::judged(UNITS / QUESTIONS)
}

async fn open(url: &str) -> PostgresStore {
    PostgresStore::open(&url.parse().expect("a URL")).await.expect("a store")
}
