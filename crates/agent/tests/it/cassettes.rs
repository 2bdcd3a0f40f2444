//! Recording and replay of runs.

use std::sync::Arc;

use serde_json::json;
use wharf_agent::cassette::{Recorder, Replay};
use wharf_agent::middleware::Middleware;
use wharf_agent::{Agent, AgentResult, Limits, Model, ModelError, ModelErrorKind, ModelResponse, Run, RunEnd};
use wharf_protocol::{Json, Outcome, Redactor, Secret, ToolOutput, Tools};

use crate::kit::{Behavior, Fake, MemoryFile, TestTools, answer, new_run, one_call, one_call_over_lines, user};

/// The default layers without delays.
fn without_delays() -> Middleware {
    let mut middleware = Middleware::default();
    middleware.model_retry.initial_delay = 0.0;
    middleware.tool_retry.initial_delay = 0.0;
    middleware.repetition.0 = None;
    middleware
}

fn endless() -> Limits {
    Limits { model_calls: u32::MAX, tool_calls: u32::MAX, ..Limits::default() }
}

async fn record(
    responses: impl IntoIterator<Item = Result<ModelResponse, ModelError>>,
    tools: &Arc<TestTools>,
) -> (AgentResult, String) {
    // Some of the secrets are words of the format.
    let secrets = ["s3cr3t \"x\"", "ab/cd/efgh1234", "messages", "tool_use"].map(Secret::new);
    let file = MemoryFile::default();
    let tools = Arc::clone(tools);
    let recorder = Recorder::new(file.clone(), "fake:fake-1", Redactor::new(secrets)).unwrap();
    let model = recorder.model(Arc::new(Fake::new(responses)) as Arc<dyn Model>);
    let turns = recorder.tools(Arc::new(move || Arc::clone(&tools) as Arc<dyn Tools>));
    let agent = Agent::new(model, turns).with_middleware(without_delays());
    let result = agent.run(&mut new_run(endless()), std::future::pending()).await.unwrap();
    assert_eq!(recorder.failure(), None);
    (result, file.text())
}

async fn replay_run(replay: &Replay, mut run: Run) -> AgentResult {
    let agent = Agent::new(replay.model("fake", "fake-1"), replay.tools()).with_middleware(without_delays());
    agent.run(&mut run, std::future::pending()).await.unwrap()
}

fn conversation() -> Vec<Result<ModelResponse, ModelError>> {
    vec![
        Ok(answer("hm", &["1", "2"].map(|id| ("look", id, json!({"b": 1, "a": id}))))),
        Err(ModelError::new(ModelErrorKind::Overloaded, "busy")),
        Ok(answer("", &[("send", "3", json!({}))])),
        Ok(answer("42", &[])),
    ]
}

#[tokio::test]
async fn a_replay_has_the_same_trace_as_the_recorded_run() {
    let tools = TestTools::new()
        .on_call("3", Behavior::Fails(Outcome::Unknown))
        .on_call("2", Behavior::Says(ToolOutput::error("no")));
    let (before, text) = record(conversation(), &tools).await;
    let replay = Replay::parse(&text).unwrap();
    let after = replay_run(&replay, new_run(endless())).await;
    assert_eq!(replay.finish(), Ok(()));
    assert_eq!(after, before);
    assert_eq!(after.raw_trace.as_bytes(), before.raw_trace.as_bytes());
    assert_eq!(text.lines().count(), 1 + 4 + 3, "every exchange, including failures");
}

