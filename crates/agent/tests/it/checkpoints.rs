//! Saved runs: the file format, resuming, and changed limits.

use std::sync::Arc;
use std::time::Duration;

use serde_json::json;
use wharf_agent::{CheckpointFile, Limit, Limits, Run, RunEnd, Step};
use wharf_protocol::ToolOutput;

use crate::driver::finish;
use crate::kit::{Fake, TestTools, answer, hints, new_run, one_call, one_call_over_lines, test_agent};

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
    use wharf_agent::Checkpoint as _;
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
    use wharf_agent::Checkpoint as _;
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
