//! `wharf verify judge-check`: score judges against labels that people gave.

use std::path::Path;
use std::sync::Arc;

use serde::Serialize;
use wharf::config::{Problem, Severity};
use wharf::verify::judge_check::{JudgeCheck, JudgeScore, Labels};
use wharf::verify::store::RunState;
use wharf::verify::worker::{WorkerEnd, WorkerReport};
use wharf::verify::{
    Benchmark, BenchmarkRunner, Mode, Plan, PlanInput, RunId, RunStore, RunnerParts, Selection, StoreError, ToolSets,
    VerificationConfig, digest,
};

use super::args::JudgeCheckArgs;
use super::settings;
use crate::config::Paths;
use crate::error::{UsageError, usage_error};
use crate::exit::Exit;
use crate::globals::Globals;
use crate::interrupt::finishing;
use crate::models::choose::read_file;
use crate::models::trust::Trust;
use crate::term;
use crate::verification::engine::{self, PlannedRun, RunOptions, RunSettings};
use crate::verification::participants::{Availability, ModelFactory, Participants};
use crate::verification::table::{nothing, percent};
use crate::verification::workbench::CliWorkbench;
use crate::verification::{benchmark_file, planning, store};

/// What is printed after the first interruption.
const INTERRUPTED: &str = "interrupted; finishing the requests in flight (press Ctrl-C again to stop now)";

/// The layout of `--json`.
#[derive(Serialize)]
struct JsonJudgeCheck<'a> {
    version: u32,
    run: &'a str,
    benchmark: &'a str,
    labels: usize,
    ok: bool,
    judges: &'a [JudgeScore],
}

/// A check before its answers are judged.
struct Prepared {
    planned: PlannedRun,
    check: JudgeCheck,
    benchmark: String,
    workbench: Arc<CliWorkbench>,
}

pub(super) async fn run(globals: &Globals, args: JudgeCheckArgs) -> Exit {
    finishing(INTERRUPTED, |interruption| async {
        let prepared = match prepare(globals, &args).await {
            Ok(prepared) => prepared,
            Err(error) => return term::usage_error(&error),
        };
        let report = prepared.planned.execute(globals, interruption).await;
        prepared.workbench.close().await;
        let exit = match finish(globals, &prepared, report).await {
            Ok(exit) => exit,
            Err(error) => term::usage_error(&store::failed(&error)),
        };
        let _ = prepared.planned.store.close().await;
        exit
    })
    .await
}

async fn prepare(globals: &Globals, args: &JudgeCheckArgs) -> Result<Prepared, UsageError> {
    let paths = Paths::find(globals)?;
    let benchmark = benchmark_file::read(&args.benchmark)?;
    let text = read_file(&args.labels)?;
    let labels = read_labels(&text, &args.labels, &benchmark)?;
    let mut config = settings::merged(&args.settings, &paths)?;
    if !args.settings.model.is_empty() {
        let hint = "the answers are those of the file of labels";
        return Err(usage_error("judge-check has no answering model".to_owned(), Some(hint)));
    }
    if config.judges.is_none() {
        return Err(usage_error("no judge to check".to_owned(), Some("choose one with --judge MODEL")));
    }
    // Only judges are asked.
    config.models = Some(Vec::new());
    let factory = ModelFactory {
        globals,
        config: &config,
        trust: Trust::of_flag(args.trust),
        availability: Availability::Live,
        timeouts: args.timeouts.into(),
        has_servers: false,
    };
    let mut participants = factory.participants().await?;
    let check = JudgeCheck::new(&benchmark, labels);
    participants.models = check.models().to_vec();
    plan(globals, args, &paths, Parts { check, config, participants, labels: digest(&text), name: benchmark.name })
        .await
}

/// What a check is planned from.
struct Parts {
    check: JudgeCheck,
    config: VerificationConfig,
    participants: Participants,
    /// Digest of the file of labels.
    labels: String,
    /// Name of the benchmark.
    name: String,
}

