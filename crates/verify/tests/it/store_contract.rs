//! What every store guarantees. Each function gets an empty store.

use std::sync::Arc;
use std::time::Duration;

use wharf_verify::journal::{StepKind, StepOwner, StepRequest, StepStart};
use wharf_verify::outcome::{Failure, FailureCategory, FailureGroup};
use wharf_verify::store::{
    Claim, ClaimedTrial, Lack, NewRun, Recovery, Rerun, RunState, RunStore, StoreError, WorkerRecord,
};
use wharf_verify::{RunId, UnitResult, Verdict};

use crate::rate_limits::limits_are_shared_by_all_workers;
use crate::store_kit::{answer, failure, planned, run_id, step, trials, unit_result};

/// A lease that does not expire during a test.
const LONG: Duration = Duration::from_secs(600);
/// A lease that is expired at once.
const EXPIRED: Duration = Duration::ZERO;

async fn claim(store: &dyn RunStore, worker: &str, limit: u32, lease: Duration) -> Vec<ClaimedTrial> {
    store.claim(&Claim { run: &run_id("run"), worker, limit, lease }).await.unwrap()
}

async fn claim_one(store: &dyn RunStore, worker: &str, lease: Duration) -> ClaimedTrial {
    claim(store, worker, 1, lease).await.pop().expect("a trial")
}

async fn begin(store: &dyn RunStore, claimed: &ClaimedTrial, step: &StepRequest) -> StepStart {
    store.begin_step(&claimed.lease, step, Recovery::Repeat).await.unwrap()
}

fn number(start: &StepStart) -> i64 {
    match start {
        StepStart::Execute(number) => *number,
        other => panic!("{other:?}"),
    }
}

async fn finish_unit(store: &dyn RunStore, claimed: &ClaimedTrial, verdict: Verdict) -> UnitResult {
    let result = unit_result(&claimed.trial, &claimed.open_units[0], verdict);
    store.finish_unit(&claimed.lease, &result).await.unwrap().await.unwrap();
    result
}

async fn done(store: &dyn RunStore) -> (u64, u64) {
    let progress = store.progress(&run_id("run")).await.unwrap();
    (progress.done, progress.units)
}

/// A provider reports what it likes. The totals of the run stay readable, and never go down.
async fn totals_survive_any_number_that_a_provider_reports(store: &dyn RunStore) {
    planned(store, &run_id("run"), &trials(3, &["judge"])).await;
    let costs = [f64::MAX, -5.0, f64::NAN];
    for (index, cost) in costs.into_iter().enumerate() {
        let claimed = claim_one(store, "worker", LONG).await;
        let started = begin(store, &claimed, &step(StepKind::Model, "request")).await;
        let mut result = answer("{}");
        result.usage.input_tokens = u64::MAX;
        result.usage.output_tokens = i64::MAX as u64;
        result.usage.cost_usd = Some(cost);
        store.finish_step(&claimed.lease, number(&started), result).await.unwrap().await.unwrap();
        let usage = store.progress(&run_id("run")).await.unwrap().usage;
        assert!(usage.input_tokens >= 1_000_000 * (index as u64 + 1), "{usage:?}");
        assert!(usage.cost_usd.is_some_and(|cost| cost >= 1.0 && cost.is_finite()), "{usage:?}");
    }
}

/// Runs all checks. `fresh` creates an empty store.
pub(crate) async fn check<S: RunStore>(fresh: impl AsyncFn() -> S) {
    runs_are_listed_with_their_state(&fresh().await).await;
    trials_are_claimed_once_in_the_order_of_the_plan(&fresh().await).await;
    an_expired_lease_is_claimed_again_and_late_writes_are_refused(&fresh().await).await;
    a_renewed_lease_stays_and_a_lost_one_is_not_returned(&fresh().await).await;
    recorded_results_are_returned_instead_of_executing_again(&fresh().await).await;
    interrupted_steps_follow_the_recovery_policy(&fresh().await).await;
    failures_are_counted_and_never_reused(&fresh().await).await;
    results_come_back_whole_in_the_order_of_the_plan(&fresh().await).await;
    a_changed_plan_keeps_what_it_has_in_common(&fresh().await).await;
    failed_units_run_again_with_a_new_answer(&fresh().await).await;
    results_that_appear_while_a_run_is_read_are_not_read_twice(&fresh().await).await;
    a_unit_that_runs_again_refuses_the_late_result_of_its_last_worker(&fresh().await).await;
    provider_failures_run_again_with_what_succeeded(&fresh().await).await;
    writes_that_do_not_fit_are_refused(&fresh().await).await;
    totals_survive_any_number_that_a_provider_reports(&fresh().await).await;
    paused_and_canceled_runs_are_not_claimed_until_they_are_resumed(&fresh().await).await;
    runs_are_served_by_priority_then_the_oldest_first(&fresh().await).await;
    a_worker_does_not_claim_what_it_lacks_something_for(&fresh().await).await;
    the_activity_of_a_run_has_its_rate_and_expired_leases(&fresh().await).await;
    a_deleted_run_leaves_the_contents_of_others(&fresh().await).await;
    unknown_runs_are_errors(&fresh().await).await;
    many_writers_at_once_lose_nothing(&fresh().await).await;
    a_run_is_created_once(&fresh().await).await;
    workers_that_claim_at_once_get_different_trials(&fresh().await).await;
    answers_with_any_character_are_stored(&fresh().await).await;
    limits_are_shared_by_all_workers(&fresh().await).await;
    a_closed_store_refuses_writes(&fresh().await).await;
}

