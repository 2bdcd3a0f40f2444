//! Plans: ids, selections, errors and estimates.

use serde_json::json;
use wharf_agent::middleware::{Middleware, RetryPolicy};
use wharf_testkit::Script;
use wharf_verify::{Mode, Plan, PlanError, Selection, ToolSets};

use crate::pipeline_kit::*;

fn base() -> Setup {
    let answering = Fake::answering("So.");
    let mut setup = Setup::new(city_question(), &answering, &judge_says(right())).server("s", Script::good());
    setup.benchmark.rubric = serde_json::from_value(json!({"concise": trait_of("At most two sentences")})).unwrap();
    setup.benchmark.questions[0].rubric = vec!["concise".to_owned()];
    setup
}

fn trait_of(description: &str) -> serde_json::Value {
    json!({"kind": "llm_boolean", "description": description})
}

async fn ids(setup: &Setup) -> (String, String) {
    let plan = setup.plan(&setup.tool_sets().await).unwrap();
    let trials: Vec<_> = plan.trials().collect();
    assert_eq!(trials.len(), 1);
    (trials[0].id.to_string(), trials[0].units[0].id.to_string())
}

type Change = fn(&mut Setup);

#[tokio::test(start_paused = true)]
async fn everything_that_can_change_an_answer_changes_the_ids_of_trial_and_unit() {
    let changes: [(&str, Change); 19] = [
        ("the question", |setup| setup.benchmark.questions[0].question.push('?')),
        ("its id", |setup| setup.benchmark.questions[0].id = "other".parse().unwrap()),
        ("the system prompt", |setup| setup.models[0].settings.system_prompt = Some("Be brief.".to_owned())),
        ("the label", |setup| setup.models[0].label.push('2')),
        ("the interface", |setup| setup.models[0].settings.interface.push('2')),
        ("the model", |setup| setup.models[0].settings.name.push('2')),
        ("the base URL", |setup| setup.models[0].settings.base_url = Some("http://127.0.0.1:1/v1".to_owned())),
        ("the file of the model", |setup| setup.models[0].settings.file_digest = Some("ab".to_owned())),
        ("the temperature", |setup| setup.models[0].settings.options.temperature = Some(0.7)),
        ("the limits", |setup| setup.models[0].settings.limits.tool_calls = 3),
        ("the middleware", |setup| setup.models[0].settings.middleware.model_retry.max_retries = 0),
        ("the retry policy", |setup| {
            setup.models[0].settings.middleware.model_retry.policy = Some(RetryPolicy::default());
        }),
        ("the timeout", |setup| {
            setup.models[0].settings.attempt_timeout = Some(std::time::Duration::from_secs(9));
        }),
        ("emulated tools", |setup| setup.models[0].settings.emulate_tools = true),
        ("the tool filter", |setup| {
            drop(setup.models[0].settings.mcp_keys.insert("mcp_tool_filter".into(), json!(["add"])));
        }),
        ("the tools", |setup| setup.change_tools = |tools| tools.tools[0].description.push('!')),
        ("the servers of the question", |setup| {
            drop(setup.benchmark.questions[0].servers.insert("s".into(), json!("s2")));
        }),
        ("a required server", |setup| setup.benchmark.questions[0].required_servers = vec!["s".parse().unwrap()]),
        ("the isolation", |setup| {
            setup.benchmark.defaults.isolation = Some(wharf_verify::benchmark::Isolation::Shared);
        }),
    ];
    let (trial, unit) = ids(&base()).await;
    for (what, apply) in changes {
        let mut other = base();
        apply(&mut other);
        let (other_trial, other_unit) = ids(&other).await;
        assert_ne!(trial, other_trial, "{what}");
        assert_ne!(unit, other_unit, "{what}");
    }
    let mut replicates = base();
    replicates.replicates = 2;
    let plan = replicates.plan(&replicates.tool_sets().await).unwrap();
    let trials: Vec<_> = plan.trials().collect();
    assert_eq!((trials[0].id.to_string(), trials[0].units[0].id.to_string()), (trial, unit));
    assert_ne!(trials[0].id, trials[1].id);
    assert_ne!(trials[0].units[0].id, trials[1].units[0].id);
    assert_eq!(Middleware::default(), base().models[0].settings.middleware);
}

