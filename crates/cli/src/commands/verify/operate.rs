//! `wharf verify pause`, `resume`, `cancel`, `priority`, `delete` and `vacuum`: operating runs from any machine.

use std::sync::Arc;

use serde_json::{Value, json};
use wharf::verify::store::RunState;
use wharf::verify::{RunId, RunStore};

use super::args::{PriorityArgs, RunArgs, StoreArgs, VacuumArgs};
use crate::config::Paths;
use crate::error::{UsageError, usage_error};
use crate::exit::Exit;
use crate::globals::Globals;
use crate::interrupt::dropped_on_interrupt;
use crate::term;
use crate::verification::store;

const DAY_SECONDS: i64 = 24 * 60 * 60;

pub(super) async fn pause(globals: &Globals, args: &RunArgs) -> Exit {
    set_state(globals, args, RunState::Paused).await
}

pub(super) async fn resume(globals: &Globals, args: &RunArgs) -> Exit {
    set_state(globals, args, RunState::Running).await
}

pub(super) async fn cancel(globals: &Globals, args: &RunArgs) -> Exit {
    set_state(globals, args, RunState::Canceled).await
}

pub(super) async fn priority(globals: &Globals, args: &PriorityArgs) -> Exit {
    done(globals, async {
        let (opened, id) = (open(globals, &args.store).await?, store::run_id(&args.run));
        opened.set_priority(&id, args.priority).await.map_err(|error| store::failed(&error))?;
        let report = json!({"version": 1, "run": args.run, "priority": args.priority});
        Ok((report, format!("run {id} has priority {}", args.priority)))
    })
    .await
}

pub(super) async fn delete(globals: &Globals, args: &RunArgs) -> Exit {
    done(globals, async {
        let (opened, id) = (open(globals, &args.store).await?, store::run_id(&args.run));
        let progress = opened.progress(&id).await.map_err(|error| store::failed(&error))?;
        if progress.running > 0 {
            let message = format!("workers have {} trials of run `{id}`", progress.running);
            let hint = format!("cancel it first: `wharf verify cancel {id}`");
            return Err(usage_error(message, Some(&hint)));
        }
        opened.delete_run(&id).await.map_err(|error| store::failed(&error))?;
        let contents = opened.delete_unreferenced().await.map_err(|error| store::failed(&error))?;
        let report = json!({"version": 1, "deleted": [args.run], "contents": contents});
        Ok((report, format!("deleted run {id} and {}", counted(contents))))
    })
    .await
}

pub(super) async fn vacuum(globals: &Globals, args: &VacuumArgs) -> Exit {
    done(globals, async {
        let opened = open(globals, &args.store).await?;
        let mut deleted = Vec::new();
        for run in old_runs(&*opened, args.older_than).await? {
            opened.delete_run(&run).await.map_err(|error| store::failed(&error))?;
            deleted.push(run.to_string());
        }
        let contents = opened.delete_unreferenced().await.map_err(|error| store::failed(&error))?;
        let text = format!("deleted {} and {}", term::counted(deleted.len(), "run"), counted(contents));
        Ok((json!({"version": 1, "deleted": deleted, "contents": contents}), text))
    })
    .await
}

/// Returns the runs that are older than a number of days, and that no worker is running.
async fn old_runs(opened: &dyn RunStore, days: Option<u32>) -> Result<Vec<RunId>, UsageError> {
    let Some(days) = days else { return Ok(Vec::new()) };
    let oldest = chrono::Utc::now().timestamp() - i64::from(days) * DAY_SECONDS;
    let runs = opened.runs().await.map_err(|error| store::failed(&error))?;
    let is_old = |run: &wharf::verify::store::RunSummary| run.created < oldest && run.progress.running == 0;
    Ok(runs.into_iter().filter(is_old).map(|run| run.id).collect())
}

async fn set_state(globals: &Globals, args: &RunArgs, state: RunState) -> Exit {
    done(globals, async {
        let (opened, id) = (open(globals, &args.store).await?, store::run_id(&args.run));
        let before = opened.state(&id).await.map_err(|error| store::failed(&error))?;
        if before == RunState::Finished {
            return Err(usage_error(format!("run `{id}` is finished"), None));
        }
        opened.set_state(&id, state).await.map_err(|error| store::failed(&error))?;
        let text = match state {
            RunState::Paused => "is paused: workers finish the trials in flight",
            RunState::Canceled => "is canceled: workers drop the trials in flight",
            RunState::Running | RunState::Stopped | RunState::Finished => "is running: workers claim its trials",
        };
        Ok((json!({"version": 1, "run": args.run, "state": state}), format!("run {id} {text}")))
    })
    .await
}

async fn open(globals: &Globals, args: &StoreArgs) -> Result<Arc<dyn RunStore>, UsageError> {
    let location = store::location(args.location.as_deref(), &Paths::find(globals)?)?;
    if !store::exists(&location) {
        return Err(usage_error(format!("{location} does not exist"), Some("choose the store with --store")));
    }
    Box::pin(store::open(&location)).await
}

/// Does something with a store, and prints what was done.
async fn done(globals: &Globals, work: impl Future<Output = Result<(Value, String), UsageError>>) -> Exit {
    dropped_on_interrupt(async {
        match work.await {
            Ok((report, _)) if globals.json => term::json(&report).await,
            Ok((_, text)) => {
                if !globals.quiet {
                    term::note(&text);
                }
                Exit::Done
            }
            Err(error) => term::usage_error(&error),
        }
    })
    .await
}

fn counted(contents: u64) -> String {
    term::counted(usize::try_from(contents).unwrap_or(usize::MAX), "stored content")
}
