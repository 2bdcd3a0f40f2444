//! The order of middleware, observed by layers and models that can tell.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde_json::json;
use wharf_agent::middleware::{
    ConcurrencyLimit, LayeredModel, ModelLayer, NextModel, NextTool, OnUnsupported, RetryPolicy, TimeoutEscalation,
    ToolLayer,
};
use wharf_agent::{Agent, Cache, Limits, Model as _, ModelError, ModelErrorKind, ModelRequest, ModelResponse, RunEnd};
use wharf_protocol::{BoxFuture, CallFailed, Outcome, ToolCall, ToolOutput, Tools};

use crate::driver::{finish, steady};
use crate::kit::{Behavior, Fake, TestTools, answer, new_run, one_call, test_agent};

type Log = Arc<Mutex<Vec<String>>>;

/// Logs what it sees of requests and calls on the way in and out, under its name.
struct Witness {
    name: &'static str,
    log: Log,
}

fn witness(name: &'static str, log: &Log) -> Arc<Witness> {
    Arc::new(Witness { name, log: Arc::clone(log) })
}

impl Witness {
    fn note(&self, text: &str) {
        self.log.lock().unwrap().push(format!("{} {text}", self.name));
    }
}

impl ModelLayer for Witness {
    fn handle<'a>(
        &'a self,
        request: ModelRequest<'a>,
        next: NextModel<'a>,
    ) -> BoxFuture<'a, Result<ModelResponse, ModelError>> {
        Box::pin(async move {
            self.note(&format!("request, cache {:?}", request.options.cache));
            let result = next.complete(request).await;
            self.note(if result.is_ok() { "response" } else { "error" });
            result
        })
    }
}

impl ToolLayer for Witness {
    fn handle<'a>(&'a self, call: &'a ToolCall, next: NextTool<'a>) -> BoxFuture<'a, Result<ToolOutput, CallFailed>> {
        Box::pin(async move {
            self.note(&format!("call {}", call.id));
            let result = next.call(call).await;
            self.note(if result.is_ok() { "output" } else { "failure" });
            result
        })
    }
}

fn busy() -> Result<ModelResponse, ModelError> {
    Err(ModelError::new(ModelErrorKind::Overloaded, "busy"))
}

#[tokio::test(start_paused = true)]
async fn host_layers_are_outermost_and_in_the_order_of_adding() {
    let model = Arc::new(Fake::new([busy(), Ok(answer("42", &[]))]));
    let log = Log::default();
    let agent = test_agent(&model, &TestTools::new())
        .with_middleware(steady())
        .with_model_layer(witness("outer", &log))
        .with_model_layer(witness("inner", &log));
    finish(&agent, &mut new_run(Limits::default())).await;
    // They see one request, before caching is requested, although the model gets two with caching.
    assert_eq!(
        *log.lock().unwrap(),
        ["outer request, cache None", "inner request, cache None", "inner response", "outer response"]
    );
    let requests = model.requests.lock().unwrap();
    let caches: Vec<_> = requests.iter().map(|request| request.options.cache).collect();
    assert_eq!(caches, [Some(Cache::FiveMinutes); 2]);
}

#[tokio::test(start_paused = true)]
async fn caching_is_decided_once_outside_of_retries() {
    let model = Arc::new(Fake::new([busy(), busy(), Ok(answer("42", &[]))]));
    let agent = test_agent(&model, &TestTools::new()).with_middleware(steady());
    finish(&agent, &mut new_run(Limits::default())).await;
    // Inside of the retries, every attempt would decide again.
    let checks = model.capability_checks.load(std::sync::atomic::Ordering::Relaxed);
    assert_eq!((model.times(), checks), (3, 1));
    let mut middleware = steady();
    middleware.prompt_caching.unsupported_model_behavior = OnUnsupported::Raise;
    let model = Arc::new(Fake { caching: false, ..Fake::new([Ok(answer("42", &[]))]) });
    let agent = test_agent(&model, &TestTools::new()).with_middleware(middleware);
    assert!(matches!(finish(&agent, &mut new_run(Limits::default())).await.stop, RunEnd::ModelFailed(_)));
    assert_eq!(model.times(), 0);
}

