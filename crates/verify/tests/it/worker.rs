//! Workers: claiming, stopping, budgets, lost leases and events.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use sqlx::{Connection as _, SqliteConnection};
use tempfile::TempDir;
use tokio::sync::{mpsc, watch};
use wharf_protocol::BoxFuture;
use wharf_verify::journal::{Journal, JournalError, StepKind, StepStart};
use wharf_verify::store::{Claim, RunState, RunStore, SqliteOptions, SqliteStore, StoreError};
use wharf_verify::worker::{Stop, WorkerEnd, WorkerEventKind, WorkerReport, WorkerRole};
use wharf_verify::{Budget, BudgetExceeded, Trial, TrialRunner, UnitId, Worker, WorkerOptions};

use crate::runner::{Counting, PaidRunner, all_keys};
use crate::store_kit::{failure, planned, run_id, step, trials};

/// A bound for everything in these tests.
const SOON: Duration = Duration::from_secs(30);

struct Fixture {
    folder: TempDir,
    store: Arc<SqliteStore>,
    plan: Vec<Trial>,
}

impl Fixture {
    async fn new(count: u32) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let store = SqliteStore::open(&folder.path().join("runs.db")).await.unwrap();
        let plan = trials(count, &["j", "k"]);
        planned(&store, &run_id("run"), &plan).await;
        Self { folder, store: Arc::new(store), plan }
    }

    async fn work(&self, runner: Arc<dyn TrialRunner>, options: WorkerOptions) -> WorkerReport {
        let (_stop, stopped) = watch::channel(Stop::No);
        let worker = Worker::new(Arc::clone(&self.store) as Arc<dyn RunStore>, runner, options, stopped);
        tokio::time::timeout(SOON, worker.run()).await.unwrap().unwrap()
    }

    async fn state(&self) -> RunState {
        self.store.run(&run_id("run")).await.unwrap().0.state
    }
}

fn options(worker: &str) -> WorkerOptions {
    WorkerOptions { poll: Duration::from_millis(20), ..WorkerOptions::new(run_id("run"), worker) }
}

/// Waits until a condition holds.
/// Returns when the lease of the only trial ends, in milliseconds.
async fn lease_until(connection: &mut SqliteConnection) -> i64 {
    sqlx::query_scalar("SELECT lease_until FROM trial").fetch_one(connection).await.unwrap()
}

