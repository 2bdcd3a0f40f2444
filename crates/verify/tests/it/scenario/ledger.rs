//! Repetitions of a conversation: nothing on record is paid for again, and the results are the same bytes.

use std::sync::Arc;

use serde_json::json;
use wharf_testkit::{Script, Step};
use wharf_verify::journal::StepKind;
use wharf_verify::{BudgetExceeded, JournalError};

use super::{city, question, shown};
use crate::pipeline_kit::*;
use crate::repetition::check_repetitions;

/// Two turns with a tool call each. The judge decides about the second, and two judges judge both.
pub(crate) fn setup() -> (Setup, Arc<Fake>, Arc<Fake>) {
    let scenario = json!({
        "state": {"city": "?"},
        "turns": [
            {"name": "ask", "prompt": "What is the capital?", "template": city(), "set": {"city": {"field": "city"}},
                "branches": [{"when": {"field": "city", "truth": "Rome"}, "to": "doubt"}]},
            {"name": "doubt", "prompt": "Is it {{city}}? Look again.", "template": city(), "trace": [{"called": "put"}]},
        ],
        "outcome": [{"name": "both turns", "when": {"path": ["ask", "doubt"]}}],
    });
    let script = Script::default()
        .tool(reading("look"))
        .tool(writing("put"))
        .on_call("look", [Step::Wait(30), Step::Text("seen".to_owned())])
        .on_call("put", [Step::Text("done".to_owned())]);
    let answering = Fake::new("fake-1", |seen, _| {
        let said = seen.messages.len();
        Ok(match said {
            1 => calls(&[("c1", "mcp__s__look", json!({}))]),
            3 => says("It is Rome."),
            5 => calls(&[("c2", "mcp__s__put", json!({}))]),
            _ => says("Still Rome."),
        })
    });
    let judge = judge_says(wrong());
    let mut setup = Setup::new(question(scenario), &answering, &judge).server("s", script);
    setup.judges = vec![judge_model("a", &judge), judge_model("b", &judge)];
    (setup, answering, judge)
}

#[tokio::test(start_paused = true)]
async fn a_conversation_repeats_to_the_same_bytes() {
    let (setup, answering, judge) = setup();
    let journal = check_repetitions(&setup, || answering.count() + judge.count()).await;
    let results = journal.results();
    assert_eq!(results.iter().map(shown).collect::<Vec<_>>(), ["ask, doubt: passed"; 2]);
    let expected = [
        StepKind::Model,
        StepKind::ReadOnlyTool,
        StepKind::Model,
        StepKind::Judge,
        StepKind::Model,
        StepKind::Tool,
        StepKind::Model,
        // The second turn for the first judge, and both turns for the second one.
        StepKind::Judge,
        StepKind::Judge,
        StepKind::Judge,
    ];
    assert_eq!(journal.kinds(), expected);
}

#[tokio::test(start_paused = true)]
async fn a_trial_that_stops_anywhere_goes_on_without_repeating_a_step() {
    let (all, ..) = setup();
    let complete = all.run().await;
    for stop in 0..10 {
        let (setup, answering, judge) = setup();
        let journal = Arc::<MemoryJournal>::default();
        let budget = BudgetExceeded::Tokens { spent: 1, max: 1 };
        *journal.refuse_from.lock().unwrap() = Some((stop, JournalError::Budget(budget)));
        let stopped = setup.run_with(&journal).await;
        assert!(matches!(stopped, Err(JournalError::Budget(_))), "{stop}: {stopped:?}");
        let resumed = journal.resumed();
        let results = setup.run_with(&resumed).await.unwrap();
        assert_eq!(journal.kinds().len() + resumed.kinds().len(), 10, "stopped before step {stop}");
        assert_eq!(answering.count() + judge.count(), 8, "every request was paid for once");
        // Times differ: a virtual clock counts the waits of both runs.
        let without_times = |results: &[wharf_verify::UnitResult]| {
            let mut results = results.to_vec();
            for result in &mut results {
                result.millis = 0;
            }
            results
        };
        assert_eq!(without_times(&results), without_times(&complete), "stopped before step {stop}");
    }
}

#[tokio::test(start_paused = true)]
async fn an_interrupted_step_of_a_later_turn_makes_all_units_indeterminate() {
    for (kind, path) in [(StepKind::Tool, "ask, doubt"), (StepKind::Judge, "ask")] {
        let (setup, ..) = setup();
        let journal = Arc::<MemoryJournal>::default();
        *journal.indeterminate.lock().unwrap() = Some(kind);
        let results = setup.run_with(&journal).await.unwrap();
        assert_eq!(
            results.iter().map(shown).collect::<Vec<_>>(),
            [format!("{path}: indeterminate"), format!("{path}: indeterminate")]
        );
    }
}