#[tokio::test(start_paused = true)]
async fn everything_that_can_change_a_judgment_changes_the_id_of_the_unit_only() {
    let changes: [(&str, Change); 18] = [
        ("deep judgment", |setup| {
            setup.evaluation.deep_judgment.template = wharf_verify::DeepTemplate::Full;
        }),
        ("the similarity of excerpts", |setup| setup.evaluation.deep_judgment.fuzzy_threshold = 0.9),
        ("the template", |setup| {
            setup.benchmark.questions[0].template.as_mut().unwrap().fields[0].description.push('!');
        }),
        ("the truth", |setup| setup.benchmark.questions[0].template.as_mut().unwrap().fields[0].truth = json!("Rome")),
        ("the weight", |setup| setup.benchmark.questions[0].template.as_mut().unwrap().fields[0].weight = 0.5),
        ("a trait", |setup| {
            setup.benchmark.rubric = serde_json::from_value(json!({"concise": trait_of("Short")})).unwrap();
        }),
        ("the traits of the question", |setup| setup.benchmark.questions[0].rubric.clear()),
        ("an assertion", |setup| {
            setup.benchmark.questions[0].trace = serde_json::from_value(json!([{"max_calls": 3}])).unwrap();
        }),
        ("the judge", |setup| setup.judges[0].settings.name.push('2')),
        ("the label of the judge", |setup| setup.judges[0].label.push('2')),
        ("the judge's temperature", |setup| setup.judges[0].settings.options.temperature = Some(0.7)),
        ("the judge's system prompt", |setup| setup.judges[0].settings.system_prompt = Some("Be strict.".to_owned())),
        ("the trace for templates", |setup| setup.evaluation.use_full_trace_for_template = true),
        ("the trace for traits", |setup| setup.evaluation.use_full_trace_for_rubric = false),
        ("the optional checks", |setup| setup.evaluation.abstention_check = true),
        ("the mode", |setup| setup.evaluation.mode = Mode::TemplateAndRubric),
        ("the requests for traits", |setup| {
            setup.evaluation.rubric_strategy = wharf_verify::RubricStrategy::Sequential;
        }),
        ("traits of all questions", |setup| {
            setup.benchmark.questions[0].rubric.clear();
            setup.benchmark.rubric.insert("polite".to_owned(), serde_json::from_value(trait_of("Polite")).unwrap());
            setup.benchmark.defaults.rubric = vec!["polite".to_owned()];
        }),
    ];
    let (trial, unit) = ids(&base()).await;
    for (what, apply) in changes {
        let mut other = base();
        apply(&mut other);
        let (other_trial, other_unit) = ids(&other).await;
        assert_eq!(trial, other_trial, "{what}");
        assert_ne!(unit, other_unit, "{what}");
    }
}