async fn eventually(condition: impl AsyncFn() -> bool) {
    let wait = async {
        while !condition().await {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::time::timeout(SOON, wait).await.expect("the condition holds in time");
}

/// A worker that was stopped for long finds the run finished by others.
#[tokio::test]
async fn a_worker_that_leaves_a_finished_run_does_not_mark_it_as_stopped() {
    let fixture = Fixture::new(2).await;
    let runner = PaidRunner::new(Arc::new(Counting::default()));
    fixture.work(runner.clone(), options("a")).await;
    let (_stop, stopped) = watch::channel(Stop::Finish);
    let late = Worker::new(Arc::clone(&fixture.store) as Arc<dyn RunStore>, runner, options("late"), stopped);
    let report = tokio::time::timeout(SOON, late.run()).await.unwrap().unwrap();
    assert_eq!((report.end, fixture.state().await), (WorkerEnd::Stopped, RunState::Finished));
}

#[tokio::test]
async fn every_step_of_a_run_is_paid_once_and_every_unit_has_a_result() {
    let fixture = Fixture::new(30).await;
    let provider = Arc::new(Counting::default());
    let report = fixture.work(PaidRunner::new(provider.clone()), options("a")).await;
    assert_eq!((report.end, report.progress.done, report.progress.passed), (WorkerEnd::Finished, 60, 60));
    assert_eq!((report.unfinished_count, report.lost_leases, report.progress.running), (0, 0, 0));
    assert_eq!(fixture.state().await, RunState::Finished);
    let keys = all_keys(&fixture.plan);
    assert_eq!(provider.calls.lock().unwrap().len(), keys.len());
    assert_eq!(provider.total() as usize, keys.len());
    assert_eq!(report.progress.usage.total_tokens(), 100 * keys.len() as u64);
    // A second worker finds nothing to do.
    let again = fixture.work(PaidRunner::new(provider.clone()), options("b")).await;
    assert_eq!((again.end, provider.total() as usize), (WorkerEnd::Finished, keys.len()));
}

#[tokio::test]
async fn no_more_trials_than_allowed_are_in_flight() {
    struct Gauge {
        now: std::sync::atomic::AtomicUsize,
        max: std::sync::atomic::AtomicUsize,
        inner: Arc<PaidRunner>,
    }
    impl TrialRunner for Gauge {
        fn run<'a>(
            &'a self,
            trial: &'a Trial,
            open_units: &'a [UnitId],
            journal: Arc<dyn Journal>,
        ) -> BoxFuture<'a, Result<(), JournalError>> {
            Box::pin(async move {
                let now = self.now.fetch_add(1, std::sync::atomic::Ordering::SeqCst) + 1;
                self.max.fetch_max(now, std::sync::atomic::Ordering::SeqCst);
                let outcome = self.inner.run(trial, open_units, journal).await;
                self.now.fetch_sub(1, std::sync::atomic::Ordering::SeqCst);
                outcome
            })
        }
    }
    let fixture = Fixture::new(20).await;
    let provider = Arc::new(Counting { delay: Duration::from_millis(2), ..Counting::default() });
    let gauge = Arc::new(Gauge { now: 0.into(), max: 0.into(), inner: PaidRunner::new(provider) });
    let report = fixture.work(gauge.clone(), WorkerOptions { in_flight: 5, ..options("a") }).await;
    assert_eq!(report.end, WorkerEnd::Finished);
    assert_eq!(gauge.max.load(std::sync::atomic::Ordering::SeqCst), 5);
}

#[tokio::test]
async fn a_budget_stops_before_the_next_step_and_nothing_is_lost() {
    let fixture = Fixture::new(4).await;
    let provider = Arc::new(Counting::default());
    let budget = Budget { max_cost_usd: Some(0.08), ..Budget::default() };
    let limited = WorkerOptions { in_flight: 1, budget, ..options("a") };
    let report = fixture.work(PaidRunner::new(provider.clone()), limited.clone()).await;
    assert_eq!(report.end, WorkerEnd::Budget(BudgetExceeded::Cost { max: 0.08, spent: 0.08 }));
    assert_eq!((provider.total(), report.progress.usage.cost_usd, report.progress.done), (8, Some(0.08), 2));
    assert_eq!((fixture.state().await, report.progress.running), (RunState::Stopped, 0));
    // With the same budget it stops at once; without it continues where it was.
    let report = fixture.work(PaidRunner::new(provider.clone()), limited).await;
    assert!(matches!(report.end, WorkerEnd::Budget(_)), "{:?}", report.end);
    assert_eq!(provider.total(), 8);
    let report = fixture.work(PaidRunner::new(provider.clone()), options("b")).await;
    assert_eq!((report.end, report.progress.done), (WorkerEnd::Finished, 8));
    assert_eq!(provider.total() as usize, all_keys(&fixture.plan).len());
}

#[tokio::test]
async fn tokens_and_time_are_budgets_too() {
    let fixture = Fixture::new(4).await;
    let provider = Arc::new(Counting::default());
    let tokens = Budget { max_tokens: Some(250), ..Budget::default() };
    let report =
        fixture.work(PaidRunner::new(provider.clone()), WorkerOptions { in_flight: 1, budget: tokens, ..options("a") });
    assert_eq!(report.await.end, WorkerEnd::Budget(BudgetExceeded::Tokens { max: 250, spent: 300 }));
    assert_eq!(provider.total(), 3);
    let time = Budget { max_time: Some(Duration::ZERO), ..Budget::default() };
    let report = fixture.work(PaidRunner::new(provider.clone()), WorkerOptions { budget: time, ..options("b") }).await;
    assert_eq!(report.end, WorkerEnd::Budget(BudgetExceeded::Time { max: Duration::ZERO }));
    assert_eq!(provider.total(), 3);
}

