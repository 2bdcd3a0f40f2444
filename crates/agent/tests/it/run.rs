//! The state machine of runs, without a runtime, a model or tools.

use serde_json::json;
use wharf_agent::{AgentResult, ExitBehavior, Limit, Limits, ModelError, ModelErrorKind, Run, RunEnd, Step};
use wharf_protocol::{CallFailed, Message, Outcome, Role, ToolOutput};

use crate::kit::{answer, hints, new_run, one_call};

fn ids(step: &Step) -> Vec<String> {
    match step {
        Step::CallTools(batch) => batch.iter().map(|(_, call)| call.id.to_string()).collect(),
        other => panic!("{other:?}"),
    }
}

/// Executes a step, with a result for every call.
fn execute(run: &mut Run, step: Step) {
    let Step::CallTools(batch) = step else { panic!("{step:?}") };
    // In reverse order: results are matched by index.
    for (index, call) in batch.into_iter().rev() {
        run.on_tool_result(index, Ok(ToolOutput::said(format!("result of {}", call.id))));
    }
}

fn summary(run: &Run) -> String {
    let describe = |message: &wharf_protocol::Message| match message.role {
        Role::Assistant => format!("A{}", message.calls().count()),
        Role::Tool => {
            let returned = message.result().unwrap();
            let mark = if returned.output.is_error { "!" } else { "" };
            format!("T{}{mark}", returned.call_id)
        }
        _ => "U".to_owned(),
    };
    run.messages().iter().map(describe).collect::<Vec<_>>().join(" ")
}

#[test]
fn a_run_alternates_between_model_and_tools_until_the_model_answers() {
    let mut run = new_run(Limits::default());
    assert_eq!(run.step(), Step::CallModel { tools: true });
    run.on_response(one_call("1"), hints);
    let step = run.step();
    assert_eq!(ids(&step), ["1"]);
    execute(&mut run, step);
    assert_eq!(run.step(), Step::CallModel { tools: true });
    run.on_response(one_call("2"), hints);
    let step = run.step();
    execute(&mut run, step);
    run.step();
    run.on_response(answer("forty-two", &[]), hints);
    assert_eq!(run.step(), Step::Done(RunEnd::Completed));
    assert_eq!(summary(&run), "U A1 T1 A1 T2 A0");
    let result = AgentResult::from_run(&run);
    assert_eq!((result.final_response.as_deref(), result.turns, result.limit_reached), (Some("forty-two"), 3, false));
    assert_eq!((result.usage.input_tokens, result.usage.output_tokens), (30, 15));
    assert_eq!((result.session_id.as_str(), result.actual_model.as_deref()), ("test", Some("fake-1")));
}

#[test]
fn a_conversation_continues_with_its_counters_and_limits() {
    let mut run = new_run(Limits { model_calls: 3, ..Limits::default() });
    assert!(!run.continue_with(Message::text(Role::User, "too early")), "the model has not answered");
    run.step();
    run.on_response(one_call("1"), hints);
    assert!(!run.continue_with(Message::text(Role::User, "too early")), "a call has no result");
    let step = run.step();
    execute(&mut run, step);
    run.step();
    run.on_response(answer("one", &[]), hints);
    assert!(run.continue_with(Message::text(Role::User, "and then?")));
    assert_eq!(AgentResult::from_run(&run).final_response, None, "the new message has no answer yet");
    assert_eq!(run.step(), Step::CallModel { tools: true });
    run.on_response(answer("two", &[]), hints);
    assert_eq!(run.step(), Step::Done(RunEnd::Completed));
    assert_eq!(summary(&run), "U A1 T1 A0 U A0");
    let result = AgentResult::from_run(&run);
    assert_eq!((result.final_response.as_deref(), result.turns), (Some("two"), 3));
    assert_eq!(result.trace_messages.len(), 4, "messages of the user are not in a trace");
    let read = Run::read(run.write()).unwrap();
    assert_eq!(read.messages(), run.messages());
    assert!(run.continue_with(Message::text(Role::User, "once again")));
    assert_eq!(run.step(), Step::Done(RunEnd::Limit(Limit::ModelCalls { max: 3 })), "the limit counts all turns");
    assert!(!run.continue_with(Message::text(Role::User, "no more")));
}

