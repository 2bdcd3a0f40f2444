//! `wharf verify report`: the results of a run as a file, a page for people by default.

use std::path::PathBuf;

use serde_json::json;
use wharf::verify::store::StoreLocation;
use wharf::verify::{RunId, RunStore};

use super::args::Report;
use crate::config::Paths;
use crate::error::{UsageError, usage_error};
use crate::exit::Exit;
use crate::globals::Globals;
use crate::interrupt::dropped_on_interrupt;
use crate::term;
use crate::verification::{outputs, store};

pub(super) async fn run(globals: &Globals, args: &Report) -> Exit {
    dropped_on_interrupt(async {
        match write(globals, args).await {
            Ok(exit) => exit,
            Err(error) => term::usage_error(&error),
        }
    })
    .await
}

async fn write(globals: &Globals, args: &Report) -> Result<Exit, UsageError> {
    let paths = Paths::find(globals)?;
    let location = store::location(args.store.location.as_deref(), &paths)?;
    if !store::exists(&location) {
        // Reading creates nothing.
        return Err(no_runs(&location));
    }
    let opened = store::open(&location).await?;
    let run = match &args.run {
        Some(run) => store::run_id(run),
        None => latest(&*opened, &location).await?,
    };
    let output = args.output.clone().unwrap_or_else(|| default_file(&run));
    let output = outputs::parse(&[output])?.remove(0);
    // An unknown run is an error before the file exists.
    opened.run(&run).await.map_err(|error| store::failed(&error))?;
    let shown = output.path.display().to_string();
    output.write(&*opened, &run).await.map_err(|error| usage_error(format!("cannot write {shown}: {error}"), None))?;
    if globals.json {
        return Ok(term::json(&json!({"version": 1, "run": run, "output": output.path})).await);
    }
    Ok(term::out(shown).await)
}

async fn latest(opened: &dyn RunStore, location: &StoreLocation) -> Result<RunId, UsageError> {
    let runs = opened.runs().await.map_err(|error| store::failed(&error))?;
    runs.into_iter().next().map(|run| run.id).ok_or_else(|| no_runs(location))
}

fn no_runs(location: &StoreLocation) -> UsageError {
    usage_error(format!("no runs in {location}"), Some("run a benchmark with `wharf verify run BENCHMARK`"))
}

/// Returns the name of the report. The id comes from the store, which may be foreign, so it must not lead elsewhere.
fn default_file(run: &RunId) -> PathBuf {
    let is_safe = |c: &char| c.is_ascii_alphanumeric() || *c == '-' || *c == '_';
    let name: String = run.0.chars().filter(is_safe).take(64).collect();
    PathBuf::from(format!("report-{name}.html"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_id_of_a_run_does_not_lead_to_another_directory() {
        let name = |id: &str| default_file(&RunId(id.into())).display().to_string();
        assert_eq!(name("20261116-184653-7f3a"), "report-20261116-184653-7f3a.html");
        assert_eq!(name("../../etc/x\0"), "report-etcx.html");
        assert_eq!(name(&"a".repeat(500)).len(), "report-.html".len() + 64);
    }
}
