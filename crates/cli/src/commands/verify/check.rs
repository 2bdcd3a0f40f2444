//! `wharf verify check`: validate a benchmark and its settings, and estimate what a run costs. Nothing is started or sent.

use serde::Serialize;
use wharf::agent::models::ProviderTimeouts;
use wharf::verify::{
    Benchmark, Estimate, Plan, PlanInput, Question, ServerSet, ToolSet, ToolSets, VerificationConfig,
    question_needs_judge,
};

use super::args::Check;
use super::settings;
use crate::config::Paths;
use crate::error::UsageError;
use crate::exit::Exit;
use crate::globals::Globals;
use crate::models::choose;
use crate::models::trust::Trust;
use crate::term;
use crate::verification::participants::{Availability, ModelFactory};
use crate::verification::{benchmark_file, planning};

/// Width of the column of keys.
const KEY_WIDTH: usize = 12;

/// The layout of `--json`.
#[derive(Serialize)]
struct JsonCheck<'a> {
    version: u32,
    benchmark: &'a str,
    questions: Vec<&'a str>,
    models: Vec<&'a str>,
    judges: Vec<&'a str>,
    /// The model that compares meanings. `None` if the check is off.
    embedding: Option<String>,
    replicates: u32,
    stages: Vec<&'a str>,
    /// What a run costs. `None` if no model is named.
    estimate: Option<Estimate>,
    /// How many questions need a judge.
    #[serde(skip)]
    judged: usize,
}

impl JsonCheck<'_> {
    /// Whether a run would fail for want of a judge.
    fn needs_judge(&self) -> bool {
        self.judges.is_empty() && self.judged > 0
    }
}

pub(super) async fn run(globals: &Globals, args: Check) -> Exit {
    match check(globals, &args).await {
        Ok(exit) => exit,
        Err(error) => term::usage_error(&error),
    }
}

async fn check(globals: &Globals, args: &Check) -> Result<Exit, UsageError> {
    let paths = Paths::find(globals)?;
    let benchmark = benchmark_file::read(&args.benchmark)?;
    let config = settings::merged(&args.settings, &paths)?;
    let names_models = config.models.is_some() || config.models_file.is_some() || choose::named(None).is_some();
    if !names_models && choose::api_keys([]).is_empty() {
        return check_file(globals, args, &benchmark, &config).await;
    }
    let factory = ModelFactory {
        globals,
        config: &config,
        trust: Trust::Ask,
        availability: Availability::Offline,
        timeouts: ProviderTimeouts::default(),
        has_servers: !benchmark.servers.is_empty(),
    };
    let participants = factory.participants().await?;
    // Nothing is started, so the tools are unknown: the estimate is without their definitions.
    let sets = ServerSet::all(&benchmark, &participants.models);
    let tool_sets = ToolSets(sets.iter().map(|set| (set.key(), ToolSet::default())).collect());
    let evaluation = planning::evaluation(&config);
    let selection = args.selection.selection();
    let replicates = planning::replicates(&config, &benchmark);
    let input = PlanInput {
        benchmark: &benchmark,
        models: &participants.models,
        judges: &participants.judges,
        replicates,
        tool_sets: &tool_sets,
        selection: &selection,
        allow_self_judging: config.allow_self_judging.unwrap_or_default(),
        evaluation: &evaluation,
        embedding: participants.embedding.as_ref(),
    };
    let plan = Plan::new(&input).map_err(|error| planning::invalid(&error))?;
    let estimate = plan.estimate(&input);
    let questions = plan.questions().into_iter().map(wharf::verify::QuestionId::as_str).collect();
    let stages = planning::stages(evaluation)?;
    let report = JsonCheck {
        version: 1,
        benchmark: &benchmark.name,
        questions,
        models: participants.models.iter().map(|model| model.label.as_str()).collect(),
        judges: participants.judges.iter().map(|judge| judge.label.as_str()).collect(),
        embedding: participants
            .embedding
            .as_ref()
            .map(|model| format!("{}:{}", model.embedder.interface(), model.embedder.name())),
        replicates,
        stages,
        estimate: Some(estimate),
        // A plan with questions that need a judge has one.
        judged: 0,
    };
    Ok(print(&report, globals).await)
}