#[test]
fn read_only_calls_are_batched_and_results_keep_their_order() {
    let mut run = new_run(Limits::default());
    run.step();
    let calls = [("look", "1"), ("look", "2"), ("send", "3"), ("look", "4"), ("unheard-of", "5")];
    run.on_response(answer("", &calls.map(|(name, id)| (name, id, json!({})))), hints);
    for batch in [&["1", "2"][..], &["3"], &["4"], &["5"]] {
        let step = run.step();
        assert_eq!(ids(&step), batch);
        assert_eq!(run.step(), Step::CallTools(Vec::new()), "no further calls before these finish");
        execute(&mut run, step);
    }
    assert_eq!(run.step(), Step::CallModel { tools: true });
    assert_eq!(summary(&run), "U A5 T1 T2 T3 T4 T5");
}

#[test]
fn the_model_call_limit_ends_the_run_with_a_partial_result() {
    let mut run = new_run(Limits { model_calls: 2, ..Limits::default() });
    for id in ["1", "2"] {
        assert_eq!(run.step(), Step::CallModel { tools: true });
        run.on_response(one_call(id), hints);
        let step = run.step();
        execute(&mut run, step);
    }
    let limit = Limit::ModelCalls { max: 2 };
    assert_eq!(run.step(), Step::Done(RunEnd::Limit(limit.clone())));
    let result = AgentResult::from_run(&run);
    assert_eq!((result.final_response, result.turns, result.limit_reached), (None, 2, true));
    assert_eq!((result.limits, result.timeout_reached), (vec![limit], false));
    assert_eq!(summary(&run), "U A1 T1 A1 T2");
    assert!(
        result
            .raw_trace
            .ends_with("[Note: Turn limit reached - partial response shown]\n\n[No final response extracted]")
    );
}

#[test]
fn a_limit_that_prevents_nothing_is_not_reached() {
    let mut run = new_run(Limits { model_calls: 2, tool_calls: 1, tokens: Some(30), ..Limits::default() });
    run.step();
    run.on_response(one_call("1"), hints);
    let step = run.step();
    execute(&mut run, step);
    run.step();
    run.on_response(answer("done", &[]), hints);
    assert_eq!(run.step(), Step::Done(RunEnd::Completed));
    assert!(!AgentResult::from_run(&run).limit_reached);
}

#[test]
fn at_the_tool_call_limit_calls_are_rejected_and_the_model_gets_a_final_request() {
    let mut run = new_run(Limits { tool_calls: 2, ..Limits::default() });
    run.step();
    let calls = ["1", "2", "3", "4"].map(|id| ("look", id, json!({})));
    run.on_response(answer("", &calls), hints);
    let step = run.step();
    assert_eq!(ids(&step), ["1", "2"]);
    execute(&mut run, step);
    assert_eq!(run.step(), Step::CallModel { tools: false });
    run.on_response(answer("as far as I know: 7", &[]), hints);
    let limit = Limit::ToolCalls { max: 2 };
    assert_eq!(run.step(), Step::Done(RunEnd::Limit(limit.clone())));
    assert_eq!(summary(&run), "U A4 T1 T2 T3! T4! A0");
    let result = AgentResult::from_run(&run);
    assert_eq!((result.final_response.as_deref(), result.limits), (Some("as far as I know: 7"), vec![limit]));
    let expected = "This tool was not called: the limit of 2 tool calls was reached.";
    assert_eq!(run.messages()[4].result().unwrap().text(), expected);
}

#[test]
fn tool_calls_in_the_final_response_are_rejected_and_end_the_run() {
    let mut run = new_run(Limits { tool_calls: 0, ..Limits::default() });
    run.step();
    run.on_response(one_call("1"), hints);
    assert_eq!(run.step(), Step::CallModel { tools: false });
    run.on_response(one_call("2"), hints);
    assert_eq!(run.step(), Step::Done(RunEnd::Limit(Limit::ToolCalls { max: 0 })));
    assert_eq!((summary(&run), run.final_response()), ("U A1 T1! A1 T2!".to_owned(), None));
}

