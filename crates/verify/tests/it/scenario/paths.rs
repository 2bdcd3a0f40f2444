//! Which turns follow, and what the conversation amounts to.

use serde_json::{Value, json};
use wharf_agent::{Limits, ModelErrorKind, StopReason};
use wharf_fleet::Policy;
use wharf_fleet::dispatch::RuleAction;
use wharf_protocol::Role;
use wharf_testkit::{Script, Step};
use wharf_verify::journal::StepKind;
use wharf_verify::outcome::Caveat;
use wharf_verify::scenario::ScenarioEnd;

use super::{contains, question, run, shown, talking};
use crate::pipeline_kit::*;

/// Two turns: the second doubts the answer to the first.
fn doubt() -> Value {
    json!({
        "turns": [
            {"name": "ask", "prompt": "What is the capital?", "template": contains("Paris"), "next": "doubt"},
            {"name": "doubt", "prompt": "Are you sure?", "template": contains("Paris")},
        ],
    })
}

#[tokio::test(start_paused = true)]
async fn each_turn_continues_the_conversation() {
    let answering = talking(&["Paris.", "Yes, Paris."]);
    let setup = Setup::new(question(doubt()), &answering, &judge_says(json!({})));
    let result = setup.run_one().await;
    assert_eq!(shown(&result), "ask, doubt: passed");
    assert!(result.judge.is_none(), "no judge is needed");
    let [first, second] = &answering.seen()[..] else { panic!("two requests") };
    assert_eq!(first.messages.len(), 1);
    let said: Vec<(Role, String)> =
        second.messages.iter().map(|message| (message.role, message.plain_text())).collect();
    let expected = [(Role::User, "What is the capital?"), (Role::Assistant, "Paris."), (Role::User, "Are you sure?")];
    assert_eq!(said, expected.map(|(role, text)| (role, text.to_owned())));
    let scenario = serde_json::to_value(result.scenario.as_ref().unwrap()).unwrap();
    assert_eq!(scenario["end"], "completed");
    let turn = &scenario["turns"][1];
    assert_eq!((&turn["prompt"], &turn["response"]), (&json!("Are you sure?"), &json!("Yes, Paris.")));
    assert_eq!((&turn["messages"], &turn["passed"]), (&json!(1), &json!(true)));
    assert_eq!((result.turns, result.trace.len()), (2, 2));
    assert_eq!(result.response.as_deref(), Some("Yes, Paris."));
}

#[tokio::test(start_paused = true)]
async fn without_criteria_every_turn_must_pass() {
    let result = run(doubt(), &["Paris.", "No, it is Rome."]).await;
    assert_eq!(shown(&result), "ask, doubt: failed: content at verify_template");
    let reason = &result.failure.as_ref().unwrap().reason;
    assert_eq!(reason, "turn `doubt`: field `says`: the response does not have the text \"Paris\"");
    let result = run(doubt(), &["Rome.", "Sorry, Paris."]).await;
    assert_eq!(shown(&result), "ask, doubt: failed: content at verify_template");
}

#[tokio::test(start_paused = true)]
async fn criteria_decide_about_the_conversation() {
    let with = |outcome: Value| {
        let mut scenario = doubt();
        scenario["outcome"] = outcome;
        scenario
    };
    let last = json!([{"name": "corrects itself", "when": {"passed": true}}]);
    assert_eq!(shown(&run(with(last.clone()), &["Rome.", "Sorry, Paris."]).await), "ask, doubt: passed");
    let failed = run(with(last), &["Paris.", "No, Rome."]).await;
    assert_eq!(
        failed.failure.unwrap().reason,
        "criterion `corrects itself`: turn `doubt` failed: field `says`: the response does not have the text \"Paris\""
    );
    assert_eq!(failed.scenario.unwrap().outcome[0].passed, Some(false));
    let holds = |when: Value, answers: &'static [&'static str]| {
        let scenario = with(json!([{"name": "c", "when": when}]));
        async move { run(scenario, answers).await.scenario.unwrap().outcome[0].passed }
    };
    let mixed: &[&str] = &["Rome.", "Paris."];
    for (when, expected) in [
        (json!({"passed": true, "visit": "first"}), false),
        (json!({"passed": true, "visit": "any"}), true),
        (json!({"passed": true, "visit": "all"}), false),
        (json!({"passed": false, "turn": "ask"}), true),
        (json!({"path": ["ask", "doubt"]}), true),
        (json!({"path": ["ask"]}), false),
        (json!({"visits": {"exactly": 2}}), true),
        (json!({"visits": {"turn": "doubt", "at_least": 2}}), false),
        (json!({"response": {"trace_contains": {"substring": "Rome"}}, "visit": "any"}), true),
        (json!({"response": {"trace_contains": {"substring": "Rome"}}}), false),
        (json!({"not": {"path": ["ask"]}}), true),
        (json!({"any_of": [{"path": ["ask"]}, {"passed": true}]}), true),
        (json!({"all_of": [{"path": ["ask"]}, {"passed": true}]}), false),
    ] {
        assert_eq!(holds(when.clone(), mixed).await, Some(expected), "{when}");
    }
}