/// Two coordinators that start the same run at once create it once. A different run under its id is refused.
async fn a_run_is_created_once(store: &dyn RunStore) {
    let other = store.reopen().await.unwrap();
    let run = NewRun {
        id: run_id("run"),
        benchmark: "a-benchmark".to_owned(),
        settings: serde_json::json!({"models": ["model-a"]}),
    };
    let plan = trials(40, &["j", "k"]);
    let create = async |store: &dyn RunStore| {
        store.create_run(&run).await.unwrap();
        store.set_plan(&run.id, Arc::new(plan.clone())).await.unwrap();
    };
    futures_util::join!(create(store), create(&*other));
    assert_eq!(store.runs().await.unwrap().len(), 1);
    assert_eq!(done(store).await, (0, 80));
    assert_eq!(store.trials(&run.id, 0, 100).await.unwrap(), plan);
    // What is done stays when a third one comes.
    let claimed = claim_one(store, "a", LONG).await;
    finish_unit(store, &claimed, Verdict::Passed).await;
    create(&*other).await;
    assert_eq!(done(store).await, (1, 80));
    for different in [
        NewRun { settings: serde_json::json!({"models": ["model-b"]}), ..run.clone() },
        NewRun { benchmark: "another".to_owned(), ..run.clone() },
    ] {
        assert_eq!(other.create_run(&different).await, Err(StoreError::RunExists(run.id.clone())));
    }
    other.close().await.unwrap();
}

/// Several processes claim at once: every trial goes to one of them.
async fn workers_that_claim_at_once_get_different_trials(store: &dyn RunStore) {
    planned(store, &run_id("run"), &trials(60, &["j"])).await;
    let stores = [store.reopen().await.unwrap(), store.reopen().await.unwrap(), store.reopen().await.unwrap()];
    let claims = stores.iter().enumerate().map(|(number, store)| async move {
        let (worker, mut claimed) = (format!("worker-{number}"), Vec::new());
        // An empty claim may only mean that another worker is claiming at the moment.
        for _ in 0..40 {
            claimed.extend(claim(&**store, &worker, 3, LONG).await);
        }
        claimed
    });
    let claimed = futures_util::future::join_all(claims).await;
    let mut trials: Vec<_> = claimed.iter().flatten().map(|claimed| claimed.trial.id.clone()).collect();
    assert_eq!(trials.len(), 60);
    trials.sort();
    trials.dedup();
    assert_eq!(trials.len(), 60, "none was claimed twice");
    assert!(claimed.iter().flatten().all(|claimed| claimed.lease.fence == 1));
    for store in stores {
        store.close().await.unwrap();
    }
}

/// A model can answer with any character.
async fn answers_with_any_character_are_stored(store: &dyn RunStore) {
    planned(store, &run_id("run"), &trials(1, &["j"])).await;
    let claimed = claim_one(store, "a", LONG).await;
    let text = "a\0b \u{1f980} \\ ' \" $1 %";
    let begun = number(&begin(store, &claimed, &step(StepKind::Model, text)).await);
    store.finish_step(&claimed.lease, begun, answer(text)).await.unwrap().await.unwrap();
    assert_eq!(begin(store, &claimed, &step(StepKind::Model, text)).await, StepStart::Recorded(answer(text)));
    let mut result = unit_result(&claimed.trial, &claimed.open_units[0], Verdict::Passed);
    result.response = Some(text.to_owned());
    store.finish_unit(&claimed.lease, &result).await.unwrap().await.unwrap();
    let results = store.results(&run_id("run"), None, 1).await.unwrap();
    assert_eq!(results[0].result.response.as_deref(), Some(text));
}

