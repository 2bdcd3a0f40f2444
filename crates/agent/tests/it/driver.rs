//! Execution of runs, with paused time.

use std::os::unix::fs::PermissionsExt as _;
use std::sync::Arc;
use std::time::Duration;

use serde_json::json;
use wharf_agent::middleware::{ConcurrencyLimit, Middleware, OnModelFailure, OnToolFailure, OnUnsupported};
use wharf_agent::{
    Agent, AgentResult, Cache, CheckpointFile, Limit, Limits, Model, ModelError, ModelErrorKind, NoTools, Run, RunEnd,
};
use wharf_protocol::{Outcome, Tools};

use crate::kit::{Behavior, EventLog, Fake, TestTools, answer, new_run, one_call, test_agent};

fn error(kind: ModelErrorKind) -> ModelError {
    ModelError::new(kind, "no")
}

pub(crate) async fn finish(agent: &Agent, run: &mut Run) -> AgentResult {
    agent.run(run, std::future::pending()).await.unwrap()
}

/// The default layers without jitter.
pub(crate) fn steady() -> Middleware {
    let mut middleware = Middleware::default();
    middleware.model_retry.jitter = false;
    middleware.tool_retry.jitter = false;
    middleware
}

#[tokio::test(start_paused = true)]
async fn events_are_reported_in_order() {
    let model = Arc::new(Fake::new([Ok(answer("hm", &[("look", "1", json!({}))])), Ok(answer("42", &[]))]));
    let events = Arc::<EventLog>::default();
    let result =
        finish(&test_agent(&model, &TestTools::new()).with_events(events.clone()), &mut new_run(Limits::default()))
            .await;
    assert_eq!(result.final_response.as_deref(), Some("42"));
    assert_eq!(
        events.kinds(),
        [
            "run_started",
            "turn_started",
            "model_message",
            "tool_started",
            "tool_finished",
            "turn_started",
            "model_message",
            "finished"
        ]
    );
    let all = events.all();
    assert_eq!((&all[1]["tools"], &all[7]["stop"], &all[7]["turns"]), (&json!(3), &json!("completed"), &json!(2)));
}

#[tokio::test(start_paused = true)]
async fn a_model_without_tools_gets_one_request() {
    let model = Arc::new(Fake::new([Ok(answer("42", &[]))]));
    let agent = Agent::new(Arc::clone(&model) as Arc<dyn Model>, Arc::new(NoTools));
    let result = finish(&agent, &mut new_run(Limits::default())).await;
    assert_eq!((result.turns, model.times()), (1, 1));
    assert!(model.requests.lock().unwrap()[0].tools.is_empty());
}

#[tokio::test(start_paused = true)]
async fn by_default_a_run_ends_after_25_model_requests() {
    let model = Arc::new(Fake::endless(one_call("1")));
    let mut middleware = steady();
    middleware.repetition.0 = None;
    let result =
        finish(&test_agent(&model, &TestTools::new()).with_middleware(middleware), &mut new_run(Limits::default()))
            .await;
    assert_eq!((model.times(), result.turns, result.limit_reached), (25, 25, true));
    assert_eq!(result.trace_messages.len(), 50, "the trace is complete");
}

#[tokio::test(start_paused = true)]
async fn by_default_50_tool_calls_are_executed() {
    let calls: Vec<(&str, String)> = (0..60).map(|number| ("look", number.to_string())).collect();
    let calls: Vec<_> = calls.iter().map(|(name, id)| (*name, id.as_str(), json!({}))).collect();
    let model = Arc::new(Fake::new([Ok(answer("", &calls)), Ok(answer("enough", &[]))]));
    let tools = TestTools::new();
    let events = Arc::<EventLog>::default();
    let mut middleware = steady();
    middleware.repetition.0 = None;
    let agent = test_agent(&model, &tools).with_middleware(middleware).with_events(events.clone());
    let result = finish(&agent, &mut new_run(Limits::default())).await;
    assert_eq!(tools.log().iter().filter(|line| line.ends_with("starts")).count(), 50);
    assert_eq!((result.final_response.as_deref(), result.limit_reached), (Some("enough"), true));
    assert!(model.requests.lock().unwrap()[1].tools.is_empty(), "the final request has no tools");
    assert!(events.kinds().contains(&"limit_reached".to_owned()));
}

