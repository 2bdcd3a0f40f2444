//! Saved runs: the file format, resuming, and changed limits.

use std::sync::Arc;
use std::time::Duration;

use serde_json::json;
use wharf_agent::{Checkpoint, CheckpointFile, Limit, Limits, OnCheckpointFailure, Run, RunEnd, Step};
use wharf_protocol::{BoxFuture, Hints, Json, Redactor, Secret, ToolOutput, Tools};

use crate::driver::finish;
use crate::kit::{EventLog, Fake, TestTools, answer, hints, new_run, one_call, one_call_over_lines, test_agent};

/// A run after this many turns, each with one call.
fn run_after(turns: usize) -> Run {
    let mut run = new_run(Limits { model_calls: u32::MAX, tool_calls: u32::MAX, ..Limits::default() });
    for turn in 0..turns {
        add_turn(&mut run, turn);
    }
    run
}

fn add_turn(run: &mut Run, turn: usize) {
    run.step();
    run.on_response(one_call(&turn.to_string()), hints);
    let Step::CallTools(batch) = run.step() else { panic!("expected tool calls") };
    run.on_tool_result(batch[0].0, Ok(ToolOutput::said("grün ".repeat(200))));
    run.step();
}

#[test]
fn a_saved_value_may_span_several_lines() {
    let mut run = new_run(Limits::default());
    run.step();
    run.on_response(one_call_over_lines("1"), hints);
    let text = format!("{}\n{}\n", run.write(), run.write_since(run.messages().len()));
    assert!(text.lines().count() > 2);
    let again = Run::read(text).unwrap();
    assert_eq!(again.messages(), run.messages());
}

#[tokio::test(start_paused = true)]
async fn a_canceled_or_failed_run_resumes_where_it_ended() {
    let failing = Arc::new(Fake::new([Ok(one_call("1"))]));
    let tools = TestTools::new();
    let mut run = new_run(Limits::default());
    let result = finish(&test_agent(&failing, &tools), &mut run).await;
    assert!(matches!(result.stop, RunEnd::ModelFailed(_)), "{:?}", result.stop);
    let mut cancelled = run_after(1);
    cancelled.step();
    cancelled.interrupt(RunEnd::Cancelled);
    for run in [run, cancelled] {
        let mut again = Run::read(run.write()).unwrap();
        let model = Arc::new(Fake::new([Ok(answer("42", &[]))]));
        let result = finish(&test_agent(&model, &tools), &mut again).await;
        assert_eq!((result.final_response.as_deref(), result.stop), (Some("42"), RunEnd::Completed));
    }
    assert_eq!(tools.log(), ["1 starts", "1 ends"], "finished calls are not repeated");
}

#[test]
fn a_raised_limit_applies_before_the_final_request_too() {
    let mut run = new_run(Limits { tool_calls: 0, ..Limits::default() });
    run.step();
    run.on_response(one_call("1"), hints);
    assert_eq!(run.step(), Step::CallModel { tools: false });
    assert!(run.set_limits(Limits::default()));
    assert_eq!((run.step(), run.reached().len()), (Step::CallModel { tools: true }, 0));
}

#[test]
fn changes_are_appended_and_an_incomplete_last_line_is_ignored() {
    let mut run = run_after(2);
    let first = run.write();
    let known = run.messages().len();
    add_turn(&mut run, 2);
    let text = format!("{first}\n{}\n", run.write_since(known));
    assert_eq!(Run::read(&text).unwrap().write(), run.write());
    // Killed while writing the second line, at any byte, even inside a character.
    for end in first.len() + 2..text.len() - 1 {
        assert_eq!(Run::read(&text.as_bytes()[..end]).unwrap().write(), first, "{end}");
    }
    let broken = format!("{first}\n{{\n{first}\n");
    assert!(Run::read(&broken).is_err(), "an invalid line that is not the last one is an error");
    assert!(Run::read("").unwrap_err().to_string().contains("the file is empty"));
}