async fn runs_are_listed_with_their_state(store: &dyn RunStore) {
    assert_eq!(store.runs().await.unwrap(), []);
    planned(store, &run_id("one"), &trials(2, &["j"])).await;
    planned(store, &run_id("two"), &[]).await;
    store.set_state(&run_id("one"), RunState::Stopped).await.unwrap();
    let runs = store.runs().await.unwrap();
    assert_eq!(runs.len(), 2);
    let (one, settings) = store.run(&run_id("one")).await.unwrap();
    assert!(runs.contains(&one));
    assert_eq!((one.state, one.benchmark.as_str(), one.progress.units), (RunState::Stopped, "a-benchmark", 2));
    assert!(one.created > 1_600_000_000, "{}", one.created);
    assert_eq!(settings, serde_json::json!({"models": ["model-a"]}));
}

async fn trials_are_claimed_once_in_the_order_of_the_plan(store: &dyn RunStore) {
    let plan = trials(5, &["j", "k"]);
    planned(store, &run_id("run"), &plan).await;
    let first = claim(store, "a", 2, LONG).await;
    let second = claim(store, "b", 10, LONG).await;
    let claimed: Vec<_> = first.iter().chain(&second).map(|claimed| claimed.trial.clone()).collect();
    assert_eq!(claimed, plan);
    assert!(first[0].open_units.iter().eq(plan[0].units.iter().map(|unit| &unit.id)));
    assert_eq!(claim(store, "c", 10, LONG).await, []);
    assert_eq!(store.progress(&run_id("run")).await.unwrap().running, 5);
    // A trial with an open unit can be claimed again after its release, and one without is done.
    finish_unit(store, &first[0], Verdict::Passed).await;
    store.release(&first[0].lease).await.unwrap();
    let again = claim_one(store, "a", LONG).await;
    assert_eq!((&again.trial.id, again.lease.fence), (&plan[0].id, first[0].lease.fence + 1));
    assert_eq!(again.open_units, [plan[0].units[1].id.clone()]);
    finish_unit(store, &again, Verdict::Failed).await;
    store.release(&again.lease).await.unwrap();
    assert_eq!(claim(store, "a", 10, LONG).await, []);
}

async fn an_expired_lease_is_claimed_again_and_late_writes_are_refused(store: &dyn RunStore) {
    planned(store, &run_id("run"), &trials(1, &["j"])).await;
    let late = claim_one(store, "late", EXPIRED).await;
    let begun = number(&begin(store, &late, &step(StepKind::Model, "first")).await);
    assert_eq!(claim(store, "late", 1, LONG).await, [], "it would only interrupt itself");
    let current = claim_one(store, "current", LONG).await;
    assert_eq!(current.lease.fence, late.lease.fence + 1);
    let lost = Some(StoreError::LeaseLost);
    let refused = store.begin_step(&late.lease, &step(StepKind::Model, "second"), Recovery::Repeat).await;
    assert_eq!(refused.err(), lost);
    let refused = store.finish_step(&late.lease, begun, answer("late")).await.unwrap().await;
    assert_eq!(refused.err(), lost);
    let result = unit_result(&late.trial, &late.open_units[0], Verdict::Passed);
    assert_eq!(store.finish_unit(&late.lease, &result).await.unwrap().await.err(), lost);
    assert_eq!(store.release(&late.lease).await.err(), lost);
    // Nothing of it is on record.
    assert_eq!(done(store).await, (0, 1));
    assert_eq!(store.progress(&run_id("run")).await.unwrap().usage, wharf_protocol::Usage::default());
    let begun = begin(store, &current, &step(StepKind::Model, "first")).await;
    assert!(matches!(begun, StepStart::Execute(_)), "{begun:?}");
    // A worker that released its trial holds it no longer.
    store.release(&current.lease).await.unwrap();
    let refused = store.begin_step(&current.lease, &step(StepKind::Model, "third"), Recovery::Repeat).await;
    assert_eq!(refused.err(), lost);
}

async fn a_renewed_lease_stays_and_a_lost_one_is_not_returned(store: &dyn RunStore) {
    planned(store, &run_id("run"), &trials(2, &["j"])).await;
    let claimed = claim(store, "a", 2, EXPIRED).await;
    let run = run_id("run");
    let renew = Claim { run: &run, worker: "a", limit: 0, lease: LONG };
    let taken = claim_one(store, "b", LONG).await;
    assert_eq!(taken.trial.id, claimed[0].trial.id);
    assert_eq!(store.renew(&renew).await.unwrap(), [claimed[1].lease.clone()]);
    assert_eq!(claim(store, "c", 2, LONG).await, []);
}