#[tokio::test(start_paused = true)]
async fn a_failed_model_request_is_retried_twice_with_growing_delays() {
    let busy = || Err(error(ModelErrorKind::Overloaded));
    let model = Arc::new(Fake::new([busy(), busy(), Ok(answer("42", &[]))]));
    let events = Arc::<EventLog>::default();
    let agent = test_agent(&model, &TestTools::new()).with_middleware(steady()).with_events(events.clone());
    let result = finish(&agent, &mut new_run(Limits::default())).await;
    assert_eq!((result.final_response.as_deref(), model.pauses()), (Some("42"), vec![2.0, 4.0]));
    let retries: Vec<_> = events.all().into_iter().filter(|event| event["type"] == "retry").collect();
    assert_eq!((retries.len(), &retries[1]["delay_ms"], &retries[1]["what"]), (2, &json!(4000), &json!("model")));
    assert_eq!((&retries[1]["attempt"], &retries[1]["max_attempts"]), (&json!(2), &json!(3)));

    let model = Arc::new(Fake::new([busy(), busy(), busy(), Ok(answer("42", &[]))]));
    let result =
        finish(&test_agent(&model, &TestTools::new()).with_middleware(steady()), &mut new_run(Limits::default())).await;
    assert_eq!((model.times(), result.final_response), (3, None));
    assert_eq!(result.stop, RunEnd::ModelFailed(error(ModelErrorKind::Overloaded)));
}

#[tokio::test(start_paused = true)]
async fn the_requested_retry_delay_is_respected_and_permanent_errors_are_not_retried() {
    let limited = ModelError { retry_after: Some(Duration::from_secs(30)), ..error(ModelErrorKind::RateLimit) };
    let model = Arc::new(Fake::new([Err(limited.clone()), Ok(answer("42", &[]))]));
    finish(&test_agent(&model, &TestTools::new()).with_middleware(steady()), &mut new_run(Limits::default())).await;
    assert_eq!(model.pauses(), [30.0]);
    let tomorrow = ModelError { retry_after: Some(Duration::from_secs(86_400)), ..limited };
    let kinds = [
        ModelErrorKind::Auth,
        ModelErrorKind::Quota,
        ModelErrorKind::ContextTooLong,
        ModelErrorKind::Refused,
        ModelErrorKind::Invalid,
        ModelErrorKind::WrongUrl,
    ];
    for permanent in kinds.map(error).into_iter().chain([tomorrow]) {
        let model = Arc::new(Fake::new([Err(permanent.clone()), Ok(answer("42", &[]))]));
        let result = finish(&test_agent(&model, &TestTools::new()), &mut new_run(Limits::default())).await;
        assert_eq!((model.times(), result.stop), (1, RunEnd::ModelFailed(permanent)));
    }
}

#[tokio::test(start_paused = true)]
async fn raised_failures_return_an_error_with_the_partial_result() {
    let model = Arc::new(Fake::new([Ok(one_call("1")), Err(error(ModelErrorKind::Auth))]));
    let mut middleware = steady();
    middleware.model_retry.on_failure = OnModelFailure::Raise;
    let agent = test_agent(&model, &TestTools::new()).with_middleware(middleware);
    let failed = agent.run(&mut new_run(Limits::default()), std::future::pending()).await.unwrap_err();
    assert_eq!((failed.model, failed.result.trace_messages.len()), (Some(error(ModelErrorKind::Auth)), 2));

    let model = Arc::new(Fake::new([Ok(answer("", &[("send", "1", json!({})), ("send", "2", json!({}))]))]));
    let mut middleware = steady();
    middleware.tool_retry.on_failure = OnToolFailure::Raise;
    let tools = TestTools::new().on_call("1", Behavior::Fails(Outcome::Unknown));
    let agent = test_agent(&model, &tools).with_middleware(middleware);
    let failed = agent.run(&mut new_run(Limits::default()), std::future::pending()).await.unwrap_err();
    assert_eq!(failed.reason, "send: the server is gone");
    assert_eq!(tools.log(), ["1 starts", "1 ends"], "the run ended");
    assert_eq!(failed.result.trace_messages.len(), 3, "every call has a result");
}