/// Reports a valid benchmark without models: what it costs depends on them.
async fn check_file(
    globals: &Globals,
    args: &Check,
    benchmark: &Benchmark,
    config: &VerificationConfig,
) -> Result<Exit, UsageError> {
    let selection = args.selection.selection();
    let questions = selection.questions(benchmark).map_err(|error| planning::invalid(&error))?;
    let evaluation = planning::evaluation(config);
    let needs_judge = |question: &&Question| question_needs_judge(question, benchmark, &evaluation);
    let judged = questions.iter().copied().filter(needs_judge).count();
    let report = JsonCheck {
        version: 1,
        benchmark: &benchmark.name,
        questions: questions.into_iter().map(|question| question.id.as_str()).collect(),
        models: Vec::new(),
        judges: config.judges.iter().flatten().map(String::as_str).collect(),
        embedding: config.embedding_check_model.clone(),
        replicates: planning::replicates(config, benchmark),
        stages: planning::stages(evaluation)?,
        estimate: None,
        judged,
    };
    let exit = print(&report, globals).await;
    if !globals.quiet {
        let judge = if report.needs_judge() { " and a judge with --judge MODEL" } else { "" };
        term::hint(&format!("pass a model with -m MODEL{judge} for the number of units and an estimate"));
    }
    Ok(exit)
}

async fn print(report: &JsonCheck<'_>, globals: &Globals) -> Exit {
    if globals.json { term::json(report).await } else { term::out(text(report, globals)).await }
}

fn estimate_rows(estimate: &Estimate) -> [(&'static str, String); 4] {
    let Estimate { units, trials, input_tokens, output_tokens, .. } = estimate;
    let range = |min: u64, max: u64| if min == max { max.to_string() } else { format!("{min} to {max}") };
    let model_requests = range(estimate.min_model_requests, estimate.model_requests);
    let judge_requests = range(estimate.min_judge_requests, estimate.judge_requests);
    let is_exact = estimate.min_model_requests == estimate.model_requests;
    let about = if is_exact { "about" } else { "up to about" };
    [
        ("trials", trials.to_string()),
        ("units", units.to_string()),
        ("requests", format!("about {model_requests} to models, {judge_requests} to judges")),
        ("tokens", format!("{about} {input_tokens} in, {output_tokens} out")),
    ]
}

fn text(report: &JsonCheck<'_>, globals: &Globals) -> String {
    let list = |items: &[&str]| if items.is_empty() { "none".to_owned() } else { items.join(", ") };
    let mut rows = vec![
        ("benchmark", report.benchmark.to_owned()),
        ("questions", format!("{}: {}", report.questions.len(), list(&report.questions))),
        ("models", list(&report.models)),
        (
            "judges",
            if report.needs_judge() {
                format!("none; needed for {}", term::counted(report.judged, "question"))
            } else {
                list(&report.judges)
            },
        ),
        ("embeddings", report.embedding.clone().unwrap_or_else(|| "off".to_owned())),
        ("replicates", report.replicates.to_string()),
    ];
    rows.extend(report.estimate.iter().flat_map(estimate_rows));
    if globals.is_verbose() {
        rows.push(("stages", report.stages.join(" → ")));
    }
    let width = term::terminal_width().map_or(usize::MAX, usize::from).saturating_sub(KEY_WIDTH);
    let indent = format!("\n{:KEY_WIDTH$}", "");
    let line = |(key, value): (&str, String)| {
        let value = term::wrapped(&term::flat(&value), width.max(KEY_WIDTH)).join(&indent);
        format!("{key:<KEY_WIDTH$}{value}")
    };
    rows.into_iter().map(line).collect::<Vec<_>>().join("\n")
}
