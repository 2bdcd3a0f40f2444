//! The time limit of a trial: it counts the time in which the model and its tools work, and nothing else.

use std::sync::Arc;
use std::time::Duration;

use serde_json::json;
use wharf_agent::middleware::ConcurrencyLimit;
use wharf_agent::{Limits, ModelError, ModelErrorKind};
use wharf_testkit::{Script, Step, eventually};
use wharf_verify::{JournalError, TrialRunner as _};

use crate::agents::plain_question;
use crate::pipeline_kit::*;
use crate::scenario::{city, question, shown};

fn limited(mut setup: Setup, seconds: u64) -> Setup {
    setup.models[0].settings.limits = Limits { time: Some(Duration::from_secs(seconds)), ..Limits::default() };
    setup
}

#[tokio::test(start_paused = true)]
async fn waiting_for_other_trials_of_a_provider_does_not_count() {
    let answering = Fake::slow("fake-1", Duration::from_secs(6), |_, _| Ok(says("So.")));
    let mut setup = limited(Setup::new(plain_question(), &answering, &judge_says(right())), 10);
    setup.models[0].concurrency = Some(ConcurrencyLimit::new(1));
    setup.replicates = 5;
    let tool_sets = setup.tool_sets().await;
    let plan = setup.plan(&tool_sets).unwrap();
    let runner = setup.runner(tool_sets);
    let journal = Arc::<MemoryJournal>::default();
    let trials: Vec<_> = plan.trials().collect();
    let units: Vec<Vec<_>> =
        trials.iter().map(|trial| trial.units.iter().map(|unit| unit.id.clone()).collect()).collect();
    let runs = trials.iter().zip(&units).map(|(trial, units)| runner.run(trial, units, journal.of(trial)));
    for ended in eventually(futures_util::future::join_all(runs)).await {
        ended.unwrap();
    }
    let outcomes: Vec<String> = journal.results().iter().map(outcome).collect();
    assert_eq!(outcomes, ["passed"; 5]);
}

#[tokio::test(start_paused = true)]
async fn the_pause_before_a_retry_does_not_count() {
    let answering = Fake::slow("fake-1", Duration::from_secs(2), |_, number| match number {
        0 => Err(ModelError { retry_after: Some(Duration::from_secs(20)), ..error(ModelErrorKind::RateLimit) }),
        _ => Ok(says("So.")),
    });
    let start = tokio::time::Instant::now();
    let result = limited(Setup::new(plain_question(), &answering, &judge_says(right())), 10).run_one().await;
    assert!(start.elapsed() >= Duration::from_secs(20), "the pause was waited for: {:?}", start.elapsed());
    assert_eq!(outcome(&result), "passed");
}

#[tokio::test(start_paused = true)]
async fn a_slow_steering_judge_does_not_count() {
    let ask = json!({"name": "ask", "prompt": "What is the capital?", "template": city(), "next": "more",
        "branches": [{"when": {"field": "city", "truth": "Rome"}, "to": "end"}]});
    let scenario = json!({
        "turns": [ask, {"name": "more", "prompt": "More.", "trace": [{"max_calls": 0}]}],
        "outcome": [{"name": "twice", "when": {"visits": {"exactly": 2}}}],
    });
    let answering = Fake::slow("fake-1", Duration::from_secs(4), |_, _| Ok(says("Paris.")));
    let judge = Fake::slow("judge-1", Duration::from_secs(30), |_, _| Ok(says(&right().to_string())));
    let result = limited(Setup::new(question(scenario), &answering, &judge), 10).run_one().await;
    assert_eq!(shown(&result), "ask, more: passed");
}

#[tokio::test(start_paused = true)]
async fn calls_in_parallel_count_once_also_in_a_resumed_trial() {
    let script =
        Script::default().tool(reading("look")).on_call("look", [Step::Wait(4_000), Step::Text("seen".to_owned())]);
    let turn: Vec<_> = ["c1", "c2", "c3"].map(|id| (id, "mcp__s__look", json!({ "of": id }))).into();
    // A request of 2 s and calls of 4 s are on record, and the next request takes 2 s.
    for (seconds, expected) in [(9, "passed"), (7, "failed: recursion_limit at limit_autofail")] {
        let answering = Fake::slow("fake-1", Duration::from_secs(2), {
            let turn = turn.clone();
            move |_, number| Ok(if number == 0 { calls(&turn) } else { says("So.") })
        });
        let setup = Setup::new(plain_question(), &answering, &judge_says(right())).server("s", script.clone());
        let setup = limited(setup, seconds);
        let journal = Arc::<MemoryJournal>::default();
        *journal.refuse_from.lock().unwrap() = Some((4, JournalError::LeaseLost));
        assert_eq!(setup.run_with(&journal).await, Err(JournalError::LeaseLost));
        let resumed = setup.run_with(&journal.resumed()).await.unwrap().remove(0);
        assert_eq!(outcome(&resumed), expected, "{seconds}");
    }
}
