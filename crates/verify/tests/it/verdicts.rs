//! Units that are not scored: invalid and indeterminate ones, and trials that end without a result.

use std::sync::Arc;

use serde_json::json;
use wharf_fleet::Policy;
use wharf_fleet::dispatch::{BeforeCall, CallView, Condition, Hook, PolicyMode, RuleAction};
use wharf_protocol::BoxFuture;
use wharf_testkit::{Script, Step};
use wharf_verify::benchmark::Isolation;
use wharf_verify::journal::StepKind;
use wharf_verify::{JournalError, Verdict};

use crate::agents::plain_question;
use crate::pipeline_kit::*;

fn echo(number: usize) -> Arc<Fake> {
    let call = calls(&[("c1", "mcp__s__echo", json!({"text": "hello"}))]);
    Fake::new("fake-1", move |_, at| Ok(if at < number { call.clone() } else { says("done") }))
}

#[tokio::test(start_paused = true)]
async fn a_missing_required_server_makes_a_unit_invalid_before_any_request() {
    let answering = Fake::answering("So.");
    let mut setup = Setup::new(plain_question(), &answering, &judge_says(right())).server("s", Script::good());
    setup.benchmark.servers.insert("gone".to_owned(), json!("no-such-script"));
    // Not required: the plan has no tools of it either, so the trial is valid.
    assert_eq!(outcome(&setup.run_one().await), "passed");
    setup.benchmark.defaults.required_servers = vec!["s".parse().unwrap(), "gone".parse().unwrap()];
    let before = answering.count();
    let journal = Arc::<MemoryJournal>::default();
    let result = setup.run_with(&journal).await.unwrap().remove(0);
    assert_eq!((result.verdict, result.verdict.is_scored(), &result.failure), (Verdict::Invalid, false, &None));
    let reason = result.reason.unwrap();
    assert!(reason.starts_with("the required server `gone` is not connected: "), "{reason}");
    assert_eq!(answering.count(), before, "no request was sent");
    assert_eq!(journal.kinds(), [StepKind::Model], "the finding is on record");
}

#[tokio::test(start_paused = true)]
async fn a_turn_with_other_tools_than_planned_makes_a_unit_invalid() {
    let answering = Fake::answering("So.");
    let mut setup = Setup::new(plain_question(), &answering, &judge_says(right())).server("s", Script::good());
    setup.change_tools = |tools| tools.tools[0].description.push_str(" (changed)");
    let result = setup.run_one().await;
    assert_eq!((result.verdict, answering.count()), (Verdict::Invalid, 0));
    assert!(result.reason.unwrap().starts_with("the model is not offered the planned tools"));
}

#[tokio::test(start_paused = true)]
async fn tools_that_change_during_a_trial_make_it_invalid_at_the_next_turn() {
    let added = json!({"tools": [reading("look"), reading("more")]});
    let changes = [
        Step::Notify("notifications/tools/list_changed".to_owned(), json!({})),
        Step::Wait(5_000),
        Step::Text("seen".to_owned()),
    ];
    let script = Script::default().tool(reading("look")).on_call("look", changes);
    let script = script.once("tools/list", [Step::Normally]).on("tools/list", [Step::Result(added)]);
    let answering = Fake::new("fake-1", |_, at| {
        Ok(if at == 0 { calls(&[("c1", "mcp__s__look", json!({}))]) } else { says("done") })
    });
    let mut setup = Setup::new(plain_question(), &answering, &judge_says(right())).server("s", script);
    setup.benchmark.defaults.isolation = Some(Isolation::Fresh);
    let result = setup.run_one().await;
    assert_eq!((result.verdict, answering.count()), (Verdict::Invalid, 1));
    assert_eq!((result.turns, result.tool_calls), (1, 1), "what happened before is in the result");
}

struct Blocking(Condition);

impl Hook for Blocking {
    fn name(&self) -> &'static str {
        "guard"
    }

    fn condition(&self) -> &Condition {
        &self.0
    }

    fn before<'a>(&'a self, _: &'a CallView<'a>) -> BoxFuture<'a, BeforeCall> {
        Box::pin(std::future::ready(BeforeCall::Block("not today".to_owned())))
    }
}