#[tokio::test(start_paused = true)]
async fn a_call_that_cannot_have_run_is_retried_three_times() {
    let fails = |tools: &Arc<TestTools>, id: &str, outcome, times| {
        (0..times).for_each(|_| drop(tools.on_call(id, Behavior::Fails(outcome))));
    };
    let tools = TestTools::new();
    fails(&tools, "1", Outcome::NotRun, 3);
    fails(&tools, "2", Outcome::NotRun, 4);
    fails(&tools, "3", Outcome::Unknown, 1);
    fails(&tools, "4", Outcome::Unknown, 1);
    let calls =
        [("send", "1"), ("send", "2"), ("send", "3"), ("put", "4")].map(|(name, id)| (name, id, json!({"n": id})));
    let model = Arc::new(Fake::new([Ok(answer("", &calls)), Ok(answer("done", &[]))]));
    let start = tokio::time::Instant::now();
    let result = finish(&test_agent(&model, &tools).with_middleware(steady()), &mut new_run(Limits::default())).await;
    let times = |id: &str| tools.log().iter().filter(|line| **line == format!("{id} starts")).count();
    assert_eq!(["1", "2", "3", "4"].map(times), [4, 4, 1, 2]);
    // 1 + 2 + 4 seconds twice, and 1 second.
    assert_eq!(start.elapsed(), Duration::from_secs(15));
    let errors: Vec<bool> =
        result.trace_messages[1..5].iter().map(|one| one.tool_result.as_ref().unwrap().is_error).collect();
    assert_eq!(errors, [false, true, true, false]);
}

#[tokio::test(start_paused = true)]
async fn a_tool_error_is_not_retried() {
    let tools = TestTools::new().on_call("1", Behavior::Says(wharf_protocol::ToolOutput::error("no")));
    let model = Arc::new(Fake::new([Ok(one_call("1")), Ok(answer("done", &[]))]));
    let result = finish(&test_agent(&model, &tools), &mut new_run(Limits::default())).await;
    assert_eq!(tools.log().len(), 2);
    assert!(result.trace_messages[1].tool_result.as_ref().unwrap().is_error);
}

#[tokio::test(start_paused = true)]
async fn blocked_calls_are_reported() {
    let calls = ["1", "2"].map(|id| ("look", id, json!({"q": id})));
    let model = Arc::new(Fake::new([Ok(answer("", &calls)), Ok(answer("done", &[]))]));
    let events = Arc::<EventLog>::default();
    let limits = Limits { per_tool: [("look".to_owned(), 1)].into(), ..Limits::default() };
    finish(&test_agent(&model, &TestTools::new()).with_events(events.clone()), &mut new_run(limits)).await;
    let all = events.all();
    let blocked: Vec<_> = all.iter().filter(|event| event["type"] == "tool_blocked").collect();
    let limit = json!({"kind": "per_tool", "name": "look", "most": 1});
    let expected = json!({"type": "tool_blocked", "id": "2", "name": "look", "arguments": {"q": "2"}, "limit": limit});
    assert_eq!(blocked, [&expected]);

    // A call that waits for another one when the time is over.
    let calls = [("send", "3", json!({})), ("send", "4", json!({}))];
    let tools = TestTools::new().on_call("3", Behavior::Never);
    let model = Arc::new(Fake::new([Ok(answer("", &calls))]));
    let events = Arc::<EventLog>::default();
    let mut run = new_run(Limits { time: Some(Duration::from_secs(5)), ..Limits::default() });
    let result = finish(&test_agent(&model, &tools).with_events(events.clone()), &mut run).await;
    let ids = |kind: &str| {
        let all = events.all();
        all.iter().filter(|event| event["type"] == kind).map(|event| event["id"].clone()).collect::<Vec<_>>()
    };
    assert_eq!((ids("tool_started"), ids("tool_blocked")), (vec![json!("3")], vec![json!("4")]));
    assert_eq!((result.metrics.tool_calls, result.metrics.blocked_tool_calls), (1, 1));
}

