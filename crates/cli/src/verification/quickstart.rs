//! The quickstart benchmark, which is part of the binary: a dozen questions over the demo server with scripted models.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use tokio::sync::watch;
use wharf::agent::{Model, Scripted};
use wharf::verify::report::{NotPassed, Summary, not_passed, summarize};
use wharf::verify::store::{Recovery, SqliteStore};
use wharf::verify::worker::WorkerEnd;
use wharf::verify::{
    BenchmarkRunner, Budget, EvaluationOptions, Judge, ModelSettings, ModelUnderTest, Plan, PlanInput, RunStore,
    RunnerParts, Selection, ServerSet, VerificationConfig, digest,
};
use wharf::{Redactor, create_private_folder};

use super::engine::{self, PlannedRun, RunOptions, RunSettings};
use super::participants::Participants;
use super::workbench::{CliWorkbench, Unplannable};
use super::{benchmark_file, planning, store};
use crate::error::{UsageError, usage_error};
use crate::globals::Globals;
use crate::interrupt::Interruption;

/// The benchmark file.
const BENCHMARK: &str = include_str!("../../../../examples/benchmarks/quickstart/benchmark.yaml");
/// The answering models with their scripts.
const MODELS: [(&str, &str); 2] = [
    ("careful", include_str!("../../../../examples/benchmarks/quickstart/careful.yaml")),
    ("hasty", include_str!("../../../../examples/benchmarks/quickstart/hasty.yaml")),
];
/// The script of the judge.
const JUDGE: &str = include_str!("../../../../examples/benchmarks/quickstart/judge.yaml");
/// How many units that did not pass are shown.
const SHOWN: usize = 20;

/// The results of the quickstart.
pub(crate) struct Quickstart {
    pub(crate) summary: Summary,
    pub(crate) not_passed: NotPassed,
    /// Whether every unit has a verdict that is scored.
    pub(crate) ok: bool,
}

/// Runs the quickstart in a temporary store. An interruption drops it.
pub(crate) async fn run(globals: &Globals) -> Result<Quickstart, UsageError> {
    let folder = std::env::temp_dir().join(format!("wharf-quickstart-{}", std::process::id()));
    create_private_folder(&folder)
        .map_err(|error| usage_error(format!("cannot create {}: {error}", folder.display()), None))?;
    let ran = run_in(globals, &folder).await;
    let _ = std::fs::remove_dir_all(&folder);
    ran
}

async fn run_in(globals: &Globals, folder: &Path) -> Result<Quickstart, UsageError> {
    let benchmark = benchmark_file::parse(BENCHMARK, Path::new("quickstart.yaml"))?;
    let participants = participants()?;
    // The demo shows servers of `--mcp` elsewhere.
    let globals = &Globals { mcp: Vec::new(), header: Vec::new(), quiet: true, ..globals.clone() };
    let mut workbench = CliWorkbench::new(globals, &[], &participants.redactor).await?;
    let tool_sets = workbench.plan(ServerSet::all(&benchmark, &participants.models)).await.map_err(unplannable)?;
    let evaluation = EvaluationOptions::default();
    let plan = Plan::new(&PlanInput {
        benchmark: &benchmark,
        models: &participants.models,
        judges: &participants.judges,
        replicates: 1,
        evaluation: &evaluation,
        embedding: None,
        tool_sets: &tool_sets,
        allow_self_judging: false,
        selection: &Selection::default(),
    })
    .map_err(|error| planning::invalid(&error))?;
    let config = VerificationConfig::default();
    let settings = RunSettings {
        benchmark: &benchmark,
        config: &config,
        evaluation: &evaluation,
        participants: &participants,
        tool_sets: &tool_sets,
        replicates: 1,
        selection: &Selection::default(),
        is_replay: false,
        is_shared: false,
    };
    let settings = settings.to_json();
    let failed = |error| store::failed(&error);
    let opened: Arc<dyn RunStore> = Arc::new(SqliteStore::open(&folder.join("runs.db")).await.map_err(failed)?);
    let run = engine::create(&*opened, &benchmark.name, settings, plan).await.map_err(failed)?;
    let workbench = Arc::new(workbench);
    let Participants { models, judges, redactor, .. } = participants;
    let runner = BenchmarkRunner::new(RunnerParts {
        benchmark,
        models,
        judges,
        evaluation,
        embedding: None,
        tool_sets,
        workbench: Arc::clone(&workbench) as _,
        redactor,
    });
    let runner = Arc::new(runner.map_err(|error| usage_error(error.to_string(), None))?);
    let options = RunOptions {
        concurrency: VerificationConfig::DEFAULT_CONCURRENCY as usize,
        recovery: Recovery::default(),
        budget: Budget::default(),
        rate_limits: BTreeMap::new(),
        lease: engine::DEFAULT_LEASE,
        recording: None,
    };
    let planned = PlannedRun { store: Arc::clone(&opened), run, runner, options };
    let (_, never) = watch::channel(Interruption::None);
    let report = planned.execute(globals, never).await.map_err(failed)?;
    workbench.close().await;
    let summary = summarize(&*opened, &planned.run).await.map_err(failed)?;
    let not_passed = not_passed(&*opened, &planned.run, SHOWN).await.map_err(failed)?;
    let _ = opened.close().await;
    let is_scored = summary.models.iter().all(|model| model.invalid == 0 && model.indeterminate == 0);
    Ok(Quickstart { ok: report.end == WorkerEnd::Finished && is_scored, summary, not_passed })
}

fn participants() -> Result<Participants, UsageError> {
    let mut models = Vec::new();
    for (label, script) in MODELS {
        let (model, settings) = scripted(label, script)?;
        models.push(ModelUnderTest { label: label.to_owned(), model, settings, concurrency: None });
    }
    let (model, settings) = scripted("judge", JUDGE)?;
    let judges = vec![Judge { label: "judge".to_owned(), model, settings, concurrency: None }];
    Ok(Participants { models, judges, embedding: None, redactor: Redactor::default() })
}

fn scripted(name: &str, script: &str) -> Result<(Arc<dyn Model>, ModelSettings), UsageError> {
    let model = Scripted::parse(name, script).map_err(|reason| usage_error(format!("{name}: {reason}"), None))?;
    let settings = ModelSettings { file_digest: Some(digest(&script)), ..ModelSettings::new("scripted", name) };
    Ok((Arc::new(model), settings))
}

fn unplannable(reason: Unplannable) -> UsageError {
    match reason {
        Unplannable::Usage(error) => error,
        Unplannable::Missing(_) => usage_error("the demo server does not start".to_owned(), None),
    }
}