async fn plan(globals: &Globals, args: &JudgeCheckArgs, paths: &Paths, parts: Parts) -> Result<Prepared, UsageError> {
    let Parts { check, config, participants, labels, name } = parts;
    // The label of a person is about the answer, and so is the template.
    let evaluation = wharf::verify::EvaluationOptions { mode: Mode::TemplateOnly, ..planning::evaluation(&config) };
    let tool_sets = ToolSets::default();
    let replicates = config.replicates.unwrap_or(1);
    let mut plan = Plan::new(&PlanInput {
        benchmark: check.benchmark(),
        models: check.models(),
        judges: &participants.judges,
        replicates,
        evaluation: &evaluation,
        embedding: participants.embedding.as_ref(),
        tool_sets: &tool_sets,
        allow_self_judging: true,
        selection: &Selection::default(),
    })
    .map_err(|error| planning::invalid(&error))?;
    check.limit(&mut plan);
    let run_settings = RunSettings {
        benchmark: check.benchmark(),
        config: &config,
        evaluation: &evaluation,
        participants: &participants,
        tool_sets: &tool_sets,
        replicates,
        selection: &Selection::default(),
        is_replay: false,
        is_shared: false,
    };
    let mut run_settings = run_settings.to_json();
    run_settings["labels"] = labels.into();
    let opened = store::open(&store::location(args.store.location.as_deref(), paths)?).await?;
    let failed = |error: StoreError| store::failed(&error);
    let stored_name = format!("judge-check {name}");
    let unfinished = unfinished_run(&*opened, &stored_name, &run_settings).await.map_err(failed)?;
    let run = match unfinished {
        Some(run) => {
            opened.set_plan(&run, Arc::new(plan)).await.map_err(failed)?;
            run
        }
        None => engine::create(&*opened, &stored_name, run_settings, plan).await.map_err(failed)?,
    };
    let workbench = Arc::new(CliWorkbench::new(globals, &[], &participants.redactor).await?);
    let Participants { models, judges, embedding, redactor } = participants;
    let runner = BenchmarkRunner::new(RunnerParts {
        benchmark: check.benchmark().clone(),
        models,
        judges,
        evaluation,
        embedding,
        tool_sets,
        workbench: Arc::clone(&workbench) as _,
        redactor,
    });
    let runner = Arc::new(runner.map_err(|error| usage_error(error.to_string(), None))?);
    let options = RunOptions::new(&config, settings::lease()?, None);
    let planned = PlannedRun { store: opened, run, runner, options };
    Ok(Prepared { planned, check, benchmark: name, workbench })
}

/// Returns a check of the same labels with the same settings that was interrupted. Nothing on record is paid again.
async fn unfinished_run(
    store: &dyn RunStore,
    name: &str,
    settings: &serde_json::Value,
) -> Result<Option<RunId>, StoreError> {
    for run in store.runs().await? {
        if run.benchmark == name && run.state != RunState::Finished && store.run(&run.id).await?.1 == *settings {
            return Ok(Some(run.id));
        }
    }
    Ok(None)
}

fn read_labels(text: &str, file: &Path, benchmark: &Benchmark) -> Result<Labels, UsageError> {
    let extension = file.extension().and_then(std::ffi::OsStr::to_str).unwrap_or_default();
    let has_lines = ["jsonl", "ndjson"].iter().any(|known| extension.eq_ignore_ascii_case(known));
    Labels::parse(text, has_lines, benchmark).map_err(|invalid| {
        let problem = Problem::of_file(Severity::Error, file, &invalid.message);
        let line = invalid.line.unwrap_or_default();
        term::problem(&Problem { line, hint: invalid.hint.clone(), ..problem });
        usage_error(format!("{} is not a valid file of labels", file.display()), None)
    })
}

async fn finish(
    globals: &Globals,
    prepared: &Prepared,
    report: Result<WorkerReport, StoreError>,
) -> Result<Exit, StoreError> {
    let Prepared { planned, check, benchmark, .. } = prepared;
    let end = report?.end;
    let scores = check.score(&*planned.store, &planned.run).await?;
    let has_all = scores.iter().all(|score| score.unscored == 0);
    let mut exit = match end {
        WorkerEnd::Finished if has_all => Exit::Done,
        WorkerEnd::Finished | WorkerEnd::Unfinished => Exit::Failed,
        WorkerEnd::Stopped | WorkerEnd::Paused | WorkerEnd::Canceled | WorkerEnd::Idle => Exit::Interrupted,
        WorkerEnd::Store(error) => return Err(error),
        WorkerEnd::Budget(exceeded) => {
            let hint = "raise it, and run the same command again: nothing on record is paid again";
            term::error(&exceeded.to_string(), &[], Some(hint));
            Exit::Failed
        }
    };
    if globals.json {
        let report = JsonJudgeCheck {
            version: 1,
            run: &planned.run.0,
            benchmark,
            labels: check.labels(),
            ok: exit == Exit::Done,
            judges: &scores,
        };
        exit = exit.max(term::json(&report).await);
    } else if !scores.is_empty() {
        exit = exit.max(term::out(table(&scores)).await);
    }
    Ok(exit)
}

fn table(scores: &[JudgeScore]) -> String {
    let row = |score: &JudgeScore| {
        let interval = score.interval.map(|of| format!("{} – {}", percent(of.low), percent(of.high)));
        let fields = score.fields.map(|fields| format!("{}/{}", fields.same, fields.compared));
        let confusion = score.confusion;
        vec![
            score.judge.clone(),
            score.scored.to_string(),
            score.unscored.to_string(),
            score.accuracy.map_or_else(nothing, percent),
            interval.unwrap_or_else(nothing),
            score.kappa.map_or_else(nothing, |kappa| format!("{kappa:.2}")),
            confusion.rightly_passed.to_string(),
            confusion.wrongly_passed.to_string(),
            confusion.rightly_failed.to_string(),
            confusion.wrongly_failed.to_string(),
            fields.unwrap_or_else(nothing),
        ]
    };
    let head = [
        "judge",
        "scored",
        "unscored",
        "accuracy",
        "95 % interval",
        "kappa",
        "rightly passed",
        "wrongly passed",
        "rightly failed",
        "wrongly failed",
        "fields",
    ];
    term::table(&head, scores.iter().map(row).collect())
}