#[test]
fn with_continue_the_run_continues_and_rejects_further_calls() {
    let limits = Limits { tool_calls: 1, exit_behavior: ExitBehavior::Continue, ..Limits::default() };
    let mut run = new_run(limits);
    run.step();
    run.on_response(answer("", &["1", "2"].map(|id| ("look", id, json!({})))), hints);
    let step = run.step();
    execute(&mut run, step);
    assert_eq!(run.step(), Step::CallModel { tools: true });
    run.on_response(one_call("3"), hints);
    assert_eq!(run.step(), Step::CallModel { tools: true });
    run.on_response(answer("well", &[]), hints);
    assert_eq!(run.step(), Step::Done(RunEnd::Completed));
    assert_eq!(summary(&run), "U A2 T1 T2! A1 T3! A0");
    assert!(AgentResult::from_run(&run).limit_reached);
}

#[test]
fn blocked_calls_are_not_counted_as_made_also_after_a_resume() {
    let limits = Limits { tool_calls: 1, exit_behavior: ExitBehavior::Continue, ..Limits::default() };
    let mut run = new_run(limits);
    run.step();
    run.on_response(answer("", &[("look", "1", json!({})), ("send", "2", json!({}))]), hints);
    let blocked = run.take_blocked();
    assert_eq!(blocked.len(), 1);
    assert_eq!((&*blocked[0].call.id, &blocked[0].limit), ("2", &Limit::ToolCalls { max: 1 }));
    assert_eq!(run.take_blocked(), []);
    let step = run.step();
    execute(&mut run, step);
    run.step();
    let mut run = Run::read(run.write()).unwrap();
    run.step();
    run.on_response(answer("done", &[]), hints);
    let metrics = AgentResult::from_run(&run).metrics;
    assert_eq!((metrics.tool_calls, metrics.blocked_tool_calls, metrics.suspect_failed_tool_calls), (1, 1, 0));
    assert_eq!(metrics.tools_used.into_iter().collect::<Vec<_>>(), ["look"]);
}

#[test]
fn a_per_tool_limit_applies_to_that_tool_only() {
    let limits = Limits { per_tool: [("send".to_owned(), 1)].into(), ..Limits::default() };
    let mut run = new_run(limits);
    run.step();
    run.on_response(answer("", &[("send", "1", json!({})), ("send", "2", json!({})), ("look", "3", json!({}))]), hints);
    for batch in [["1"], ["3"]] {
        let step = run.step();
        assert_eq!(ids(&step), batch);
        execute(&mut run, step);
    }
    assert_eq!(run.step(), Step::CallModel { tools: true });
    assert_eq!(summary(&run), "U A3 T1 T2! T3");
    assert_eq!(run.reached(), [Limit::PerTool { name: "send".into(), max: 1 }]);
}

#[test]
fn token_and_cost_limits_end_a_run_before_the_next_request() {
    let mut run = new_run(Limits { tokens: Some(15), ..Limits::default() });
    run.step();
    run.on_response(one_call("1"), hints);
    let step = run.step();
    execute(&mut run, step);
    assert_eq!(run.step(), Step::Done(RunEnd::Limit(Limit::Tokens { max: 15 })));

    let mut run = new_run(Limits { cost_usd: Some(0.5), ..Limits::default() });
    for (cost, id) in [(0.3, "1"), (0.3, "2")] {
        assert_eq!(run.step(), Step::CallModel { tools: true });
        let mut response = one_call(id);
        response.usage.cost_usd = Some(cost);
        run.on_response(response, hints);
        let step = run.step();
        execute(&mut run, step);
    }
    assert_eq!(run.step(), Step::Done(RunEnd::Limit(Limit::Cost { max: "0.5".into() })));
}

#[test]
fn a_model_error_ends_the_run_without_an_answer() {
    let mut run = new_run(Limits::default());
    run.step();
    let error = ModelError::new(ModelErrorKind::Overloaded, "busy");
    run.on_model_error(error.clone());
    assert_eq!(run.step(), Step::Done(RunEnd::ModelFailed(error)));
    let result = AgentResult::from_run(&run);
    assert_eq!((result.final_response, result.limit_reached, result.trace_messages.len()), (None, false, 0));
}