async fn recorded_results_are_returned_instead_of_executing_again(store: &dyn RunStore) {
    planned(store, &run_id("run"), &trials(1, &["j"])).await;
    let first = claim_one(store, "a", EXPIRED).await;
    let request = step(StepKind::Tool, "request");
    let begun = number(&begin(store, &first, &request).await);
    store.finish_step(&first.lease, begun, answer("the result")).await.unwrap().await.unwrap();
    // The same result a second time, after a commit with an unknown outcome, changes nothing.
    store.finish_step(&first.lease, begun, answer("the result")).await.unwrap().await.unwrap();
    let second = claim_one(store, "b", LONG).await;
    assert_eq!(begin(store, &second, &request).await, StepStart::Recorded(answer("the result")));
    // Another request, another occurrence and another owner are other steps.
    let unit = StepOwner::Unit(second.open_units[0].clone());
    for other in [
        step(StepKind::Tool, "another"),
        StepRequest { occurrence: 1, ..request.clone() },
        StepRequest { owner: unit, ..request.clone() },
    ] {
        assert!(matches!(begin(store, &second, &other).await, StepStart::Execute(_)), "{other:?}");
    }
    let usage = store.progress(&run_id("run")).await.unwrap().usage;
    assert_eq!((usage.total_tokens(), usage.cost_usd), (100, Some(0.01)));
}

async fn interrupted_steps_follow_the_recovery_policy(store: &dyn RunStore) {
    let policies = [
        (Recovery::Repeat, StepKind::Model, true),
        (Recovery::Repeat, StepKind::Judge, true),
        (Recovery::Repeat, StepKind::ReadOnlyTool, true),
        (Recovery::Repeat, StepKind::Embedding, true),
        (Recovery::Repeat, StepKind::Tool, false),
        (Recovery::Indeterminate, StepKind::Model, false),
        (Recovery::Indeterminate, StepKind::Judge, false),
        (Recovery::Indeterminate, StepKind::ReadOnlyTool, false),
        (Recovery::Indeterminate, StepKind::Embedding, false),
        (Recovery::Indeterminate, StepKind::Tool, false),
    ];
    planned(store, &run_id("run"), &trials(10, &["j"])).await;
    let interrupted = claim(store, "a", 10, EXPIRED).await;
    for (claimed, (recovery, kind, _)) in interrupted.iter().zip(policies) {
        store.begin_step(&claimed.lease, &step(kind, "request"), recovery).await.unwrap();
    }
    let resumed = claim(store, "b", 10, LONG).await;
    for (claimed, (recovery, kind, is_repeated)) in resumed.iter().zip(policies) {
        let again = store.begin_step(&claimed.lease, &step(kind, "request"), recovery).await.unwrap();
        assert_eq!(matches!(again, StepStart::Execute(_)), is_repeated, "{recovery:?} {kind:?}: {again:?}");
        assert_eq!(again == StepStart::Indeterminate, !is_repeated, "{recovery:?} {kind:?}: {again:?}");
        if !is_repeated {
            // It stays so, whatever the policy is later.
            let later = store.begin_step(&claimed.lease, &step(kind, "request"), Recovery::Repeat).await.unwrap();
            assert_eq!(later, StepStart::Indeterminate);
        }
    }
}

async fn failures_are_counted_and_never_reused(store: &dyn RunStore) {
    planned(store, &run_id("run"), &trials(1, &["j"])).await;
    let claimed = claim_one(store, "a", LONG).await;
    let request = step(StepKind::Model, "request");
    for _ in 0..2 {
        let begun = number(&begin(store, &claimed, &request).await);
        store.finish_step(&claimed.lease, begun, failure("overloaded")).await.unwrap().await.unwrap();
    }
    let begun = number(&begin(store, &claimed, &request).await);
    store.finish_step(&claimed.lease, begun, answer("at last")).await.unwrap().await.unwrap();
    assert_eq!(begin(store, &claimed, &request).await, StepStart::Recorded(answer("at last")));
    finish_unit(store, &claimed, Verdict::Passed).await;
    let steps = store.steps(&run_id("run"), &claimed.trial.id).await.unwrap();
    let bodies: Vec<_> = steps.iter().map(|step| step.result.clone().unwrap()).collect();
    assert_eq!(bodies, [answer("at last")], "the attempt that decided");
}

