//! Models with and without tools: requests, servers, isolation, concurrency and prepared traces.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use serde_json::{Value, json};
use wharf_agent::middleware::ConcurrencyLimit;
use wharf_agent::{Manual, question_hash};
use wharf_protocol::Role;
use wharf_testkit::{Script, eventually};
use wharf_verify::journal::StepKind;
use wharf_verify::{ModelSettings, PlanError, TrialRunner as _};

use crate::pipeline_kit::*;

/// A question that needs no judge.
pub(crate) fn plain_question() -> Value {
    json!({"id": "q", "question": "How?", "trace": [{"max_calls": 9}]})
}

fn echo_then_answer() -> Arc<Fake> {
    Fake::new("fake-1", |seen, _| {
        Ok(if seen.messages.last().is_some_and(|last| last.role == Role::Tool) {
            says("done")
        } else {
            calls(&[("c1", "mcp__s__echo", json!({"text": "hello"}))])
        })
    })
}

#[tokio::test(start_paused = true)]
async fn a_model_without_servers_makes_one_request_without_tools() {
    let answering = Fake::answering("So.");
    let mut setup = Setup::new(plain_question(), &answering, &judge_says(right()));
    setup.models[0].settings.system_prompt = Some("Be brief.".to_owned());
    let result = setup.run_one().await;
    assert_eq!((outcome(&result).as_str(), answering.count()), ("passed", 1));
    let seen = &answering.seen()[0];
    assert_eq!((seen.tools.len(), &seen.system), (0, &vec!["Be brief.".to_owned()]));
    assert_eq!(setup.workbench.opened.load(Ordering::SeqCst), 0);
}

#[tokio::test(start_paused = true)]
async fn a_model_with_servers_is_an_agent_and_its_steps_are_journaled() {
    let answering = echo_then_answer();
    let setup = Setup::new(plain_question(), &answering, &judge_says(right())).server("s", Script::good());
    let journal = Arc::<MemoryJournal>::default();
    let result = setup.run_with(&journal).await.unwrap().remove(0);
    assert_eq!(outcome(&result), "passed");
    assert_eq!(answering.seen()[0].tools, ["mcp__s__echo", "mcp__s__add"]);
    assert_eq!((result.turns, result.tool_calls, result.trace.len()), (2, 1, 3));
    assert_eq!(result.trace[1].content, "hello");
    assert!(result.trace.iter().all(|message| matches!(message.role, Role::Assistant | Role::Tool)));
    assert_eq!(journal.kinds(), [StepKind::Model, StepKind::Tool, StepKind::Model]);
}

#[tokio::test(start_paused = true)]
async fn a_call_of_a_tool_that_is_safe_to_repeat_is_a_read_only_step() {
    let script = Script::default().tool(reading("look"));
    let answering = Fake::script(
        "fake-1",
        vec![Ok(calls(&[("c1", "mcp__s__look", json!({})), ("c2", "mcp__s__unknown", json!({}))])), Ok(says("done"))],
    );
    let journal = Arc::<MemoryJournal>::default();
    Setup::new(plain_question(), &answering, &judge_says(right()))
        .server("s", script)
        .run_with(&journal)
        .await
        .unwrap();
    let kinds = journal.kinds();
    assert_eq!(kinds, [StepKind::Model, StepKind::ReadOnlyTool, StepKind::ReadOnlyTool, StepKind::Model]);
}

#[tokio::test(start_paused = true)]
async fn the_servers_of_a_model_win_over_the_benchmarks_and_each_model_has_its_own() {
    let tool = |name: &str| Script::default().tool(reading(name));
    let (one, two) = (Fake::answering("So."), Fake::answering("So."));
    let mut question = plain_question();
    question["servers"] = json!({"extra": "of-question", "both": "of-question"});
    let mut setup = Setup::new(question, &one, &judge_says(right())).workbench(|workbench| {
        for name in ["of-benchmark", "of-question", "of-model"] {
            workbench.scripts.insert(name.to_owned(), tool(name));
        }
    });
    setup.benchmark.servers.insert("shared".to_owned(), json!("of-benchmark"));
    setup.benchmark.servers.insert("both".to_owned(), json!("of-benchmark"));
    setup.models.push(model("own", &two));
    setup.models[1].settings.mcp_keys.insert("mcp_urls_dict".to_owned(), json!({"both": "of-model"}));
    setup.run().await;
    let tools = |fake: &Fake| fake.seen()[0].tools.join(" ");
    assert_eq!(tools(&one), "mcp__both__of-question mcp__extra__of-question mcp__shared__of-benchmark");
    assert_eq!(tools(&two), "mcp__both__of-model mcp__extra__of-question mcp__shared__of-benchmark");
}

