//! Each limit, in a run that would have continued.

use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;
use wharf_agent::models::{Dialect, OpenAi, Priced};
use wharf_agent::{ExitBehavior, Limit, Limits, Model, RunEnd};
use wharf_testkit::models::{Fault, Tokens, Turn};

use super::super::kit::{Adapter, endpoint};
use super::{TestModel, Trial, TrialOutcome, all_models};
use crate::kit::Behavior;

#[tokio::test(start_paused = true)]
async fn the_model_call_limit_ends_the_run() {
    for model in all_models() {
        let turns = [model.looks(&["a"]), model.looks(&["b"]), model.says("never sent")];
        let limits = Limits { model_calls: 2, ..Limits::default() };
        let outcome = Trial::new(model, turns).within(limits).run("model calls").await;
        outcome.expect_limit(&Limit::ModelCalls { max: 2 }, None, 2);
        assert_eq!(outcome.results().len(), 2, "{}", outcome.name);
    }
}

#[tokio::test(start_paused = true)]
async fn the_tool_call_limit_allows_a_final_request_or_lets_the_model_continue() {
    for model in all_models() {
        let limits = |exit_behavior| Limits { tool_calls: 1, exit_behavior, ..Limits::default() };
        let limit = Limit::ToolCalls { max: 1 };
        // With one call per turn, two turns reach the limit.
        let looks = || -> Vec<Turn> {
            match model {
                TestModel::Native(_) => vec![model.looks(&["a", "b"])],
                TestModel::Emulated => vec![model.looks(&["a"]), model.looks(&["b"])],
            }
        };
        let turns = || looks().into_iter().chain([model.says("enough")]);
        let offers = |body: &Value| match model {
            // After tool calls the request must define tools; `tool_choice` forbids further calls.
            TestModel::Native(_) => body.get("tools").is_some() && body["tool_choice"]["type"] != "none",
            TestModel::Emulated => body.get("response_format").is_some(),
        };
        let trial = Trial::new(model, turns()).within(limits(ExitBehavior::End));
        let tools = Arc::clone(&trial.tools);
        let outcome = trial.run("tool calls, end").await;
        outcome.expect_limit(&limit, Some("enough"), looks().len() + 1);
        let offered: Vec<bool> = outcome.fake.bodies().iter().map(offers).collect();
        assert_eq!(offered.iter().filter(|offers| !**offers).count(), 1, "{}", outcome.name);
        assert_eq!(offered.last(), Some(&false), "{}: the final request has no tools", outcome.name);
        assert_eq!(tools.log().len(), 2, "{}: one was called", outcome.name);
        let blocked = outcome.results()[1];
        assert!(blocked.tool_result.as_ref().unwrap().is_error, "{}", outcome.name);
        assert_eq!(blocked.content, "This tool was not called: the limit of 1 tool call was reached.");

        // A call instead of the final answer leaves the run without an answer.
        let repeated = looks().into_iter().chain([model.looks(&["c"]), model.says("never sent")]);
        let outcome = Trial::new(model, repeated).within(limits(ExitBehavior::End)).run("tool calls, end, again").await;
        outcome.expect_limit(&limit, None, looks().len() + 1);

        let trial = Trial::new(model, turns()).within(limits(ExitBehavior::Continue));
        let tools = Arc::clone(&trial.tools);
        let outcome = trial.run("tool calls, continue").await;
        assert_eq!((&outcome.result.stop, outcome.result.limits.as_slice()), (&RunEnd::Completed, [limit].as_slice()));
        assert_eq!(outcome.result.final_response.as_deref(), Some("enough"), "{}", outcome.name);
        assert!(outcome.fake.bodies().iter().all(offers), "{}: every request has tools", outcome.name);
        assert_eq!(tools.log().len(), 2, "{}: one was called", outcome.name);
    }
}

#[tokio::test(start_paused = true)]
async fn a_per_tool_limit_is_reported_to_the_model_and_the_run_continues() {
    for model in all_models() {
        let turns = [model.looks(&["a"]), model.looks(&["b"]), model.says("enough")];
        let limits = Limits { per_tool: [("look".to_owned(), 1)].into(), ..Limits::default() };
        let trial = Trial::new(model, turns).within(limits);
        let tools = Arc::clone(&trial.tools);
        let outcome = trial.run("per tool").await;
        assert_eq!(outcome.result.stop, RunEnd::Completed, "{}", outcome.name);
        assert_eq!(outcome.result.limits, [Limit::PerTool { name: "look".to_owned(), max: 1 }], "{}", outcome.name);
        assert_eq!(outcome.result.final_response.as_deref(), Some("enough"), "{}", outcome.name);
        assert_eq!(tools.log().len(), 2, "{}: one was called", outcome.name);
        assert_eq!(outcome.results()[1].content, "This tool was not called: the limit of 1 call of look was reached.");
    }
}