async fn results_come_back_whole_in_the_order_of_the_plan(store: &dyn RunStore) {
    planned(store, &run_id("run"), &trials(3, &["j", ""])).await;
    let mut claimed = claim(store, "a", 3, LONG).await;
    claimed.reverse();
    let mut expected = Vec::new();
    for claimed in &claimed {
        for (unit, verdict) in claimed.open_units.iter().rev().zip([Verdict::Indeterminate, Verdict::Invalid]) {
            let result = unit_result(&claimed.trial, unit, verdict);
            store.finish_unit(&claimed.lease, &result).await.unwrap().await.unwrap();
            expected.insert(0, result);
        }
    }
    let run = run_id("run");
    let results = store.results(&run, None, 100).await.unwrap();
    assert!(results.iter().map(|placed| &*placed.result).eq(&expected));
    assert!(results.iter().map(|placed| placed.position).eq(0..6));
    let page = store.results(&run, Some(1), 3).await.unwrap();
    assert!(page.iter().map(|placed| &*placed.result).eq(&expected[2..5]));
    let progress = store.progress(&run).await.unwrap();
    assert_eq!((progress.done, progress.invalid, progress.indeterminate), (6, 3, 3));
    assert_eq!(store.trials(&run, 1, 1).await.unwrap(), trials(3, &["j", ""])[1..2]);
}

async fn a_changed_plan_keeps_what_it_has_in_common(store: &dyn RunStore) {
    let run = run_id("run");
    planned(store, &run, &trials(2, &["j"])).await;
    let claimed = claim(store, "a", 2, EXPIRED).await;
    for claimed in &claimed {
        finish_unit(store, claimed, Verdict::Passed).await;
        store.release(&claimed.lease).await.unwrap();
    }
    // A new judge, a new question, and one question less.
    let plan = trials(3, &["j", "k"]).split_off(1);
    store.set_plan(&run, Arc::new(plan)).await.unwrap();
    assert_eq!(done(store).await, (1, 4));
    assert_eq!(store.results(&run, None, 10).await.unwrap().len(), 1);
    let claimed = claim(store, "a", 10, LONG).await;
    let open: Vec<usize> = claimed.iter().map(|claimed| claimed.open_units.len()).collect();
    assert_eq!(open, [1, 2]);
    // The first plan again: its results are still there.
    store.set_plan(&run, Arc::new(trials(2, &["j"]))).await.unwrap();
    assert_eq!(done(store).await, (2, 2));
}

async fn failed_units_run_again_with_a_new_answer(store: &dyn RunStore) {
    let run = run_id("run");
    planned(store, &run, &trials(2, &["j", "k"])).await;
    let claimed = claim(store, "a", 2, EXPIRED).await;
    for (claimed, verdicts) in
        claimed.iter().zip([[Verdict::Passed, Verdict::Failed], [Verdict::Passed, Verdict::Passed]])
    {
        let begun = number(&begin(store, claimed, &step(StepKind::Model, "request")).await);
        store.finish_step(&claimed.lease, begun, answer("wrong")).await.unwrap().await.unwrap();
        for (unit, verdict) in claimed.open_units.iter().zip(verdicts) {
            let result = unit_result(&claimed.trial, unit, verdict);
            store.finish_unit(&claimed.lease, &result).await.unwrap().await.unwrap();
        }
        store.release(&claimed.lease).await.unwrap();
    }
    assert_eq!(store.rerun(&run, &Rerun::Verdict(Verdict::Invalid)).await.unwrap(), 0);
    assert_eq!(store.rerun(&run, &Rerun::Verdict(Verdict::Failed)).await.unwrap(), 2);
    assert_eq!(done(store).await, (2, 4));
    let again = claim(store, "a", 10, LONG).await;
    assert_eq!(again.len(), 1);
    assert_eq!(again[0].open_units.len(), 2);
    let begun = number(&begin(store, &again[0], &step(StepKind::Model, "request")).await);
    store.finish_step(&again[0].lease, begun, answer("right")).await.unwrap().await.unwrap();
    finish_unit(store, &again[0], Verdict::Passed).await;
    // What was spent stays in the totals, and a replay gets the new answer only.
    assert_eq!(store.progress(&run).await.unwrap().usage.cost_usd, Some(0.03));
    let steps = store.steps(&run, &again[0].trial.id).await.unwrap();
    let bodies: Vec<_> = steps.into_iter().map(|step| step.result).collect();
    assert_eq!(bodies, [Some(answer("right"))]);
}