#[tokio::test(start_paused = true)]
async fn trials_share_servers_if_every_tool_is_read_only_and_otherwise_get_their_own() {
    let opened = async |tool: Value, isolation: Option<&str>| {
        let answering = Fake::answering("So.");
        let mut setup =
            Setup::new(plain_question(), &answering, &judge_says(right())).server("s", Script::default().tool(tool));
        setup.benchmark.defaults.isolation = isolation.map(|text| serde_json::from_value(json!(text)).unwrap());
        setup.replicates = 3;
        setup.run().await;
        setup.workbench.opened.load(Ordering::SeqCst)
    };
    assert_eq!(opened(reading("look"), None).await, 1);
    assert_eq!(opened(writing("put"), None).await, 3);
    assert_eq!(opened(reading("look"), Some("fresh")).await, 3);
    assert_eq!(opened(writing("put"), Some("shared")).await, 1);
}

#[tokio::test(start_paused = true)]
async fn the_requests_of_a_provider_are_limited_over_all_trials() {
    let answering = Fake::slow("fake-1", Duration::from_secs(1), |_, _| Ok(says("So.")));
    let mut setup = Setup::new(plain_question(), &answering, &judge_says(right()));
    setup.models[0].concurrency = Some(ConcurrencyLimit::new(2));
    setup.replicates = 8;
    let tool_sets = setup.tool_sets().await;
    let plan = setup.plan(&tool_sets).unwrap();
    let runner = setup.runner(tool_sets);
    let journal = Arc::<MemoryJournal>::default();
    let trials: Vec<_> = plan.trials().collect();
    let units: Vec<_> = trials.iter().map(|trial| vec![trial.units[0].id.clone()]).collect();
    let trials = trials.iter().zip(&units).map(|(trial, units)| runner.run(trial, units, journal.of(trial)));
    eventually(futures_util::future::try_join_all(trials)).await.unwrap();
    assert_eq!((answering.max_in_flight.load(Ordering::SeqCst), journal.results().len()), (2, 8));
    assert!(journal.results().iter().all(|result| outcome(result) == "passed"));
}

fn manual(traces: &Value) -> Setup {
    let mut setup = Setup::new(plain_question(), &Fake::answering(""), &judge_says(right()));
    setup.models[0].model = Arc::new(Manual::parse("traces.json", &traces.to_string()).unwrap());
    setup.models[0].settings = ModelSettings::new("manual", "traces.json");
    setup
}

#[tokio::test(start_paused = true)]
async fn a_manual_model_replays_the_trace_of_the_question_without_servers_or_requests() {
    let trace = |raw: &str| {
        json!({question_hash("How?"): {"trace_messages": [
            {"role": "assistant", "content": "", "tool_calls": [{"id": "c", "name": "look", "input": {}}]},
            {"role": "tool", "content": "seen", "tool_result": {"tool_use_id": "c"}},
            {"role": "assistant", "content": "So."}], "raw_trace": raw}})
    };
    let journal = Arc::<MemoryJournal>::default();
    let setup = manual(&trace("--- AI Message ---\nSo.")).server("s", Script::good());
    let result = setup.run_with(&journal).await.unwrap().remove(0);
    assert_eq!((outcome(&result).as_str(), result.response.as_deref()), ("passed", Some("So.")));
    assert_eq!((result.trace.len(), journal.kinds().len()), (3, 0));
    assert_eq!(setup.workbench.opened.load(Ordering::SeqCst), 0);
    // The text form of a trace is never read.
    let corrupt = manual(&trace("\u{0}--- Tool Message ---\nthe limit of 1 turns was reached")).run_one().await;
    let (mut expected, mut corrupt) = (json!(result), json!(corrupt));
    for ids in [&mut expected, &mut corrupt] {
        ids["unit"] = json!(null);
        ids["trial"] = json!(null);
    }
    assert_eq!(corrupt, expected);

    let unknown = manual(&json!({question_hash("Why?"): "So."})).run_one().await;
    assert_eq!(outcome(&unknown), "invalid: unexpected_error at generate_answer");
}

#[tokio::test(start_paused = true)]
async fn a_manual_model_with_servers_of_its_own_is_an_error() {
    let mut setup = manual(&json!({}));
    setup.models[0].settings.mcp_keys.insert("mcp_urls_dict".to_owned(), json!({"s": "https://example.com/mcp"}));
    let error = setup.plan(&setup.tool_sets().await).unwrap_err();
    assert_eq!(error, PlanError::ManualWithServers("m".to_owned()));
}
