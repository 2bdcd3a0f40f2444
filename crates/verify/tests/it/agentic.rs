//! Traits that an agent investigates: its tools, its limits, and agents that wander, refuse or return garbage.

use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use wharf_agent::{ModelError, ModelErrorKind, ModelResponse};
use wharf_testkit::{Script, Step};
use wharf_verify::outcome::Caveat;
use wharf_verify::rubric::TraitOutcome;
use wharf_verify::{Mode, UnitResult};

use crate::pipeline_kit::*;

fn form(value: &Value) -> ModelResponse {
    says(&json!({"trait_1": {"reasoning": "r", "value": value}}).to_string())
}

/// A judge that looks once, writes down what it found, and fills the form with `true`.
fn looking() -> Arc<Fake> {
    Fake::new("judge-1", |seen, number| {
        Ok(match number {
            0 => calls(&[("c1", "mcp__s__look", json!({}))]),
            1 => {
                assert!(seen.text().contains("seventeen files"), "{}", seen.text());
                says("There are 17 files.")
            }
            _ => form(&json!(true)),
        })
    })
}

#[expect(clippy::needless_pass_by_value, reason = "tests write the settings in place")]
fn setup_with(changes: Value, judge: &Arc<Fake>) -> Setup {
    let mut definition = json!({"kind": "agentic", "description": "The files exist", "result": "boolean"});
    definition.as_object_mut().unwrap().extend(changes.as_object().unwrap().clone());
    let question = json!({"id": "q", "question": "Write the files.", "rubric": ["files"]});
    let script = Script::default()
        .tool(reading("look"))
        .tool(writing("wipe"))
        .on_call("look", [Step::Text("seventeen files".to_owned())])
        .on_call("wipe", [Step::Text("wiped".to_owned())]);
    let mut setup = Setup::new(question, &Fake::answering("I wrote all files."), judge).server("s", script);
    setup.benchmark.rubric = serde_json::from_value(json!({ "files": definition })).unwrap();
    setup.evaluation.mode = Mode::RubricOnly;
    setup
}

fn shown(result: &UnitResult) -> String {
    match &result.rubric.as_ref().unwrap().traits[0].outcome {
        TraitOutcome::Value(value) => serde_json::to_string(value).unwrap(),
        TraitOutcome::Absent(reason) | TraitOutcome::Failed(reason) => reason.clone(),
    }
}

