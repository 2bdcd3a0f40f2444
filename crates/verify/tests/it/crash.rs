//! Runs that are killed: separate worker processes against a paid provider that keeps a ledger.

pub(crate) mod ledger;
pub(crate) mod process;

use std::collections::BTreeMap;
use std::time::Duration;

use rustix::process::Signal;
use wharf_verify::store::{Recovery, RunState};

use ledger::{Ledger, SOON};
use process::{CrashRun, Death, POINTS, WorkerPlan};

/// Trials of a run that is killed at a failpoint.
const TRIALS: u32 = 5;

/// Checks that a run is complete, and that the totals are those of one result for every step.
fn assert_complete(run: &CrashRun, point: &str) {
    let summary = run.summary();
    let progress = summary.progress;
    assert_eq!((summary.state, progress.done), (RunState::Finished, progress.units), "{point}");
    assert_eq!(progress.running, 0, "{point}");
    let recorded = u64::try_from(run.recorded_steps().len()).unwrap();
    assert_eq!(progress.usage.total_tokens(), 100 * recorded, "{point}");
}

fn repeated(calls: &BTreeMap<String, u32>) -> Vec<(&String, u32)> {
    calls.iter().filter(|(_, count)| **count > 1).map(|(key, count)| (key, *count)).collect()
}

#[test]
fn killed_at_any_point_a_run_pays_again_for_nothing_that_is_on_record() {
    for (point, hits_before, executed) in POINTS {
        let ledger = Ledger::start(Duration::ZERO);
        let run = CrashRun::new(TRIALS, &ledger);
        let killed = WorkerPlan { failpoint: Some((point.to_owned(), hits_before)), ..run.worker("first") };
        assert_eq!(killed.start().wait(), Death::Killed, "{point} is passed");
        let on_record = run.recorded_steps();
        let before = ledger.calls();
        assert_eq!(run.worker("second").start().wait(), Death::Exited, "{point}");
        let calls = ledger.calls();
        assert_complete(&run, point);
        assert!(calls.keys().eq(&run.expected_keys()), "{point}: every step was executed");
        for key in &on_record {
            assert_eq!(calls[key], 1, "{point}: {key} was on record");
        }
        let repeated = repeated(&calls);
        assert!(executed.contains(&repeated.len()), "{point}: {repeated:?} after {} calls", before.len());
        assert!(repeated.iter().all(|(_, count)| *count == 2), "{point}: {repeated:?}");
    }
}

#[test]
fn with_the_indeterminate_policy_nothing_is_paid_twice_and_the_units_show_it() {
    for (point, hits_before, executed) in POINTS {
        let ledger = Ledger::start(Duration::ZERO);
        let run = CrashRun::new(TRIALS, &ledger).with_recovery(Recovery::Indeterminate);
        let killed = WorkerPlan { failpoint: Some((point.to_owned(), hits_before)), ..run.worker("first") };
        assert_eq!(killed.start().wait(), Death::Killed, "{point} is passed");
        assert_eq!(run.worker("second").start().wait(), Death::Exited, "{point}");
        let calls = ledger.calls();
        assert_complete(&run, point);
        assert_eq!(repeated(&calls), [], "{point}");
        let progress = run.summary().progress;
        let is_interrupted = *executed.start() > 0 || point == "after_intent";
        assert!(!is_interrupted || progress.indeterminate > 0, "{point}: {progress:?}");
        assert_eq!(progress.passed + progress.indeterminate, progress.units, "{point}");
        // A step that was never executed belongs to an indeterminate unit.
        assert!(progress.indeterminate > 0 || calls.keys().eq(&run.expected_keys()), "{point}");
    }
}