#[tokio::test(start_paused = true)]
async fn caching_starts_at_the_configured_number_of_messages() {
    let model = Arc::new(Fake::new([Ok(one_call("1")), Ok(one_call("2")), Ok(answer("42", &[]))]));
    let mut middleware = steady();
    middleware.prompt_caching.min_messages_to_cache = 3;
    let agent = test_agent(&model, &TestTools::new()).with_middleware(middleware);
    finish(&agent, &mut new_run(Limits::default())).await;
    let requests = model.requests.lock().unwrap();
    let cached: Vec<bool> = requests.iter().map(|request| request.options.cache.is_some()).collect();
    // Requests of one, three and five messages.
    assert_eq!(cached, [false, true, true]);
}

#[tokio::test(start_paused = true)]
async fn a_request_that_waits_for_its_retry_does_not_hold_the_concurrency_limit() {
    let limit = ConcurrencyLimit::new(1);
    let failing = Arc::new(Fake::new([busy(), Ok(answer("late", &[]))]));
    let other = Arc::new(Fake { delay: Duration::from_secs(1), ..Fake::new([Ok(answer("early", &[]))]) });
    let agent = |model: &Arc<Fake>| {
        test_agent(model, &TestTools::new()).with_middleware(steady()).with_concurrency_limit(limit.clone())
    };
    let (one, two) = (agent(&failing), agent(&other));
    let (mut first, mut second) = (new_run(Limits::default()), new_run(Limits::default()));
    let start = tokio::time::Instant::now();
    tokio::join!(finish(&one, &mut first), finish(&two, &mut second));
    // The second request takes one of the two seconds between the attempts of the first.
    assert_eq!((start.elapsed(), failing.pauses()), (Duration::from_secs(2), vec![2.0]));
}

#[tokio::test(start_paused = true)]
async fn a_tool_layer_of_the_host_is_around_loop_guard_and_retries() {
    let tools = TestTools::new().on_call("1", Behavior::Fails(Outcome::NotRun));
    let same = |id: &'static str| Ok(answer("", &[("look", id, json!({}))]));
    let model = Arc::new(Fake::new([same("1"), same("2"), Ok(answer("42", &[]))]));
    let mut middleware = steady();
    middleware.repetition.0 = Some(1);
    let log = Log::default();
    let agent = test_agent(&model, &tools).with_middleware(middleware).with_tool_layer(witness("host", &log));
    let result = finish(&agent, &mut new_run(Limits::default())).await;
    // One call although it is retried, and the call that the loop guard rejects.
    assert_eq!(*log.lock().unwrap(), ["host call 1", "host output", "host call 2", "host output"]);
    // The retry is not a repeated call of the model: the loop guard is outside of the retries.
    assert_eq!(tools.log(), ["1 starts", "1 ends", "1 starts", "1 ends"]);
    assert!(!result.trace_messages[1].tool_result.as_ref().unwrap().is_error);
    assert!(result.trace_messages[3].content.contains("the same call was made 1 times"));
}

#[tokio::test(start_paused = true)]
async fn a_call_may_have_run_if_any_of_its_attempts_may_have() {
    let tools = TestTools::new().on_call("1", Behavior::Fails(Outcome::Unknown));
    for _ in 0..3 {
        tools.on_call("1", Behavior::Fails(Outcome::NotRun));
    }
    let model = Arc::new(Fake::new([Ok(answer("", &[("look", "1", json!({}))])), Ok(answer("42", &[]))]));
    let agent = test_agent(&model, &tools).with_middleware(steady());
    let result = finish(&agent, &mut new_run(Limits::default())).await;
    assert_eq!(tools.log().len(), 8, "a read-only call is retried");
    let text = &result.trace_messages[1].content;
    assert!(text.starts_with("The call failed, and it is unknown whether it had an effect"), "{text}");
}

/// A tool layer that answers some calls itself and changes the output of others.
struct Editor;

impl ToolLayer for Editor {
    fn handle<'a>(&'a self, call: &'a ToolCall, next: NextTool<'a>) -> BoxFuture<'a, Result<ToolOutput, CallFailed>> {
        Box::pin(async move {
            if &*call.name == "send" {
                return Ok(ToolOutput::error("not today"));
            }
            let output = next.call(call).await?;
            Ok(ToolOutput::said(output.text().to_uppercase()))
        })
    }
}