#[tokio::test(start_paused = true)]
async fn a_denied_call_makes_a_unit_invalid_and_ends_it_before_the_next_request() {
    type Change = fn(&mut TestWorkbench);
    let cases: [(Change, &str); 3] = [
        (
            |workbench| workbench.policy = Policy::permissive().with(RuleAction::Deny, "mcp__s__echo".parse().unwrap()),
            "the policy denied a call of `mcp__s__echo`",
        ),
        (
            // No user is there to approve it.
            |workbench| workbench.policy = Policy { mode: PolicyMode::Cautious, ..Policy::default() },
            "a call of `mcp__s__echo` needs approval and was not approved",
        ),
        (
            |workbench| workbench.hook = Some(Arc::new(Blocking("mcp__s__echo".parse().unwrap()))),
            "the hook `guard` blocked a call of `mcp__s__echo`: not today",
        ),
    ];
    for (change, expected) in cases {
        let answering = echo(1);
        let setup = Setup::new(plain_question(), &answering, &judge_says(right()));
        let setup = setup.server("s", Script::good()).workbench(change);
        let journal = Arc::<MemoryJournal>::default();
        let result = setup.run_with(&journal).await.unwrap().remove(0);
        assert_eq!(result.verdict, Verdict::Invalid);
        let reason = result.reason.clone().unwrap();
        assert!(reason.starts_with(expected), "{reason}");
        assert_eq!(answering.count(), 1, "nothing is paid for after the denial");
        // The denial is on record: a repetition has no dispatcher that could deny the call.
        assert_eq!(setup.run_with(&journal.replay()).await.unwrap(), [result]);
    }
}

#[tokio::test(start_paused = true)]
async fn a_denied_last_call_makes_a_unit_invalid_too() {
    // The limit ends the run before the next request.
    let answering = echo(9);
    let mut setup = Setup::new(plain_question(), &answering, &judge_says(right())).server("s", Script::good());
    setup.models[0].settings.limits.model_calls = 1;
    let setup = setup.workbench(|workbench| {
        workbench.policy = Policy::permissive().with(RuleAction::Deny, "mcp__s__echo".parse().unwrap());
    });
    assert_eq!(setup.run_one().await.verdict, Verdict::Invalid);
}

#[tokio::test(start_paused = true)]
async fn an_interrupted_step_that_may_have_had_an_effect_makes_a_unit_indeterminate() {
    let cases = [(StepKind::Tool, 1, 0), (StepKind::Model, 0, 0), (StepKind::Judge, 2, 0)];
    for (kind, requests, judged) in cases {
        let mut question = city_question();
        question["trace"] = json!([{"max_calls": 9}]);
        let (answering, judge) = (echo(1), judge_says(right()));
        let setup = Setup::new(question, &answering, &judge).server("s", Script::good());
        let journal = Arc::<MemoryJournal>::default();
        *journal.indeterminate.lock().unwrap() = Some(kind);
        let result = setup.run_with(&journal).await.unwrap().remove(0);
        assert_eq!((result.verdict, result.verdict.is_scored()), (Verdict::Indeterminate, false));
        assert!(result.reason.unwrap().contains("was interrupted and may have had an effect"));
        assert_eq!((answering.count(), judge.count()), (requests, judged));
    }
}

#[tokio::test(start_paused = true)]
async fn a_refusal_of_the_journal_ends_the_trial_without_a_result_and_a_resumed_one_pays_for_the_rest() {
    // Steps of the whole trial: model, tool, model, judge.
    for allowed in 0..4 {
        let (answering, judge) = (echo(1), judge_says(right()));
        let setup = Setup::new(city_question(), &answering, &judge).server("s", Script::good());
        let journal = Arc::<MemoryJournal>::default();
        *journal.refuse_from.lock().unwrap() = Some((allowed, JournalError::LeaseLost));
        assert_eq!(setup.run_with(&journal).await, Err(JournalError::LeaseLost));
        assert_eq!(
            (journal.results().len(), answering.count() + judge.count()),
            (0, allowed - usize::from(allowed > 1))
        );
        // The model is stateless here: it answers by the number of its requests.
        let resumed = journal.resumed();
        let result = setup.run_with(&resumed).await.unwrap().remove(0);
        assert_eq!((outcome(&result).as_str(), resumed.kinds().len()), ("passed", 4 - allowed));
        assert_eq!((answering.count(), judge.count()), (2, 1), "nothing on record is paid for again");
    }
}

#[tokio::test(start_paused = true)]
async fn servers_that_cannot_be_opened_make_a_unit_invalid() {
    for isolation in [Isolation::Fresh, Isolation::Shared] {
        let answering = Fake::answering("So.");
        let mut setup = Setup::new(plain_question(), &answering, &judge_says(right())).server("s", Script::good());
        setup.benchmark.defaults.isolation = Some(isolation);
        *setup.workbench.refuse.lock().unwrap() = Some("invalid entry `s`".to_owned());
        let result = setup.run_one().await;
        assert_eq!((result.verdict, answering.count()), (Verdict::Invalid, 0));
        assert_eq!(result.reason.as_deref(), Some("invalid entry `s`"));
    }
}