async fn results_that_appear_while_a_run_is_read_are_not_read_twice(store: &dyn RunStore) {
    let run = run_id("run");
    planned(store, &run, &trials(4, &["j"])).await;
    let claimed = claim(store, "a", 4, LONG).await;
    for index in [1, 2] {
        finish_unit(store, &claimed[index], Verdict::Passed).await;
    }
    let first = store.results(&run, None, 1).await.unwrap();
    // A unit before those that were read, and one after them.
    for index in [0, 3] {
        finish_unit(store, &claimed[index], Verdict::Passed).await;
    }
    let rest = store.results(&run, first.last().map(|placed| placed.position), 9).await.unwrap();
    let trials: Vec<_> = first.iter().chain(&rest).map(|placed| placed.result.trial.clone()).collect();
    assert_eq!(trials, [1, 2, 3].map(|index: usize| claimed[index].trial.id.clone()));
}

async fn a_unit_that_runs_again_refuses_the_late_result_of_its_last_worker(store: &dyn RunStore) {
    let run = run_id("run");
    planned(store, &run, &trials(1, &["j", "k"])).await;
    let late = claim_one(store, "late", EXPIRED).await;
    let started = number(&begin(store, &late, &step(StepKind::Model, "request")).await);
    let failed = unit_result(&late.trial, &late.open_units[0], Verdict::Failed);
    store.finish_unit(&late.lease, &failed).await.unwrap().await.unwrap();
    // The worker is stopped past its lease, and its trial is cleared meanwhile. No other worker has claimed it yet.
    assert_eq!(store.rerun(&run, &Rerun::Verdict(Verdict::Failed)).await.unwrap(), 1);
    let lost = Err(StoreError::LeaseLost);
    assert_eq!(store.finish_unit(&late.lease, &failed).await.unwrap().await, lost);
    assert_eq!(store.finish_step(&late.lease, started, answer("old")).await.unwrap().await, lost);
    assert_eq!(done(store).await, (0, 2));
    assert_eq!(claim_one(store, "b", LONG).await.open_units.len(), 2);
}

async fn provider_failures_run_again_with_what_succeeded(store: &dyn RunStore) {
    let run = run_id("run");
    planned(store, &run, &trials(1, &["j"])).await;
    let claimed = claim_one(store, "a", EXPIRED).await;
    let begun = number(&begin(store, &claimed, &step(StepKind::Model, "request")).await);
    store.finish_step(&claimed.lease, begun, answer("good")).await.unwrap().await.unwrap();
    let mut result = unit_result(&claimed.trial, &claimed.open_units[0], Verdict::Failed);
    result.failure = Some(Failure {
        category: FailureCategory::Timeout,
        group: FailureGroup::Retry,
        stage: "parse".to_owned(),
        reason: "the judge did not answer".to_owned(),
    });
    store.finish_unit(&claimed.lease, &result).await.unwrap().await.unwrap();
    store.release(&claimed.lease).await.unwrap();
    assert_eq!(store.rerun(&run, &Rerun::ProviderFailures).await.unwrap(), 1);
    let again = claim_one(store, "a", LONG).await;
    let begun = begin(store, &again, &step(StepKind::Model, "request")).await;
    assert_eq!(begun, StepStart::Recorded(answer("good")));
    // Other failures are results.
    finish_unit(store, &again, Verdict::Failed).await;
    store.release(&again.lease).await.unwrap();
    assert_eq!(store.rerun(&run, &Rerun::ProviderFailures).await.unwrap(), 0);
}

async fn writes_that_do_not_fit_are_refused(store: &dyn RunStore) {
    planned(store, &run_id("run"), &trials(2, &["j"])).await;
    let claimed = claim(store, "a", 2, LONG).await;
    let begun = number(&begin(store, &claimed[0], &step(StepKind::Model, "request")).await);
    let is_refused = |outcome: Result<(), StoreError>| matches!(outcome, Err(StoreError::Failed(_)));
    // The step of another trial, a step that never began, and a second result.
    assert!(is_refused(store.finish_step(&claimed[1].lease, begun, answer("x")).await.unwrap().await));
    assert!(is_refused(store.finish_step(&claimed[0].lease, begun + 77, answer("x")).await.unwrap().await));
    store.finish_step(&claimed[0].lease, begun, answer("x")).await.unwrap().await.unwrap();
    assert!(is_refused(store.finish_step(&claimed[0].lease, begun, answer("y")).await.unwrap().await));
    // The unit of another trial, and a second result.
    let foreign = unit_result(&claimed[1].trial, &claimed[1].open_units[0], Verdict::Passed);
    assert!(is_refused(store.finish_unit(&claimed[0].lease, &foreign).await.unwrap().await));
    let result = finish_unit(store, &claimed[0], Verdict::Passed).await;
    store.finish_unit(&claimed[0].lease, &result).await.unwrap().await.unwrap();
    let other = UnitResult { verdict: Verdict::Failed, ..result };
    assert!(is_refused(store.finish_unit(&claimed[0].lease, &other).await.unwrap().await));
    assert_eq!(done(store).await, (1, 2));
    assert_eq!(store.progress(&run_id("run")).await.unwrap().usage.total_tokens(), 100);
}

