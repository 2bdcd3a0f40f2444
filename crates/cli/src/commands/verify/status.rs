//! `wharf verify status`: the runs of a store, or the results of one run.

use serde::Serialize;
use serde_json::json;
use wharf::verify::report::{Summary, summarize};
use wharf::verify::store::{RunActivity, RunState, RunSummary, StoreLocation, WorkerStatus};
use wharf::verify::{RunStore, StoreError};

use super::args::Status;
use crate::config::Paths;
use crate::error::{UsageError, usage_error};
use crate::exit::Exit;
use crate::globals::Globals;
use crate::interrupt::dropped_on_interrupt;
use crate::term;
use crate::verification::{activity_table, failures, statistics_table, store, table};

/// One run with its results.
#[derive(Serialize)]
struct JsonRun<'a> {
    version: u32,
    run: &'a RunSummary,
    activity: &'a RunActivity,
    workers: &'a [WorkerStatus],
    #[serde(flatten)]
    summary: &'a Summary,
}

pub(super) async fn run(globals: &Globals, args: &Status) -> Exit {
    dropped_on_interrupt(async {
        match show(globals, args).await {
            Ok(exit) => exit,
            Err(error) => term::usage_error(&error),
        }
    })
    .await
}

async fn show(globals: &Globals, args: &Status) -> Result<Exit, UsageError> {
    let paths = Paths::find(globals)?;
    let location = store::location(args.store.location.as_deref(), &paths)?;
    if !store::exists(&location) {
        if let Some(run) = &args.run {
            return Err(usage_error(format!("unknown run `{run}`: {location} does not exist"), None));
        }
        // Looking creates nothing.
        if globals.json {
            return Ok(
                term::json(&json!({"version": 1, "store": location.to_string(), "runs": [], "workers": []})).await
            );
        }
        if !globals.quiet {
            term::note(&format!("no runs: {location} does not exist"));
        }
        return Ok(Exit::Done);
    }
    let opened = store::open(&location).await?;
    let shown = match &args.run {
        Some(run) => show_run(globals, &*opened, run).await,
        None => list(globals, &*opened, &location).await,
    };
    shown.map_err(|error| store::failed(&error))
}

async fn show_run(globals: &Globals, opened: &dyn RunStore, run: &str) -> Result<Exit, StoreError> {
    let id = store::run_id(run);
    let (found, _) = opened.run(&id).await?;
    let summary = summarize(opened, &id).await?;
    let activity = opened.activity(&id).await?;
    let mut workers = opened.workers().await?;
    workers.retain(|worker| worker.run.as_ref() == Some(&id));
    if globals.json {
        return Ok(term::json(&JsonRun {
            version: 1,
            run: &found,
            activity: &activity,
            workers: &workers,
            summary: &summary,
        })
        .await);
    }
    let mut tables = vec![term::table(&HEAD, vec![row(&found)])];
    tables.extend(activity_table::of(&found, &activity));
    tables.extend(activity_table::of_workers(&workers));
    if !summary.models.is_empty() {
        tables.push(table::of_summary(&summary));
        tables.push(statistics_table::of(&summary));
    }
    tables.extend(failures::table(globals, opened, &id).await?);
    Ok(term::out(tables.join("\n\n")).await)
}

async fn list(globals: &Globals, opened: &dyn RunStore, location: &StoreLocation) -> Result<Exit, StoreError> {
    let runs = opened.runs().await?;
    let workers = opened.workers().await?;
    if globals.json {
        return Ok(
            term::json(&json!({"version": 1, "store": location.to_string(), "runs": runs, "workers": workers})).await
        );
    }
    if runs.is_empty() {
        if !globals.quiet {
            term::note(&format!("no runs in {location}"));
        }
        return Ok(Exit::Done);
    }
    let mut tables = vec![term::table(&HEAD, runs.iter().map(row).collect())];
    tables.extend(activity_table::of_workers(&workers));
    Ok(term::out(tables.join("\n\n")).await)
}

/// The id of a run begins with the time when it was created.
const HEAD: [&str; 8] = ["run", "benchmark", "state", "done", "passed", "failed", "invalid", "cost"];

fn row(run: &RunSummary) -> Vec<String> {
    let progress = &run.progress;
    vec![
        run.id.to_string(),
        run.benchmark.clone(),
        state(run).to_owned(),
        format!("{}/{}", progress.done, progress.units),
        progress.passed.to_string(),
        progress.failed.to_string(),
        (progress.invalid + progress.indeterminate).to_string(),
        table::cost(progress.usage.cost_usd),
    ]
}

/// Returns the state for people: a run without a worker can be resumed.
fn state(run: &RunSummary) -> &'static str {
    match run.state {
        RunState::Finished => "finished",
        RunState::Stopped => "stopped",
        RunState::Paused => "paused",
        RunState::Canceled => "canceled",
        RunState::Running if run.progress.running > 0 => "running",
        RunState::Running => "interrupted",
    }
}