/// Runs a first turn with one branch, and returns whether the branch was followed.
async fn follows(when: Value, turn: Value, answer: &str) -> bool {
    let mut first = json!({"name": "first", "prompt": "Go.", "branches": [{"when": when, "to": "yes"}], "next": "no"});
    first.as_object_mut().unwrap().extend(turn.as_object().unwrap().clone());
    let scenario = json!({
        "state": {"mood": "calm", "count": 3, "seen": ["a"], "done": false},
        "turns": [first, {"name": "yes", "prompt": "Y"}, {"name": "no", "prompt": "N"}],
        "outcome": [{"name": "any", "when": {"visits": {"at_least": 1}}}],
    });
    let script = Script::default().tool(reading("look")).on_call("look", [Step::Text("seen".to_owned())]);
    let answers = vec![Ok(calls(&[("c1", "mcp__s__look", json!({"at": 1}))])), Ok(says(answer)), Ok(says("End."))];
    let answering = Fake::script("fake-1", answers);
    let result = Setup::new(question(scenario), &answering, &judge_says(json!({"city": "Oslo"})))
        .server("s", script)
        .run_one()
        .await;
    assert_eq!(outcome(&result), "passed");
    let path = result.scenario.as_ref().unwrap().path().join(", ");
    assert!(path == "first, yes" || path == "first, no", "{path}");
    path == "first, yes"
}

#[tokio::test(start_paused = true)]
async fn every_kind_of_condition_chooses_a_branch() {
    let none = json!({});
    let checked = json!({"template": contains("left")});
    let judged = json!({"template": {"fields": [
        {"name": "city", "type": "str", "description": "d", "truth": "Paris", "check": "exact_match"}]}});
    let traced = json!({"trace": [{"called": "look"}]});
    let setting = json!({"set": {"mood": {"match": "mood: (\\w+)"}, "done": {"value": true}}});
    let cases = [
        (json!({"passed": true}), &checked, "left", true),
        (json!({"passed": true}), &checked, "right", false),
        (json!({"passed": false}), &checked, "right", true),
        (json!({"passed": true}), &traced, "left", true),
        (json!({"passed": false}), &judged, "left", true),
        (json!({"field": "city", "truth": "oslo"}), &judged, "left", true),
        (json!({"field": "city", "truth": "Paris"}), &judged, "left", false),
        (json!({"field": "city", "check": {"regex_match": {"pattern": "^O"}}}), &judged, "left", true),
        (json!({"state": "mood", "truth": "calm"}), &none, "left", true),
        (json!({"state": "count", "truth": 3}), &none, "left", true),
        (json!({"state": "count", "check": {"numeric_range": {"min": 4}}}), &none, "left", false),
        (json!({"state": "seen", "truth": ["a"]}), &none, "left", true),
        (json!({"state": "done", "truth": true}), &none, "left", false),
        (json!({"state": "mood", "truth": "angry"}), &setting, "mood: angry", true),
        (json!({"state": "done", "truth": true}), &setting, "x", true),
        (json!({"response": {"trace_regex": {"pattern": "^l"}}}), &none, "left", true),
        (json!({"response": {"trace_length": {"max": 2}}}), &none, "left", false),
        (json!({"trace": {"called": "look", "with": {"at": 1}}}), &none, "left", true),
        (json!({"trace": {"not_called": "look"}}), &none, "left", false),
        (json!({"visits": {"turn": "first", "at_most": 1}}), &none, "left", true),
        (json!({"visits": {"at_least": 2}}), &none, "left", false),
        (json!({"path": ["first"]}), &none, "left", true),
        (json!({"not": {"passed": true}}), &checked, "left", false),
        (json!({"all_of": [{"passed": true}, {"state": "count", "truth": 3}]}), &checked, "left", true),
        (json!({"any_of": [{"passed": false}, {"state": "count", "truth": 4}]}), &checked, "left", false),
    ];
    for (when, turn, answer, expected) in cases {
        assert_eq!(follows(when.clone(), turn.clone(), answer).await, expected, "{when} {turn} {answer}");
    }
}

