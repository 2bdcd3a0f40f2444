//! Runs that are driven, with time that stands still.

use std::os::unix::fs::PermissionsExt as _;
use std::sync::Arc;
use std::time::Duration;

use serde_json::json;
use wharf_agent::middleware::{
    ConcurrencyLimit, Middleware, ModelLayer, NextModel, OnModelFailure, OnToolFailure, OnUnsupported,
};
use wharf_agent::{
    Agent, AgentResult, Cache, CheckpointFile, Limits, Model, ModelError, ModelErrorKind, ModelRequest, ModelResponse,
    NoTools, Run, RunEnd,
};
use wharf_protocol::{BoxFuture, Outcome, Tools};

use crate::kit::{Bench, Fake, Heard, Way, agent, answer, new_run, one_call};

fn error(kind: ModelErrorKind) -> ModelError {
    ModelError::new(kind, "no")
}

pub(crate) async fn finish(agent: &Agent, run: &mut Run) -> AgentResult {
    agent.run(run, std::future::pending()).await.unwrap()
}

/// The usual layers without chance.
fn steady() -> Middleware {
    let mut middleware = Middleware::default();
    middleware.model_retry.jitter = false;
    middleware.tool_retry.jitter = false;
    middleware
}

#[tokio::test(start_paused = true)]
async fn everything_that_happens_is_told_in_order() {
    let model = Arc::new(Fake::new([Ok(answer("hm", &[("look", "1", json!({}))])), Ok(answer("42", &[]))]));
    let heard = Arc::<Heard>::default();
    let result =
        finish(&agent(&model, &Bench::new()).with_events(heard.clone()), &mut new_run(Limits::default())).await;
    assert_eq!(result.final_response.as_deref(), Some("42"));
    assert_eq!(
        heard.kinds(),
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
    let all = heard.all();
    assert_eq!((&all[1]["tools"], &all[7]["stop"], &all[7]["turns"]), (&json!(3), &json!("completed"), &json!(2)));
}

#[tokio::test(start_paused = true)]
async fn a_model_without_tools_is_asked_once_and_with_none() {
    let model = Arc::new(Fake::new([Ok(answer("42", &[]))]));
    let agent = Agent::new(Arc::clone(&model) as Arc<dyn Model>, Arc::new(NoTools));
    let result = finish(&agent, &mut new_run(Limits::default())).await;
    assert_eq!((result.turns, model.times()), (1, 1));
    assert!(model.asked.lock().unwrap()[0].tools.is_empty());
}

#[tokio::test(start_paused = true)]
async fn by_default_a_model_is_asked_25_times_and_the_26th_does_not_happen() {
    let model = Arc::new(Fake::endless(one_call("1")));
    let mut middleware = steady();
    middleware.repetition.0 = None;
    let result =
        finish(&agent(&model, &Bench::new()).with_middleware(middleware), &mut new_run(Limits::default())).await;
    assert_eq!((model.times(), result.turns, result.limit_reached), (25, 25, true));
    assert_eq!(result.trace_messages.len(), 50, "the whole trace is there");
}

#[tokio::test(start_paused = true)]
async fn by_default_50_tools_are_called_and_the_51st_is_not() {
    let calls: Vec<(&str, String)> = (0..60).map(|number| ("look", number.to_string())).collect();
    let calls: Vec<_> = calls.iter().map(|(name, id)| (*name, id.as_str(), json!({}))).collect();
    let model = Arc::new(Fake::new([Ok(answer("", &calls)), Ok(answer("enough", &[]))]));
    let (tools, heard) = (Bench::new(), Arc::<Heard>::default());
    let mut middleware = steady();
    middleware.repetition.0 = None;
    let agent = agent(&model, &tools).with_middleware(middleware).with_events(heard.clone());
    let result = finish(&agent, &mut new_run(Limits::default())).await;
    assert_eq!(tools.log().iter().filter(|line| line.ends_with("begins")).count(), 50);
    assert_eq!((result.final_response.as_deref(), result.limit_reached), (Some("enough"), true));
    assert!(model.asked.lock().unwrap()[1].tools.is_empty(), "its last word is asked for without tools");
    assert!(heard.kinds().contains(&"limit_reached".to_owned()));
}

#[tokio::test(start_paused = true)]
async fn a_model_that_fails_is_asked_twice_more_after_growing_pauses() {
    let busy = || Err(error(ModelErrorKind::Overloaded));
    let model = Arc::new(Fake::new([busy(), busy(), Ok(answer("42", &[]))]));
    let heard = Arc::<Heard>::default();
    let agent_ = agent(&model, &Bench::new()).with_middleware(steady()).with_events(heard.clone());
    let result = finish(&agent_, &mut new_run(Limits::default())).await;
    assert_eq!((result.final_response.as_deref(), model.pauses()), (Some("42"), vec![2.0, 4.0]));
    let retries: Vec<_> = heard.all().into_iter().filter(|event| event["type"] == "retry").collect();
    assert_eq!((retries.len(), &retries[1]["delay_ms"], &retries[1]["what"]), (2, &json!(4000), &json!("model")));

    let model = Arc::new(Fake::new([busy(), busy(), busy(), Ok(answer("42", &[]))]));
    let result = finish(&agent(&model, &Bench::new()).with_middleware(steady()), &mut new_run(Limits::default())).await;
    assert_eq!((model.times(), result.final_response), (3, None));
    assert_eq!(result.stop, RunEnd::ModelFailed(error(ModelErrorKind::Overloaded)));
}

#[tokio::test(start_paused = true)]
async fn a_provider_is_left_alone_for_as_long_as_it_says_and_not_asked_again_in_vain() {
    let wish = ModelError { retry_after: Some(Duration::from_secs(30)), ..error(ModelErrorKind::RateLimit) };
    let model = Arc::new(Fake::new([Err(wish.clone()), Ok(answer("42", &[]))]));
    finish(&agent(&model, &Bench::new()).with_middleware(steady()), &mut new_run(Limits::default())).await;
    assert_eq!(model.pauses(), [30.0]);
    let tomorrow = ModelError { retry_after: Some(Duration::from_secs(86_400)), ..wish };
    let kinds =
        [ModelErrorKind::Auth, ModelErrorKind::ContextTooLong, ModelErrorKind::Refused, ModelErrorKind::Invalid];
    for hopeless in kinds.map(error).into_iter().chain([tomorrow]) {
        let model = Arc::new(Fake::new([Err(hopeless.clone()), Ok(answer("42", &[]))]));
        let result = finish(&agent(&model, &Bench::new()), &mut new_run(Limits::default())).await;
        assert_eq!((model.times(), result.stop), (1, RunEnd::ModelFailed(hopeless)));
    }
}

#[tokio::test(start_paused = true)]
async fn where_failures_are_to_be_errors_they_are_and_nothing_is_lost() {
    let model = Arc::new(Fake::new([Ok(one_call("1")), Err(error(ModelErrorKind::Auth))]));
    let mut middleware = steady();
    middleware.model_retry.on_failure = OnModelFailure::Raise;
    let agent_ = agent(&model, &Bench::new()).with_middleware(middleware);
    let failed = agent_.run(&mut new_run(Limits::default()), std::future::pending()).await.unwrap_err();
    assert_eq!((failed.model, failed.result.trace_messages.len()), (Some(error(ModelErrorKind::Auth)), 2));

    let model = Arc::new(Fake::new([Ok(answer("", &[("send", "1", json!({})), ("send", "2", json!({}))]))]));
    let mut middleware = steady();
    middleware.tool_retry.on_failure = OnToolFailure::Raise;
    let tools = Bench::new().way("1", Way::Fails(Outcome::Unknown));
    let agent_ = agent(&model, &tools).with_middleware(middleware);
    let failed = agent_.run(&mut new_run(Limits::default()), std::future::pending()).await.unwrap_err();
    assert_eq!(failed.reason, "send: the server is gone");
    assert_eq!(tools.log(), ["1 begins", "1 ends"], "the run is over");
    assert_eq!(failed.result.trace_messages.len(), 3, "every call is closed");
}

#[tokio::test(start_paused = true)]
async fn a_call_that_cannot_have_run_is_made_three_times_more_and_one_that_may_have_is_not() {
    let fails = |tools: &Arc<Bench>, id: &str, outcome, times| {
        (0..times).for_each(|_| drop(tools.way(id, Way::Fails(outcome))));
    };
    let tools = Bench::new();
    fails(&tools, "1", Outcome::NotRun, 3);
    fails(&tools, "2", Outcome::NotRun, 4);
    fails(&tools, "3", Outcome::Unknown, 1);
    fails(&tools, "4", Outcome::Unknown, 1);
    let calls =
        [("send", "1"), ("send", "2"), ("send", "3"), ("put", "4")].map(|(name, id)| (name, id, json!({"n": id})));
    let model = Arc::new(Fake::new([Ok(answer("", &calls)), Ok(answer("done", &[]))]));
    let began = tokio::time::Instant::now();
    let result = finish(&agent(&model, &tools).with_middleware(steady()), &mut new_run(Limits::default())).await;
    let times = |id: &str| tools.log().iter().filter(|line| **line == format!("{id} begins")).count();
    assert_eq!(["1", "2", "3", "4"].map(times), [4, 4, 1, 2]);
    // 1 + 2 + 4 seconds, twice, and 1.
    assert_eq!(began.elapsed(), Duration::from_secs(15));
    let errors: Vec<bool> =
        result.trace_messages[1..5].iter().map(|one| one.tool_result.as_ref().unwrap().is_error).collect();
    assert_eq!(errors, [false, true, true, false]);
}

#[tokio::test(start_paused = true)]
async fn a_tool_that_says_it_failed_has_answered_and_is_not_called_again() {
    let tools = Bench::new().way("1", Way::Says(wharf_protocol::ToolOutput::error("no")));
    let model = Arc::new(Fake::new([Ok(one_call("1")), Ok(answer("done", &[]))]));
    let result = finish(&agent(&model, &tools), &mut new_run(Limits::default())).await;
    assert_eq!(tools.log().len(), 2);
    assert!(result.trace_messages[1].tool_result.as_ref().unwrap().is_error);
}

#[tokio::test(start_paused = true)]
async fn calls_that_only_read_overlap_and_others_wait_for_each_other() {
    let tools = Bench::new();
    for (id, seconds) in [("1", 3), ("2", 1), ("3", 2), ("4", 1)] {
        tools.way(id, Way::After(Duration::from_secs(seconds)));
    }
    let calls = [("look", "1"), ("look", "2"), ("send", "3"), ("send", "4")].map(|(name, id)| (name, id, json!({})));
    let model = Arc::new(Fake::new([Ok(answer("", &calls)), Ok(answer("done", &[]))]));
    let result = finish(&agent(&model, &tools), &mut new_run(Limits::default())).await;
    assert_eq!(tools.log(), ["1 begins", "2 begins", "2 ends", "1 ends", "3 begins", "3 ends", "4 begins", "4 ends"]);
    let order: Vec<&str> =
        result.trace_messages[1..5].iter().map(|one| &*one.tool_result.as_ref().unwrap().tool_use_id).collect();
    assert_eq!(order, ["1", "2", "3", "4"]);
}

#[tokio::test(start_paused = true)]
async fn whoever_cancels_a_run_gets_what_there_is_and_nothing_goes_on() {
    let tools = Bench::new().way("1", Way::Never);
    let model = Arc::new(Fake::new([Ok(one_call("1"))]));
    let mut run = new_run(Limits::default());
    let cancelled = tokio::time::sleep(Duration::from_secs(5));
    let result = agent(&model, &tools).run(&mut run, cancelled).await.unwrap();
    assert_eq!((result.stop, result.final_response), (RunEnd::Cancelled, None));
    assert!(result.trace_messages[1].content.starts_with("The call was given up: the run was ended."));
    assert_eq!(tools.log(), ["1 begins"]);
    assert!(!result.limit_reached);
}

#[tokio::test(start_paused = true)]
async fn the_time_of_a_run_is_a_limit_like_any_other_and_counts_over_processes() {
    let tools = Bench::new().way("1", Way::Never);
    let model = Arc::new(Fake::new([Ok(one_call("1"))]));
    let mut run = new_run(Limits { time: Some(Duration::from_secs(60)), ..Limits::default() });
    let began = tokio::time::Instant::now();
    agent(&model, &tools).run(&mut run, tokio::time::sleep(Duration::from_secs(45))).await.unwrap();
    assert_eq!(run.spent(), Duration::from_secs(45));
    // The same, as if it had been killed: what it had written down goes on.
    let mut run = new_run(Limits { time: Some(Duration::from_secs(60)), ..Limits::default() });
    run.set_elapsed(Duration::from_secs(45));
    let model = Arc::new(Fake { takes: Duration::from_secs(100), ..Fake::new([Ok(answer("late", &[]))]) });
    let result = finish(&agent(&model, &tools), &mut run).await;
    assert_eq!(began.elapsed(), Duration::from_secs(60));
    assert!(result.timeout_reached && result.limit_reached && result.final_response.is_none());
    assert!(result.raw_trace.starts_with("[Note: Agent timed out - partial response shown]"), "{}", result.raw_trace);
}

#[tokio::test(start_paused = true)]
async fn each_attempt_has_its_own_time_and_waiting_for_a_permit_is_no_part_of_it() {
    let slow = |takes| Arc::new(Fake { takes: Duration::from_secs(takes), ..Fake::endless(answer("42", &[])) });
    let model = slow(20);
    let agent_ = agent(&model, &Bench::new()).with_attempt_timeout(Duration::from_secs(10)).with_middleware(steady());
    let result = finish(&agent_, &mut new_run(Limits::default())).await;
    assert_eq!(model.pauses(), [12.0, 14.0]);
    assert!(matches!(result.stop, RunEnd::ModelFailed(ModelError { kind: ModelErrorKind::Timeout, .. })));

    let model = slow(8);
    let permit = ConcurrencyLimit::new(1);
    let agent_ = agent(&model, &Bench::new()).with_permit(permit).with_attempt_timeout(Duration::from_secs(10));
    let (mut one, mut other) = (new_run(Limits::default()), new_run(Limits::default()));
    let (one, other) = tokio::join!(finish(&agent_, &mut one), finish(&agent_, &mut other));
    assert!(one.final_response.is_some() && other.final_response.is_some());
    assert_eq!(model.pauses(), [8.0], "one after the other");
}

#[tokio::test(start_paused = true)]
async fn caching_is_asked_for_where_there_is_such_a_thing_and_its_lack_is_told_once() {
    let model = Arc::new(Fake::new([Ok(one_call("1")), Ok(answer("42", &[]))]));
    finish(&agent(&model, &Bench::new()), &mut new_run(Limits::default())).await;
    assert!(model.asked.lock().unwrap().iter().all(|asked| asked.options.cache == Some(Cache::FiveMinutes)));

    let without = || Arc::new(Fake { caching: false, ..Fake::new([Ok(one_call("1")), Ok(answer("42", &[]))]) });
    for (behavior, warnings, answered) in
        [(OnUnsupported::Warn, 1, true), (OnUnsupported::Ignore, 0, true), (OnUnsupported::Raise, 0, false)]
    {
        let (model, heard) = (without(), Arc::<Heard>::default());
        let mut middleware = steady();
        middleware.prompt_caching.unsupported_model_behavior = behavior;
        let agent_ = agent(&model, &Bench::new()).with_middleware(middleware).with_events(heard.clone());
        let result = finish(&agent_, &mut new_run(Limits::default())).await;
        assert_eq!(heard.kinds().iter().filter(|kind| *kind == "warning").count(), warnings);
        assert_eq!(result.final_response.is_some(), answered);
        assert!(model.asked.lock().unwrap().iter().all(|asked| asked.options.cache.is_none()));
    }
}

#[tokio::test(start_paused = true)]
async fn the_same_call_again_and_again_is_answered_with_words() {
    let model = Arc::new(Fake::endless(answer("", &[("look", "1", json!({"at": 1}))])));
    let tools = Bench::new();
    let mut middleware = steady();
    middleware.repetition.0 = Some(3);
    let result = finish(&agent(&model, &tools).with_middleware(middleware), &mut new_run(Limits::default())).await;
    assert_eq!(tools.log().iter().filter(|line| line.ends_with("begins")).count(), 3);
    assert!(result.trace_messages[7].content.contains("the very same call has been made 3 times"));
}

/// A layer of one's own is one method.
struct Shouting;

impl ModelLayer for Shouting {
    fn handle<'a>(
        &'a self,
        ask: ModelRequest<'a>,
        next: NextModel<'a>,
    ) -> BoxFuture<'a, Result<ModelResponse, ModelError>> {
        Box::pin(async move {
            let mut answer = next.ask(ask).await?;
            let text = answer.message.spoken().to_uppercase();
            answer.message.content = vec![wharf_protocol::Block::text(text)];
            Ok(answer)
        })
    }
}

