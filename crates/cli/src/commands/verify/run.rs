//! `wharf verify run`: plan a benchmark, run it, and report the results.

mod record;
mod report;
mod resume;

use std::path::Path;
use std::sync::Arc;

use serde_json::json;
use wharf::agent::models::has_price;
use wharf::verify::logged::LoggedModels;
use wharf::verify::recording::Recording;
use wharf::verify::store::StoreLocation;
use wharf::verify::{
    Benchmark, BenchmarkRunner, ModelUnderTest, Plan, PlanInput, RunnerParts, Selection, ServerSet, StoreError,
    ToolSet, ToolSets, VerificationConfig,
};

use super::args::VerifyRun;
use super::settings;
use crate::config::Paths;
use crate::error::{UsageError, usage_error};
use crate::exit::Exit;
use crate::globals::Globals;
use crate::interrupt::finishing;
use crate::models::trust::Trust;
use crate::term;
use crate::verification::engine::{self, PlannedRun, RunOptions, RunSettings};
use crate::verification::key_watch::KeyWatch;
use crate::verification::participants::{Availability, ModelFactory, Participants};
use crate::verification::workbench::{CliWorkbench, DeclaringFiles, Unplannable};
use crate::verification::{benchmark_file, outputs, planning, store};
use report::Finished;
use resume::Wanted;

/// What is printed after the first interruption.
const INTERRUPTED: &str = "interrupted; finishing the trials in flight (press Ctrl-C again to stop now)";

/// Interfaces whose requests cost nothing.
const FREE_INTERFACES: [&str; 3] = ["manual", "ollama", "scripted"];

/// A run before its trials are executed.
struct Prepared {
    planned: PlannedRun,
    config: VerificationConfig,
    benchmark: String,
    store_location: StoreLocation,
    outputs: Vec<outputs::OutputFile>,
    workbench: Arc<CliWorkbench>,
    redactor: wharf::Redactor,
    keys: Arc<KeyWatch>,
}

/// Runs a benchmark. With `logged`, its answers are those of a log.
pub(super) async fn run(globals: &Globals, args: VerifyRun, logged: Option<LoggedModels>) -> Exit {
    finishing(INTERRUPTED, |interruption| async {
        let prepared = match prepare(globals, &args, logged).await {
            Ok(prepared) => prepared,
            Err(Unplannable::Usage(error)) => return term::usage_error(&error),
            Err(Unplannable::Missing(exit)) => return exit,
        };
        if args.submit_only {
            return submitted(globals, &prepared).await;
        }
        let end = prepared.planned.execute(globals, interruption).await;
        prepared.workbench.close().await;
        let Prepared { planned, config, benchmark, store_location, outputs, redactor, keys, .. } = prepared;
        let finished =
            Finished { planned: &planned, config: &config, benchmark, store_location, outputs, redactor, keys };
        let exit = finished.report(globals, &args, end).await;
        let _ = planned.store.close().await;
        exit
    })
    .await
}

/// Reports a run that is left to workers.
async fn submitted(globals: &Globals, prepared: &Prepared) -> Exit {
    let Prepared { planned, store_location, workbench, .. } = prepared;
    workbench.close().await;
    let progress = planned.store.progress(&planned.run).await;
    let _ = planned.store.close().await;
    let progress = match progress {
        Ok(progress) => progress,
        Err(error) => return term::usage_error(&store::failed(&error)),
    };
    if globals.json {
        let report = json!({
            "version": 1, "run": &*planned.run.0, "state": "running", "store": store_location.to_string(),
            "units": progress.units,
        });
        return term::json(&report).await;
    }
    if !globals.quiet {
        term::note(&format!("{} units wait for workers: `wharf verify work --store {store_location}`", progress.units));
    }
    term::out(planned.run.to_string()).await
}

/// What a run is planned from.
struct Parts {
    benchmark: Benchmark,
    config: VerificationConfig,
    participants: Participants,
    tool_sets: ToolSets,
    recording: Option<Arc<Recording>>,
    workbench: Arc<CliWorkbench>,
    logged: Option<LoggedModels>,
}