#[tokio::test(start_paused = true)]
async fn the_first_branch_that_holds_is_followed() {
    let always = json!({"visits": {"at_least": 1}});
    let scenario = json!({
        "start": "b",
        "turns": [
            {"name": "a", "prompt": "A", "trace": [{"max_calls": 0}]},
            {"name": "b", "prompt": "B", "branches": [
                {"when": {"visits": {"at_least": 2}}, "to": "end"}, {"when": always, "to": "c"}, {"when": always, "to": "a"}]},
            {"name": "c", "prompt": "C", "next": "a"},
        ],
    });
    assert_eq!(shown(&run(scenario, &["1", "2", "3"]).await), "b, c, a: passed");
}

#[expect(clippy::needless_pass_by_value, reason = "tests write the value in place")]
fn retry(more: Value) -> Value {
    let mut ask = json!({"name": "ask", "prompt": "Again: what is the capital?", "template": contains("Paris"),
        "branches": [{"when": {"passed": false}, "to": "ask"}]});
    ask.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    json!({"max_turns": 4, "turns": [ask], "outcome": [{"name": "in the end", "when": {"passed": true}}]})
}

#[tokio::test(start_paused = true)]
async fn a_loop_ends_at_the_limit_of_turns() {
    let answering = talking(&["Rome."; 9]);
    let setup = Setup::new(question(retry(json!({}))), &answering, &judge_says(json!({})));
    let result = setup.run_one().await;
    assert_eq!(shown(&result), "ask, ask, ask, ask: failed: recursion_limit at limit_autofail");
    assert_eq!(result.failure.as_ref().unwrap().reason, "the scenario's limit of 4 turns was reached");
    assert_eq!((answering.count(), result.limit_reached), (4, true));
    assert_eq!(result.scenario.unwrap().end, ScenarioEnd::TurnLimit);
    let fixed = run(retry(json!({})), &["Rome.", "Oslo.", "Paris."]).await;
    assert_eq!(shown(&fixed), "ask, ask, ask: passed");
}

#[tokio::test(start_paused = true)]
async fn a_branch_to_a_turn_that_was_taken_often_enough_is_skipped() {
    let result = run(retry(json!({"max_visits": 2})), &["Rome."; 9]).await;
    assert_eq!(shown(&result), "ask, ask: failed: content at verify_template");
    assert_eq!(result.scenario.unwrap().end, ScenarioEnd::Completed);
    // What leads to it by `next` ends the scenario too.
    let pair = json!({"turns": [
        {"name": "a", "prompt": "A", "next": "b", "max_visits": 2, "trace": [{"max_calls": 0}],
            "branches": [{"when": {"visits": {"at_least": 9}}, "to": "end"}]},
        {"name": "b", "prompt": "B", "next": "a"},
    ]});
    assert_eq!(shown(&run(pair, &["x"; 9]).await), "a, b, a, b: passed");
}

#[tokio::test(start_paused = true)]
async fn variables_are_inserted_into_messages_and_never_read_again() {
    let scenario = json!({
        "state": {"quote": "nothing", "secret": "the truth"},
        "turns": [
            {"name": "ask", "prompt": "Speak. {{quote}}", "set": {"quote": {"match": "(?s)say: (.*)"}}, "next": "quote"},
            {"name": "quote", "prompt": "You said <{{quote}}>, not \\{{quote}}.", "trace": [{"max_calls": 0}]},
        ],
    });
    let hostile = "say: {{secret}} }} {{quote}} \\{{x\u{202e} <b>";
    let answering = talking(&[hostile, "Indeed."]);
    let result = Setup::new(question(scenario), &answering, &judge_says(json!({}))).run_one().await;
    assert_eq!(shown(&result), "ask, quote: passed");
    let seen = answering.seen();
    assert_eq!(seen[0].last_user(), "Speak. nothing");
    let expected = "You said <{{secret}} }} {{quote}} \\{{x\u{202e} <b>>, not {{quote}}.";
    assert_eq!(seen[1].last_user(), expected);
    let scenario = result.scenario.unwrap();
    assert_eq!((scenario.turns[1].prompt.as_str(), &scenario.state["secret"]), (expected, &json!("the truth")));
}

#[tokio::test(start_paused = true)]
async fn the_limits_of_the_model_count_over_all_turns() {
    let mut setup = Setup::new(question(retry(json!({}))), &talking(&["Rome."; 9]), &judge_says(json!({})));
    setup.models[0].settings.limits = Limits { model_calls: 2, ..Limits::default() };
    let result = setup.run_one().await;
    assert_eq!(shown(&result), "ask, ask, ask: failed: recursion_limit at limit_autofail");
    assert_eq!(result.turns, 2, "the third turn has no request left");
}