#[tokio::test(start_paused = true)]
async fn what_nothing_is_computed_from_changes_no_id() {
    let changes: [(&str, Change); 7] = [
        ("the reference answer", |setup| setup.benchmark.questions[0].answer = None),
        ("keywords", |setup| setup.benchmark.questions[0].keywords = vec!["k".to_owned()]),
        ("the description", |setup| setup.benchmark.description = Some("d".to_owned())),
        ("the name", |setup| setup.benchmark.name.push('2')),
        ("an unused trait", |setup| {
            let both = json!({"concise": trait_of("At most two sentences"), "polite": trait_of("Polite")});
            setup.benchmark.rubric = serde_json::from_value(both).unwrap();
        }),
        ("the limits of a judge", |setup| setup.judges[0].settings.limits.tool_calls = 1),
        ("concurrency", |setup| {
            setup.models[0].concurrency = Some(wharf_agent::middleware::ConcurrencyLimit::new(1));
        }),
    ];
    let expected = ids(&base()).await;
    for (what, apply) in changes {
        let mut other = base();
        apply(&mut other);
        assert_eq!(expected, ids(&other).await, "{what}");
    }
    let mut sorted = base();
    let entry = |text: &str| serde_json::from_str::<serde_json::Value>(text).unwrap();
    sorted.benchmark.servers.insert("s".into(), entry(r#"{"command": "s", "args": []}"#));
    let mut reordered = base();
    reordered.benchmark.servers.insert("s".into(), entry(r#"{"args": [], "command": "s"}"#));
    assert_eq!(ids(&sorted).await, ids(&reordered).await, "the order of keys");
}

#[tokio::test(start_paused = true)]
async fn a_plan_multiplies_questions_models_replicates_and_judges() {
    let fake = Fake::answering("So.");
    let mut setup = base();
    let mut no_judge = setup.benchmark.questions[0].clone();
    no_judge.id = "plain".parse().unwrap();
    no_judge.template = None;
    no_judge.trace = serde_json::from_value(json!([{"max_calls": 3}])).unwrap();
    setup.benchmark.questions.push(no_judge);
    setup.models.push(model("m2", &fake));
    setup.judges.push(judge_model("j2", &judge_says(right())));
    setup.replicates = 3;
    let tool_sets = setup.tool_sets().await;
    let plan = setup.plan(&tool_sets).unwrap();
    assert_eq!((plan.len(), plan.units()), (12, 6 * 2 + 6));
    let trials: Vec<_> = plan.trials().collect();
    let all: std::collections::BTreeSet<_> = trials.iter().map(|trial| &trial.id).collect();
    assert_eq!(all.len(), 12);
    let units: std::collections::BTreeSet<_> =
        trials.iter().flat_map(|trial| &trial.units).map(|unit| &unit.id).collect();
    assert_eq!(units.len(), 18);
    let first: Vec<_> = trials.iter().map(|of| (of.question.as_str(), of.model.as_str(), of.replicate)).collect();
    assert_eq!(first[..4], [("capital", "m", 1), ("capital", "m", 2), ("capital", "m", 3), ("capital", "m2", 1)]);
    assert_eq!(trials.last().unwrap().units[0].judge, None);

    let estimate = plan.estimate(&setup.input(&tool_sets));
    assert_eq!((estimate.trials, estimate.units), (12, 18));
    // An agent makes three requests; the template has one judgment by each judge.
    assert_eq!((estimate.model_requests, estimate.judge_requests), (36, 12));
    assert!(estimate.input_tokens > 36 * 50 && estimate.output_tokens > 36 * 100, "{estimate:?}");
}

#[tokio::test(start_paused = true)]
async fn a_selection_takes_questions_by_id_and_the_first_ones() {
    let mut setup = base();
    for id in ["two", "three"] {
        let mut question = setup.benchmark.questions[0].clone();
        question.id = id.parse().unwrap();
        setup.benchmark.questions.push(question);
    }
    let tool_sets = setup.tool_sets().await;
    let mut select = |only: &[&str], limit: Option<usize>| {
        let only = only.iter().map(|id| (*id).to_owned()).collect();
        setup.selection = Selection { only, limit, ..Selection::default() };
        let plan = setup.plan(&tool_sets)?;
        Ok::<_, PlanError>(plan.trials().map(|trial| trial.question.to_string()).collect::<Vec<_>>())
    };
    assert_eq!(select(&[], None).unwrap(), ["capital", "two", "three"]);
    assert_eq!(select(&[], Some(2)).unwrap(), ["capital", "two"]);
    assert_eq!(select(&["three", "two"], None).unwrap(), ["two", "three"]);
    assert_eq!(select(&["three", "two"], Some(1)).unwrap(), ["two"]);
    assert_eq!(select(&[], Some(0)).unwrap_err(), PlanError::NoQuestion);
    let unknown = PlanError::UnknownQuestion { id: "thre".to_owned(), nearest: Some("three".parse().unwrap()) };
    assert_eq!(select(&["thre"], None).unwrap_err(), unknown);
}

#[tokio::test(start_paused = true)]
async fn a_selection_takes_questions_by_keyword() {
    let mut setup = base();
    setup.benchmark.questions[0].keywords = vec!["europe".to_owned()];
    let mut question = setup.benchmark.questions[0].clone();
    question.id = "two".parse().unwrap();
    question.keywords = vec!["asia".to_owned(), "large".to_owned()];
    setup.benchmark.questions.push(question);
    let tool_sets = setup.tool_sets().await;
    let mut select = |keywords: &[&str]| {
        let keywords = keywords.iter().map(|keyword| (*keyword).to_owned()).collect();
        setup.selection = Selection { keywords, ..Selection::default() };
        let plan = setup.plan(&tool_sets)?;
        Ok::<_, PlanError>(plan.trials().map(|trial| trial.question.to_string()).collect::<Vec<_>>())
    };
    assert_eq!(select(&["large"]).unwrap(), ["two"]);
    assert_eq!(select(&["asia", "europe"]).unwrap(), ["capital", "two"]);
    let unknown = PlanError::UnknownKeyword { keyword: "asai".to_owned(), nearest: Some("asia".to_owned()) };
    assert_eq!(select(&["asai"]).unwrap_err(), unknown);
}

#[tokio::test(start_paused = true)]
async fn parts_that_do_not_fit_together_are_errors_before_anything_starts() {
    let changes: [(Change, &str); 8] = [
        (|setup| setup.models.clear(), "no answering model"),
        (
            |setup| setup.models.push(setup.models[0].clone()),
            "duplicate label `m`: two models or two judges of a run need different labels",
        ),
        (
            |setup| setup.judges.push(setup.judges[0].clone()),
            "duplicate label `j`: two models or two judges of a run need different labels",
        ),
        (|setup| setup.judges.clear(), "question `capital` needs a judge, and no judge is configured"),
        (
            |setup| setup.benchmark.questions[0].template = None,
            "question `capital` has nothing to check in mode `template_only`",
        ),
        (
            |setup| {
                setup.evaluation.mode = Mode::RubricOnly;
                setup.benchmark.questions[0].rubric.clear();
            },
            "question `capital` has nothing to check in mode `rubric_only`",
        ),
        (|setup| setup.benchmark.questions.clear(), "no question is selected"),
        (
            |setup| {
                setup.benchmark.questions[0].template = None;
                setup.benchmark.questions[0].trace = serde_json::from_value(json!([{"max_calls": 3}])).unwrap();
                setup.evaluation.abstention_check = true;
                setup.judges.clear();
            },
            "question `capital` needs a judge, and no judge is configured",
        ),
    ];
    for (apply, expected) in changes {
        let mut other = base();
        apply(&mut other);
        assert_eq!(other.plan(&other.tool_sets().await).unwrap_err().to_string(), expected);
    }
    let unknown = Plan::new(&base().input(&ToolSets::default())).unwrap_err();
    assert!(matches!(unknown, PlanError::UnknownTools { .. }), "{unknown}");
}

#[tokio::test(start_paused = true)]
async fn a_model_does_not_judge_its_own_answers_unless_allowed() {
    let mut setup = base();
    setup.judges.push(judge_model("itself", &Fake::answering("So.")));
    let tool_sets = setup.tool_sets().await;
    let error = setup.plan(&tool_sets).unwrap_err();
    assert_eq!(error, PlanError::SelfJudging { model: "m".to_owned(), judge: "itself".to_owned() });
    setup.allow_self_judging = true;
    assert_eq!(setup.plan(&tool_sets).unwrap().units(), 2);
    setup.allow_self_judging = false;
    // Other settings do not make it another model, and another provider does.
    setup.judges[1].settings.system_prompt = Some("Be strict.".to_owned());
    assert!(setup.plan(&tool_sets).is_err());
    setup.judges[1].settings.base_url = Some("http://localhost:8080/v1".to_owned());
    assert_eq!(setup.plan(&tool_sets).unwrap().units(), 2);
    // A question without a judge is not judged by anyone.
    setup.judges[1].settings.base_url = None;
    setup.benchmark.questions[0].template = None;
    setup.benchmark.questions[0].trace = serde_json::from_value(json!([{"max_calls": 3}])).unwrap();
    assert_eq!(setup.plan(&tool_sets).unwrap().units(), 1);
}