#[tokio::test]
async fn the_first_stop_finishes_trials_in_flight_and_the_second_drops_them() {
    for stop_with in [Stop::Finish, Stop::Now] {
        let fixture = Fixture::new(20).await;
        let provider = Arc::new(Counting { delay: Duration::from_millis(30), ..Counting::default() });
        let (stop, stopped) = watch::channel(Stop::No);
        let store = Arc::clone(&fixture.store) as Arc<dyn RunStore>;
        let worker_options = WorkerOptions { in_flight: 3, ..options("a") };
        let worker = Worker::new(store, PaidRunner::new(provider.clone()), worker_options, stopped);
        let control = async {
            eventually(async || provider.total() >= 4).await;
            stop.send_replace(stop_with);
        };
        let (report, ()) = tokio::join!(worker.run(), control);
        let report = report.unwrap();
        assert_eq!((report.end, fixture.state().await), (WorkerEnd::Stopped, RunState::Stopped));
        assert_eq!(report.progress.running, 0, "leases are released");
        let expected = if stop_with == Stop::Finish { 6 } else { 0 };
        assert_eq!(report.progress.done, expected, "{stop_with:?}");
        let report = fixture.work(PaidRunner::new(provider.clone()), options("b")).await;
        assert_eq!((report.end, report.progress.done), (WorkerEnd::Finished, 40));
        let keys = all_keys(&fixture.plan).len();
        let repeated = provider.total() as usize - keys;
        assert!(repeated <= if stop_with == Stop::Finish { 0 } else { 3 }, "{stop_with:?}: {repeated}");
    }
}

/// Retries a request to a provider that is down, for as long as the journal allows.
#[derive(Default)]
struct Retrying {
    attempts: AtomicU32,
}

impl TrialRunner for Retrying {
    fn run<'a>(
        &'a self,
        _trial: &'a Trial,
        _open_units: &'a [UnitId],
        journal: Arc<dyn Journal>,
    ) -> BoxFuture<'a, Result<(), JournalError>> {
        Box::pin(async move {
            loop {
                let StepStart::Execute(number) = journal.begin_step(&step(StepKind::Model, "first")).await? else {
                    panic!("a failure is never reused");
                };
                self.attempts.fetch_add(1, Ordering::SeqCst);
                tokio::time::sleep(Duration::from_millis(5)).await;
                journal.finish_step(number, failure("the provider is down")).await?;
            }
        })
    }
}

#[tokio::test]
async fn a_worker_that_stops_does_not_retry_and_the_trial_is_continued_later() {
    let fixture = Fixture::new(1).await;
    let (stop, stopped) = watch::channel(Stop::No);
    let store = Arc::clone(&fixture.store) as Arc<dyn RunStore>;
    let runner = Arc::new(Retrying::default());
    let worker = Worker::new(store, Arc::clone(&runner) as Arc<dyn TrialRunner>, options("a"), stopped);
    let control = async {
        eventually(async || runner.attempts.load(Ordering::SeqCst) >= 3).await;
        stop.send_replace(Stop::Finish);
        runner.attempts.load(Ordering::SeqCst)
    };
    let (report, attempts) = tokio::time::timeout(SOON, async { tokio::join!(worker.run(), control) }).await.unwrap();
    let report = report.unwrap();
    assert_eq!((report.end, report.progress.done, report.progress.running), (WorkerEnd::Stopped, 0, 0));
    assert_eq!(runner.attempts.load(Ordering::SeqCst), attempts, "nothing is sent after the stop");

    let report = fixture.work(PaidRunner::new(Arc::new(Counting::default())), options("b")).await;
    assert_eq!((report.end, report.progress.done), (WorkerEnd::Finished, 2));
}