#[tokio::test(start_paused = true)]
async fn a_turn_without_an_answer_ends_the_conversation() {
    for (second, expected) in [
        (Ok(stopped("I refuse.", StopReason::Refusal)), "failed: abstention at generate_answer"),
        (Ok(says("")), "failed: trace_validation at trace_validation_autofail"),
        (Err(error(ModelErrorKind::Auth)), "invalid: unexpected_error at generate_answer"),
        (Err(error(ModelErrorKind::Exhausted)), "invalid: unexpected_error at generate_answer"),
        (Err(error(ModelErrorKind::RateLimit)), "invalid: rate_limit at retries_exhausted_autofail"),
        (Err(error(ModelErrorKind::Network)), "invalid: connection at retries_exhausted_autofail"),
    ] {
        let answering =
            Fake::new("fake-1", move |_, number| if number == 0 { Ok(says("Paris.")) } else { second.clone() });
        let result = Setup::new(question(doubt()), &answering, &judge_says(json!({}))).run_one().await;
        assert_eq!(shown(&result), format!("ask, doubt: {expected}"));
        assert_eq!(result.scenario.unwrap().end, ScenarioEnd::Stopped);
    }
}

#[tokio::test(start_paused = true)]
async fn a_cut_answer_goes_on_with_a_caveat() {
    let answering = Fake::script("fake-1", vec![Ok(stopped("Paris", StopReason::MaxTokens)), Ok(says("Paris."))]);
    let result = Setup::new(question(doubt()), &answering, &judge_says(json!({}))).run_one().await;
    assert_eq!(shown(&result), "ask, doubt: passed");
    assert_eq!(result.caveats, [Caveat::PartialContent]);
}

#[tokio::test(start_paused = true)]
async fn turns_share_their_servers_and_have_their_own_assertions() {
    let scenario = json!({"turns": [
        {"name": "look", "prompt": "Look.", "trace": [{"called": "look"}], "next": "tell"},
        {"name": "tell", "prompt": "Tell.", "trace": [{"not_called": "look"}, {"max_calls": 0}]},
    ]});
    let script = Script::default().tool(reading("look")).on_call("look", [Step::Text("seen".to_owned())]);
    let answers = vec![Ok(calls(&[("c1", "mcp__s__look", json!({}))])), Ok(says("Looked.")), Ok(says("It is there."))];
    let answering = Fake::script("fake-1", answers);
    let mut question = question(scenario);
    question["trace"] = json!([{"count": {"tool": "look", "exactly": 1}}]);
    let setup = Setup::new(question, &answering, &judge_says(json!({}))).server("s", script);
    let journal = std::sync::Arc::<MemoryJournal>::default();
    let results = setup.run_with(&journal).await.unwrap();
    assert_eq!(shown(&results[0]), "look, tell: passed");
    assert_eq!(results[0].assertions.len(), 1, "the question's own assertion sees the whole trace");
    let scenario = results[0].scenario.as_ref().unwrap();
    assert_eq!(scenario.turns.iter().map(|turn| turn.messages).collect::<Vec<_>>(), [3, 1]);
    assert_eq!(setup.workbench.opened.load(std::sync::atomic::Ordering::SeqCst), 1, "one conversation, one fleet");
    assert_eq!(journal.kinds(), [StepKind::Model, StepKind::ReadOnlyTool, StepKind::Model, StepKind::Model]);
}

/// One turn in which the model calls a tool that may be denied, and a second turn.
#[expect(clippy::needless_pass_by_value, reason = "tests write the value in place")]
fn looking_twice(criterion: Value) -> (Value, std::sync::Arc<Fake>) {
    let scenario = json!({
        "turns": [
            {"name": "look", "prompt": "Look.", "next": "tell"},
            {"name": "tell", "prompt": "Tell."},
        ],
        "outcome": [{"name": "c", "when": criterion}],
    });
    let answers = vec![Ok(calls(&[("c1", "mcp__s__look", json!({}))])), Ok(says("Looked.")), Ok(says("It is there."))];
    (question(scenario), Fake::script("fake-1", answers))
}

fn looking_server() -> Script {
    Script::default().tool(reading("look")).on_call("look", [Step::Text("seen".to_owned())])
}

