//! Runs that are recorded, and played without anybody there.

use std::io::{self, Write};
use std::sync::{Arc, Mutex};

use serde_json::json;
use wharf_agent::cassette::{Recorder, Replay};
use wharf_agent::middleware::Middleware;
use wharf_agent::{Agent, AgentResult, Limits, Model, ModelError, ModelErrorKind, ModelResponse, Run, RunEnd};
use wharf_protocol::{Outcome, Secret, ToolOutput, Tools};

use crate::kit::{Bench, Fake, Way, answer, new_run, one_call, one_call_over_lines, user};

/// A file in memory.
#[derive(Clone, Default)]
struct Tape(Arc<Mutex<Vec<u8>>>);

impl Tape {
    fn text(&self) -> String {
        String::from_utf8(self.0.lock().unwrap().clone()).unwrap()
    }
}

impl Write for Tape {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap().write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// The usual layers, without pauses.
fn impatient() -> Middleware {
    let mut middleware = Middleware::default();
    middleware.model_retry.initial_delay = 0.0;
    middleware.tool_retry.initial_delay = 0.0;
    middleware.repetition.0 = None;
    middleware
}

fn endless() -> Limits {
    Limits { model_calls: u32::MAX, tool_calls: u32::MAX, ..Limits::default() }
}

async fn recorded(
    answers: impl IntoIterator<Item = Result<ModelResponse, ModelError>>,
    tools: &Arc<Bench>,
) -> (AgentResult, String) {
    let (tape, tools) = (Tape::default(), Arc::clone(tools));
    let recorder = Recorder::new(tape.clone(), &[Secret::new("s3cr3t \"x\"")]).unwrap();
    let model = recorder.model(Arc::new(Fake::new(answers)) as Arc<dyn Model>);
    let turns = recorder.tools(Arc::new(move || Arc::clone(&tools) as Arc<dyn Tools>));
    let agent = Agent::new(model, turns).with_middleware(impatient());
    let result = agent.run(&mut new_run(endless()), std::future::pending()).await.unwrap();
    assert_eq!(recorder.broken(), None);
    (result, tape.text())
}

async fn played(replay: &Replay, mut run: Run) -> AgentResult {
    let agent = Agent::new(replay.model("fake", "fake-1"), replay.tools()).with_middleware(impatient());
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
async fn a_recording_plays_to_the_very_same_trace() {
    let tools = Bench::new().way("3", Way::Fails(Outcome::Unknown)).way("2", Way::Says(ToolOutput::error("no")));
    let (before, text) = recorded(conversation(), &tools).await;
    let replay = Replay::parse(&text).unwrap();
    let after = played(&replay, new_run(endless())).await;
    assert_eq!(replay.finish(), Ok(()));
    assert_eq!(after, before);
    assert_eq!(after.raw_trace.as_bytes(), before.raw_trace.as_bytes());
    assert_eq!(text.lines().count(), 1 + 4 + 3, "every exchange, those that failed too");
}

#[tokio::test]
async fn the_first_difference_is_told_and_nothing_is_asked_of_anybody() {
    let (_, text) = recorded(conversation(), &Bench::new()).await;
    let replay = Replay::parse(&text).unwrap();
    let result = played(&replay, Run::new("test", user("what else?"), endless())).await;
    assert!(matches!(result.stop, RunEnd::ModelFailed(_)));
    let told = replay.finish().unwrap_err().to_string();
    assert_eq!(
        told,
        "question 1 is not the one that was recorded: message 1 at `content.0.text` was \"what?\" and is \"what else?\""
    );

    // Somebody has changed what a tool answered: the next question differs.
    let replay = Replay::parse(&text.replacen("1 of look", "one of look", 1)).unwrap();
    let result = played(&replay, new_run(endless())).await;
    assert_eq!(result.turns, 1);
    let told = replay.finish().unwrap_err().to_string();
    assert!(told.starts_with("question 2 is not the one that was recorded: message 3 at `content.0.output"), "{told}");

    // Or what a model called.
    let replay =
        Replay::parse(&text.replacen(r#""name":"send","input":{}"#, r#""name":"send","input":{"x":1}"#, 1)).unwrap();
    played(&replay, new_run(endless())).await;
    let told = replay.finish().unwrap_err().to_string();
    assert_eq!(told, "call 3 is not the one that was recorded: it was send {}, and is send {\"x\":1}");
}

#[tokio::test]
async fn what_was_never_played_is_an_error() {
    let (_, text) = recorded(conversation(), &Bench::new()).await;
    let replay = Replay::parse(&text).unwrap();
    let result = played(&replay, new_run(Limits { model_calls: 1, ..Limits::default() })).await;
    assert!(result.limit_reached);
    assert_eq!(replay.finish().unwrap_err().to_string(), "the run ended after 1 of 4 recorded questions");
    let untouched = Replay::parse(&text).unwrap();
    assert!(untouched.finish().is_err());
}

#[tokio::test]
async fn secrets_are_not_on_it() {
    let tools = Bench::new().way("1", Way::Says(ToolOutput::said("the key is s3cr3t \"x\", keep it")));
    let (_, text) = recorded([Ok(one_call("1")), Ok(answer("ok", &[]))], &tools).await;
    assert!(!text.contains("s3cr3t") && text.contains("the key is [secret], keep it"), "{text}");
}

#[test]
fn a_text_that_is_no_cassette_says_in_which_line() {
    let said = |text: &str| Replay::parse(text).err().unwrap().to_string();
    assert_eq!(said(""), "line 1: this is no cassette: it does not begin with {\"cassette\":1}");
    assert_eq!(said("{\"cassette\":2}"), "line 1: this is a cassette of version 2, not 1");
    assert_eq!(
        said("{\"cassette\":1}\n\n{\"call\":{\"id\":\"1\",\"name\":\"x\",\"arguments\":{}}}"),
        "line 3: it is neither a question nor a call with what came of it"
    );
    assert!(said("{\"cassette\":1}\n{\"ask\":").starts_with("line 2: EOF"));
}

#[tokio::test]
async fn a_thousand_turns_are_recorded_without_repeating_what_was_said() {
    let turns = (0..1000).map(|turn| Ok(one_call(&turn.to_string()))).chain([Ok(answer("42", &[]))]);
    let (before, text) = recorded(turns, &Bench::new()).await;
    assert_eq!(before.turns, 1001);
    assert!(text.len() < 2 * 1000 * 1000, "{} bytes", text.len());
    let replay = Replay::parse(&text).unwrap();
    let after = played(&replay, new_run(endless())).await;
    assert_eq!((after, replay.finish()), (before, Ok(())));
}

#[tokio::test]
async fn what_was_written_over_several_lines_is_played_as_it_was() {
    let answers = [Ok(one_call_over_lines("1")), Ok(answer("42", &[]))];
    let (live, text) = recorded(answers, &Bench::new()).await;
    assert!(text.lines().count() > 4, "{text}");
    let replay = Replay::parse(&text).unwrap();
    let again = played(&replay, new_run(endless())).await;
    replay.finish().unwrap();
    assert_eq!((again.raw_trace, again.trace_messages), (live.raw_trace, live.trace_messages));
    // Lines are counted as they are, in what is told of a broken one too.
    let broken = Replay::parse(&format!("{text}\nnonsense")).err().unwrap();
    assert!(broken.to_string().contains(&format!("line {}", text.lines().count() + 2)), "{broken}");
}
