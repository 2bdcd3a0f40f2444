//! One run, many worker processes, and everything that can end at once: workers, connections and the database server.
//!
//! The faults happen after a share of the steps, not after a time, so that they hit a fast machine and a slow one alike.
//! `WHARF_TEST_SCALE_UNITS` sets the number of units; `scripts/test-long` runs with 10,000.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use rustix::process::Signal;
use tokio::time::Instant;
use wharf_testkit::{Postgres, until};
use wharf_verify::UnitResult;
use wharf_verify::store::{Progress, Recovery, ResultPages, RunState};

use crate::crash::ledger::Ledger;
use crate::crash::process::{CrashRun, Death, Process, WorkerPlan, planned_once};
use crate::store_kit::run_id;

const WORKERS: usize = 6;
const IN_FLIGHT: usize = 8;
/// Longer than a restart of the server, so that only workers that are gone lose their leases. In milliseconds.
const LEASE: u64 = 8_000;
const UNITS: u32 = 300;
const UNITS_OF_A_TRIAL: u32 = 2;
/// A bound for all the work.
const DEADLINE: Duration = Duration::from_secs(1_000);
/// Ends some connections of the workers, whatever they are doing.
const CUT_SOME: &str = "SELECT COUNT(pg_terminate_backend(pid)) FROM pg_stat_activity \
     WHERE application_name = 'wharf' AND random() < 0.4";

/// What happens when a percentage of the steps is paid for.
#[derive(Clone, Copy, Debug)]
enum Fault {
    KillWorker,
    StopWorker,
    CutConnections,
    CrashServer,
}

const FAULTS: [(usize, Fault); 16] = [
    (4, Fault::CutConnections),
    (8, Fault::KillWorker),
    (12, Fault::CutConnections),
    (16, Fault::StopWorker),
    (20, Fault::KillWorker),
    (26, Fault::CutConnections),
    (30, Fault::CrashServer),
    (36, Fault::KillWorker),
    (42, Fault::CutConnections),
    (48, Fault::KillWorker),
    (54, Fault::CutConnections),
    (60, Fault::CrashServer),
    (66, Fault::KillWorker),
    (72, Fault::CutConnections),
    (78, Fault::KillWorker),
    (84, Fault::CutConnections),
];

/// A running process and its plan.
struct Running {
    plan: WorkerPlan,
    process: Process,
}

/// What the faults left behind.
struct Chaos {
    run: CrashRun,
    ledger: Ledger,
    postgres: Postgres,
    kills: usize,
    /// Leases that workers lost although nothing stopped them.
    lost_leases: u64,
}

#[expect(clippy::disallowed_methods, reason = "the long tests pass the number of units in the environment")]
fn units() -> u32 {
    std::env::var("WHARF_TEST_SCALE_UNITS").map_or(UNITS, |units| units.parse().unwrap())
}

async fn start(run: &CrashRun, name: &str) -> Running {
    let plan = WorkerPlan { lease: LEASE, heartbeat: 500, in_flight: IN_FLIGHT, ..run.worker(name) };
    let process = plan.start();
    // A server that is not there when a worker starts is an error at once.
    until(async || plan.is_open()).await;
    Running { plan, process }
}