#[tokio::test]
async fn the_size_of_the_file_is_linear_in_the_run() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("run.jsonl");
    let model = Arc::new(Fake::endless(one_call("1")));
    let tools = TestTools::new();
    let turns = 200;
    let agent = test_agent(&model, &tools).with_checkpoint(Arc::new(CheckpointFile::new(&path)));
    let mut run = new_run(Limits { model_calls: turns, tool_calls: u32::MAX, ..Limits::default() });
    finish(&agent, &mut run).await;
    let read = CheckpointFile::read(&path).await.unwrap();
    assert_eq!((read.write(), read.messages().len()), (run.write(), 1 + 2 * turns as usize));
    let size = std::fs::metadata(&path).unwrap().len();
    let whole = run.write().len() as u64;
    // Every save appends the progress, which is short. The conversation is stored once.
    let saves = 4 * u64::from(turns);
    assert!(size < whole + saves * 2_000, "{size} bytes for {whole}");
    let text = std::fs::read_to_string(&path).unwrap();
    assert_eq!(text.matches("what?").count(), 1);
}

#[tokio::test]
async fn a_file_is_rewritten_before_it_is_mostly_obsolete() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("run.jsonl");
    let file = CheckpointFile::new(&path);
    let mut run = new_run(Limits::default());
    run.step();
    run.on_response(answer("", &[("look", "1", json!({})), ("look", "2", json!({}))]), hints);
    let Step::CallTools(batch) = run.step() else { panic!("expected tool calls") };
    // One of two calls finished with a long result. Every line contains it until the other call finishes.
    run.on_tool_result(batch[0].0, Ok(ToolOutput::said("x".repeat(400_000))));
    for _ in 0..30 {
        file.save(&run).await.unwrap();
        assert!(std::fs::metadata(&path).unwrap().len() < 5_000_000);
    }
    assert_eq!(CheckpointFile::read(&path).await.unwrap().messages().len(), run.messages().len());
}

#[tokio::test]
async fn another_run_with_the_same_id_or_a_missing_file_is_saved_as_a_whole() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("run.jsonl");
    let file = CheckpointFile::new(&path);
    file.save(&run_after(1)).await.unwrap();
    let mut other = new_run(Limits::default());
    other.step();
    other.on_response(answer("something else", &[("look", "9", json!({}))]), hints);
    let Step::CallTools(batch) = other.step() else { panic!("expected tool calls") };
    other.on_tool_result(batch[0].0, Ok(ToolOutput::said("seen")));
    other.step();
    // It has the same number of messages, but different ones.
    assert_eq!(other.messages().len(), run_after(1).messages().len());
    for turn in 0..3 {
        file.save(&other).await.unwrap();
        assert_eq!(CheckpointFile::read(&path).await.unwrap().messages(), other.messages());
        add_turn(&mut other, turn);
    }
    // The file was deleted.
    std::fs::remove_file(&path).unwrap();
    file.save(&other).await.unwrap();
    assert_eq!(CheckpointFile::read(&path).await.unwrap().messages(), other.messages());
}

#[tokio::test(start_paused = true)]
async fn a_run_that_ended_at_a_limit_continues_with_a_higher_limit() {
    let calls = || Ok(one_call("1"));
    let model = Arc::new(Fake::new([calls(), calls(), Ok(answer("42", &[]))]));
    let tools = TestTools::new();
    let agent = test_agent(&model, &tools);
    let mut run = new_run(Limits { model_calls: 1, ..Limits::default() });
    assert_eq!(finish(&agent, &mut run).await.stop, RunEnd::Limit(Limit::ModelCalls { max: 1 }));
    assert!(run.set_limits(Limits::default()));
    let result = finish(&agent, &mut run).await;
    assert_eq!((result.final_response.as_deref(), result.turns, result.limit_reached), (Some("42"), 3, false));
    // It is complete, so higher limits have no effect.
    assert!(!run.set_limits(Limits { time: Some(Duration::from_secs(9)), ..Limits::default() }));
    assert_eq!(run.stop(), Some(&RunEnd::Completed));
}

/// A store that fails from one save on.
struct FullDisk {
    saves: std::sync::atomic::AtomicUsize,
    fails_from: usize,
}