#[tokio::test]
async fn the_first_difference_is_reported() {
    let (_, text) = record(conversation(), &TestTools::new()).await;
    let replay = Replay::parse(&text).unwrap();
    let result = replay_run(&replay, Run::new("test", user("what else?"), endless())).await;
    assert!(matches!(result.stop, RunEnd::ModelFailed(_)));
    let difference = replay.finish().unwrap_err().to_string();
    assert_eq!(
        difference,
        "model request 1 differs from the recording: message 1 at `content.0.text` was \"what?\" and is \"what else?\""
    );

    // A changed tool result makes the next request differ.
    let replay = Replay::parse(&text.replacen("1 of look", "one of look", 1)).unwrap();
    let result = replay_run(&replay, new_run(endless())).await;
    assert_eq!(result.turns, 1);
    let difference = replay.finish().unwrap_err().to_string();
    assert!(
        difference.starts_with("model request 2 differs from the recording: message 3 at `content.0.output"),
        "{difference}"
    );

    // A changed call of the model.
    let replay =
        Replay::parse(&text.replacen(r#""name":"send","input":{}"#, r#""name":"send","input":{"x":1}"#, 1)).unwrap();
    replay_run(&replay, new_run(endless())).await;
    let difference = replay.finish().unwrap_err().to_string();
    assert_eq!(difference, "tool call 3 differs from the recording: it was send {}, and is send {\"x\":1}");
}

#[tokio::test]
async fn an_incomplete_replay_is_an_error() {
    let (_, text) = record(conversation(), &TestTools::new()).await;
    let replay = Replay::parse(&text).unwrap();
    let result = replay_run(&replay, new_run(Limits { model_calls: 1, ..Limits::default() })).await;
    assert!(result.limit_reached);
    assert_eq!(replay.finish().unwrap_err().to_string(), "the run ended after 1 of 4 recorded model requests");
    let untouched = Replay::parse(&text).unwrap();
    assert!(untouched.finish().is_err());
}

#[tokio::test]
async fn secrets_are_redacted() {
    let tools = TestTools::new().on_call("1", Behavior::Says(ToolOutput::error("the key is s3cr3t \"x\", keep it")));
    let (_, text) = record([Ok(one_call("1")), Ok(answer("ok", &[]))], &tools).await;
    assert!(!text.contains("s3cr3t") && text.contains("the key is [secret], keep it"), "{text}");
}

#[tokio::test]
async fn a_secret_that_the_server_escapes_is_redacted_and_replays() {
    let raw = r#"{"content": [{"type":"text","text":"it is ab\/cd\/efgh1234 \/"}]}"#;
    let output = ToolOutput::from_json(&Json::parse(raw).unwrap()).unwrap();
    let tools = TestTools::new().on_call("1", Behavior::Says(output));
    let (_, text) = record([Ok(one_call("1")), Ok(answer("ok", &[]))], &tools).await;
    assert!(!text.contains("efgh1234") && text.contains(r#""text":"it is [secret] \/""#), "{text}");
    let replay = Replay::parse(&text).unwrap();
    replay_run(&replay, new_run(endless())).await;
    assert_eq!(replay.finish(), Ok(()));
}

#[test]
fn an_invalid_cassette_is_reported_with_its_line() {
    let error = |text: &str| Replay::parse(text).err().unwrap().to_string();
    assert_eq!(error(""), "line 1: not a cassette: expected {\"cassette\":1}");
    assert_eq!(error("{\"cassette\":2}"), "line 1: unsupported cassette version 2, expected 1");
    assert_eq!(
        error("{\"cassette\":1}\n\n{\"call\":{\"id\":\"1\",\"name\":\"x\",\"arguments\":{}}}"),
        "line 3: expected a model request or a tool call with its result"
    );
    assert!(error("{\"cassette\":1}\n{\"ask\":").starts_with("line 2: EOF"));
}

#[tokio::test]
async fn a_thousand_turns_are_recorded_without_repeating_messages() {
    let turns = (0..1000).map(|turn| Ok(one_call(&turn.to_string()))).chain([Ok(answer("42", &[]))]);
    let (before, text) = record(turns, &TestTools::new()).await;
    assert_eq!(before.turns, 1001);
    assert!(text.len() < 2 * 1000 * 1000, "{} bytes", text.len());
    let replay = Replay::parse(&text).unwrap();
    let after = replay_run(&replay, new_run(endless())).await;
    assert_eq!((after, replay.finish()), (before, Ok(())));
}

#[tokio::test]
async fn recorded_values_may_span_several_lines() {
    let responses = [Ok(one_call_over_lines("1")), Ok(answer("42", &[]))];
    let (live, text) = record(responses, &TestTools::new()).await;
    assert!(text.lines().count() > 4, "{text}");
    let replay = Replay::parse(&text).unwrap();
    let again = replay_run(&replay, new_run(endless())).await;
    replay.finish().unwrap();
    assert_eq!((again.raw_trace, again.trace_messages), (live.raw_trace, live.trace_messages));
    // Errors count all lines of the text.
    let broken = Replay::parse(&format!("{text}\nnonsense")).err().unwrap();
    assert!(broken.to_string().contains(&format!("line {}", text.lines().count() + 2)), "{broken}");
}

/// A recording from before instructions and redaction of prompts existed.
const OLD_CASSETTE: &str = r#"{"cassette":1}
{"ask":{"from":0,"messages":[{"role":"user","content":[{"type":"text","text":"what?"}]}],"offered":[{"name":"look","description":"does it","input_schema":{"type":"object"}}],"options":{"max_tokens":16384,"cache":"5m","stream":true}},"answer":{"message":{"role":"assistant","content":[{"type":"text","text":"42"}]},"stop":"end_turn","model":"fake-1","usage":{"input_tokens":10,"output_tokens":5,"cache_read_tokens":0,"cache_write_tokens":0,"reasoning_tokens":0}}}
"#;

#[tokio::test]
async fn an_older_recording_replays() {
    let replay = Replay::parse(OLD_CASSETTE).unwrap();
    assert_eq!(replay.recorded_model(), None);
    let result = replay_run(&replay, new_run(endless())).await;
    assert_eq!((result.final_response.as_deref(), replay.finish()), (Some("42"), Ok(())));
}

#[tokio::test]
async fn instructions_are_recorded_when_they_change_and_replayed() {
    let tools = TestTools::new().with_instructions(&[("files", "Read first."), ("mail", "Ask.")]);
    let turns = [Ok(one_call("1")), Ok(one_call("2")), Ok(answer("42", &[]))];
    let (before, text) = record(turns, &tools).await;
    assert_eq!((text.matches("Read first.").count(), before.instructions.len()), (1, 1));
    let replay = Replay::parse(&text).unwrap();
    let after = replay_run(&replay, new_run(endless())).await;
    assert_eq!((after, replay.finish()), (before, Ok(())));
}

#[tokio::test]
async fn a_prompt_with_a_secret_replays() {
    let file = MemoryFile::default();
    let redactor = Redactor::default();
    let recorder = Recorder::new(file.clone(), "fake:fake-1", redactor.clone()).unwrap();
    // Known only after the recording has begun, as a token of a sign-in.
    redactor.add(&Secret::new("tok-12345"));
    let model = recorder.model(Arc::new(Fake::new([Ok(answer("42", &[]))])) as Arc<dyn Model>);
    let agent = Agent::new(model, recorder.tools(Arc::new(wharf_agent::NoTools))).with_middleware(without_delays());
    let prompt = || Run::new("test", user("use tok-12345 twice: tok-12345!"), endless());
    agent.run(&mut prompt(), std::future::pending()).await.unwrap();
    assert!(!file.text().contains("tok-12345") && file.text().contains("use [secret] twice: [secret]!"));
    let replay = Replay::parse(&file.text()).unwrap();
    replay_run(&replay, prompt()).await;
    assert_eq!(replay.finish(), Ok(()));
    let replay = Replay::parse(&file.text()).unwrap();
    replay_run(&replay, Run::new("test", user("use tok-12345 once: tok-12345!"), endless())).await;
    assert!(replay.finish().is_err());
}