/// Waits without blocking the thread, which a blocked wait for a process would.
async fn wait_for(what: &str, mut condition: impl FnMut() -> bool) {
    let deadline = Instant::now() + DEADLINE;
    while !condition() {
        assert!(Instant::now() < deadline, "{what} takes too long");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

#[expect(clippy::print_stderr, reason = "a failure can be repeated with the seed")]
async fn chaos(units: u32, recovery: Recovery) -> Chaos {
    let seed = fastrand::u64(..);
    eprintln!("seed {seed}");
    let mut random = fastrand::Rng::with_seed(seed);
    let ledger = Ledger::start(Duration::from_millis(10));
    let mut postgres = Postgres::start_durable().await;
    let trials = units / UNITS_OF_A_TRIAL;
    let run = CrashRun::new(trials, &ledger).with_recovery(recovery).with_database(&postgres.create_database("runs"));
    let store = run.open().await;
    planned_once(&*store, trials).await;
    store.close().await.unwrap();
    let mut workers = Vec::new();
    for number in 0..WORKERS {
        workers.push(start(&run, &format!("worker-{number}")).await);
    }
    let mut stopped = None;
    let mut kills = 0;
    let steps = run.expected_keys().len();
    for (percent, fault) in FAULTS {
        wait_for("the work", || ledger.paid() * 100 >= percent * steps).await;
        match fault {
            Fault::KillWorker => {
                let killed = workers.swap_remove(random.usize(..workers.len()));
                killed.process.kill_after(Duration::ZERO);
                kills += 1;
                workers.push(start(&run, &format!("replacement-{kills}")).await);
            }
            Fault::StopWorker => {
                // One that was just started, or whose connection was just cut, may hold no trial. It goes on.
                wait_for("a worker with trials", || {
                    let chosen = random.usize(..workers.len());
                    let Running { plan, process } = &workers[chosen];
                    process.signal(Signal::STOP);
                    let held = format!("SELECT COUNT(*) FROM wharf.trial WHERE worker = '{}'", plan.worker);
                    if postgres.execute("runs", &held) == "0" {
                        process.signal(Signal::CONT);
                    } else {
                        stopped = Some(workers.swap_remove(chosen));
                    }
                    stopped.is_some()
                })
                .await;
            }
            Fault::CutConnections => drop(postgres.execute("postgres", CUT_SOME)),
            Fault::CrashServer => {
                postgres.crash().await;
                postgres.restart().await;
            }
        }
    }
    let mut lost_leases = 0;
    for Running { plan, mut process } in workers {
        wait_for("the end of a worker", || process.has_ended()).await;
        assert_eq!(process.wait(), Death::Exited, "{}", plan.worker);
        let report = run.report(&plan.worker);
        assert_eq!(report["end"], "Finished", "{report}");
        lost_leases += report["lost_leases"].as_u64().unwrap();
    }
    // The stopped worker is continued when nothing is left, so its leases have been taken over.
    let mut process = stopped.unwrap().process;
    let before = ledger.paid();
    process.signal(Signal::CONT);
    wait_for("the end of the stopped worker", || process.has_ended()).await;
    assert_eq!(process.wait(), Death::Exited);
    // It may be stopped between an intent and its request, which it sends when it is continued. Nothing else is paid for.
    let late = ledger.paid() - before;
    assert!(late <= IN_FLIGHT, "the stopped worker paid for {late} steps after it was continued");
    Chaos { run, ledger, postgres, kills, lost_leases }
}

impl Chaos {
    fn count(&self, sql: &str) -> u64 {
        self.postgres.execute("runs", sql).parse().unwrap()
    }

    /// Returns how many attempts of each step ended without a result.
    fn interrupted(&self) -> BTreeMap<String, u32> {
        let sql = "SELECT request, COUNT(*) FROM wharf.step WHERE state = 'interrupted' GROUP BY request";
        let rows = self.postgres.execute("runs", sql);
        let row = |row: &str| row.split_once('|').map(|(key, count)| (key.to_owned(), count.parse().unwrap()));
        rows.lines().filter_map(row).collect()
    }
}

async fn outcome(run: &CrashRun) -> (Progress, Vec<Arc<UnitResult>>) {
    let store = run.open().await;
    let (summary, _) = store.run(&run_id("run")).await.unwrap();
    assert_eq!(summary.state, RunState::Finished);
    let mut results = Vec::new();
    let id = run_id("run");
    let mut pages = ResultPages::new(&*store, &id);
    while let Some(page) = pages.next().await.unwrap() {
        results.extend(page);
    }
    store.close().await.unwrap();
    (summary.progress, results)
}

#[tokio::test]
#[expect(clippy::print_stderr, reason = "the long test shows what it did")]
async fn many_workers_finish_every_unit_once_whatever_is_killed() {
    let units = units();
    let all = u64::from(units);
    let chaos = chaos(units, Recovery::Repeat).await;
    let (progress, results) = outcome(&chaos.run).await;
    assert_eq!((progress.units, progress.done, progress.passed), (all, all, all));
    assert_eq!((progress.running, results.len()), (0, units as usize));
    // One process, nothing killed: the same totals and the same results.
    let ledger = Ledger::start(Duration::ZERO);
    let single = CrashRun::new(units / UNITS_OF_A_TRIAL, &ledger);
    let worker = WorkerPlan { in_flight: WORKERS * IN_FLIGHT, ..single.worker("single") }.start();
    assert_eq!(worker.wait(), Death::Exited);
    assert_eq!(outcome(&single).await, (progress, results));
    // Nothing is missing in the ledger, and every repeated call belongs to an attempt that ended with its worker.
    let calls = chaos.ledger.calls();
    assert!(calls.keys().eq(&chaos.run.expected_keys()), "every step was executed");
    let interrupted = chaos.interrupted();
    for (key, count) in &calls {
        let attempts = interrupted.get(key).copied().unwrap_or_default();
        assert!(count - 1 <= attempts, "{key} was paid for {count} times after {attempts} interrupted attempts");
    }
    let extra: u32 = calls.values().map(|count| count - 1).sum();
    let in_flight = (chaos.kills + 1) * IN_FLIGHT;
    let lost = usize::try_from(chaos.lost_leases).unwrap();
    assert!(extra as usize <= in_flight + lost, "{extra} repeated calls, {} kills, {lost} leases lost", chaos.kills);
    assert_eq!(chaos.count("SELECT COUNT(*) FROM wharf.step WHERE state = 'done'"), calls.len() as u64);
    eprintln!("{units} units: {extra} repeated calls, {} kills, {lost} leases lost", chaos.kills);
}

#[tokio::test]
async fn many_workers_pay_for_nothing_twice_with_the_indeterminate_policy() {
    let units = units();
    let all = u64::from(units);
    let chaos = chaos(units, Recovery::Indeterminate).await;
    let (progress, results) = outcome(&chaos.run).await;
    assert_eq!((progress.done, results.len()), (all, units as usize));
    assert_eq!(progress.passed + progress.indeterminate, all);
    assert!(progress.indeterminate > 0, "no step was in flight at a kill");
    let calls = chaos.ledger.calls();
    assert!(calls.values().all(|count| *count == 1), "{:?}", calls.iter().find(|(_, count)| **count > 1));
    // A unit is indeterminate because of a step in flight at a kill, and a step of the answer decides on all its units.
    let trials = (chaos.kills + 1) * IN_FLIGHT + usize::try_from(chaos.lost_leases).unwrap();
    assert!(progress.indeterminate <= trials as u64 * u64::from(UNITS_OF_A_TRIAL), "{progress:?}");
}