#[tokio::test(start_paused = true)]
async fn read_only_calls_run_concurrently_and_others_in_order() {
    let tools = TestTools::new();
    for (id, seconds) in [("1", 3), ("2", 1), ("3", 2), ("4", 1)] {
        tools.on_call(id, Behavior::After(Duration::from_secs(seconds)));
    }
    let calls = [("look", "1"), ("look", "2"), ("send", "3"), ("send", "4")].map(|(name, id)| (name, id, json!({})));
    let model = Arc::new(Fake::new([Ok(answer("", &calls)), Ok(answer("done", &[]))]));
    let result = finish(&test_agent(&model, &tools), &mut new_run(Limits::default())).await;
    assert_eq!(tools.log(), ["1 starts", "2 starts", "2 ends", "1 ends", "3 starts", "3 ends", "4 starts", "4 ends"]);
    let order: Vec<&str> =
        result.trace_messages[1..5].iter().map(|one| &*one.tool_result.as_ref().unwrap().tool_use_id).collect();
    assert_eq!(order, ["1", "2", "3", "4"]);
}

#[tokio::test(start_paused = true)]
async fn canceling_a_run_returns_the_partial_result() {
    let tools = TestTools::new().on_call("1", Behavior::Never);
    let model = Arc::new(Fake::new([Ok(one_call("1"))]));
    let mut run = new_run(Limits::default());
    let cancelled = tokio::time::sleep(Duration::from_secs(5));
    let result = test_agent(&model, &tools).run(&mut run, cancelled).await.unwrap();
    assert_eq!((result.stop, result.final_response), (RunEnd::Cancelled, None));
    assert!(result.trace_messages[1].content.starts_with("The call was canceled: the run was canceled."));
    assert_eq!(tools.log(), ["1 starts"]);
    assert!(!result.limit_reached);
}

#[tokio::test(start_paused = true)]
async fn a_run_ends_for_the_reason_that_its_host_gives() {
    let tools = TestTools::new().on_call("1", Behavior::Never);
    let model = Arc::new(Fake::new([Ok(one_call("1"))]));
    let mut run = new_run(Limits::default());
    let limit = RunEnd::Limit(Limit::Time { seconds: 5 });
    let stopped = async {
        tokio::time::sleep(Duration::from_secs(5)).await;
        limit.clone()
    };
    let result = test_agent(&model, &tools).run_until(&mut run, stopped).await.unwrap();
    assert_eq!((&result.stop, result.timeout_reached), (&limit, true));
    assert!(result.trace_messages[1].content.contains("the limit of 5 s was reached"));
}

#[tokio::test(start_paused = true)]
async fn calls_in_flight_finish_within_the_drain_timeout_of_a_canceled_run() {
    let outcome = async |behavior: Behavior| {
        let tools = TestTools::new().on_call("1", behavior);
        let model = Arc::new(Fake::new([Ok(one_call("1")), Ok(answer("done", &[]))]));
        let agent = test_agent(&model, &tools).with_drain_timeout(Duration::from_secs(2));
        let began = tokio::time::Instant::now();
        let cancelled = tokio::time::sleep(Duration::from_secs(5));
        let result = agent.run(&mut new_run(Limits::default()), cancelled).await.unwrap();
        assert_eq!((result.stop, result.final_response), (RunEnd::Cancelled, None), "no further step");
        (result.trace_messages[1].content.clone(), began.elapsed().as_secs())
    };
    let (finished, seconds) = outcome(Behavior::After(Duration::from_secs(6))).await;
    assert!(!finished.contains("canceled") && seconds == 6, "{finished} after {seconds} s");
    let (canceled, seconds) = outcome(Behavior::Never).await;
    assert!(canceled.starts_with("The call was canceled") && seconds == 7, "{canceled} after {seconds} s");
}