#[tokio::test(start_paused = true)]
async fn a_denied_call_in_a_turn_makes_a_scenario_invalid() {
    let (question, answering) = looking_twice(json!({"visits": {"exactly": 2}}));
    let setup =
        Setup::new(question, &answering, &judge_says(json!({}))).server("s", looking_server()).workbench(|workbench| {
            workbench.policy = Policy::permissive().with(RuleAction::Deny, "mcp__s__look".parse().unwrap());
        });
    let result = setup.run_one().await;
    assert_eq!(shown(&result), "look: invalid");
    assert!(result.reason.as_ref().unwrap().contains("denied"), "{:?}", result.reason);
    assert_eq!(answering.count(), 1, "nothing more is paid for");
}

#[tokio::test(start_paused = true)]
async fn a_condition_about_a_tool_that_does_not_exist_never_holds() {
    for misspelled in [
        json!({"not": {"trace": {"called": "loook"}}}),
        json!({"trace": {"not_called": "loook"}}),
        json!({"any_of": [{"path": ["look"]}, {"not": {"trace": {"called": "loook", "with": {"a": 1}}, "visit": "any"}}]}),
    ] {
        let (question, answering) = looking_twice(misspelled.clone());
        let setup = Setup::new(question, &answering, &judge_says(json!({}))).server("s", looking_server());
        let tools = setup.tool_sets().await;
        let error = setup.plan(&tools).unwrap_err().to_string();
        assert_eq!(error, "question `talk`: no server offers the tool `loook` of its assertion", "{misspelled}");
        // The same in a branch.
        let mut other = setup.benchmark.clone();
        let scenario = other.questions[0].scenario.as_mut().unwrap();
        let when = scenario.outcome.remove(0).when;
        scenario.turns[0].branches.push(wharf_verify::scenario::Branch { when, to: "tell".to_owned() });
        let mut branching =
            Setup::new(looking_twice(json!({"visits": {"exactly": 2}})).0, &answering, &judge_says(json!({})));
        branching.benchmark = other;
        branching.workbench = setup.workbench.clone();
        assert!(branching.plan(&tools).is_err(), "{misspelled}");

        // One model has the tool, so the plan is valid, and the other one says nothing about it.
        let mut two = setup;
        two.models.push(model("with", &Fake::answering("Done.")));
        two.models[1].settings.mcp_keys.insert("mcp_urls_dict".to_owned(), json!({"s": "other"}));
        let mut workbench = TestWorkbench::default();
        workbench.scripts.insert("s".to_owned(), looking_server());
        workbench.scripts.insert("other".to_owned(), Script::default().tool(reading("loook")));
        two.workbench = std::sync::Arc::new(workbench);
        let results = two.run().await;
        assert_eq!(shown(&results[0]), "look, tell: invalid: unexpected_error at verify_template", "{misspelled}");
        let reason = &results[0].failure.as_ref().unwrap().reason;
        assert!(reason.contains("the tool `loook` was not offered"), "{reason}");
        assert_eq!(results[0].scenario.as_ref().unwrap().outcome[0].passed, None);
    }
}

#[tokio::test(start_paused = true)]
async fn a_criterion_about_a_value_that_the_answer_lacks_fails() {
    let scenario = |truth: &str| {
        json!({
            "turns": [{"name": "ask", "prompt": "When?", "template": {"fields": [
                {"name": "day", "type": "str", "description": "The day", "truth": "2026-01-01", "check": "exact_match"}]}}],
            "outcome": [{"name": "on time", "when": {"field": "day", "truth": truth, "check": "date_match"}}],
        })
    };
    for (read, expected) in [
        (json!("2026-01-01"), "passed"),
        (json!("2026-01-02"), "failed: content at verify_template"),
        // The answer has no such value.
        (json!(null), "failed: content at verify_template"),
        (json!("some day"), "failed: content at verify_template"),
    ] {
        let judge = judge_says(json!({ "day": read }));
        let result = Setup::new(question(scenario("2026-01-01")), &talking(&["Then."]), &judge).run_one().await;
        assert_eq!(shown(&result), format!("ask: {expected}"), "{read}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_missing_server_makes_a_scenario_invalid() {
    let scenario = json!({"turns": [{"name": "look", "prompt": "Look.", "trace": [{"max_calls": 1}]}]});
    let answering = talking(&["Looked."]);
    let setup = Setup::new(question(scenario), &answering, &judge_says(json!({})))
        .server("s", Script::default().tool(reading("look")))
        .workbench(|workbench| *workbench.refuse.lock().unwrap() = Some("no servers today".to_owned()));
    let result = setup.run_one().await;
    assert_eq!(shown(&result), "look: invalid");
    assert_eq!((result.reason.as_deref(), answering.count()), (Some("no servers today"), 0));
}