#[tokio::test(start_paused = true)]
async fn the_token_limit_ends_the_run() {
    for model in all_models() {
        let turns = [model.looks(&["a"]), model.looks(&["b"]), model.says("never sent")];
        // 15 tokens per turn.
        let limits = Limits { tokens: Some(30), ..Limits::default() };
        let outcome = Trial::new(model, turns).within(limits).run("tokens").await;
        outcome.expect_limit(&Limit::Tokens { max: 30 }, None, 2);
        assert_eq!(outcome.result.usage.total_tokens(), 30, "{}", outcome.name);
    }
}

#[tokio::test(start_paused = true)]
async fn the_cost_limit_applies_to_known_costs_only() {
    let tokens = Tokens { input: 100_000, output: 1_000, ..Tokens::default() };
    let priced = Tokens { cost: Some(0.25), ..tokens };
    for model in all_models() {
        let (name, tokens, known) = match model {
            TestModel::Native(Adapter::Anthropic) => ("claude-sonnet-4-5", tokens, true),
            TestModel::Native(Adapter::OpenAi(Dialect::OpenAi)) => ("gpt-5", tokens, true),
            TestModel::Native(Adapter::OpenAi(Dialect::OpenRouter)) => ("any/model", priced, true),
            TestModel::Native(Adapter::OpenAi(Dialect::Endpoint | Dialect::Ollama)) | TestModel::Emulated => {
                ("gpt-5", tokens, false)
            }
        };
        let turns = [model.looks(&["a"]), model.says("enough")].map(|turn| turn.costing(tokens));
        let mut trial = Trial::new(model, turns).within(Limits { cost_usd: Some(0.1), ..Limits::default() });
        let at = endpoint(&trial.fake);
        let model: Arc<dyn Model> = match model {
            TestModel::Native(adapter) => Arc::from(adapter.named(at, name)),
            TestModel::Emulated => Arc::new(OpenAi::new(Dialect::Endpoint, at, name).unwrap().with_emulated_tools()),
        };
        trial.model = Arc::new(Priced::new(model));
        let outcome = trial.run("cost").await;
        if known {
            outcome.expect_limit(&Limit::Cost { max: "0.1".to_owned() }, None, 1);
            assert!(outcome.result.usage.cost_usd.is_some_and(|cost| cost >= 0.1), "{}", outcome.name);
        } else {
            let TrialOutcome { name, result, .. } = &outcome;
            assert_eq!((&result.stop, result.usage.cost_usd), (&RunEnd::Completed, None), "{name}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn the_time_limit_ends_the_run_during_a_response_a_call_or_a_retry_delay() {
    let limits = || Limits { time: Some(Duration::from_secs(3)), ..Limits::default() };
    let limit = Limit::Time { seconds: 3 };
    for model in all_models() {
        let busy = || model.says("").with(Fault::Status(529, Vec::new(), "{}".to_owned()));
        let slow = model.says("never sent").with(Fault::HangMidway);
        for (what, second, asked) in [("answer", vec![slow], 2), ("pause", vec![busy(), busy(), busy()], 3)] {
            let turns = [model.looks(&["a"])].into_iter().chain(second);
            let outcome = Trial::new(model, turns).within(limits()).run(&format!("time, during {what}")).await;
            let least = if what == "pause" { 2 } else { asked };
            let questions = outcome.fake.requests().len();
            assert!((least..=asked).contains(&questions), "{}: {questions}", outcome.name);
            outcome.expect_limit(&limit, None, questions);
            assert_eq!((outcome.duration.as_secs(), outcome.result.timeout_reached), (3, true), "{}", outcome.name);
            assert_eq!(outcome.result.usage.total_tokens(), 15, "{}", outcome.name);
        }
        let trial = Trial::new(model, [model.looks(&["a", "b"]), model.says("never sent")]).within(limits());
        // An emulated call has an id of ours.
        let hangs = if model == TestModel::Emulated { "call_1" } else { "b" };
        let tools = trial.tools.on_call(hangs, Behavior::Never);
        let outcome = trial.run("time, in a call").await;
        outcome.expect_limit(&limit, None, 1);
        assert_eq!((outcome.duration.as_secs(), outcome.result.timeout_reached), (3, true), "{}", outcome.name);
        let canceled = outcome.results().pop().unwrap();
        assert!(canceled.tool_result.as_ref().unwrap().is_error, "{}", outcome.name);
        let text = "The call was canceled: the limit of 3 s was reached. It is unknown whether it had an effect.";
        assert_eq!(canceled.content, text, "{}", outcome.name);
        assert!(!tools.log().contains(&format!("{hangs} ends")), "{}: {:?}", outcome.name, tools.log());
    }
}
