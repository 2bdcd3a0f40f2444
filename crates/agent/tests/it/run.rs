//! What a run decides, without a runtime, a model or a tool.

use serde_json::json;
use wharf_agent::{AgentResult, ExitBehavior, Limit, Limits, ModelError, ModelErrorKind, Run, RunEnd, Step};
use wharf_protocol::{CallFailed, Outcome, Role, ToolOutput};

use crate::kit::{answer, hints, new_run, one_call};

fn ids(step: &Step) -> Vec<String> {
    match step {
        Step::Call(batch) => batch.iter().map(|(_, call)| call.id.to_string()).collect(),
        other => panic!("{other:?}"),
    }
}

/// Does what a step wants, with a result for every call.
fn obey(run: &mut Run, step: Step) {
    let Step::Call(batch) = step else { panic!("{step:?}") };
    // In no order at all: results are matched, not counted.
    for (place, call) in batch.into_iter().rev() {
        run.returned(place, Ok(ToolOutput::said(format!("result of {}", call.id))));
    }
}

fn told(run: &Run) -> String {
    let say = |message: &wharf_protocol::Message| match message.role {
        Role::Assistant => format!("A{}", message.calls().count()),
        Role::Tool => {
            let returned = message.result().unwrap();
            let mark = if returned.output.is_error { "!" } else { "" };
            format!("T{}{mark}", returned.call_id)
        }
        _ => "U".to_owned(),
    };
    run.messages().iter().map(say).collect::<Vec<_>>().join(" ")
}

#[test]
fn a_run_asks_calls_and_asks_until_the_model_answers() {
    let mut run = new_run(Limits::default());
    assert_eq!(run.step(), Step::Ask { tools: true });
    run.answered(one_call("1"), hints);
    let step = run.step();
    assert_eq!(ids(&step), ["1"]);
    obey(&mut run, step);
    assert_eq!(run.step(), Step::Ask { tools: true });
    run.answered(one_call("2"), hints);
    let step = run.step();
    obey(&mut run, step);
    run.step();
    run.answered(answer("forty-two", &[]), hints);
    assert_eq!(run.step(), Step::Done(RunEnd::Completed));
    assert_eq!(told(&run), "U A1 T1 A1 T2 A0");
    let result = AgentResult::of(&run);
    assert_eq!((result.final_response.as_deref(), result.turns, result.limit_reached), (Some("forty-two"), 3, false));
    assert_eq!((result.usage.input_tokens, result.usage.output_tokens), (30, 15));
    assert_eq!((result.session_id.as_str(), result.actual_model.as_deref()), ("test", Some("fake-1")));
}

#[test]
fn calls_that_only_read_are_made_together_and_all_others_alone_and_results_keep_their_places() {
    let mut run = new_run(Limits::default());
    run.step();
    let calls = [("look", "1"), ("look", "2"), ("send", "3"), ("look", "4"), ("unheard-of", "5")];
    run.answered(answer("", &calls.map(|(name, id)| (name, id, json!({})))), hints);
    for batch in [&["1", "2"][..], &["3"], &["4"], &["5"]] {
        let step = run.step();
        assert_eq!(ids(&step), batch);
        assert_eq!(run.step(), Step::Call(Vec::new()), "nothing more until these have ended");
        obey(&mut run, step);
    }
    assert_eq!(run.step(), Step::Ask { tools: true });
    assert_eq!(told(&run), "U A5 T1 T2 T3 T4 T5");
}

#[test]
fn the_model_call_limit_ends_the_run_with_what_there_is() {
    let mut run = new_run(Limits { model_calls: 2, ..Limits::default() });
    for id in ["1", "2"] {
        assert_eq!(run.step(), Step::Ask { tools: true });
        run.answered(one_call(id), hints);
        let step = run.step();
        obey(&mut run, step);
    }
    let limit = Limit::ModelCalls { most: 2 };
    assert_eq!(run.step(), Step::Done(RunEnd::Limit(limit.clone())));
    let result = AgentResult::of(&run);
    assert_eq!((result.final_response, result.turns, result.limit_reached), (None, 2, true));
    assert_eq!((result.limits, result.timeout_reached), (vec![limit], false));
    assert_eq!(told(&run), "U A1 T1 A1 T2");
    assert!(
        result
            .raw_trace
            .ends_with("[Note: Turn limit reached - partial response shown]\n\n[No final response extracted]")
    );
}

