//! Verification: live units compared with bare agent runs, replays, memory, and a provider that fails.

mod faulty;
mod fixture;
mod scale;

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::Instant;
use wharf::Redactor;
use wharf::agent::{Limits, Run};
use wharf::verify::recording::{Recording, write_recording};
use wharf::verify::store::{RunStore, SqliteStore};
use wharf::verify::worker::{Stop, WorkerEnd, WorkerReport};
use wharf::verify::{RunId, Worker, WorkerOptions};
use wharf::{Message, Role};

use crate::measure::{median, output_of, peak_memory};
use fixture::{Fixture, QUESTIONS, TemporaryFolder};

pub(crate) use faulty::work_against_faulty_provider;
pub(crate) use scale::{compare_workers, scale_worker};

/// Units of a live round.
const LIVE_UNITS: u32 = 1_280;
/// Trials in flight.
const IN_FLIGHT: usize = 64;
/// How long the fake model takes.
const MODEL_TIME: Duration = Duration::from_millis(50);
/// Rounds of the comparison.
const ROUNDS: usize = 3;
/// Limit of the time of live units, as a multiple of bare agent runs.
const MAX_LIVE_RATIO: f64 = 1.3;
/// Units of the replay.
const REPLAYED_UNITS: u32 = 10_000;
/// Units per second of the replay.
const MIN_REPLAY_RATE: f64 = 2_000.0;
/// Trials in flight of the replay. Their results share commits.
const REPLAY_IN_FLIGHT: usize = 256;
/// Limit of the memory of 10,000 units, as a multiple of that of 100.
const MAX_MEMORY_RATIO: f64 = 1.2;

/// Measures verification; returns whether the bars are met.
pub(crate) async fn compare() -> bool {
    live().await & replay().await & memory() & faulty::survives().await
}

/// Compares live units with the same agent runs without a store.
#[expect(clippy::print_stdout, reason = "the purpose of this program is its output")]
async fn live() -> bool {
    let mut bare = Vec::new();
    let mut units = Vec::new();
    for _ in 0..ROUNDS {
        bare.push(bare_runs().await);
        let fixture = Fixture::new(LIVE_UNITS, MODEL_TIME);
        let folder = TemporaryFolder::new();
        let store = fixture.store(&folder.path().join("runs.db")).await;
        let began = Instant::now();
        let report = work(&store, &fixture, WorkerOptions { in_flight: IN_FLIGHT, ..options("live") }).await;
        units.push(began.elapsed());
        assert_eq!((report.end, report.progress.passed), (WorkerEnd::Finished, u64::from(LIVE_UNITS)));
    }
    let [bare, units] = [bare, units].map(|times| median(times.into_iter()));
    let ratio = units.as_secs_f64() / bare.as_secs_f64();
    println!(
        "{LIVE_UNITS} live units, {IN_FLIGHT} in flight, a model of {} ms: {:.0} ms; bare agent runs: {:.0} ms",
        MODEL_TIME.as_millis(),
        units.as_secs_f64() * 1e3,
        bare.as_secs_f64() * 1e3
    );
    println!("ratio: {ratio:.2} (bar: ≤ {MAX_LIVE_RATIO})");
    ratio <= MAX_LIVE_RATIO
}

/// Runs the same agent as often, without a store.
async fn bare_runs() -> Duration {
    let agent = Arc::new(fixture::bare_agent(MODEL_TIME));
    let began = Instant::now();
    let mut tasks = JoinSet::new();
    for _ in 0..IN_FLIGHT {
        let agent = Arc::clone(&agent);
        tasks.spawn(async move {
            for _ in 0..LIVE_UNITS as usize / IN_FLIGHT {
                let mut run = Run::new("bare", vec![Message::text(Role::User, "How much?")], Limits::default());
                let result = agent.run(&mut run, std::future::pending()).await.expect("a result");
                assert_eq!(result.final_response.as_deref(), Some("It is 42."));
            }
        });
    }
    tasks.join_all().await;
    began.elapsed()
}

/// Measures the replay of a recorded run with a judge.
#[expect(clippy::print_stdout, reason = "the purpose of this program is its output")]
async fn replay() -> bool {
    let folder = TemporaryFolder::new();
    let path = folder.path().join("run.jsonl");
    let fixture = Fixture::judged(REPLAYED_UNITS / QUESTIONS);
    {
        let live = fixture.store(&folder.path().join("live.db")).await;
        work(&live, &fixture, WorkerOptions { in_flight: REPLAY_IN_FLIGHT, ..options("live") }).await;
        let trials = write_recording(&*live, &run_id(), &path, &Redactor::default()).await.expect("a recording");
        assert_eq!(trials, u64::from(REPLAYED_UNITS));
    }
    let calls = fixture.calls();
    let store = fixture.store(&folder.path().join("replay.db")).await;
    let began = Instant::now();
    let recording = Some(Arc::new(Recording::open(&path).await.expect("a recording")));
    let replayed = WorkerOptions { in_flight: REPLAY_IN_FLIGHT, replay: recording, ..options("replay") };
    let report = work(&store, &fixture, replayed).await;
    let took = began.elapsed().as_secs_f64();
    assert_eq!((report.end, report.progress.passed), (WorkerEnd::Finished, u64::from(REPLAYED_UNITS)));
    assert_eq!(fixture.calls(), calls, "a replay calls no model");
    let rate = f64::from(REPLAYED_UNITS) / took;
    println!("{REPLAYED_UNITS} recorded units replayed: {rate:.0} units/s (bar: > {MIN_REPLAY_RATE})");
    rate > MIN_REPLAY_RATE
}

/// Prints the peak memory of processes with few and with many units.
#[expect(clippy::print_stdout, reason = "the purpose of this program is its output")]
fn memory() -> bool {
    let of = |name: &str| output_of(name).parse::<f64>().unwrap_or(f64::INFINITY);
    let [few, many] = ["hold-verify-100", "hold-verify-10000"].map(of);
    let ratio = many / few;
    println!("peak memory with 100 units: {few:.1} MiB, with 10,000: {many:.1} MiB");
    println!("ratio: {ratio:.2} (bar: < {MAX_MEMORY_RATIO})");
    ratio < MAX_MEMORY_RATIO
}

/// Runs 100 questions this often, and prints the peak memory of this process in MiB.
#[expect(clippy::print_stdout, reason = "the parent process reads it")]
#[expect(clippy::cast_precision_loss, reason = "memory is far smaller than the precision of a float")]
pub(crate) async fn hold(replicates: u32) {
    let folder = TemporaryFolder::new();
    let fixture = Fixture::judged(replicates);
    let store = fixture.store(&folder.path().join("runs.db")).await;
    work(&store, &fixture, WorkerOptions { in_flight: IN_FLIGHT, ..options("memory") }).await;
    println!("{:.2}", peak_memory() as f64 / 1024.0);
}

async fn work(store: &Arc<SqliteStore>, fixture: &Fixture, options: WorkerOptions) -> WorkerReport {
    let (_stop, stopped) = watch::channel(Stop::No);
    let store = Arc::clone(store) as Arc<dyn RunStore>;
    Worker::new(store, fixture.runner(), options, stopped).run().await.expect("a report")
}

fn run_id() -> RunId {
    RunId("bench".into())
}

fn options(worker: &str) -> WorkerOptions {
    WorkerOptions::new(run_id(), worker)
}

async fn open(path: &Path) -> Arc<SqliteStore> {
    Arc::new(SqliteStore::open(path).await.expect("a store"))
}
