//! Runs that are written down, and go on: what a file holds of them, and what more they may be given.

use std::sync::Arc;
use std::time::Duration;

use serde_json::json;
use wharf_agent::{CheckpointFile, Limit, Limits, Run, RunEnd, Step};
use wharf_protocol::ToolOutput;

use crate::driving::finish;
use crate::kit::{Bench, Fake, agent, answer, hints, new_run, one_call, one_call_over_lines};

/// A run with so many turns behind it, each with a call.
fn after(turns: usize) -> Run {
    let mut run = new_run(Limits { model_calls: u32::MAX, tool_calls: u32::MAX, ..Limits::default() });
    for turn in 0..turns {
        go_on(&mut run, turn);
    }
    run
}

fn go_on(run: &mut Run, turn: usize) {
    run.step();
    run.answered(one_call(&turn.to_string()), hints);
    let Step::Call(batch) = run.step() else { panic!("it calls") };
    run.returned(batch[0].0, Ok(ToolOutput::said("grün ".repeat(200))));
    run.step();
}

#[test]
fn what_was_written_over_several_lines_is_read_as_it_was() {
    let mut run = new_run(Limits::default());
    run.step();
    run.answered(one_call_over_lines("1"), hints);
    let text = format!("{}\n{}\n", run.write(), run.write_since(run.messages().len()));
    assert!(text.lines().count() > 2);
    let again = Run::read(text).unwrap();
    assert_eq!(again.messages(), run.messages());
}

#[tokio::test(start_paused = true)]
async fn a_run_that_was_ended_or_whose_model_failed_goes_on_where_it_was() {
    let (failing, tools) = (Arc::new(Fake::new([Ok(one_call("1"))])), Bench::new());
    let mut run = new_run(Limits::default());
    let result = finish(&agent(&failing, &tools), &mut run).await;
    assert!(matches!(result.stop, RunEnd::ModelFailed(_)), "{:?}", result.stop);
    let mut cancelled = after(1);
    cancelled.step();
    cancelled.interrupt(RunEnd::Cancelled);
    for run in [run, cancelled] {
        let mut again = Run::read(run.write()).unwrap();
        let model = Arc::new(Fake::new([Ok(answer("42", &[]))]));
        let result = finish(&agent(&model, &tools), &mut again).await;
        assert_eq!((result.final_response.as_deref(), result.stop), (Some("42"), RunEnd::Completed));
    }
    assert_eq!(tools.log(), ["1 begins", "1 ends"], "what has ended is not done again");
}

#[test]
fn more_calls_are_for_a_run_that_waits_for_its_last_word_too() {
    let mut run = new_run(Limits { tool_calls: 0, ..Limits::default() });
    run.step();
    run.answered(one_call("1"), hints);
    assert_eq!(run.step(), Step::Ask { tools: false });
    assert!(run.set_limits(Limits::default()));
    assert_eq!((run.step(), run.reached().len()), (Step::Ask { tools: true }, 0));
}

#[test]
fn what_has_come_since_is_enough_for_whoever_has_the_rest_and_a_torn_line_costs_only_itself() {
    let mut run = after(2);
    let first = run.write();
    let known = run.messages().len();
    go_on(&mut run, 2);
    let text = format!("{first}\n{}\n", run.write_since(known));
    assert_eq!(Run::read(&text).unwrap().write(), run.write());
    // Killed while it wrote the second line, wherever that was, in the middle of a letter too.
    for end in first.len() + 2..text.len() - 1 {
        assert_eq!(Run::read(&text.as_bytes()[..end]).unwrap().write(), first, "{end}");
    }
    let broken = format!("{first}\n{{\n{first}\n");
    assert!(Run::read(&broken).is_err(), "that is no torn line: something else is wrong");
    assert!(Run::read("").unwrap_err().to_string().contains("it is empty"));
}