#[tokio::test]
async fn a_trial_of_another_worker_is_dropped_quietly() {
    let fixture = Fixture::new(2).await;
    let provider = Arc::new(Counting { delay: Duration::from_secs(3600), ..Counting::default() });
    let runner = PaidRunner::new(provider.clone());
    let short = WorkerOptions { lease: Duration::ZERO, heartbeat: Duration::from_millis(20), ..options("a") };
    let short = WorkerOptions { poll: Duration::from_secs(3600), in_flight: 2, ..short };
    let (stop, stopped) = watch::channel(Stop::No);
    let worker = Worker::new(Arc::clone(&fixture.store) as Arc<dyn RunStore>, runner, short, stopped);
    let (events, mut seen) = mpsc::channel(64);
    let worker = worker.with_events(events);
    let control = async {
        eventually(async || provider.total() == 2).await;
        // Another worker takes both trials: the renewals of the first one no longer include them.
        let claim = Claim { run: &run_id("run"), worker: "thief", limit: 9, lease: SOON };
        assert_eq!(fixture.store.claim(&claim).await.unwrap().len(), 2);
        let mut lost = 0;
        while lost < 2 {
            let event = tokio::time::timeout(SOON, seen.recv()).await.unwrap().unwrap();
            lost += u32::from(matches!(event.kind, WorkerEventKind::LeaseLost { .. }));
        }
        stop.send_replace(Stop::Finish);
    };
    let (report, ()) = tokio::join!(worker.run(), control);
    let report = report.unwrap();
    assert_eq!((report.end, report.lost_leases, report.unfinished_count), (WorkerEnd::Stopped, 2, 0));
    assert_eq!(report.progress.running, 2, "the thief still has them");
}

#[tokio::test]
async fn trials_of_a_dead_worker_are_picked_up_while_waiting() {
    let fixture = Fixture::new(3).await;
    let claim = Claim { run: &run_id("run"), worker: "dead", limit: 9, lease: Duration::from_millis(300) };
    assert_eq!(fixture.store.claim(&claim).await.unwrap().len(), 3);
    let provider = Arc::new(Counting::default());
    let report = fixture.work(PaidRunner::new(provider), options("a")).await;
    assert_eq!((report.end, report.progress.done), (WorkerEnd::Finished, 6));
}

#[test]
fn a_blocked_executor_keeps_its_leases() {
    const LEASE: Duration = Duration::from_secs(2);
    /// Blocks its thread until the test has tried to claim the trial.
    struct Blocking(std::sync::Mutex<std::sync::mpsc::Receiver<()>>);
    impl TrialRunner for Blocking {
        fn run<'a>(
            &'a self,
            trial: &'a Trial,
            open_units: &'a [UnitId],
            journal: Arc<dyn Journal>,
        ) -> BoxFuture<'a, Result<(), JournalError>> {
            self.0.lock().unwrap().recv_timeout(SOON).unwrap();
            Box::pin(async move {
                for unit in open_units {
                    journal
                        .finish_unit(&crate::store_kit::unit_result(trial, unit, wharf_verify::Verdict::Passed))
                        .await?;
                }
                Ok(())
            })
        }
    }
    let runtime = || tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("runs.db");
    let prepare = async {
        let store = SqliteStore::open(&path).await.unwrap();
        planned(&store, &run_id("run"), &trials(1, &["j"])).await;
        store.close().await.unwrap();
    };
    runtime().block_on(prepare);
    let (unblock, blocked) = std::sync::mpsc::channel();
    let worker_path = path.clone();
    let worker = std::thread::spawn(move || {
        runtime().block_on(async {
            let store = Arc::new(SqliteStore::open(&worker_path).await.unwrap());
            let (_stop, stopped) = watch::channel(Stop::No);
            let options = WorkerOptions { lease: LEASE, heartbeat: LEASE / 20, ..options("blocked") };
            let runner = Arc::new(Blocking(blocked.into()));
            Worker::new(store, runner, options, stopped).run().await.unwrap()
        })
    });
    let stolen = runtime().block_on(async {
        let store = SqliteStore::open(&path).await.unwrap();
        eventually(async || store.progress(&run_id("run")).await.unwrap().running == 1).await;
        // The heartbeat has renewed the lease for longer than two leases last.
        let mut connection = SqliteConnection::connect(&format!("sqlite://{}", path.display())).await.unwrap();
        let first = lease_until(&mut connection).await;
        let wait = async {
            while lease_until(&mut connection).await - first < 2 * i64::try_from(LEASE.as_millis()).unwrap() {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        };
        tokio::time::timeout(SOON, wait).await.expect("the heartbeat renews the lease");
        let claim = Claim { run: &run_id("run"), worker: "thief", limit: 1, lease: SOON };
        store.claim(&claim).await.unwrap()
    });
    assert_eq!(stolen, []);
    unblock.send(()).unwrap();
    let report = worker.join().unwrap();
    assert_eq!((report.end, report.lost_leases), (WorkerEnd::Finished, 0));
}