#[test]
fn late_writes_of_a_stopped_worker_are_fenced() {
    let ledger = Ledger::start_closed();
    let run = CrashRun::new(6, &ledger);
    // Without a heartbeat: the late worker finds out by its own writes.
    let late = WorkerPlan { lease: 1_500, heartbeat: 600_000, in_flight: 2, ..run.worker("late") };
    let late = late.start();
    // Both trials wait for the provider, so no intent is on its way.
    ledger.wait_for(2);
    late.signal(Signal::STOP);
    // A process that is stopped within a commit holds the lock of the file, and all others wait for it.
    let deadline = tokio::time::Instant::now() + SOON;
    while !run.is_writable() {
        assert!(tokio::time::Instant::now() < deadline, "the file stays locked");
        late.signal(Signal::CONT);
        std::thread::sleep(Duration::from_millis(1));
        late.signal(Signal::STOP);
    }
    let in_flight = ledger.calls();
    ledger.open();
    let second = WorkerPlan { in_flight: 2, ..run.worker("second") };
    assert_eq!(second.start().wait(), Death::Exited);
    assert_complete(&run, "stopped");
    let before = ledger.calls();
    late.signal(Signal::CONT);
    assert_eq!(late.wait(), Death::Exited);
    let report = run.report("late");
    // Two trials were in flight, and one was claimed ahead.
    assert_eq!((&report["rejected"], &report["lost_leases"]), (&3.into(), &3.into()), "{report}");
    // It paid for nothing after it was continued, and its results are not on record.
    assert_eq!(ledger.calls(), before);
    assert_complete(&run, "continued");
    let repeated = repeated(&before);
    assert_eq!(repeated.len(), 2, "{repeated:?}");
    assert!(repeated.iter().all(|(key, count)| *count == 2 && in_flight.contains_key(*key)), "{repeated:?}");
}

#[test]
fn a_full_disk_stops_before_the_paid_call() {
    let ledger = Ledger::start(Duration::ZERO);
    let run = CrashRun::new(100, &ledger);
    let full = WorkerPlan { extra_pages: Some(6), in_flight: 4, ..run.worker("full") };
    assert_eq!(full.start().wait(), Death::Exited);
    let report = run.report("full");
    assert_eq!(report["end"], "Store(Failed(\"database or disk is full\"))");
    // Every call had its intent on disk before it was made.
    let paid = ledger.calls();
    let intents = run.intents();
    assert!(!paid.is_empty() && paid.keys().all(|key| intents.contains(key)), "{paid:?}");
    assert_eq!(run.worker("resumed").start().wait(), Death::Exited);
    assert_complete(&run, "full disk");
    let calls = ledger.calls();
    assert!(repeated(&calls).len() <= 4, "{:?}", repeated(&calls));
}

#[test]
fn a_run_that_is_killed_again_and_again_has_exact_accounts() {
    const IN_FLIGHT: usize = 16;
    let seed = fastrand::u64(..);
    let mut random = fastrand::Rng::with_seed(seed);
    let ledger = Ledger::start(Duration::from_millis(4));
    let run = CrashRun::new(250, &ledger);
    let mut kills = 0;
    loop {
        // Two workers at once; one of them is killed.
        let plan = |name: &str| WorkerPlan { in_flight: IN_FLIGHT, ..run.worker(&format!("{name}-{kills}")) };
        let one = plan("one").start();
        let two = plan("two").start();
        if kills == 12 {
            assert_eq!((one.wait(), two.wait()), (Death::Exited, Death::Exited), "seed {seed}");
            break;
        }
        let pause = Duration::from_millis(random.u64(60..500));
        one.kill_after(pause);
        two.kill_after(Duration::from_millis(random.u64(0..60)));
        kills += 1;
    }
    assert_complete(&run, "soak");
    let calls = ledger.calls();
    assert!(calls.keys().eq(&run.expected_keys()), "seed {seed}: every step was executed");
    let extra: u32 = calls.values().map(|count| count - 1).sum();
    let recorded = run.recorded_steps();
    assert_eq!(recorded.len(), calls.len(), "seed {seed}: one result for every step");
    assert!(extra as usize <= 2 * kills * IN_FLIGHT, "seed {seed}: {extra} repeated calls after {kills} kills");
    // Every repeated call belongs to an interrupted attempt on record.
    assert!(u64::from(extra) <= run.interrupted_attempts(), "seed {seed}: {extra}");
}