#[tokio::test]
async fn a_file_grows_with_the_run_and_not_with_every_look_at_it() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("run.jsonl");
    let (model, tools) = (Arc::new(Fake::endless(one_call("1"))), Bench::new());
    let turns = 200;
    let agent_ = agent(&model, &tools).with_checkpoint(Arc::new(CheckpointFile::new(&path)));
    let mut run = new_run(Limits { model_calls: turns, tool_calls: u32::MAX, ..Limits::default() });
    finish(&agent_, &mut run).await;
    let read = CheckpointFile::read(&path).await.unwrap();
    assert_eq!((read.write(), read.messages().len()), (run.write(), 1 + 2 * turns as usize));
    let (held, whole) = (std::fs::metadata(&path).unwrap().len(), run.write().len() as u64);
    // Every look at it adds how far it is, which is short; the conversation is there once.
    let looks = 4 * u64::from(turns);
    assert!(held < whole + looks * 2_000, "{held} bytes for {whole}");
    let text = std::fs::read_to_string(&path).unwrap();
    assert_eq!(text.matches("what?").count(), 1);
}

#[tokio::test]
async fn a_file_is_written_anew_before_it_is_mostly_old() {
    use wharf_agent::Checkpoint as _;
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("run.jsonl");
    let file = CheckpointFile::new(&path);
    let mut run = new_run(Limits::default());
    run.step();
    run.answered(answer("", &[("look", "1", json!({})), ("look", "2", json!({}))]), hints);
    let Step::Call(batch) = run.step() else { panic!("it calls") };
    // One of two has ended, with much to say: that is in every line until the other has ended too.
    run.returned(batch[0].0, Ok(ToolOutput::said("x".repeat(400_000))));
    for _ in 0..30 {
        file.save(&run).await.unwrap();
        assert!(std::fs::metadata(&path).unwrap().len() < 5_000_000);
    }
    assert_eq!(CheckpointFile::read(&path).await.unwrap().messages().len(), run.messages().len());
}

#[tokio::test]
async fn a_run_by_the_same_name_is_not_taken_for_the_one_before_nor_another_file_for_the_same() {
    use wharf_agent::Checkpoint as _;
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("run.jsonl");
    let file = CheckpointFile::new(&path);
    file.save(&after(1)).await.unwrap();
    let mut other = new_run(Limits::default());
    other.step();
    other.answered(answer("something else", &[("look", "9", json!({}))]), hints);
    let Step::Call(batch) = other.step() else { panic!("it calls") };
    other.returned(batch[0].0, Ok(ToolOutput::said("seen")));
    other.step();
    // It has as many messages, and others.
    assert_eq!(other.messages().len(), after(1).messages().len());
    for turn in 0..3 {
        file.save(&other).await.unwrap();
        assert_eq!(CheckpointFile::read(&path).await.unwrap().messages(), other.messages());
        go_on(&mut other, turn);
    }
    // Nor is a file that somebody took away.
    std::fs::remove_file(&path).unwrap();
    file.save(&other).await.unwrap();
    assert_eq!(CheckpointFile::read(&path).await.unwrap().messages(), other.messages());
}

#[tokio::test(start_paused = true)]
async fn a_run_that_ended_at_a_limit_goes_on_when_it_is_given_more() {
    let calls = || Ok(one_call("1"));
    let (model, tools) = (Arc::new(Fake::new([calls(), calls(), Ok(answer("42", &[]))])), Bench::new());
    let agent_ = agent(&model, &tools);
    let mut run = new_run(Limits { model_calls: 1, ..Limits::default() });
    assert_eq!(finish(&agent_, &mut run).await.stop, RunEnd::Limit(Limit::ModelCalls { most: 1 }));
    assert!(run.set_limits(Limits::default()));
    let result = finish(&agent_, &mut run).await;
    assert_eq!((result.final_response.as_deref(), result.turns, result.limit_reached), (Some("42"), 3, false));
    // It has answered: more is of no use.
    assert!(!run.set_limits(Limits { time: Some(Duration::from_secs(9)), ..Limits::default() }));
    assert_eq!(run.stop(), Some(&RunEnd::Completed));
}
