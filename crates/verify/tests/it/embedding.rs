//! Embeddings: similar texts pass if the judge confirms it, and nothing else is overruled.

use std::sync::Arc;

use serde_json::{Value, json};
use wharf_agent::ModelErrorKind;
use wharf_verify::journal::StepKind;
use wharf_verify::outcome::Caveat;
use wharf_verify::{EmbeddingModel, Mode, PlanError, ToolSets};

use crate::pipeline_kit::*;

/// Whether a request asks the judge to confirm that two texts mean the same.
fn is_confirmation(seen: &Seen) -> bool {
    seen.options.schema.as_ref().unwrap().to_string().contains("\"equivalent\"")
}

/// A judge that reads `Lutetia`, and answers this to the question whether it means the same. Only that question may
/// contain the truth.
fn confirming(answer: &'static str) -> Arc<Fake> {
    Fake::new("judge-1", move |seen, _| {
        assert_eq!(seen.text().contains(TRUTH), is_confirmation(seen), "{}", seen.text());
        let values = json!({"city": "Lutetia"}).to_string();
        Ok(says(if is_confirmation(seen) { answer } else { &values }))
    })
}

fn similar(cosine: f32) -> Arc<FakeEmbedder> {
    FakeEmbedder::new(move |_| Ok(cosine))
}

fn setup_with(check: Value, judge: &Arc<Fake>, embedder: &Arc<FakeEmbedder>) -> Setup {
    let mut question = city_question();
    question["template"]["fields"][0]["check"] = check;
    let mut setup = Setup::new(question, &Fake::answering("It is Lutetia."), judge);
    setup.embedding = Some(embedder.model());
    setup
}

const YES: &str = r#"{"equivalent": true, "reason": "an old name"}"#;
const NO: &str = r#"{"equivalent": false, "reason": "another city"}"#;

#[tokio::test(start_paused = true)]
async fn a_similar_text_passes_if_the_judge_confirms_it() {
    let (judge, embedder) = (confirming(YES), similar(0.9));
    let setup = setup_with(json!("exact_match"), &judge, &embedder);
    let journal = Arc::<MemoryJournal>::default();
    let result = setup.run_with(&journal).await.unwrap().remove(0);
    assert_eq!((outcome(&result).as_str(), &result.caveats[..]), ("passed", &[Caveat::EmbeddingOverride][..]));
    let template = result.template.as_ref().unwrap();
    let field = &template.fields[0];
    assert_eq!((template.passed, template.score, field.score), (Some(true), Some(1.0), Some(1.0)));
    assert!((field.similarity.unwrap() - 0.9).abs() < 1e-6);
    assert_eq!((field.overruled.as_deref(), &field.reason), (Some("an old name"), &None));
    assert_eq!(embedder.seen(), [["Lutetia".to_owned(), format!("Paris {TRUTH}")]]);
    assert_eq!(journal.kinds(), [StepKind::Model, StepKind::Judge, StepKind::Embedding, StepKind::Judge]);
    assert_eq!(result.judge_usage.input_tokens, 10 + 3 + 10);
    // The judge does not learn which text is the expected one.
    let confirmation = judge.seen()[1].last_user();
    let (first, second) = (confirmation.find("Lutetia").unwrap(), confirmation.find("Paris").unwrap());
    assert!(first < second && !confirmation.contains("answer"), "{confirmation}");
    let system = judge.seen()[1].system.join("");
    assert!(!system.contains("expected") && !system.contains("truth"), "{system}");
}

#[tokio::test(start_paused = true)]
async fn a_text_that_is_not_similar_or_not_confirmed_stays_failed() {
    for (answer, cosine, requests) in [(YES, 0.84, 1), (NO, 0.99, 2)] {
        let judge = confirming(answer);
        let result = setup_with(json!("exact_match"), &judge, &similar(cosine)).run_one().await;
        assert_eq!(
            (outcome(&result).as_str(), judge.count()),
            ("failed: content at verify_template", requests),
            "{answer}"
        );
        assert!(!result.caveats.contains(&Caveat::EmbeddingOverride));
        assert!(result.template.unwrap().fields[0].similarity.is_some());
    }
    let mut strict = setup_with(json!("exact_match"), &confirming(YES), &similar(0.9));
    strict.embedding.as_mut().unwrap().threshold = 0.95;
    assert_eq!(outcome(&strict.run_one().await), "failed: content at verify_template");
}