#[tokio::test]
async fn trials_without_a_result_do_not_stop_others_and_are_reported() {
    struct Careless(Arc<PaidRunner>);
    impl TrialRunner for Careless {
        fn run<'a>(
            &'a self,
            trial: &'a Trial,
            open_units: &'a [UnitId],
            journal: Arc<dyn Journal>,
        ) -> BoxFuture<'a, Result<(), JournalError>> {
            Box::pin(async move {
                match trial.question.as_str() {
                    "question-1" => panic!("a bug"),
                    "question-2" => Ok(()),
                    "question-3" => Err(JournalError::Diverged("the prompt changed".to_owned())),
                    _ => self.0.run(trial, open_units, journal).await,
                }
            })
        }
    }
    let fixture = Fixture::new(6).await;
    let runner = Careless(PaidRunner::new(Arc::new(Counting::default())));
    let report = fixture.work(Arc::new(runner), options("a")).await;
    assert_eq!((report.end, report.unfinished_count, report.progress.done), (WorkerEnd::Unfinished, 3, 6));
    let mut reasons: Vec<_> = report.unfinished.iter().map(|unfinished| unfinished.reason.clone()).collect();
    reasons.sort();
    assert!(reasons[0].starts_with("it ended without a result for 2 units"), "{reasons:?}");
    assert!(reasons[1].starts_with("it panicked"), "{reasons:?}");
    assert_eq!(reasons[2], "the prompt changed");
    assert_eq!((fixture.state().await, report.progress.running), (RunState::Stopped, 0));
}

#[tokio::test]
async fn a_store_that_cannot_be_written_stops_before_the_next_paid_step() {
    let fixture = Fixture::new(200).await;
    let path = fixture.folder.path().join("runs.db");
    fixture.store.close().await.unwrap();
    let pages = u32::try_from(std::fs::metadata(&path).unwrap().len() / 4096).unwrap() + 8;
    let full = SqliteStore::open_with(&path, SqliteOptions { max_pages: Some(pages) }).await.unwrap();
    let full = Fixture { folder: fixture.folder, store: Arc::new(full), plan: fixture.plan };
    let provider = Arc::new(Counting::default());
    let report = full.work(PaidRunner::new(provider.clone()), WorkerOptions { in_flight: 4, ..options("a") }).await;
    let expected = WorkerEnd::Store(StoreError::Failed("database or disk is full".to_owned()));
    assert_eq!(report.end, expected);
    let paid = u64::from(provider.total());
    let on_record = report.progress.usage.total_tokens() / 100;
    assert!(paid > 0 && paid - on_record <= 4, "{paid} paid, {on_record} on record");
    full.store.close().await.unwrap();
    let store = Arc::new(SqliteStore::open(&path).await.unwrap());
    let resumed = Fixture { store, ..full };
    let report = resumed.work(PaidRunner::new(provider.clone()), options("b")).await;
    assert_eq!((report.end, report.progress.done), (WorkerEnd::Finished, 400));
    let repeated = provider.total() as usize - all_keys(&resumed.plan).len();
    assert!(repeated <= 4, "{repeated}");
}