#[test]
fn a_limit_that_keeps_nothing_from_happening_is_not_reached() {
    let mut run = new_run(Limits { model_calls: 2, tool_calls: 1, tokens: Some(30), ..Limits::default() });
    run.step();
    run.answered(one_call("1"), hints);
    let step = run.step();
    obey(&mut run, step);
    run.step();
    run.answered(answer("done", &[]), hints);
    assert_eq!(run.step(), Step::Done(RunEnd::Completed));
    assert!(!AgentResult::of(&run).limit_reached);
}

#[test]
fn at_the_tool_call_limit_every_blocked_call_is_answered_and_the_model_has_one_last_word() {
    let mut run = new_run(Limits { tool_calls: 2, ..Limits::default() });
    run.step();
    let calls = ["1", "2", "3", "4"].map(|id| ("look", id, json!({})));
    run.answered(answer("", &calls), hints);
    let step = run.step();
    assert_eq!(ids(&step), ["1", "2"]);
    obey(&mut run, step);
    assert_eq!(run.step(), Step::Ask { tools: false });
    run.answered(answer("as far as I know: 7", &[]), hints);
    let limit = Limit::ToolCalls { most: 2 };
    assert_eq!(run.step(), Step::Done(RunEnd::Limit(limit.clone())));
    assert_eq!(told(&run), "U A4 T1 T2 T3! T4! A0");
    let result = AgentResult::of(&run);
    assert_eq!((result.final_response.as_deref(), result.limits), (Some("as far as I know: 7"), vec![limit]));
    let words = "This tool was not called: the limit of 2 tool calls is reached.";
    assert_eq!(run.messages()[4].result().unwrap().text(), words);
}

#[test]
fn a_model_that_calls_tools_when_it_has_none_is_answered_and_over() {
    let mut run = new_run(Limits { tool_calls: 0, ..Limits::default() });
    run.step();
    run.answered(one_call("1"), hints);
    assert_eq!(run.step(), Step::Ask { tools: false });
    run.answered(one_call("2"), hints);
    assert_eq!(run.step(), Step::Done(RunEnd::Limit(Limit::ToolCalls { most: 0 })));
    assert_eq!((told(&run), run.final_response()), ("U A1 T1! A1 T2!".to_owned(), None));
}

#[test]
fn with_continue_the_run_goes_on_with_its_tools_blocked() {
    let limits = Limits { tool_calls: 1, exit_behavior: ExitBehavior::Continue, ..Limits::default() };
    let mut run = new_run(limits);
    run.step();
    run.answered(answer("", &["1", "2"].map(|id| ("look", id, json!({})))), hints);
    let step = run.step();
    obey(&mut run, step);
    assert_eq!(run.step(), Step::Ask { tools: true });
    run.answered(one_call("3"), hints);
    assert_eq!(run.step(), Step::Ask { tools: true });
    run.answered(answer("well", &[]), hints);
    assert_eq!(run.step(), Step::Done(RunEnd::Completed));
    assert_eq!(told(&run), "U A2 T1 T2! A1 T3! A0");
    assert!(AgentResult::of(&run).limit_reached);
}

#[test]
fn a_tool_with_a_limit_of_its_own_is_blocked_and_others_are_not() {
    let limits = Limits { per_tool: [("send".to_owned(), 1)].into(), ..Limits::default() };
    let mut run = new_run(limits);
    run.step();
    run.answered(answer("", &[("send", "1", json!({})), ("send", "2", json!({})), ("look", "3", json!({}))]), hints);
    for batch in [["1"], ["3"]] {
        let step = run.step();
        assert_eq!(ids(&step), batch);
        obey(&mut run, step);
    }
    assert_eq!(run.step(), Step::Ask { tools: true });
    assert_eq!(told(&run), "U A3 T1 T2! T3");
    assert_eq!(run.reached(), [Limit::PerTool { name: "send".into(), most: 1 }]);
}

#[test]
fn tokens_and_money_end_a_run_before_the_next_question() {
    let mut run = new_run(Limits { tokens: Some(15), ..Limits::default() });
    run.step();
    run.answered(one_call("1"), hints);
    let step = run.step();
    obey(&mut run, step);
    assert_eq!(run.step(), Step::Done(RunEnd::Limit(Limit::Tokens { most: 15 })));

    let mut run = new_run(Limits { cost_usd: Some(0.5), ..Limits::default() });
    for (cost, id) in [(0.3, "1"), (0.3, "2")] {
        assert_eq!(run.step(), Step::Ask { tools: true });
        let mut dear = one_call(id);
        dear.usage.cost_usd = Some(cost);
        run.answered(dear, hints);
        let step = run.step();
        obey(&mut run, step);
    }
    assert_eq!(run.step(), Step::Done(RunEnd::Limit(Limit::Cost { most: "0.5".into() })));
}