#[tokio::test(start_paused = true)]
async fn the_time_limit_counts_over_all_processes() {
    let tools = TestTools::new().on_call("1", Behavior::Never);
    let model = Arc::new(Fake::new([Ok(one_call("1"))]));
    let mut run = new_run(Limits { time: Some(Duration::from_secs(60)), ..Limits::default() });
    let start = tokio::time::Instant::now();
    test_agent(&model, &tools).run(&mut run, tokio::time::sleep(Duration::from_secs(45))).await.unwrap();
    assert_eq!(run.elapsed(), Duration::from_secs(45));
    // A run that was killed continues with its saved time.
    let mut run = new_run(Limits { time: Some(Duration::from_secs(60)), ..Limits::default() });
    run.set_elapsed(Duration::from_secs(45));
    let model = Arc::new(Fake { delay: Duration::from_secs(100), ..Fake::new([Ok(answer("late", &[]))]) });
    let result = finish(&test_agent(&model, &tools), &mut run).await;
    assert_eq!(start.elapsed(), Duration::from_secs(60));
    assert!(result.timeout_reached && result.limit_reached && result.final_response.is_none());
    assert!(result.raw_trace.starts_with("[Note: Agent timed out - partial response shown]"), "{}", result.raw_trace);
}

#[tokio::test(start_paused = true)]
async fn all_attempts_of_a_request_together_take_at_most_an_hour() {
    let slow = |seconds| Arc::new(Fake { delay: Duration::from_secs(seconds), ..Fake::endless(answer("42", &[])) });
    let mut middleware = steady();
    middleware.model_retry.max_retries = 100;
    let ended = async |model: &Arc<Fake>, agent: Agent| {
        let start = tokio::time::Instant::now();
        let result = finish(&agent, &mut new_run(Limits::default())).await;
        assert!(matches!(result.stop, RunEnd::ModelFailed(ModelError { kind: ModelErrorKind::Timeout, .. })));
        (start.elapsed().as_secs(), model.times())
    };
    // One attempt that never ends, and many that end in time.
    let model = slow(100_000);
    let agent = test_agent(&model, &TestTools::new()).with_middleware(middleware.clone());
    assert_eq!(ended(&model, agent).await, (3600, 1));
    let model = slow(100_000);
    let agent = test_agent(&model, &TestTools::new()).with_middleware(middleware.clone());
    assert_eq!(ended(&model, agent.with_attempt_timeout(Duration::from_secs(1000))).await, (3600, 4));
    // The wait for other requests does not count.
    let model = slow(3000);
    let agent = test_agent(&model, &TestTools::new()).with_concurrency_limit(ConcurrencyLimit::new(1));
    let (mut one, mut other) = (new_run(Limits::default()), new_run(Limits::default()));
    let (one, other) = tokio::join!(finish(&agent, &mut one), finish(&agent, &mut other));
    assert!(one.final_response.is_some() && other.final_response.is_some());
}