async fn unknown_runs_are_errors(store: &dyn RunStore) {
    let run: RunId = run_id("unknown");
    let unknown = Some(StoreError::UnknownRun(run.clone()));
    assert_eq!(store.run(&run).await.err(), unknown);
    assert_eq!(store.progress(&run).await.err(), unknown);
    assert_eq!(store.set_plan(&run, Arc::new(trials(1, &["j"]))).await.err(), unknown);
    assert_eq!(store.set_state(&run, RunState::Finished).await.err(), unknown);
    assert_eq!(store.rerun(&run, &Rerun::ProviderFailures).await.err(), unknown);
    assert_eq!(store.results(&run, None, 1).await.err(), unknown);
}

async fn many_writers_at_once_lose_nothing(store: &dyn RunStore) {
    planned(store, &run_id("run"), &trials(60, &["j"])).await;
    let claimed = claim(store, "a", 60, LONG).await;
    let work = claimed.iter().enumerate().map(|(position, claimed)| async move {
        // Every third write fails, beside writes that succeed in the same commit.
        if position % 3 == 0 {
            assert!(store.finish_step(&claimed.lease, -1, answer("x")).await.unwrap().await.is_err());
        }
        let begun = number(&begin(store, claimed, &step(StepKind::Model, "request")).await);
        let result = store.finish_step(&claimed.lease, begun, answer(&position.to_string())).await.unwrap();
        let unit = unit_result(&claimed.trial, &claimed.open_units[0], Verdict::Passed);
        let unit = store.finish_unit(&claimed.lease, &unit).await.unwrap();
        result.await.unwrap();
        unit.await.unwrap();
        store.release(&claimed.lease).await.unwrap();
    });
    futures_util::future::join_all(work).await;
    assert_eq!(done(store).await, (60, 60));
    assert_eq!(store.progress(&run_id("run")).await.unwrap().usage.total_tokens(), 6_000);
    for (position, claimed) in claimed.iter().enumerate() {
        let steps = store.steps(&run_id("run"), &claimed.trial.id).await.unwrap();
        let bodies: Vec<_> = steps.into_iter().map(|step| step.result).collect();
        assert_eq!(bodies, [Some(answer(&position.to_string()))]);
    }
}

async fn paused_and_canceled_runs_are_not_claimed_until_they_are_resumed(store: &dyn RunStore) {
    let run = run_id("run");
    planned(store, &run, &trials(2, &["j"])).await;
    for state in [RunState::Paused, RunState::Canceled] {
        store.set_state(&run, state).await.unwrap();
        assert_eq!(store.state(&run).await.unwrap(), state);
        assert!(claim(store, "a", 9, LONG).await.is_empty());
        assert!(store.claimable_runs("a").await.unwrap().is_empty());
    }
    store.set_state(&run, RunState::Running).await.unwrap();
    assert_eq!(store.claimable_runs("a").await.unwrap(), [run]);
    assert_eq!(claim(store, "a", 9, LONG).await.len(), 2);
    assert!(store.claimable_runs("b").await.unwrap().is_empty(), "all trials are leased");
}

async fn runs_are_served_by_priority_then_the_oldest_first(store: &dyn RunStore) {
    for name in ["first", "second", "third"] {
        planned(store, &run_id(name), &trials(1, &["j"])).await;
    }
    store.set_priority(&run_id("third"), 5).await.unwrap();
    store.set_priority(&run_id("first"), -1).await.unwrap();
    let expected = ["third", "second", "first"].map(run_id);
    assert_eq!(store.claimable_runs("a").await.unwrap(), expected);
    let unknown = run_id("unknown");
    assert_eq!(store.set_priority(&unknown, 1).await.err(), Some(StoreError::UnknownRun(unknown)));
}