#[tokio::test(start_paused = true)]
async fn a_judge_without_a_usable_answer_makes_the_unit_invalid_if_it_could_have_passed() {
    let refusing = |kind: ModelErrorKind| {
        Fake::new("judge-1", move |seen, _| {
            let values = json!({"city": "Lutetia"}).to_string();
            if is_confirmation(seen) { Err(error(kind)) } else { Ok(says(&values)) }
        })
    };
    for (judge, expected, requests) in [
        (confirming("Sure!"), "invalid: parsing at embedding_check", 4),
        (confirming(r#"{"equivalent": 1}"#), "invalid: parsing at embedding_check", 4),
        (refusing(ModelErrorKind::Server), "invalid: server_error at embedding_check", 4),
        (refusing(ModelErrorKind::Auth), "invalid: unexpected_error at embedding_check", 2),
    ] {
        let mut setup = setup_with(json!("exact_match"), &judge, &similar(0.99));
        let result = setup.run_one().await;
        assert_eq!((outcome(&result).as_str(), judge.count()), (expected, requests));
        assert!(!result.caveats.contains(&Caveat::EmbeddingOverride));
        // What the judge cannot change is a wrong answer.
        setup.benchmark.questions[0].trace = serde_json::from_value(json!([{"called": "*"}])).unwrap();
        assert_eq!(outcome(&setup.run_one().await), "failed: content at verify_template");
    }
    // Beside a field that is wrong in any case.
    let mut setup = setup_with(json!("exact_match"), &confirming("Sure!"), &similar(0.99));
    let template = setup.benchmark.questions[0].template.as_mut().unwrap();
    let mut wrong = template.fields[0].clone();
    wrong.name = "says".to_owned();
    wrong.kind = wharf_verify::template::FieldType::Bool;
    wrong.truth = Value::Null;
    wrong.check = serde_json::from_value(json!({"trace_contains": {"substring": "Paris"}})).unwrap();
    template.fields.push(wrong);
    assert_eq!(outcome(&setup.run_one().await), "failed: content at verify_template");
}

#[tokio::test(start_paused = true)]
async fn an_expression_that_does_not_match_is_never_overruled() {
    for check in [json!({"regex_match": {"pattern": "^Paris"}}), json!({"trace_contains": {"substring": "Paris"}})] {
        let (judge, embedder) = (confirming(YES), similar(1.0));
        let mut setup = setup_with(check.clone(), &judge, &embedder);
        if check.get("trace_contains").is_some() {
            let field = &mut setup.benchmark.questions[0].template.as_mut().unwrap().fields[0];
            (field.kind, field.truth) = (wharf_verify::template::FieldType::Bool, Value::Null);
        }
        assert_eq!(outcome(&setup.run_one().await), "failed: content at verify_template", "{check}");
        assert_eq!(embedder.seen().len(), 0, "{check}");
    }
    // Nor is an assertion, beside a field that is.
    let mut setup = setup_with(json!("exact_match"), &confirming(YES), &similar(1.0));
    setup.benchmark.questions[0].trace = serde_json::from_value(json!([{"called": "*"}])).unwrap();
    let result = setup.run_one().await;
    assert_eq!(outcome(&result), "failed: content at verify_template");
    assert!(result.failure.unwrap().reason.starts_with("assertion"));
    assert_eq!(result.template.unwrap().passed, Some(true));
}

#[tokio::test(start_paused = true)]
async fn nothing_is_compared_if_the_template_passed() {
    let embedder = similar(1.0);
    let mut setup = setup_with(json!("exact_match"), &judge_says(right()), &embedder);
    assert_eq!(outcome(&setup.run_one().await), "passed");
    setup.embedding = None;
    setup.judges = vec![judge_model("j", &confirming(YES))];
    assert_eq!(outcome(&setup.run_one().await), "failed: content at verify_template");
    assert_eq!(embedder.seen().len(), 0);
}

#[tokio::test(start_paused = true)]
async fn a_semantic_match_is_decided_by_its_own_threshold_without_the_judge() {
    let run = |check: Value, cosine: f32| async move {
        let judge = confirming(NO);
        let result = setup_with(check, &judge, &similar(cosine)).run_one().await;
        assert_eq!(judge.count(), 1);
        (outcome(&result), result.template.unwrap().fields[0].score.unwrap())
    };
    let (passed, score) = run(json!("semantic_match"), 0.9).await;
    assert!(passed == "passed" && (score - 0.9).abs() < 1e-6, "{passed} {score}");
    let strict = json!({"semantic_match": {"threshold": 0.95}});
    assert_eq!(run(strict, 0.9).await.0, "failed: content at verify_template");
    assert_eq!(run(json!("semantic_match"), -0.5).await, ("failed: content at verify_template".to_owned(), 0.0));
}

#[tokio::test(start_paused = true)]
async fn an_embedding_model_that_does_not_respond_is_asked_three_times_and_makes_the_unit_invalid() {
    let check = |check: &str, kind: ModelErrorKind| {
        let check = json!(check);
        async move {
            let embedder = FakeEmbedder::new(move |_| Err(kind));
            let result = setup_with(check, &confirming(YES), &embedder).run_one().await;
            (outcome(&result), embedder.seen().len())
        }
    };
    let invalid = "invalid: connection at embedding_check".to_owned();
    assert_eq!(check("exact_match", ModelErrorKind::Network).await, (invalid.clone(), 3));
    let refused = "invalid: unexpected_error at embedding_check".to_owned();
    assert_eq!(check("exact_match", ModelErrorKind::Auth).await, (refused, 1));
    assert_eq!(check("semantic_match", ModelErrorKind::Network).await, (invalid, 3));
    let embedder = FakeEmbedder::new(|number| if number < 2 { Err(ModelErrorKind::Overloaded) } else { Ok(0.9) });
    let result = setup_with(json!("semantic_match"), &confirming(NO), &embedder).run_one().await;
    assert_eq!((outcome(&result).as_str(), embedder.seen().len()), ("passed", 3));
}

#[tokio::test(start_paused = true)]
async fn a_resumed_check_pays_for_no_request_twice() {
    let (judge, embedder) = (confirming(YES), similar(0.9));
    let setup = setup_with(json!("exact_match"), &judge, &embedder);
    let journal = Arc::<MemoryJournal>::default();
    // The process ends before the judge confirms.
    *journal.refuse_from.lock().unwrap() = Some((3, wharf_verify::JournalError::LeaseLost));
    assert_eq!(setup.run_with(&journal).await.unwrap_err(), wharf_verify::JournalError::LeaseLost);
    let resumed = journal.resumed();
    let first = setup.run_with(&resumed).await.unwrap();
    let replayed = setup.run_with(&resumed.replay()).await.unwrap();
    assert_eq!((judge.count(), embedder.seen().len(), json!(first)), (2, 1, json!(replayed)));
    // An interrupted request is indeterminate if nothing may be repeated.
    let journal = Arc::<MemoryJournal>::default();
    *journal.indeterminate.lock().unwrap() = Some(StepKind::Embedding);
    assert_eq!(outcome(&setup.run_with(&journal).await.unwrap()[0]), "indeterminate: content at verify_template");
}

#[tokio::test(start_paused = true)]
async fn a_semantic_match_needs_a_model_and_the_model_is_a_part_of_the_id() {
    let embedder = similar(1.0);
    let mut setup = setup_with(json!("semantic_match"), &confirming(YES), &embedder);
    let id = |setup: &Setup| setup.plan(&ToolSets::default()).unwrap().trials().next().unwrap().units[0].id.clone();
    let first = id(&setup);
    setup.embedding = Some(EmbeddingModel { threshold: 0.5, ..embedder.model() });
    assert_ne!(id(&setup), first);
    setup.embedding = None;
    let error = setup.plan(&ToolSets::default()).unwrap_err();
    assert!(matches!(error, PlanError::EmbeddingRequired(_)), "{error}");
    // Without a template nothing is compared.
    let rubric = json!({"t": {"kind": "regex", "pattern": "x"}});
    setup.benchmark.rubric = serde_json::from_value(rubric).unwrap();
    setup.benchmark.questions[0].rubric = vec!["t".to_owned()];
    setup.evaluation.mode = Mode::RubricOnly;
    let without = id(&setup);
    setup.embedding = Some(embedder.model());
    assert_eq!(id(&setup), without);
}