impl Checkpoint for FullDisk {
    fn save<'a>(&'a self, _: &'a Run) -> BoxFuture<'a, Result<(), String>> {
        let number = self.saves.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        let saved = if number < self.fails_from { Ok(()) } else { Err("no space left on device".to_owned()) };
        Box::pin(std::future::ready(saved))
    }
}

fn full_disk(fails_from: usize) -> Arc<FullDisk> {
    Arc::new(FullDisk { saves: 0.into(), fails_from })
}

#[tokio::test(start_paused = true)]
async fn a_run_that_cannot_be_saved_stops_before_the_next_step() {
    let responses = || Arc::new(Fake::new([Ok(one_call("1")), Ok(answer("42", &[]))]));
    // Saves: before the first request, before the call, after the call, before the second request, at the end.
    for (fails_from, requests, calls) in [(0, 0, 0), (1, 1, 0), (2, 1, 1), (3, 1, 1)] {
        let model = responses();
        let tools = TestTools::new();
        let agent = test_agent(&model, &tools).with_checkpoint(full_disk(fails_from));
        let mut run = new_run(Limits::default());
        let result = finish(&agent, &mut run).await;
        assert_eq!(result.stop, RunEnd::CheckpointFailed("no space left on device".to_owned()), "{fails_from}");
        assert_eq!((model.times(), tools.log().len() / 2), (requests, calls), "{fails_from}");
        assert_eq!(result.final_response, None);
        if requests == 1 && calls == 0 {
            assert!(result.trace_messages[1].content.starts_with("This tool was not called"), "it was not");
        }
        // What could not be saved is retried by a resumed run.
        let mut again = Run::read(run.write()).unwrap();
        assert_eq!(finish(&test_agent(&responses(), &tools), &mut again).await.stop, RunEnd::Completed);
    }
    let model = responses();
    let agent = test_agent(&model, &TestTools::new()).with_checkpoint(full_disk(4));
    let result = finish(&agent, &mut new_run(Limits::default())).await;
    assert_eq!(result.final_response.as_deref(), Some("42"), "the answer is paid for");
}

#[tokio::test(start_paused = true)]
async fn an_optional_checkpoint_only_warns() {
    let model = Arc::new(Fake::new([Ok(one_call("1")), Ok(answer("42", &[]))]));
    let events = Arc::<EventLog>::default();
    let agent = test_agent(&model, &TestTools::new())
        .with_checkpoint(full_disk(1))
        .with_checkpoint_failure(OnCheckpointFailure::Warn)
        .with_events(events.clone());
    let result = finish(&agent, &mut new_run(Limits::default())).await;
    assert_eq!((result.final_response.as_deref(), result.stop), (Some("42"), RunEnd::Completed));
    assert!(events.kinds().contains(&"warning".to_owned()));
}

#[tokio::test(start_paused = true)]
async fn a_pending_call_is_repeated_only_if_its_tool_still_allows_it() {
    let mut run = new_run(Limits::default());
    run.step();
    run.on_response(answer("", &["1", "2"].map(|id| ("look", id, json!({})))), hints);
    run.step();
    let text = run.write();
    let read_only_no_more = |_: &str| Some(Hints::default());
    let mut again = Run::read(&text).unwrap();
    again.recheck_pending(read_only_no_more);
    assert_eq!(again.step(), Step::CallModel { tools: true }, "both calls may have run");
    assert!(again.messages()[2].result().unwrap().text().contains("It was not repeated"));
    // Also if the process ends again before the call is made.
    let twice = Run::read(&text).unwrap();
    let mut again = Run::read(twice.write()).unwrap();
    again.recheck_pending(read_only_no_more);
    assert_eq!(again.step(), Step::CallModel { tools: true });
    // A tool that is still read-only is called, through the same path as any other call.
    let tools = TestTools::new();
    let model = Arc::new(Fake::new([Ok(answer("42", &[]))]));
    let result = finish(&test_agent(&model, &tools), &mut Run::read(&text).unwrap()).await;
    assert_eq!((result.final_response.as_deref(), tools.log().len()), (Some("42"), 4));
    // A checkpoint that claims that any tool is read-only does not make it so.
    let forged = text.replace("\"name\":\"look\"", "\"name\":\"send\"");
    let tools = TestTools::new();
    let model = Arc::new(Fake::new([Ok(answer("42", &[]))]));
    finish(&test_agent(&model, &tools), &mut Run::read(&forged).unwrap()).await;
    assert_eq!(tools.log(), Vec::<String>::new());
    assert_eq!(tools.offered().len(), 3);
}