#[tokio::test(start_paused = true)]
async fn an_agent_looks_with_tools_that_only_read_and_fills_the_form_from_what_it_found() {
    let judge = looking();
    let result = setup_with(json!({}), &judge).run_one().await;
    assert_eq!((outcome(&result).as_str(), shown(&result).as_str()), ("passed", r#"{"boolean":true}"#));
    let [first, _, last] = &judge.seen()[..] else { panic!("three requests") };
    assert_eq!(first.tools, ["mcp__s__look"], "a judge changes nothing");
    assert!(first.text().contains("The files exist") && first.text().contains("I wrote all files."));
    assert!(last.tools.is_empty() && last.text().contains("There are 17 files."), "{}", last.text());
    assert_eq!(result.judge_usage.input_tokens, 30);
}

#[tokio::test(start_paused = true)]
async fn traits_with_the_same_description_are_investigated_separately() {
    let judge = Fake::new("judge-1", |_, number| {
        Ok(if number % 2 == 0 { says(&format!("Found {number}.")) } else { form(&json!(true)) })
    });
    let mut setup = setup_with(json!({}), &judge);
    let definition = setup.benchmark.rubric["files"].clone();
    setup.benchmark.rubric.insert("copies".to_owned(), definition);
    setup.benchmark.questions[0].rubric = vec!["files".to_owned(), "copies".to_owned()];
    let result = setup.run_one().await;
    assert_eq!(result.rubric.as_ref().unwrap().traits.len(), 2);
    assert_eq!((judge.count(), result.judge_usage.input_tokens), (4, 40));
    assert!(judge.seen()[3].text().contains("Found 2."), "{}", judge.seen()[3].text());
}

#[tokio::test(start_paused = true)]
async fn every_kind_of_result_has_its_form() {
    let classes = json!([{"name": "few", "description": "d"}, {"name": "many", "description": "d"}]);
    let schema = json!({"type": "object", "required": ["files"], "properties": {"files": {"type": "integer"}}});
    let cases = [
        (json!({"result": "score", "min": 1, "max": 3}), json!(3), r#"{"score":{"score":3,"min":1,"max":3}}"#),
        (json!({"result": "literal", "classes": classes}), json!("many"), r#"{"class":{"index":1,"name":"many"}}"#),
        (json!({"result": "structured", "schema": schema}), json!({"files": 17}), r#"{"object":{"files":17}}"#),
    ];
    for (changes, value, expected) in cases {
        let is_object = value.is_object();
        let judge = Fake::new("judge-1", move |_, number| {
            Ok(match number {
                0 => says("I found out."),
                _ if is_object => says(&value.to_string()),
                _ => form(&value),
            })
        });
        assert_eq!(shown(&setup_with(changes, &judge).run_one().await), expected);
    }
}

#[tokio::test(start_paused = true)]
async fn the_context_decides_what_the_agent_sees() {
    for (mode, has_tools, sees_answer) in
        [("trace_and_workspace", true, true), ("workspace_only", true, false), ("trace_only", false, true)]
    {
        let judge = Fake::new("judge-1", |_, number| Ok(if number == 0 { says("Found.") } else { form(&json!(true)) }));
        let result = setup_with(json!({"context_mode": mode}), &judge).run_one().await;
        assert_eq!(outcome(&result), "passed");
        for (number, seen) in judge.seen().iter().enumerate() {
            assert_eq!(seen.text().contains("I wrote all files."), sees_answer, "{mode} {number}");
            assert_eq!(!seen.tools.is_empty(), has_tools && number == 0, "{mode} {number}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_tool_that_changes_something_is_never_called() {
    let judge = Fake::new("judge-1", |seen, number| {
        Ok(match number {
            0 => calls(&[("c1", "mcp__s__wipe", json!({}))]),
            1 => {
                assert!(!seen.text().contains("wiped") && seen.text().contains("Unknown tool"), "{}", seen.text());
                says("I could not wipe anything.")
            }
            _ => form(&json!(false)),
        })
    });
    assert_eq!(shown(&setup_with(json!({}), &judge).run_one().await), r#"{"boolean":false}"#);
}

#[tokio::test(start_paused = true)]
async fn turns_and_time_of_an_investigation_are_limited() {
    let wandering = || {
        Fake::new("judge-1", |_, number| Ok(calls(&[(&format!("c{number}"), "mcp__s__look", json!({"n": number}))])))
    };
    let judge = wandering();
    let result = setup_with(json!({}), &judge).run_one().await;
    assert_eq!((shown(&result).as_str(), judge.count()), ("the investigation did not end within 15 turns", 15));
    let judge = wandering();
    assert_eq!(
        shown(&setup_with(json!({"max_turns": 2}), &judge).run_one().await),
        "the investigation did not end within 2 turns"
    );
    let slow = Fake::slow("judge-1", Duration::from_secs(50), |_, number| {
        Ok(calls(&[(&format!("c{number}"), "mcp__s__look", json!({"n": number}))]))
    });
    let setup = setup_with(json!({}), &slow);
    let journal = Arc::<MemoryJournal>::default();
    let result = setup.run_with(&journal).await.unwrap().remove(0);
    assert_eq!((shown(&result).as_str(), slow.count()), ("the investigation took longer than 120 s", 3));
    let replayed = setup.run_with(&journal.replay()).await.unwrap().remove(0);
    assert_eq!((json!(result), slow.count()), (json!(replayed), 3));
}

#[tokio::test(start_paused = true)]
async fn an_agent_without_a_usable_result_does_not_end_the_unit() {
    type Respond = fn(usize) -> Result<ModelResponse, ModelError>;
    let cases: [(Respond, &str); 4] = [
        (|_| Ok(says("")), "the investigation has no result"),
        (|_| Ok(says("full marks!")), "the answer is not JSON"),
        (|number| Ok(if number == 0 { says("Found.") } else { form(&json!("yes!")) }), "`trait_1`: expected a boolean"),
        (|_| Err(error(ModelErrorKind::Network)), "no luck"),
    ];
    for (respond, expected) in cases {
        let judge = Fake::new("judge-1", move |_, number| respond(number));
        let mut setup = setup_with(json!({}), &judge);
        let link = json!({"kind": "regex", "pattern": "files"});
        setup.benchmark.rubric.insert("link".to_owned(), serde_json::from_value(link).unwrap());
        setup.benchmark.questions[0].rubric.push("link".to_owned());
        let result = setup.run_one().await;
        assert_eq!(outcome(&result), "passed");
        assert!(shown(&result).contains(expected), "{}", shown(&result));
        assert!(result.caveats.contains(&Caveat::RubricIncomplete));
    }
}

#[tokio::test(start_paused = true)]
async fn a_resumed_investigation_pays_for_no_request_twice() {
    let judge = looking();
    let setup = setup_with(json!({}), &judge);
    let journal = Arc::<MemoryJournal>::default();
    // The process ends after the agent has looked.
    *journal.refuse_from.lock().unwrap() = Some((3, wharf_verify::JournalError::LeaseLost));
    assert_eq!(setup.run_with(&journal).await.unwrap_err(), wharf_verify::JournalError::LeaseLost);
    let resumed = journal.resumed();
    let first = setup.run_with(&resumed).await.unwrap();
    let replayed = setup.run_with(&resumed.replay()).await.unwrap();
    assert_eq!((judge.count(), json!(first)), (3, json!(replayed)));
}