#[tokio::test(start_paused = true)]
async fn a_layer_of_ones_own_stands_around_all_others() {
    let busy = Err(error(ModelErrorKind::Server));
    let model = Arc::new(Fake::new([busy, Ok(answer("quiet", &[]))]));
    let agent_ = agent(&model, &Bench::new()).with_model_layer(Arc::new(Shouting));
    assert_eq!(finish(&agent_, &mut new_run(Limits::default())).await.final_response.as_deref(), Some("QUIET"));
}

#[tokio::test(start_paused = true)]
async fn a_run_that_is_killed_goes_on_from_its_file_and_repeats_no_finished_call() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("run.json");
    let tools = Bench::new().way("2", Way::Never);
    let model = Arc::new(Fake::new([Ok(answer("", &["1", "2"].map(|id| ("look", id, json!({})))))]));
    let agent_ = agent(&model, &tools).with_checkpoint(Arc::new(CheckpointFile::new(&file)));
    let mut run = new_run(Limits::default());
    // Dropped in the middle, as a process that is killed: nobody gets to say anything.
    let driving = agent_.run(&mut run, std::future::pending());
    tokio::time::timeout(Duration::from_millis(300), driving).await.unwrap_err();

    let mut again = CheckpointFile::read(&file).await.unwrap();
    let model = Arc::new(Fake::new([Ok(answer("42", &[]))]));
    let result = finish(&agent(&model, &tools), &mut again).await;
    assert_eq!(result.final_response.as_deref(), Some("42"));
    assert_eq!(tools.log(), ["1 begins", "1 ends", "2 begins", "2 begins", "2 ends"]);
    assert_eq!(tools.offered().len(), 3);
    assert_eq!(std::fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600);
}