async fn prepare(globals: &Globals, args: &VerifyRun, logged: Option<LoggedModels>) -> Result<Prepared, Unplannable> {
    let paths = Paths::find(globals)?;
    // Mistakes are reported before anything is started.
    let outputs = outputs::parse(&args.output)?;
    let store_location = store::location(args.store.location.as_deref(), &paths)?;
    let benchmark = benchmark_file::read(&args.benchmark)?;
    let config = settings::merged(&args.settings, &paths)?;
    check_files(args, &config, &outputs, &store_location)?;
    let recording = match &args.replay {
        Some(file) => Some(open_recording(file).await?),
        None => None,
    };
    let trust = Trust::of_flag(args.trust);
    let availability = if recording.is_some() { Availability::Offline } else { Availability::Live };
    let factory = ModelFactory {
        globals,
        config: &config,
        trust,
        availability,
        timeouts: args.timeouts.into(),
        has_servers: has_servers(&benchmark),
    };
    let participants = match &logged {
        Some(logged) => factory.with_models(logged.models.clone()).await?,
        None => factory.participants().await?,
    };
    let recording = recording.map(|recording| Arc::new(recording.with_redactor(participants.redactor.clone())));
    let mut workbench = CliWorkbench::new(globals, &args.allow, &participants.redactor).await?;
    let tool_sets = if let Some(recording) = &recording {
        // A replay starts no server.
        recorded_tool_sets(recording)?
    } else {
        check_parts(&benchmark, &config, &participants, &args.selection.selection())?;
        warn_about_prices(&config, &participants);
        if logged.is_some() {
            // The answers exist already, so no server is started and no command needs approval.
            ToolSets::default()
        } else {
            let files = DeclaringFiles {
                benchmark_file: &args.benchmark,
                benchmark: &benchmark,
                models_file: config.models_file.as_deref().map(Path::new),
                models: &participants.models,
            };
            files.check_approvals(globals, trust).await?;
            workbench.plan(ServerSet::all(&benchmark, &participants.models)).await?
        }
    };
    let workbench = Arc::new(workbench);
    let parts = Parts { benchmark, config, participants, tool_sets, recording, workbench, logged };
    plan(args, &paths, globals.quiet, parts).await
}

/// Checks that no file of the run is written over another one.
fn check_files(
    args: &VerifyRun,
    config: &VerificationConfig,
    outputs: &[outputs::OutputFile],
    store_location: &StoreLocation,
) -> Result<(), UsageError> {
    let mut others: Vec<(&str, &Path)> =
        store::file(store_location).map(|file| ("the store", file)).into_iter().collect();
    others.push(("the benchmark", &args.benchmark));
    others.extend(config.models_file.as_deref().map(|file| ("the model file", Path::new(file))));
    if let Some(record) = &args.record {
        if let Some((what, _)) = others.iter().find(|(_, other)| outputs::is_same(record, other)) {
            let message = format!("--record {}: the file is {what} of this run", record.display());
            return Err(usage_error(message, Some("choose another file")));
        }
        others.push(("the recording", record));
    }
    outputs::check_distinct(outputs, &others)
}

/// Checks before servers start that everything fits together, except for the tools.
fn check_parts(
    benchmark: &Benchmark,
    config: &VerificationConfig,
    participants: &Participants,
    selection: &Selection,
) -> Result<(), UsageError> {
    let sets = ServerSet::all(benchmark, &participants.models);
    let tool_sets = ToolSets(sets.iter().map(|set| (set.key(), ToolSet::default())).collect());
    let evaluation = planning::evaluation(config);
    let input = PlanInput {
        benchmark,
        models: &participants.models,
        judges: &participants.judges,
        replicates: 1,
        evaluation: &evaluation,
        embedding: participants.embedding.as_ref(),
        tool_sets: &tool_sets,
        allow_self_judging: config.allow_self_judging.unwrap_or_default(),
        selection,
    };
    Plan::new(&input).map(drop).map_err(|error| planning::invalid(&error))
}

fn has_servers(benchmark: &Benchmark) -> bool {
    !benchmark.servers.is_empty() || benchmark.questions.iter().any(|question| !question.servers.is_empty())
}

