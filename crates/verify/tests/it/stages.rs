//! Every stage: what it does, and how it ends a unit.

use serde_json::json;
use wharf_agent::{Limits, ModelErrorKind, StopReason};
use wharf_testkit::Script;
use wharf_verify::Verdict;
use wharf_verify::outcome::Caveat;

use crate::pipeline_kit::*;

#[tokio::test(start_paused = true)]
async fn a_right_answer_passes_and_a_wrong_one_fails_with_the_field() {
    let answering = Fake::answering("It is Paris.");
    let passed = Setup::new(city_question(), &answering, &judge_says(right())).run_one().await;
    assert_eq!((passed.verdict, &passed.failure), (Verdict::Passed, &None));
    assert_eq!(passed.response.as_deref(), Some("It is Paris."));
    assert_eq!((passed.turns, passed.usage.total_tokens(), passed.judge_usage.total_tokens()), (1, 15, 15));
    assert_eq!(passed.model.actual_model.as_deref(), Some("fake-1-2026"));
    assert_eq!(passed.judge.as_ref().map(|judge| judge.label.as_str()), Some("j"));
    assert_eq!(passed.template.unwrap().passed, Some(true));

    let failed = Setup::new(city_question(), &answering, &judge_says(wrong())).run_one().await;
    assert_eq!(outcome(&failed), "failed: content at verify_template");
    assert!(failed.failure.unwrap().reason.starts_with("field `city`: "));
}

#[tokio::test(start_paused = true)]
async fn an_invalid_template_ends_the_unit_before_anything_is_paid_for() {
    let mut question = city_question();
    question["template"]["pass"] = json!({"all_of": ["country"]});
    let (answering, judge) = (Fake::answering("It is Paris."), judge_says(right()));
    let result = Setup::new(question, &answering, &judge).run_one().await;
    assert_eq!(outcome(&result), "invalid: template_validation at validate_template");
    assert!(result.reason.unwrap().contains("country"));
    assert_eq!((answering.count(), judge.count()), (0, 0));
}

#[tokio::test(start_paused = true)]
async fn a_run_that_reaches_a_limit_fails_and_keeps_its_trace() {
    let answering =
        Fake::new("fake-1", |_, number| Ok(calls(&[(&format!("c{number}"), "mcp__s__echo", json!({"text": "x"}))])));
    let judge = judge_says(right());
    let mut setup = Setup::new(city_question(), &answering, &judge).server("s", Script::good());
    setup.models[0].settings.limits = Limits { model_calls: 2, ..Limits::default() };
    let result = setup.run_one().await;
    assert_eq!(outcome(&result), "failed: recursion_limit at limit_autofail");
    assert_eq!(result.failure.unwrap().reason, "the limit of 2 turns was reached");
    assert!(result.limit_reached && result.reason.is_none());
    assert_eq!((result.trace.len(), result.turns, result.tool_calls), (4, 2, 2));
    assert_eq!(judge.count(), 0);
}

#[tokio::test(start_paused = true)]
async fn the_trace_of_a_model_with_tools_must_end_with_an_answer() {
    let judge = judge_says(right());
    let silent = Fake::script("fake-1", vec![Ok(calls(&[("c", "mcp__s__echo", json!({"text": "x"}))])), Ok(says(" "))]);
    let setup = Setup::new(city_question(), &silent, &judge).server("s", Script::good());
    let result = setup.run_one().await;
    assert_eq!(outcome(&result), "failed: trace_validation at trace_validation_autofail");
    assert_eq!(result.failure.unwrap().reason, "the last message of the model has no text");
    assert_eq!((judge.count(), result.trace.len()), (0, 3));

    // A model without tools has no such rule: the judge reads an empty answer and finds nothing.
    let judge = judge_says(json!({"city": null}));
    let result = Setup::new(city_question(), &Fake::answering(""), &judge).run_one().await;
    assert_eq!((outcome(&result).as_str(), judge.count()), ("failed: content at verify_template", 1));
}