#[tokio::test(start_paused = true)]
async fn a_tool_layer_may_answer_a_call_or_change_its_output() {
    let tools = TestTools::new();
    let calls = [("look", "1", json!({})), ("send", "2", json!({}))];
    let model = Arc::new(Fake::new([Ok(answer("", &calls)), Ok(answer("42", &[]))]));
    let agent = test_agent(&model, &tools).with_tool_layer(Arc::new(Editor));
    let result = finish(&agent, &mut new_run(Limits::default())).await;
    assert_eq!(result.trace_messages[1].content, "1 OF LOOK");
    assert_eq!(result.trace_messages[2].content, "not today");
    assert_eq!(tools.log(), ["1 starts", "1 ends"], "the second call never reached a tool");
}

fn with_policy(policy: RetryPolicy) -> wharf_agent::middleware::Middleware {
    let mut middleware = steady();
    middleware.model_retry.policy = Some(policy);
    middleware
}

#[tokio::test(start_paused = true)]
async fn a_retry_policy_counts_each_kind_of_error_separately() {
    let fails = |kind| Err(ModelError::new(kind, "no"));
    let mut policy = RetryPolicy::default();
    policy.rate_limit.max_attempts = 1;
    policy.server_error.max_attempts = 2;
    let responses = || {
        [
            fails(ModelErrorKind::Server),
            fails(ModelErrorKind::RateLimit),
            fails(ModelErrorKind::Malformed),
            Ok(answer("42", &[])),
        ]
    };
    let model = Arc::new(Fake::new(responses()));
    let agent = test_agent(&model, &TestTools::new()).with_middleware(with_policy(policy.clone()));
    let result = finish(&agent, &mut new_run(Limits::default())).await;
    assert_eq!((result.final_response.as_deref(), model.times()), (Some("42"), 4));
    policy.server_error.max_attempts = 1;
    let model = Arc::new(Fake::new(responses()));
    let agent = test_agent(&model, &TestTools::new()).with_middleware(with_policy(policy));
    let result = finish(&agent, &mut new_run(Limits::default())).await;
    assert_eq!((result.final_response, model.times()), (None, 3));
}

#[tokio::test(start_paused = true)]
async fn a_retry_policy_lengthens_the_timeout_of_attempts_that_timed_out() {
    let escalation: TimeoutEscalation =
        serde_json::from_value(json!({"strategy": "additive", "increment": 10})).unwrap();
    let mut policy = RetryPolicy { timeout_escalation: Some(escalation), ..RetryPolicy::default() };
    policy.timeout.backoff_min = 0.0;
    let model = Arc::new(Fake { delay: Duration::from_secs(25), ..Fake::endless(answer("42", &[])) });
    let agent = test_agent(&model, &TestTools::new())
        .with_middleware(with_policy(policy))
        .with_attempt_timeout(Duration::from_secs(10));
    let result = finish(&agent, &mut new_run(Limits::default())).await;
    assert_eq!((result.final_response.as_deref(), model.pauses()), (Some("42"), vec![10.0, 20.0]));
}

#[tokio::test(start_paused = true)]
async fn layers_of_a_layered_model_run_inside_the_retries_of_the_agent() {
    let log = Log::default();
    let busy = Err(ModelError::new(ModelErrorKind::Overloaded, "busy"));
    let fake = Arc::new(Fake::new([busy, Ok(answer("done", &[]))]));
    let layers: Vec<Arc<dyn ModelLayer>> = vec![witness("outer", &log), witness("inner", &log)];
    let model = LayeredModel::new(Arc::clone(&fake) as _, layers);
    assert_eq!((model.interface(), model.name()), ("fake", "fake-1"));
    let tools = TestTools::new();
    let agent = Agent::new(Arc::new(model), Arc::new(move || Arc::clone(&tools) as Arc<dyn Tools>));
    let result = finish(&agent.with_middleware(steady()), &mut new_run(Limits::default())).await;
    assert_eq!(result.final_response.as_deref(), Some("done"));
    let cache = "request, cache Some(FiveMinutes)";
    let attempt = |end: &str| {
        [format!("outer {cache}"), format!("inner {cache}"), format!("inner {end}"), format!("outer {end}")]
    };
    assert_eq!(*log.lock().unwrap(), [attempt("error"), attempt("response")].concat());
}
