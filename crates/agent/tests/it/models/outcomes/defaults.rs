//! Defaults of the limits, retries and caching.

use std::sync::Arc;
use std::time::Duration;

use serde_json::json;
use wharf_agent::models::Dialect;
use wharf_agent::{Limit, RunEnd};
use wharf_protocol::Outcome;

use super::super::kit::{Adapter, endpoint};
use super::{TestModel, Trial, all_models};
use crate::kit::Behavior;

#[tokio::test(start_paused = true)]
async fn by_default_the_limits_are_25_requests_and_50_calls() {
    for model in all_models() {
        let names: Vec<String> = (0..60).map(|number| format!("n{number}")).collect();
        let ids: Vec<&str> = names.iter().map(String::as_str).collect();
        let outcome = Trial::new(model, ids[..30].iter().map(|id| model.looks(&[id]))).run("25 requests").await;
        outcome.expect_limit(&Limit::ModelCalls { max: 25 }, None, 25);
        assert_eq!((outcome.results().len(), outcome.fake.remaining_turns()), (25, 5), "{}", outcome.name);
        if model == TestModel::Emulated {
            continue;
        }
        let trial = Trial::new(model, [model.looks(&ids), model.says("enough")]);
        let tools = Arc::clone(&trial.tools);
        let outcome = trial.run("50 calls").await;
        outcome.expect_limit(&Limit::ToolCalls { max: 50 }, Some("enough"), 2);
        let started = tools.log().iter().filter(|line| line.ends_with("starts")).count();
        assert_eq!((started, outcome.results().len()), (50, 60), "{}", outcome.name);
    }
}

#[tokio::test(start_paused = true)]
async fn by_default_a_call_that_cannot_have_run_is_retried_three_times_and_then_reported() {
    for model in all_models() {
        let trial = Trial::new(model, [model.looks(&["a"]), model.says("so be it")]);
        let id = if model == TestModel::Emulated { "call_1" } else { "a" };
        for _ in 0..4 {
            trial.tools.on_call(id, Behavior::Fails(Outcome::NotRun));
        }
        let tools = Arc::clone(&trial.tools);
        let outcome = trial.run("tool retry").await;
        assert_eq!(
            (&outcome.result.stop, outcome.result.final_response.as_deref()),
            (&RunEnd::Completed, Some("so be it"))
        );
        assert_eq!(tools.log().iter().filter(|line| line.ends_with("starts")).count(), 4, "{}", outcome.name);
        let delays: Vec<u64> =
            outcome.events("retry").iter().map(|event| event["delay_ms"].as_u64().unwrap()).collect();
        let fits =
            delays.iter().zip([750..=1250, 1500..=2500, 3000..=5000]).all(|(delay, pause)| pause.contains(delay));
        assert!(delays.len() == 3 && fits, "{}: retried after {delays:?}", outcome.name);
        assert!(
            outcome.duration >= Duration::from_millis(delays.iter().sum()),
            "{}: {:?}",
            outcome.name,
            outcome.duration
        );
        let reported = outcome.results()[0];
        assert_eq!(reported.content, "The tool was not called: the server is gone", "{}", outcome.name);
        assert!(reported.tool_result.as_ref().unwrap().is_error, "{}", outcome.name);
        let sent = outcome.fake.requests()[1].body.clone();
        assert!(sent.contains("The tool was not called"), "{}: {sent}", outcome.name);
    }
}

#[tokio::test(start_paused = true)]
async fn by_default_caching_is_requested_or_its_loss_is_warned_about_once() {
    let router = Adapter::OpenAi(Dialect::OpenRouter);
    let mark = json!({"type": "ephemeral", "ttl": "5m"});
    for (model, name, caches) in all_models()
        .map(|model| (model, "fake-1", model == TestModel::Native(Adapter::Anthropic)))
        .chain([(TestModel::Native(router), "anthropic/claude-sonnet-4.5", true)])
    {
        let mut trial = Trial::new(model, [model.looks(&["a"]), model.looks(&["b"]), model.says("done")]);
        if let (TestModel::Native(adapter), true) = (model, caches) {
            trial.model = Arc::from(adapter.named(endpoint(&trial.fake), name));
        }
        let caches_by_itself = trial.model.capabilities().automatic_caching;
        let outcome = trial.run(&format!("caching with {name}")).await;
        let warnings = outcome.events("warning");
        assert_eq!(warnings.len(), usize::from(!caches && !caches_by_itself), "{}: {warnings:?}", outcome.name);
        let bodies = outcome.fake.bodies();
        assert_eq!(bodies.len(), 3, "{}", outcome.name);
        for body in &bodies {
            assert_eq!(body.to_string().contains("cache_control"), caches, "{}: {body}", outcome.name);
        }
        let marked = match model {
            TestModel::Native(Adapter::Anthropic) => {
                assert_eq!(bodies[2]["tools"][2]["cache_control"], mark, "{}", outcome.name);
                &bodies[2]["system"][0]["cache_control"]
            }
            _ => &bodies[2]["messages"][0]["content"][0]["cache_control"],
        };
        assert_eq!(*marked == mark, caches, "{}: {marked}", outcome.name);
    }
}
