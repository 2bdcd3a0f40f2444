//! Deep judgment: excerpts are searched in the answer, and what has none fails. Judges that lie, refuse or return garbage.

use std::sync::Arc;

use serde_json::{Value, json};
use wharf_agent::{ModelError, ModelErrorKind, ModelResponse, StopReason};
use wharf_testkit::Script;
use wharf_verify::evidence::{Excerpt, Subject};
use wharf_verify::outcome::Caveat;
use wharf_verify::{DeepRubric, DeepTemplate, Mode};

use crate::pipeline_kit::*;

const ANSWER: &str = "I looked it up. The capital is Paris, on the Seine.";

/// What a request to the judge asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Asked {
    Excerpts,
    Reasoning,
    Values,
}

fn asked(seen: &Seen) -> Asked {
    let schema = seen.options.schema.as_ref().unwrap().to_value().unwrap();
    let property = schema["properties"].as_object().unwrap().values().next().unwrap();
    match property["type"].as_str() {
        Some("array") => Asked::Excerpts,
        Some("string") => Asked::Reasoning,
        _ => Asked::Values,
    }
}

/// A judge that gives these excerpts for the city, one list for each attempt, and then the right value.
fn quoting(attempts: &'static [&'static [&'static str]]) -> Arc<Fake> {
    judge(move |seen, number| {
        Ok(says(&match asked(seen) {
            Asked::Excerpts => json!({"city": attempts[number]}).to_string(),
            Asked::Reasoning => json!({"city": "It names one city."}).to_string(),
            Asked::Values => right().to_string(),
        }))
    })
}

fn setup(judge: &Arc<Fake>) -> Setup {
    let mut setup = Setup::new(city_question(), &Fake::answering(ANSWER), judge);
    setup.evaluation.deep_judgment.template = DeepTemplate::Full;
    setup
}

#[tokio::test(start_paused = true)]
async fn a_value_is_read_from_excerpts_that_are_in_the_answer() {
    let judge = quoting(&[&["the capital is PARIS", "on the Sein"]]);
    let setup = setup(&judge);
    let tool_sets = setup.tool_sets().await;
    let planned = setup.plan(&tool_sets).unwrap().estimate(&setup.input(&tool_sets)).judge_requests;
    let result = setup.run_one().await;
    assert_eq!((outcome(&result).as_str(), judge.count() as u64), ("passed", planned));
    let place = |excerpt: &Excerpt| (excerpt.text.clone(), excerpt.message, excerpt.start, excerpt.end);
    let places: Vec<_> = result.excerpts.iter().map(place).collect();
    let expected = [("The capital is Paris", 16, 36), ("on the Seine", 38, 50)];
    let expected = expected.map(|(text, start, end)| (text.to_owned(), Some(0), start, end));
    assert_eq!(places, expected);
    assert_eq!(result.excerpts[0].subject, Subject::Attribute("city".to_owned()));
    assert_eq!(result.judge_reasoning.as_deref(), Some("city: It names one city."));
    let [_, reasoning, values] = &judge.seen()[..] else { panic!("three requests") };
    assert!(
        reasoning.last_user().contains("city:\n- The capital is Paris\n- on the Sein"),
        "{}",
        reasoning.last_user()
    );
    assert!(values.last_user().contains("city: It names one city."), "{}", values.last_user());
    // The report finds the excerpts under these keys.
    let written = serde_json::to_value(&result.excerpts[0]).unwrap();
    let expected = json!({"attribute": "city", "text": "The capital is Paris", "quoted": "the capital is PARIS",
        "similarity": 1.0, "message": 0, "start": 16, "end": 36});
    assert_eq!(written, expected);
}

#[tokio::test(start_paused = true)]
async fn a_value_without_an_excerpt_in_the_answer_fails_however_right_it_is() {
    const LIE: &[&str] = &["The decree of 1215 moved the court"];
    let judge = quoting(&[LIE, LIE, LIE]);
    let result = setup(&judge).run_one().await;
    assert_eq!(outcome(&result), "failed: deep_judgment at deep_judgment_autofail");
    assert_eq!(result.failure.unwrap().reason, "no excerpt of the answer supports: `city`");
    assert_eq!((judge.count(), result.excerpts.len()), (5, 0), "two retries, the reasoning and the values");
    assert_eq!(result.template.unwrap().passed, Some(true));
    let retry = judge.seen()[1].last_user();
    assert!(retry.contains("not in the answer") && retry.contains(LIE[0]), "{retry}");
}

#[tokio::test(start_paused = true)]
async fn an_excerpt_that_is_not_found_may_be_replaced() {
    let judge = quoting(&[&["The capital of the moon is cheese"], &["capital is Paris"]]);
    let result = setup(&judge).run_one().await;
    assert_eq!((outcome(&result).as_str(), judge.count(), result.excerpts.len()), ("passed", 4, 1));
    let judge = quoting(&[&["The capital of the moon is cheese"]]);
    let mut strict = setup(&judge);
    strict.evaluation.deep_judgment.retries = 0;
    assert_eq!(outcome(&strict.run_one().await), "failed: deep_judgment at deep_judgment_autofail");
    assert_eq!(judge.count(), 3);
}

#[tokio::test(start_paused = true)]
async fn settings_limit_the_excerpts_and_their_similarity() {
    let judge = quoting(&[&["I looked", "it up", "The capital", "is Paris"], &["The capital is Pariz"]]);
    let mut setup = setup(&judge);
    assert_eq!(setup.run_one().await.excerpts.len(), 3, "at most three by default");
    let judge = quoting(&[&["The capital is Pariz"]]);
    setup.judges = vec![judge_model("judge", &judge)];
    assert_eq!(outcome(&setup.run_one().await), "passed");
    setup.evaluation.deep_judgment.fuzzy_threshold = 0.99;
    setup.evaluation.deep_judgment.retries = 0;
    let judge = quoting(&[&["The capital is Pariz"]]);
    setup.judges = vec![judge_model("judge", &judge)];
    assert_eq!(outcome(&setup.run_one().await), "failed: deep_judgment at deep_judgment_autofail");
}

#[tokio::test(start_paused = true)]
async fn a_value_that_the_answer_does_not_contain_needs_no_excerpt() {
    let judge = judge(|seen, _| {
        Ok(says(&match asked(seen) {
            Asked::Excerpts => json!({"city": []}).to_string(),
            Asked::Reasoning => json!({"city": "It says nothing."}).to_string(),
            Asked::Values => json!({"city": null}).to_string(),
        }))
    });
    assert_eq!(outcome(&setup(&judge).run_one().await), "failed: content at verify_template");
}

#[tokio::test(start_paused = true)]
async fn reasoning_alone_needs_no_excerpts() {
    let judge = quoting(&[]);
    let mut setup = setup(&judge);
    setup.evaluation.deep_judgment.template = DeepTemplate::ReasoningOnly;
    let result = setup.run_one().await;
    assert_eq!((outcome(&result).as_str(), judge.count(), result.excerpts.len()), ("passed", 2, 0));
    assert_eq!(result.judge_reasoning.as_deref(), Some("city: It names one city."));
}

type Respond = fn() -> Result<ModelResponse, ModelError>;

#[tokio::test(start_paused = true)]
async fn a_judge_that_fails_at_any_step_makes_the_unit_invalid() {
    let failures: [(Respond, &str); 4] = [
        (|| Ok(says("full marks!")), "invalid: parsing at parse_template"),
        (|| Ok(says(r#"{"city": 7}"#)), "invalid: parsing at parse_template"),
        (|| Ok(stopped("", StopReason::Refusal)), "invalid: parsing at parse_template"),
        (|| Err(error(ModelErrorKind::Network)), "invalid: connection at parse_template"),
    ];
    for at in [Asked::Excerpts, Asked::Reasoning, Asked::Values] {
        for (respond, expected) in failures {
            // A number is no text, but the values could be one.
            let respond = move || match respond() {
                Ok(response) if at == Asked::Values && expected.contains("parsing") => {
                    Ok(ModelResponse { message: says("[]").message, ..response })
                }
                other => other,
            };
            let judge = judge(move |seen, _| match asked(seen) {
                step if step == at => respond(),
                Asked::Excerpts => Ok(says(r#"{"city": ["The capital is Paris"]}"#)),
                Asked::Reasoning => Ok(says(r#"{"city": "so"}"#)),
                Asked::Values => Ok(says(&right().to_string())),
            });
            assert_eq!(outcome(&setup(&judge).run_one().await), expected, "{at:?}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn excerpts_of_the_whole_trace_have_the_place_of_their_message() {
    let call = calls(&[("c1", "mcp__s__echo", json!({"text": "the tool says Paris"}))]);
    let answering = Fake::script("fake-1", vec![Ok(call), Ok(says("Done."))]);
    let judge = quoting(&[&["tool says Paris"]]);
    let mut setup = setup(&judge).server("s", Script::good());
    setup.models = vec![model("m", &answering)];
    setup.evaluation.use_full_trace_for_template = true;
    let result = setup.run_one().await;
    assert_eq!(outcome(&result), "passed");
    let excerpt = &result.excerpts[0];
    let message = &result.trace[excerpt.message.unwrap()];
    let found: String = message.content.chars().skip(excerpt.start).take(excerpt.end - excerpt.start).collect();
    assert_eq!((found.as_str(), message.tool_result.is_some()), ("tool says Paris", true));
}

#[tokio::test(start_paused = true)]
async fn a_resumed_judgment_pays_for_no_request_twice() {
    let judge = quoting(&[&["The capital is Paris"]]);
    let setup = setup(&judge);
    let journal = Arc::<MemoryJournal>::default();
    // The process ends before the second request to the judge.
    *journal.refuse_from.lock().unwrap() = Some((2, wharf_verify::JournalError::LeaseLost));
    assert_eq!(setup.run_with(&journal).await.unwrap_err(), wharf_verify::JournalError::LeaseLost);
    let resumed = journal.resumed();
    let first = setup.run_with(&resumed).await.unwrap();
    let replayed = setup.run_with(&resumed.replay()).await.unwrap();
    assert_eq!((judge.count(), json!(first)), (3, json!(replayed)));
}

/// A judge that gives these excerpts for every trait, and then `true`.
fn quoting_trait(excerpts: Value) -> Arc<Fake> {
    judge(move |seen, _| {
        Ok(says(&match asked(seen) {
            Asked::Excerpts => json!({"excerpts": excerpts}).to_string(),
            _ => json!({"trait_1": {"reasoning": "r", "value": true}}).to_string(),
        }))
    })
}

fn rubric_setup(deep: Value, judge: &Arc<Fake>) -> Setup {
    let mut definition = json!({"kind": "llm_boolean", "description": "It names its source"});
    if !deep.is_null() {
        definition["deep_judgment"] = deep;
    }
    let mut question = city_question();
    question["rubric"] = json!(["sourced"]);
    let mut setup = Setup::new(question, &Fake::answering(ANSWER), judge);
    setup.benchmark.rubric = serde_json::from_value(json!({ "sourced": definition })).unwrap();
    setup.evaluation.mode = Mode::RubricOnly;
    setup
}

#[tokio::test(start_paused = true)]
async fn a_trait_is_evaluated_from_its_excerpts() {
    let judge = quoting_trait(json!(["I looked it up"]));
    let setup = rubric_setup(json!({}), &judge);
    let tool_sets = setup.tool_sets().await;
    assert_eq!(setup.plan(&tool_sets).unwrap().estimate(&setup.input(&tool_sets)).judge_requests, 2);
    let result = setup.run_one().await;
    assert_eq!((outcome(&result).as_str(), judge.count()), ("passed", 2));
    assert_eq!(result.excerpts[0].subject, Subject::Name("sourced".to_owned()));
    assert!(judge.seen()[0].text().contains("It names its source"));
    let values = judge.seen()[1].last_user();
    assert!(values.contains("- I looked it up"), "{values}");
    assert_eq!(result.rubric.unwrap().traits[0].reasoning.as_deref(), Some("r"));
}

#[tokio::test(start_paused = true)]
async fn a_trait_without_an_excerpt_in_the_answer_fails_the_unit() {
    let judge = quoting_trait(json!(["According to the almanac of 1901"]));
    let mut setup = rubric_setup(json!({"retries": 1}), &judge);
    let result = setup.run_one().await;
    assert_eq!(outcome(&result), "failed: deep_judgment_rubric at deep_judgment_rubric_autofail");
    assert_eq!((judge.count(), result.caveats), (2, vec![Caveat::RubricIncomplete]));
    let shown = serde_json::to_value(&result.rubric.unwrap().traits[0]).unwrap();
    assert_eq!(shown["failed"], "no excerpt of the answer supports a value");
    setup.evaluation.deep_judgment.rubric = DeepRubric::Disabled;
    assert_eq!(outcome(&setup.run_one().await), "passed");
}

#[tokio::test(start_paused = true)]
async fn all_traits_or_none_have_excerpts_if_the_settings_say_so() {
    let requests = |deep: Value, rubric: DeepRubric| async move {
        let judge = quoting_trait(json!(["I looked it up"]));
        let mut setup = rubric_setup(deep, &judge);
        setup.evaluation.deep_judgment.rubric = rubric;
        assert_eq!(outcome(&setup.run_one().await), "passed");
        judge.count()
    };
    assert_eq!(requests(Value::Null, DeepRubric::UseBenchmark).await, 1);
    assert_eq!(requests(Value::Null, DeepRubric::EnableAll).await, 2);
    assert_eq!(requests(json!({"excerpts": false}), DeepRubric::UseBenchmark).await, 1);
    assert_eq!(requests(json!({"excerpts": false}), DeepRubric::EnableAll).await, 1);
}

#[tokio::test(start_paused = true)]
async fn a_trait_has_at_most_seven_excerpts_or_its_own_number() {
    let words: Vec<&str> = ANSWER.split_whitespace().collect();
    for (deep, expected) in [(json!({}), 7), (json!({"max_excerpts": 2}), 2)] {
        let judge = quoting_trait(json!(words));
        assert_eq!(rubric_setup(deep, &judge).run_one().await.excerpts.len(), expected);
    }
}

#[tokio::test(start_paused = true)]
async fn a_judge_without_usable_excerpts_does_not_end_the_unit() {
    for respond in [|| Ok(says("no")), || Ok(stopped("", StopReason::Refusal)), || Err(error(ModelErrorKind::Network))]
    {
        let judge = judge(move |_, _| respond());
        let mut setup = rubric_setup(json!({}), &judge);
        setup.evaluation.mode = Mode::RubricOnly;
        let link = json!({"kind": "regex", "pattern": "Paris"});
        setup.benchmark.rubric.insert("link".to_owned(), serde_json::from_value(link).unwrap());
        setup.benchmark.questions[0].rubric.push("link".to_owned());
        let result = setup.run_one().await;
        assert_eq!(outcome(&result), "passed");
        assert!(result.caveats.contains(&Caveat::RubricIncomplete), "{:?}", result.caveats);
    }
}