#[test]
fn a_failed_model_ends_the_run_and_says_nothing_in_its_place() {
    let mut run = new_run(Limits::default());
    run.step();
    let error = ModelError::new(ModelErrorKind::Overloaded, "busy");
    run.failed(error.clone());
    assert_eq!(run.step(), Step::Done(RunEnd::ModelFailed(error)));
    let result = AgentResult::of(&run);
    assert_eq!((result.final_response, result.limit_reached, result.trace_messages.len()), (None, false, 0));
}

#[test]
fn whoever_interrupts_a_run_leaves_no_call_open() {
    let mut run = new_run(Limits::default());
    run.step();
    let calls = [("look", "1"), ("look", "2"), ("send", "3")];
    run.answered(answer("", &calls.map(|(name, id)| (name, id, json!({})))), hints);
    run.step();
    run.returned(0, Ok(ToolOutput::said("one")));
    run.interrupt(RunEnd::Cancelled);
    assert_eq!(run.step(), Step::Done(RunEnd::Cancelled));
    assert_eq!(told(&run), "U A3 T1 T2! T3!");
    let words: Vec<String> = run.messages()[3..].iter().map(|message| message.result().unwrap().text()).collect();
    insta::assert_snapshot!(words.join("\n"), @"
    The call was given up: the run was ended. Nobody knows whether it had an effect.
    This tool was not called: the run was ended.
    ");
    // What comes too late changes nothing.
    run.returned(1, Ok(ToolOutput::said("two")));
    run.answered(answer("late", &[]), hints);
    assert_eq!(run.messages().len(), 5);
}

#[test]
fn a_run_that_was_written_down_goes_on_and_repeats_nothing_that_may_have_happened() {
    let mut run = new_run(Limits::default());
    run.step();
    let calls = [("look", "1"), ("look", "2"), ("send", "3")];
    run.answered(answer("hm", &calls.map(|(name, id)| (name, id, json!({"b": 1, "a": 2})))), hints);
    run.step();
    run.returned(1, Ok(ToolOutput::said("two")));
    let mut again = Run::read(run.write()).unwrap();
    let step = again.step();
    assert_eq!(ids(&step), ["1"], "what has ended is not repeated, what only reads is");
    obey(&mut again, step);
    assert_eq!(ids(&again.step()), ["3"]);

    // Killed in the middle of the one that may not be repeated.
    let mut again = Run::read(again.write()).unwrap();
    assert_eq!(again.step(), Step::Ask { tools: true });
    assert_eq!(told(&again), "U A3 T1 T2 T3!");
    let words = again.messages()[4].result().unwrap().text();
    assert!(words.contains("Nobody knows whether it had an effect"), "{words}");
    assert_eq!(again.messages()[..2], run.messages()[..2], "byte for byte");
}

#[test]
fn what_is_no_run_or_one_of_another_version_is_refused() {
    let run = new_run(Limits::default()).write();
    let said = |text: &str| Run::read(text).unwrap_err().to_string();
    assert_eq!(
        said(&run.replace("\"version\":1", "\"version\":2")),
        "this is no run that can go on: it is of version 2, and this is for version 1"
    );
    assert!(said("{").starts_with("this is no run that can go on: EOF"));
    assert!(said(&run.replace("\"given\":1", "\"given\":7")).ends_with("it has lost messages"));
}

#[test]
fn a_call_without_an_answer_is_told_with_what_is_known_of_its_effect() {
    let mut run = new_run(Limits::default());
    run.step();
    run.answered(answer("", &[("send", "1", json!({})), ("send", "2", json!({}))]), hints);
    for outcome in [Outcome::NotRun, Outcome::Unknown] {
        let Step::Call(batch) = run.step() else { panic!() };
        run.returned(batch[0].0, Err(CallFailed { name: "send".into(), reason: "gone".into(), outcome }));
    }
    run.step();
    let words: Vec<String> = run.messages()[2..].iter().map(|message| message.result().unwrap().text()).collect();
    insta::assert_snapshot!(words.join("\n"), @"
    The call was not carried out: gone
    There is no answer, and nobody knows whether the call had an effect: gone
    ");
    assert!(run.messages()[2].result().unwrap().output.is_error);
}
