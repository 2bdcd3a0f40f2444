//! What holds where nothing was set.

use std::sync::Arc;
use std::time::Duration;

use serde_json::json;
use wharf_agent::models::Dialect;
use wharf_agent::{Limit, RunEnd};
use wharf_protocol::Outcome;

use super::super::kit::{Adapter, endpoint};
use super::{Trial, Who, everybody};
use crate::kit::Way;

#[tokio::test(start_paused = true)]
async fn by_default_every_model_is_asked_25_times_and_makes_50_calls() {
    for who in everybody() {
        let names: Vec<String> = (0..60).map(|number| format!("n{number}")).collect();
        let ids: Vec<&str> = names.iter().map(String::as_str).collect();
        let came = Trial::new(who, ids[..30].iter().map(|id| who.looks(&[id]))).run("25 questions").await;
        came.expect_limit(&Limit::ModelCalls { most: 25 }, None, 25);
        assert_eq!((came.results().len(), came.fake.remaining_turns()), (25, 5), "{}", came.name);
        if who == Who::Emulated {
            continue;
        }
        let trial = Trial::new(who, [who.looks(&ids), who.says("enough")]);
        let tools = Arc::clone(&trial.tools);
        let came = trial.run("50 calls").await;
        came.expect_limit(&Limit::ToolCalls { most: 50 }, Some("enough"), 2);
        let begun = tools.log().iter().filter(|line| line.ends_with("begins")).count();
        assert_eq!((begun, came.results().len()), (50, 60), "{}", came.name);
    }
}

#[tokio::test(start_paused = true)]
async fn by_default_a_call_that_cannot_have_run_is_made_three_times_more_and_then_told_to_every_model() {
    for who in everybody() {
        let trial = Trial::new(who, [who.looks(&["a"]), who.says("so be it")]);
        let id = if who == Who::Emulated { "call_1" } else { "a" };
        for _ in 0..4 {
            trial.tools.way(id, Way::Fails(Outcome::NotRun));
        }
        let tools = Arc::clone(&trial.tools);
        let came = trial.run("tool retry").await;
        assert_eq!((&came.result.stop, came.result.final_response.as_deref()), (&RunEnd::Completed, Some("so be it")));
        assert_eq!(tools.log().iter().filter(|line| line.ends_with("begins")).count(), 4, "{}", came.name);
        let delays: Vec<u64> = came.events("retry").iter().map(|event| event["delay_ms"].as_u64().unwrap()).collect();
        let fits =
            delays.iter().zip([750..=1250, 1500..=2500, 3000..=5000]).all(|(delay, pause)| pause.contains(delay));
        assert!(delays.len() == 3 && fits, "{}: it was called again after {delays:?}", came.name);
        assert!(came.took >= Duration::from_millis(delays.iter().sum()), "{}: {:?}", came.name, came.took);
        let told = came.results()[0];
        assert_eq!(told.content, "The call was not carried out: the server is gone", "{}", came.name);
        assert!(told.tool_result.as_ref().unwrap().is_error, "{}", came.name);
        let sent = came.fake.requests()[1].body.clone();
        assert!(sent.contains("The call was not carried out"), "{}: {sent}", came.name);
    }
}

#[tokio::test(start_paused = true)]
async fn by_default_five_minutes_of_caching_are_asked_for_or_its_lack_is_told_once() {
    let router = Adapter::OpenAi(Dialect::OpenRouter);
    let mark = json!({"type": "ephemeral", "ttl": "5m"});
    for (who, name, caches) in everybody().map(|who| (who, "fake-1", who == Who::Native(Adapter::Anthropic))).chain([(
        Who::Native(router),
        "anthropic/claude-sonnet-4.5",
        true,
    )]) {
        let mut trial = Trial::new(who, [who.looks(&["a"]), who.looks(&["b"]), who.says("done")]);
        if let (Who::Native(adapter), true) = (who, caches) {
            trial.model = Arc::from(adapter.named(endpoint(&trial.fake), name));
        }
        let came = trial.run(&format!("caching with {name}")).await;
        let warnings = came.events("warning");
        assert_eq!(warnings.len(), usize::from(!caches), "{}: {warnings:?}", came.name);
        let bodies = came.fake.bodies();
        assert_eq!(bodies.len(), 3, "{}", came.name);
        for body in &bodies {
            assert_eq!(body.to_string().contains("cache_control"), caches, "{}: {body}", came.name);
        }
        let marked = match who {
            Who::Native(Adapter::Anthropic) => {
                assert_eq!(bodies[2]["tools"][2]["cache_control"], mark, "{}", came.name);
                &bodies[2]["system"][0]["cache_control"]
            }
            _ => &bodies[2]["messages"][0]["content"][0]["cache_control"],
        };
        assert_eq!(*marked == mark, caches, "{}: {marked}", came.name);
    }
}