#[test]
fn an_interrupted_run_has_a_result_for_every_call() {
    let mut run = new_run(Limits::default());
    run.step();
    let calls = [("look", "1"), ("look", "2"), ("send", "3")];
    run.on_response(answer("", &calls.map(|(name, id)| (name, id, json!({})))), hints);
    run.step();
    run.on_tool_result(0, Ok(ToolOutput::said("one")));
    run.interrupt(RunEnd::Cancelled);
    assert_eq!(run.step(), Step::Done(RunEnd::Cancelled));
    assert_eq!(summary(&run), "U A3 T1 T2! T3!");
    let metrics = AgentResult::from_run(&run).metrics;
    assert_eq!((metrics.tool_calls, metrics.blocked_tool_calls), (2, 1), "the third call was not made");
    assert_eq!(run.take_blocked(), [], "but not because of a limit");
    let texts: Vec<String> = run.messages()[3..].iter().map(|message| message.result().unwrap().text()).collect();
    insta::assert_snapshot!(texts.join("\n"), @"
    The call was canceled: the run was canceled. It is unknown whether it had an effect.
    This tool was not called: the run was canceled.
    ");
    // Late results change nothing.
    run.on_tool_result(1, Ok(ToolOutput::said("two")));
    run.on_response(answer("late", &[]), hints);
    assert_eq!(run.messages().len(), 5);
}

#[test]
fn a_resumed_run_does_not_repeat_calls_that_may_have_had_an_effect() {
    let mut run = new_run(Limits::default());
    run.step();
    let calls = [("look", "1"), ("look", "2"), ("send", "3")];
    run.on_response(answer("hm", &calls.map(|(name, id)| (name, id, json!({"b": 1, "a": 2})))), hints);
    run.step();
    run.on_tool_result(1, Ok(ToolOutput::said("two")));
    let mut again = Run::read(run.write()).unwrap();
    let step = again.step();
    assert_eq!(ids(&step), ["1"], "only the read-only call without a result is repeated");
    execute(&mut again, step);
    assert_eq!(ids(&again.step()), ["3"]);

    // Killed during the call that may not be repeated.
    let mut again = Run::read(again.write()).unwrap();
    assert_eq!(again.step(), Step::CallModel { tools: true });
    assert_eq!(summary(&again), "U A3 T1 T2 T3!");
    let text = again.messages()[4].result().unwrap().text();
    assert!(text.contains("It is unknown whether the call had an effect"), "{text}");
    assert_eq!(again.messages()[..2], run.messages()[..2], "byte for byte");
}

#[test]
fn invalid_checkpoints_and_other_versions_are_rejected() {
    let run = new_run(Limits::default()).write();
    let error = |text: &str| Run::read(text).unwrap_err().to_string();
    assert_eq!(
        error(&run.replace("\"version\":1", "\"version\":2")),
        "invalid checkpoint: unsupported version 2, expected 1"
    );
    assert!(error("{").starts_with("invalid checkpoint: EOF"));
    assert!(error(&run.replace("\"given\":1", "\"given\":7")).ends_with("messages are missing"));
}

#[test]
fn a_failed_call_reports_whether_it_may_have_had_an_effect() {
    let mut run = new_run(Limits::default());
    run.step();
    run.on_response(answer("", &[("send", "1", json!({})), ("send", "2", json!({}))]), hints);
    for outcome in [Outcome::NotRun, Outcome::Unknown] {
        let Step::CallTools(batch) = run.step() else { panic!() };
        run.on_tool_result(batch[0].0, Err(CallFailed { name: "send".into(), reason: "gone".into(), outcome }));
    }
    run.step();
    let texts: Vec<String> = run.messages()[2..].iter().map(|message| message.result().unwrap().text()).collect();
    insta::assert_snapshot!(texts.join("\n"), @"
    The tool was not called: gone
    The call failed, and it is unknown whether it had an effect: gone
    ");
    assert!(run.messages()[2].result().unwrap().output.is_error);
}
