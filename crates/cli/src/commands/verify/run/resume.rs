//! Which run is resumed, and what of it runs again.

use std::collections::{BTreeSet, HashSet};

use serde_json::Value;
use wharf::verify::store::Rerun;
use wharf::verify::{Benchmark, Plan, QuestionId, RunId, RunStore, StoreError, Trial, Verdict};

use super::super::args::{RerunArg, VerifyRun};
use crate::error::{UsageError, usage_error};
use crate::term;
use crate::verification::store;

/// How many trials of a stored plan are read at once.
const PAGE: u32 = 1_000;

/// What the command line asks for.
pub(super) struct Wanted<'a> {
    pub(super) benchmark: &'a Benchmark,
    pub(super) plan: &'a Plan,
    /// The settings, as a run stores them.
    pub(super) settings: &'a Value,
}

/// Returns the run to resume, if one is: the named one, or the latest one that asks the same.
pub(super) async fn find(
    args: &VerifyRun,
    store: &dyn RunStore,
    wanted: &Wanted<'_>,
) -> Result<Option<RunId>, UsageError> {
    match args.resume.as_deref() {
        None if args.rerun.is_empty() => Ok(None),
        Some(id) if !id.is_empty() => named(id, store, wanted).await.map(Some),
        _ => latest(store, wanted).await.map(Some),
    }
}

/// Makes units run again: those that the user names, and those whose provider failed.
pub(super) async fn rerun(args: &VerifyRun, store: &dyn RunStore, run: &RunId) -> Result<(), StoreError> {
    store.rerun(run, &Rerun::ProviderFailures).await?;
    for which in &args.rerun {
        let verdict = match which {
            RerunArg::Failed => Verdict::Failed,
            RerunArg::Invalid => Verdict::Invalid,
            RerunArg::Indeterminate => Verdict::Indeterminate,
        };
        store.rerun(run, &Rerun::Verdict(verdict)).await?;
    }
    Ok(())
}

/// Says which run continues, and what it may have to wait for.
pub(super) async fn announce(store: &dyn RunStore, run: &RunId, quiet: bool) -> Result<(), StoreError> {
    if quiet {
        return Ok(());
    }
    let progress = store.progress(run).await?;
    term::note(&format!("resuming run {run}: {} of {} units on record", progress.done, progress.units));
    if progress.running > 0 {
        let trials = term::counted(usize::try_from(progress.running).unwrap_or(usize::MAX), "trial");
        term::note(&format!(
            "another process has begun {trials}; if it was killed, they are free when its lease ends, within a minute"
        ));
    }
    Ok(())
}

/// Returns the latest run of the benchmark with the same questions, models, judges and number of replicates.
async fn latest(store: &dyn RunStore, wanted: &Wanted<'_>) -> Result<RunId, UsageError> {
    let failed = |error: StoreError| store::failed(&error);
    let name = &wanted.benchmark.name;
    let mut other = None;
    for run in store.runs().await.map_err(failed)?.into_iter().filter(|run| run.benchmark == *name) {
        let (_, settings) = store.run(&run.id).await.map_err(failed)?;
        if is_replay(&settings) {
            continue;
        }
        if asks_the_same(&settings, wanted.settings) {
            return Ok(run.id);
        }
        other.get_or_insert(run.id);
    }
    Err(match other {
        None => usage_error(format!("no run of benchmark `{name}` in the store"), Some("start one without --resume")),
        Some(other) => {
            let message = format!("no run of benchmark `{name}` has these questions, models, judges and replicates");
            let hint = format!("start one without --resume, or continue the latest one with `--resume {other}`");
            usage_error(message, Some(&hint))
        }
    })
}

/// Returns a named run, unless the command line leaves out a part of it: that part would no longer be shown.
async fn named(id: &str, store: &dyn RunStore, wanted: &Wanted<'_>) -> Result<RunId, UsageError> {
    let failed = |error: StoreError| store::failed(&error);
    let (summary, settings) = store.run(&store::run_id(id)).await.map_err(failed)?;
    let run = summary.id;
    if is_replay(&settings) {
        return Err(usage_error(format!("run `{run}` is a replay"), Some("resume the run that was recorded")));
    }
    if summary.benchmark != wanted.benchmark.name {
        let message = format!(
            "run `{run}` is of benchmark `{}`, and the file has benchmark `{}`",
            summary.benchmark, wanted.benchmark.name
        );
        return Err(usage_error(message, Some("list the runs with `wharf verify status`")));
    }
    let parts = PlannedParts::new(wanted.plan);
    let mut skip = 0;
    loop {
        let page = store.trials(&run, skip, PAGE).await.map_err(failed)?;
        for trial in &page {
            // A question that was removed from the file is left out on purpose.
            let is_asked = wanted.benchmark.questions.iter().any(|question| question.id == trial.question);
            if is_asked && !parts.contain(trial) {
                let message = format!(
                    "run `{run}` has more than this command line: question `{}` with model `{}` is left out",
                    trial.question, trial.model
                );
                let hint = "name all its questions, models and judges, or start a new run without --resume";
                return Err(usage_error(message, Some(hint)));
            }
        }
        if page.len() < PAGE as usize {
            return Ok(run);
        }
        skip += u64::from(PAGE);
    }
}

fn is_replay(settings: &Value) -> bool {
    settings["is_replay"] == true
}

/// Whether the settings of two runs select the same questions, models, judges and replicates.
fn asks_the_same(stored: &Value, wanted: &Value) -> bool {
    let labels = |settings: &Value, key: &str| -> Vec<Value> {
        settings[key].as_array().into_iter().flatten().map(|of| of["label"].clone()).collect()
    };
    ["selection", "replicates"].iter().all(|key| stored[*key] == wanted[*key])
        && ["models", "judges"].iter().all(|key| labels(stored, key) == labels(wanted, key))
}

/// The parts of a plan, whatever the ids that its contents have now.
struct PlannedParts<'a> {
    answers: HashSet<(&'a QuestionId, &'a str)>,
    replicates: u32,
    judges: BTreeSet<&'a str>,
}

impl<'a> PlannedParts<'a> {
    fn new(plan: &'a Plan) -> Self {
        Self { answers: plan.answers().collect(), replicates: plan.replicates(), judges: plan.judges() }
    }

    fn contain(&self, trial: &Trial) -> bool {
        let mut judges = trial.units.iter().filter_map(|unit| unit.judge.as_deref());
        self.answers.contains(&(&trial.question, &trial.model))
            && trial.replicate <= self.replicates
            && judges.all(|judge| self.judges.contains(judge))
    }
}