async fn plan(args: &VerifyRun, paths: &Paths, quiet: bool, parts: Parts) -> Result<Prepared, Unplannable> {
    let Parts { benchmark, config, participants, tool_sets, recording, workbench, logged } = parts;
    let config = &config;
    let evaluation = planning::evaluation(config);
    // A log has one answer of each of its models.
    let replicates = if logged.is_some() { 1 } else { planning::replicates(config, &benchmark) };
    let selection = args.selection.selection();
    let plan = Plan::new(&PlanInput {
        benchmark: &benchmark,
        models: &participants.models,
        judges: &participants.judges,
        replicates,
        evaluation: &evaluation,
        embedding: participants.embedding.as_ref(),
        tool_sets: &tool_sets,
        allow_self_judging: config.allow_self_judging.unwrap_or_default(),
        selection: &selection,
    });
    let mut plan = plan.map_err(|error| planning::invalid(&error))?;
    if let Some(logged) = &logged {
        plan.retain(|question, model| logged.has(question, model));
    }
    let run_settings = RunSettings {
        benchmark: &benchmark,
        config,
        evaluation: &evaluation,
        participants: &participants,
        tool_sets: &tool_sets,
        replicates,
        selection: &selection,
        is_replay: recording.is_some(),
        is_shared: recording.is_none() && logged.is_none(),
    };
    let store_location = store::location(args.store.location.as_deref(), paths)?;
    let opened = store::open(&store_location).await?;
    let failed = |error: StoreError| store::failed(&error);
    let settings = run_settings.to_json();
    let wanted = Wanted { benchmark: &benchmark, plan: &plan, settings: &settings };
    let resumed = resume::find(args, &*opened, &wanted).await?;
    if let Some(file) = &args.record {
        record::check_target(file, resumed.as_ref()).await?;
    }
    let run = if let Some(run) = resumed {
        opened.set_plan(&run, Arc::new(plan)).await.map_err(failed)?;
        resume::rerun(args, &*opened, &run).await.map_err(failed)?;
        resume::announce(&*opened, &run, quiet).await.map_err(failed)?;
        run
    } else {
        let id = args.run_id.as_deref().map_or_else(engine::new_id, store::run_id);
        engine::create_as(id, &*opened, &benchmark.name, settings, plan).await.map_err(failed)?
    };
    let name = benchmark.name.clone();
    let redactor = participants.redactor.clone();
    let Participants { models, judges, embedding, .. } = participants;
    let keys = Arc::<KeyWatch>::default();
    let models = models.into_iter().map(|of| ModelUnderTest { model: keys.watched(of.model), ..of }).collect();
    let runner = BenchmarkRunner::new(RunnerParts {
        benchmark,
        models,
        judges,
        evaluation,
        embedding,
        tool_sets,
        workbench: Arc::clone(&workbench) as _,
        redactor: redactor.clone(),
    });
    let runner = runner.map_err(|error| usage_error(error.to_string(), None))?;
    let options = RunOptions::new(config, settings::lease()?, recording);
    let planned = PlannedRun { store: opened, run, runner: Arc::new(runner), options };
    let outputs = outputs::parse(&args.output)?;
    Ok(Prepared {
        planned,
        config: config.clone(),
        benchmark: name,
        store_location,
        outputs,
        workbench,
        redactor,
        keys,
    })
}

/// Warns about models that a limit of the cost does not count.
fn warn_about_prices(config: &VerificationConfig, participants: &Participants) {
    if config.max_cost_usd.is_none() {
        return;
    }
    let models = participants.models.iter().map(|model| (&model.label, &model.settings));
    let judges = participants.judges.iter().map(|judge| (&judge.label, &judge.settings));
    let mut uncounted: Vec<&str> = models
        .chain(judges)
        .filter(|(_, settings)| !FREE_INTERFACES.contains(&settings.interface.as_str()))
        .filter(|(_, settings)| !has_price(&settings.interface, &settings.name))
        .map(|(label, _)| label.as_str())
        .collect();
    uncounted.dedup();
    if !uncounted.is_empty() {
        let message = format!("--max-cost does not count {}: the price is not known", uncounted.join(", "));
        term::warning(&message);
        term::hint("limit them with --max-tokens");
    }
}

async fn open_recording(file: &Path) -> Result<Recording, UsageError> {
    let opened = Recording::open(file).await;
    opened.map_err(|error| usage_error(error.to_string(), Some("record a run with --record FILE")))
}

/// Returns the tools that the recorded run was planned with.
fn recorded_tool_sets(recording: &Recording) -> Result<ToolSets, UsageError> {
    let tool_sets = recording.header().settings.get("tool_sets").cloned().unwrap_or_default();
    serde_json::from_value(tool_sets).map_err(|error| {
        usage_error(format!("the recording has no valid tool sets: {error}"), Some("record the run again"))
    })
}