#[tokio::test]
async fn secrets_are_not_saved() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("run.jsonl");
    let file = CheckpointFile::new(&path).with_redactor(Redactor::new([Secret::new("tok-\"12345\"")]));
    let mut run = new_run(Limits::default());
    run.step();
    run.on_response(one_call("1"), hints);
    let Step::CallTools(batch) = run.step() else { panic!("expected tool calls") };
    file.save(&run).await.unwrap();
    run.on_tool_result(batch[0].0, Ok(ToolOutput::said("the token is tok-\"12345\".")));
    file.save(&run).await.unwrap();
    run.step();
    file.save(&run).await.unwrap();
    assert!(!std::fs::read_to_string(&path).unwrap().contains("12345"));
    let read = CheckpointFile::read(&path).await.unwrap();
    assert_eq!(read.messages()[2].result().unwrap().text(), "the token is [secret].");
}

#[tokio::test]
async fn a_secret_that_the_server_escapes_is_not_saved() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("run.jsonl");
    let file = CheckpointFile::new(&path).with_redactor(Redactor::new([Secret::new("ab/cd/grün1234")]));
    let mut run = new_run(Limits::default());
    run.step();
    run.on_response(one_call("1"), hints);
    let Step::CallTools(batch) = run.step() else { panic!("expected tool calls") };
    let raw = r#"{"content": [{"type":"text","text":"it is ab\/cd\/gr\u00fcn1234."}]}"#;
    let output = ToolOutput::from_json(&Json::parse(raw).unwrap()).unwrap();
    run.on_tool_result(batch[0].0, Ok(output));
    run.step();
    file.save(&run).await.unwrap();
    assert!(!std::fs::read_to_string(&path).unwrap().contains("n1234"));
    let read = CheckpointFile::read(&path).await.unwrap();
    assert_eq!(read.messages()[2].result().unwrap().text(), "it is [secret].");
}

#[tokio::test]
async fn a_run_can_be_read_although_secrets_are_words_of_the_format() {
    let words =
        ["content", "messages", "progress", "assistant", "tool_use", "result", "waiting", "session_id", "thinking"];
    let ends = ["completed", "model_calls", "continue", "end_turn", "cancelled", "system"];
    let redactor = Redactor::new(words.iter().chain(&ends).copied().map(Secret::new));
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("run.jsonl");
    let limits = Limits { model_calls: 2, exit_behavior: wharf_agent::ExitBehavior::Continue, ..Limits::default() };
    let mut run = new_run(limits);
    for turn in 0..2 {
        run.step();
        run.on_response(one_call(&turn.to_string()), hints);
        CheckpointFile::new(&path).with_redactor(redactor.clone()).save(&run).await.unwrap();
        CheckpointFile::read(&path).await.unwrap();
        let Step::CallTools(batch) = run.step() else { panic!("expected tool calls") };
        run.on_tool_result(batch[0].0, Ok(ToolOutput::said("the content")));
    }
    assert!(matches!(run.step(), Step::Done(_)));
    CheckpointFile::new(&path).with_redactor(redactor).save(&run).await.unwrap();
    let mut read = CheckpointFile::read(&path).await.unwrap();
    assert_eq!(read.messages()[2].result().unwrap().text(), "the [secret]");
    assert_eq!(read.step(), run.step());
}