#[tokio::test(start_paused = true)]
async fn the_attempt_timeout_excludes_the_wait_for_the_concurrency_limit() {
    let slow = |seconds| Arc::new(Fake { delay: Duration::from_secs(seconds), ..Fake::endless(answer("42", &[])) });
    let model = slow(20);
    let agent =
        test_agent(&model, &TestTools::new()).with_attempt_timeout(Duration::from_secs(10)).with_middleware(steady());
    let result = finish(&agent, &mut new_run(Limits::default())).await;
    assert_eq!(model.pauses(), [12.0, 14.0]);
    assert!(matches!(result.stop, RunEnd::ModelFailed(ModelError { kind: ModelErrorKind::Timeout, .. })));

    let model = slow(8);
    let limit = ConcurrencyLimit::new(1);
    let agent = test_agent(&model, &TestTools::new())
        .with_concurrency_limit(limit)
        .with_attempt_timeout(Duration::from_secs(10));
    let mut one = new_run(Limits::default());
    let mut other = new_run(Limits::default());
    let (one, other) = tokio::join!(finish(&agent, &mut one), finish(&agent, &mut other));
    assert!(one.final_response.is_some() && other.final_response.is_some());
    assert_eq!(model.pauses(), [8.0], "one after the other");
}

#[tokio::test(start_paused = true)]
async fn caching_is_requested_if_supported_and_otherwise_warned_about_once() {
    let model = Arc::new(Fake::new([Ok(one_call("1")), Ok(answer("42", &[]))]));
    finish(&test_agent(&model, &TestTools::new()), &mut new_run(Limits::default())).await;
    assert!(model.requests.lock().unwrap().iter().all(|request| request.options.cache == Some(Cache::FiveMinutes)));

    let without = || Arc::new(Fake { caching: false, ..Fake::new([Ok(one_call("1")), Ok(answer("42", &[]))]) });
    for (behavior, warnings, answered) in
        [(OnUnsupported::Warn, 1, true), (OnUnsupported::Ignore, 0, true), (OnUnsupported::Raise, 0, false)]
    {
        let model = without();
        let events = Arc::<EventLog>::default();
        let mut middleware = steady();
        middleware.prompt_caching.unsupported_model_behavior = behavior;
        let agent = test_agent(&model, &TestTools::new()).with_middleware(middleware).with_events(events.clone());
        let result = finish(&agent, &mut new_run(Limits::default())).await;
        assert_eq!(events.kinds().iter().filter(|kind| *kind == "warning").count(), warnings);
        assert_eq!(result.final_response.is_some(), answered);
        assert!(model.requests.lock().unwrap().iter().all(|request| request.options.cache.is_none()));
    }
}

#[tokio::test(start_paused = true)]
async fn identical_calls_in_a_row_are_rejected() {
    let model = Arc::new(Fake::endless(answer("", &[("look", "1", json!({"at": 1}))])));
    let tools = TestTools::new();
    let mut middleware = steady();
    middleware.repetition.0 = Some(3);
    let result = finish(&test_agent(&model, &tools).with_middleware(middleware), &mut new_run(Limits::default())).await;
    assert_eq!(tools.log().iter().filter(|line| line.ends_with("starts")).count(), 3);
    assert!(result.trace_messages[7].content.contains("the same call was made 3 times"));
}

#[tokio::test(start_paused = true)]
async fn a_killed_run_resumes_from_its_checkpoint_without_repeating_finished_calls() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("run.json");
    let tools = TestTools::new().on_call("2", Behavior::Never);
    let model = Arc::new(Fake::new([Ok(answer("", &["1", "2"].map(|id| ("look", id, json!({})))))]));
    let agent = test_agent(&model, &tools).with_checkpoint(Arc::new(CheckpointFile::new(&file)));
    let mut run = new_run(Limits::default());
    // Dropped while running, like a killed process.
    let driving = agent.run(&mut run, std::future::pending());
    tokio::time::timeout(Duration::from_millis(300), driving).await.unwrap_err();

    let mut again = CheckpointFile::read(&file).await.unwrap();
    let model = Arc::new(Fake::new([Ok(answer("42", &[]))]));
    let result = finish(&test_agent(&model, &tools), &mut again).await;
    assert_eq!(result.final_response.as_deref(), Some("42"));
    assert_eq!(tools.log(), ["1 starts", "1 ends", "2 starts", "2 starts", "2 ends"]);
    assert_eq!(tools.offered().len(), 3);
    assert_eq!(std::fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600);
}