#[tokio::test(start_paused = true)]
async fn a_provider_that_fails_after_all_retries_is_not_a_wrong_answer() {
    let cases = [
        (ModelErrorKind::Timeout, "timeout"),
        (ModelErrorKind::Network, "connection"),
        (ModelErrorKind::RateLimit, "rate_limit"),
        (ModelErrorKind::Overloaded, "rate_limit"),
        (ModelErrorKind::Server, "server_error"),
        (ModelErrorKind::Malformed, "server_error"),
    ];
    for (kind, category) in cases {
        let answering = Fake::new("fake-1", move |_, _| Err(error(kind)));
        // With tools too: a trace that the provider cut is not the model's fault.
        let setup = Setup::new(city_question(), &answering, &judge_says(right())).server("s", Script::good());
        let result = setup.run_one().await;
        assert_eq!(outcome(&result), format!("invalid: {category} at retries_exhausted_autofail"));
        assert!(!result.verdict.is_scored());
        assert_eq!((answering.count(), result.retries[category]), (3, 2));
        assert_eq!(result.caveats, [Caveat::RetriesUsed]);
    }
}

#[tokio::test(start_paused = true)]
async fn errors_that_no_retry_fixes_end_the_unit_by_their_kind() {
    let cases = [
        (ModelErrorKind::Auth, "invalid: unexpected_error at generate_answer"),
        (ModelErrorKind::Invalid, "invalid: unexpected_error at generate_answer"),
        (ModelErrorKind::ContextTooLong, "invalid: unexpected_error at generate_answer"),
        (ModelErrorKind::Exhausted, "invalid: unexpected_error at generate_answer"),
        (ModelErrorKind::Refused, "failed: abstention at generate_answer"),
    ];
    for (kind, expected) in cases {
        let answering = Fake::new("fake-1", move |_, _| Err(error(kind)));
        let result = Setup::new(city_question(), &answering, &judge_says(right())).run_one().await;
        assert_eq!((outcome(&result).as_str(), answering.count()), (expected, 1));
    }
}

#[tokio::test(start_paused = true)]
async fn retries_that_help_are_counted_and_a_caveat() {
    let answering = Fake::script(
        "fake-1",
        vec![Err(error(ModelErrorKind::RateLimit)), Err(error(ModelErrorKind::Server)), Ok(says("It is Paris."))],
    );
    let result = Setup::new(city_question(), &answering, &judge_says(right())).run_one().await;
    assert_eq!(outcome(&result), "passed");
    assert_eq!(json!(result.retries), json!({"rate_limit": 1, "server_error": 1}));
    assert_eq!(result.caveats, [Caveat::RetriesUsed]);
}

#[tokio::test(start_paused = true)]
async fn a_refusal_of_the_model_is_an_abstention_without_a_judge() {
    let judge = judge_says(right());
    let answering = Fake::new("fake-1", |_, _| Ok(stopped("No.", StopReason::Refusal)));
    let result = Setup::new(city_question(), &answering, &judge).run_one().await;
    assert_eq!((outcome(&result).as_str(), judge.count()), ("failed: abstention at generate_answer", 0));
}

#[tokio::test(start_paused = true)]
async fn a_truncated_answer_is_judged_with_a_caveat() {
    let answering = Fake::new("fake-1", |_, _| Ok(stopped("It is Par", StopReason::MaxTokens)));
    let result = Setup::new(city_question(), &answering, &judge_says(wrong())).run_one().await;
    assert_eq!(outcome(&result), "failed: content at verify_template");
    assert_eq!(result.caveats, [Caveat::PartialContent]);
}

/// Plays a judge with one answer for each kind of request.
fn checks(abstained: Option<bool>, sufficient: Option<bool>) -> std::sync::Arc<Fake> {
    judge(move |seen, _| {
        let schema = seen.options.schema.as_ref().unwrap().to_string();
        let decision = |key: &str, value: Option<bool>| match value {
            Some(value) => Ok(says(&json!({key: value, "reason": "because"}).to_string())),
            None => Err(error(ModelErrorKind::Server)),
        };
        if schema.contains("\"abstained\"") {
            decision("abstained", abstained)
        } else if schema.contains("\"sufficient\"") {
            decision("sufficient", sufficient)
        } else {
            Ok(says(&right().to_string()))
        }
    })
}

#[tokio::test(start_paused = true)]
async fn the_optional_checks_decide_in_their_order_and_their_errors_are_not_fatal() {
    let cases = [
        ((Some(true), Some(true)), 1, "failed: abstention at abstention_check"),
        ((Some(false), Some(false)), 2, "failed: sufficiency at sufficiency_check"),
        ((Some(false), Some(true)), 3, "passed"),
        // Three attempts of each failing check, then the template.
        ((None, None), 7, "passed"),
    ];
    for ((abstained, sufficient), requests, expected) in cases {
        let judge = checks(abstained, sufficient);
        let mut setup = Setup::new(city_question(), &Fake::answering("It is Paris."), &judge);
        setup.evaluation.abstention_check = true;
        setup.evaluation.sufficiency_check = true;
        let result = setup.run_one().await;
        assert_eq!((outcome(&result).as_str(), judge.count()), (expected, requests));
        let is_unchecked = result.caveats.contains(&Caveat::CheckIncomplete);
        assert_eq!(is_unchecked, abstained.is_none(), "a check that was not made leaves a mark");
    }
    let judge = checks(Some(true), Some(false));
    let result = Setup::new(city_question(), &Fake::answering("It is Paris."), &judge).run_one().await;
    assert_eq!((outcome(&result).as_str(), judge.count()), ("passed", 1), "both checks are off by default");
}