#[tokio::test(start_paused = true)]
async fn instructions_are_traced_once_and_again_when_they_change() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("run.jsonl");
    let model = Arc::new(Fake::new([Ok(one_call("1")), Ok(one_call("2")), Ok(one_call("3")), Ok(answer("42", &[]))]));
    let early = TestTools::new().with_instructions(&[("files", "Read first.")]);
    let late = TestTools::new().with_instructions(&[("files", "Read last."), ("mail", "Ask.")]);
    let turns = std::sync::atomic::AtomicUsize::new(0);
    let source = move || -> Arc<dyn Tools> {
        match turns.fetch_add(1, std::sync::atomic::Ordering::Relaxed) {
            0 | 1 => early.clone(),
            _ => late.clone(),
        }
    };
    let events = Arc::<EventLog>::default();
    let agent = wharf_agent::Agent::new(model.clone(), Arc::new(source))
        .with_checkpoint(Arc::new(CheckpointFile::new(&path)))
        .with_events(events.clone());
    let mut run = new_run(Limits::default());
    let result = finish(&agent, &mut run).await;
    let turns: Vec<(u32, usize)> = result.instructions.iter().map(|trace| (trace.turn, trace.servers.len())).collect();
    assert_eq!(turns, [(1, 1), (3, 2)]);
    let reported: Vec<_> = events.all().into_iter().filter(|event| event["type"] == "instructions").collect();
    assert_eq!((reported.len(), &reported[0]["servers"][0]), (2, &json!({"server": "files", "text": "Read first."})));
    let requests = model.requests.lock().unwrap().clone();
    let first: Vec<bool> = requests.iter().map(|request| request.system.concat().contains("| Read first.")).collect();
    assert_eq!(first, [true, true, false, false]);
    assert!(requests[3].system[1].contains("`mail`") && requests[3].system[1].ends_with("\n| Ask."));
    let read = CheckpointFile::read(&path).await.unwrap();
    assert_eq!((read.instructions(), read.write()), (run.instructions(), run.write()));
}

#[test]
fn an_older_checkpoint_is_read() {
    let text = run_after(1).write();
    assert!(!text.contains("instructions") && !text.contains("interrupted"), "an unchanged format without them");
    let old = r#"{"messages":[{"role":"user","content":[{"type":"text","text":"what?"}]}],"progress":{"version":1,
        "session_id":"test","given":1,"limits":{"model_calls":25,"tool_calls":50,"exit_behavior":"end"},"model_calls":0,
        "tool_calls":0,"per_tool":{},"usage":{},"model":null,"stop_reason":null,"reached":[],
        "spent":{"secs":0,"nanos":0},"state":{"call":{"open":[{"call":{"id":"1","name":"look","arguments":{}},
        "reads":true,"repeatable":true,"stage":"begun"}]}}}}"#;
    let mut run = Run::read(old).unwrap();
    assert!(matches!(run.step(), Step::CallTools(batch) if batch.len() == 1));
}

#[tokio::test(start_paused = true)]
async fn counts_of_a_checkpoint_saturate() {
    let (count, tokens) = (u32::MAX, u64::MAX);
    let text = format!(
        r#"{{"messages":[{{"role":"user","content":[{{"type":"text","text":"what?"}}]}}],"progress":{{"version":1,
        "session_id":"test","given":1,"limits":{{"model_calls":25,"tool_calls":50,"exit_behavior":"end"}},
        "model_calls":0,"tool_calls":0,"per_tool":{{"look":{count}}},
        "usage":{{"input_tokens":{tokens},"output_tokens":{tokens}}},"model":null,"stop_reason":null,"reached":[],
        "spent":{{"secs":{tokens},"nanos":999999999}},"state":{{"ask":{{"last":false}}}}}}}}"#
    );
    let mut run = Run::read(text).unwrap();
    let responses = [Ok(one_call("1")), Ok(answer("42", &[]))];
    let model = Arc::new(Fake { delay: Duration::from_secs(1), ..Fake::new(responses) });
    let result = finish(&test_agent(&model, &TestTools::new()), &mut run).await;
    assert_eq!((result.final_response.as_deref(), run.turns(), run.elapsed()), (Some("42"), 2, Duration::MAX));
}