#[tokio::test]
async fn events_carry_all_counts_and_a_full_channel_stops_nothing() {
    let fixture = Fixture::new(5).await;
    let (stop, stopped) = watch::channel(Stop::No);
    let (events, mut seen) = mpsc::channel(200);
    let store = Arc::clone(&fixture.store) as Arc<dyn RunStore>;
    let runner = PaidRunner::new(Arc::new(Counting::default()));
    let worker = Worker::new(Arc::clone(&store), runner.clone(), options("a"), stopped.clone()).with_events(events);
    worker.run().await.unwrap();
    let mut started = 0;
    let mut last = None;
    while let Ok(event) = seen.try_recv() {
        started += u32::from(matches!(event.kind, WorkerEventKind::TrialStarted { .. }));
        last = Some(event);
    }
    let last = last.unwrap().progress;
    assert_eq!((started, last.done, last.passed, last.units), (5, 10, 10, 10));
    assert_eq!(last.usage.total_tokens(), 100 * all_keys(&fixture.plan).len() as u64);
    // A reader that never reads.
    let another = Fixture::new(5).await;
    let (events, _unread) = mpsc::channel(1);
    let store = Arc::clone(&another.store) as Arc<dyn RunStore>;
    let report = Worker::new(store, runner, options("a"), stopped).with_events(events).run().await.unwrap();
    assert_eq!(report.end, WorkerEnd::Finished);
    drop(stop);
}

#[tokio::test]
async fn a_paused_run_finishes_what_is_in_flight_and_a_canceled_one_drops_it() {
    for (state, end, done) in [(RunState::Paused, WorkerEnd::Paused, 4), (RunState::Canceled, WorkerEnd::Canceled, 0)] {
        let fixture = Fixture::new(6).await;
        let delay = if state == RunState::Paused { Duration::from_millis(300) } else { SOON };
        let provider = Arc::new(Counting { delay, ..Counting::default() });
        let quick = WorkerOptions { in_flight: 2, heartbeat: Duration::from_millis(20), ..options("a") };
        let pause = async {
            eventually(async || provider.total() == 2).await;
            fixture.store.set_state(&run_id("run"), state).await.unwrap();
        };
        let runner = PaidRunner::new(Arc::clone(&provider) as _);
        let (report, ()) = tokio::join!(fixture.work(runner, quick), pause);
        assert_eq!((report.end, report.progress.done, report.progress.running), (end, done, 0));
        assert_eq!(fixture.state().await, state);
    }
}

#[tokio::test]
async fn a_helper_leaves_when_others_hold_the_rest_and_the_run_goes_on() {
    let fixture = Fixture::new(3).await;
    let claim = Claim { run: &run_id("run"), worker: "other", limit: 1, lease: SOON };
    let held = fixture.store.claim(&claim).await.unwrap();
    let helper = WorkerOptions { role: WorkerRole::Helper, ..options("a") };
    let report = fixture.work(PaidRunner::new(Arc::new(Counting::default())), helper.clone()).await;
    assert_eq!((report.end, report.progress.done, fixture.state().await), (WorkerEnd::Idle, 4, RunState::Running));
    fixture.store.release(&held[0].lease).await.unwrap();
    let report = fixture.work(PaidRunner::new(Arc::new(Counting::default())), helper).await;
    assert_eq!((report.end, fixture.state().await), (WorkerEnd::Finished, RunState::Finished));
}