async fn a_worker_does_not_claim_what_it_lacks_something_for(store: &dyn RunStore) {
    let run = run_id("run");
    let mut plan = trials(4, &["j"]);
    plan[3].units[0].judge = Some("k".to_owned());
    "model-b".clone_into(&mut plan[2].model);
    planned(store, &run, &plan).await;
    let lack = |model: Option<&str>, question: Option<&str>, judge: Option<&str>| Lack {
        model: model.map(str::to_owned),
        question: question.map(|question| question.parse().unwrap()),
        judge: judge.map(str::to_owned),
        reason: "OPENAI_API_KEY is not set".to_owned(),
    };
    let record = |id: &str| WorkerRecord {
        id: id.to_owned(),
        host: "a-host".to_owned(),
        pid: 7,
        version: "1".to_owned(),
        slots: 2,
        run: Some(run.clone()),
    };
    store.register(&record("a")).await.unwrap();
    let lacks = vec![
        lack(Some("model-b"), None, None),
        lack(Some("model-a"), Some("question-1"), None),
        lack(None, None, Some("k")),
    ];
    store.set_lacks("a", &run, lacks).await.unwrap();
    let claimed = claim(store, "a", 9, LONG).await;
    let questions: Vec<_> = claimed.iter().map(|claimed| claimed.trial.question.as_str()).collect();
    assert_eq!(questions, ["question-2"]);
    assert!(store.claimable_runs("a").await.unwrap().is_empty());
    let activity = store.activity(&run).await.unwrap();
    assert_eq!((activity.stuck_units, activity.stuck_reasons.len()), (3, 1), "{activity:?}");
    // Another worker has everything.
    store.register(&record("b")).await.unwrap();
    assert_eq!(store.activity(&run).await.unwrap().stuck_units, 0);
    assert_eq!(claim(store, "b", 9, LONG).await.len(), 3);
    let workers = store.workers().await.unwrap();
    let [a, b] = &workers[..] else { panic!("{workers:?}") };
    assert_eq!((a.is_alive, a.trials, a.lacks.len(), a.pid, &*a.host), (true, 1, 1, 7, "a-host"));
    assert_eq!((b.is_alive, b.trials, b.lacks.len()), (true, 3, 0));
    store.unregister("a").await.unwrap();
    assert_eq!(store.workers().await.unwrap().len(), 1);
}

async fn the_activity_of_a_run_has_its_rate_and_expired_leases(store: &dyn RunStore) {
    let run = run_id("run");
    planned(store, &run, &trials(3, &["j"])).await;
    let claimed = claim_one(store, "a", LONG).await;
    finish_unit(store, &claimed, Verdict::Passed).await;
    claim_one(store, "b", EXPIRED).await;
    let activity = store.activity(&run).await.unwrap();
    assert_eq!((activity.recent_units, activity.expired_leases, activity.stuck_units), (1, 1, 2), "{activity:?}");
    // A rate needs a second of time. Without one, the end is not estimated.
    assert_eq!(activity.units_per_minute.is_some(), activity.eta_seconds.is_some(), "{activity:?}");
}

async fn a_deleted_run_leaves_the_contents_of_others(store: &dyn RunStore) {
    for name in ["run", "other"] {
        let run = run_id(name);
        planned(store, &run, &trials(2, &["j"])).await;
        for claimed in store.claim(&Claim { run: &run, worker: "a", limit: 2, lease: LONG }).await.unwrap() {
            let body = format!("{name} {}", claimed.trial.question.as_str());
            let begun = number(&begin(store, &claimed, &step(StepKind::Model, "request")).await);
            store.finish_step(&claimed.lease, begun, answer(&body)).await.unwrap().await.unwrap();
            finish_unit(store, &claimed, Verdict::Passed).await;
            store.release(&claimed.lease).await.unwrap();
        }
    }
    assert_eq!(store.delete_unreferenced().await.unwrap(), 0);
    store.delete_run(&run_id("run")).await.unwrap();
    assert_eq!(store.runs().await.unwrap().len(), 1);
    assert_eq!(store.run(&run_id("run")).await.err(), Some(StoreError::UnknownRun(run_id("run"))));
    assert_eq!(store.delete_run(&run_id("run")).await.err(), Some(StoreError::UnknownRun(run_id("run"))));
    // The results of both runs are equal; the steps are not.
    assert_eq!(store.delete_unreferenced().await.unwrap(), 2);
    let other = run_id("other");
    assert_eq!(store.results(&other, None, 9).await.unwrap().len(), 2);
    for trial in store.trials(&other, 0, 9).await.unwrap() {
        assert_eq!(store.steps(&other, &trial.id).await.unwrap().len(), 1);
    }
}

async fn a_closed_store_refuses_writes(store: &dyn RunStore) {
    planned(store, &run_id("run"), &trials(1, &["j"])).await;
    store.close().await.unwrap();
    let run = run_id("run");
    assert!(matches!(store.set_state(&run, RunState::Finished).await, Err(StoreError::Failed(_))));
    assert!(matches!(store.progress(&run).await, Err(StoreError::Failed(_))));
    assert_eq!(store.reopen().await.unwrap().progress(&run).await.unwrap().units, 1);
}