#[tokio::test(start_paused = true)]
async fn a_malformed_decision_of_a_check_is_a_caveat() {
    let judge = judge(|seen, _| {
        let schema = seen.options.schema.as_ref().unwrap().to_string();
        Ok(if schema.contains("\"abstained\"") { says("maybe") } else { says(&right().to_string()) })
    });
    let mut setup = Setup::new(city_question(), &Fake::answering("It is Paris."), &judge);
    setup.evaluation.abstention_check = true;
    let result = setup.run_one().await;
    assert_eq!((outcome(&result).as_str(), judge.count()), ("passed", 4));
    assert_eq!(result.caveats, [Caveat::ParseDecisionMalformed]);
}

#[tokio::test(start_paused = true)]
async fn assertions_need_no_judge_and_fail_the_unit() {
    let question = |max: usize| json!({"id": "q", "question": "?", "trace": [{"max_calls": max}]});
    let answering = || {
        let call = calls(&[("c", "mcp__s__echo", json!({"text": "x"}))]);
        Fake::script("fake-1", vec![Ok(call), Ok(says("done"))])
    };
    let judge = judge_says(right());
    let mut setup = Setup::new(question(1), &answering(), &judge).server("s", Script::good());
    let passed = setup.run_one().await;
    assert_eq!((outcome(&passed).as_str(), passed.judge.is_none(), passed.assertions.len()), ("passed", true, 1));
    setup.judges.clear();
    setup.models = vec![model("m", &answering())];
    assert_eq!(outcome(&setup.run_one().await), "passed");

    let setup = Setup::new(question(0), &answering(), &judge).server("s", Script::good());
    let failed = setup.run_one().await;
    assert_eq!(outcome(&failed), "failed: content at verify_template");
    assert!(failed.failure.unwrap().reason.starts_with("assertion `"));
    assert_eq!(judge.count(), 0);
}

#[tokio::test(start_paused = true)]
async fn a_missing_value_is_a_wrong_answer_and_an_uncheckable_one_is_not() {
    let answering = Fake::answering("I looked it up.");
    let missing = Setup::new(city_question(), &answering, &judge_says(json!({"city": null}))).run_one().await;
    assert_eq!(outcome(&missing), "failed: content at verify_template");
    let mut question = city_question();
    question["template"]["fields"][0]["check"] = json!("semantic_match");
    let mut setup = Setup::new(question, &answering, &judge_says(json!({"city": "Lutetia"})));
    setup.embedding = Some(FakeEmbedder::failing(ModelErrorKind::Auth));
    assert_eq!(outcome(&setup.run_one().await), "invalid: unexpected_error at verify_template");
}

#[tokio::test(start_paused = true)]
async fn one_question_never_stops_another_whatever_happens_to_it() {
    let answering = Fake::new("fake-1", |seen, _| match seen.last_user().as_str() {
        "panic?" => panic!("the adapter is broken"),
        "fail?" => Err(error(ModelErrorKind::Auth)),
        _ => Ok(says("It is Paris.")),
    });
    let judge = judge(|seen, _| {
        let garbage = seen.text().contains("garbage?");
        Ok(says(&if garbage { "no".to_owned() } else { right().to_string() }))
    });
    let mut setup = Setup::new(city_question(), &answering, &judge);
    let first = setup.benchmark.questions.remove(0);
    for text in ["panic?", "fail?", "garbage?", "last?"] {
        let mut question = first.clone();
        question.id = text.parse().unwrap();
        question.question = text.to_owned();
        setup.benchmark.questions.push(question);
    }
    let outcomes: Vec<String> = setup.run().await.iter().map(outcome).collect();
    assert_eq!(
        outcomes,
        [
            "invalid: unexpected_error at generate_answer",
            "invalid: unexpected_error at generate_answer",
            "invalid: parsing at parse_template",
            "passed",
        ]
    );
}
