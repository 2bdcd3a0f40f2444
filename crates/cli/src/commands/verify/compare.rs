//! `wharf verify compare`: two runs side by side, and whether a model became worse.

use std::sync::Arc;

use serde::Serialize;
use wharf::verify::RunStore;
use wharf::verify::comparison::{ComparedRun, Comparison, ComparisonError, ComparisonOutcome, SIGNIFICANCE, compare};
use wharf::verify::store::StoreLocation;

use super::args::Compare;
use crate::config::Paths;
use crate::error::{UsageError, usage_error};
use crate::exit::Exit;
use crate::globals::Globals;
use crate::interrupt::dropped_on_interrupt;
use crate::term;
use crate::verification::{comparison_table, store};

/// The layout of `--json`.
#[derive(Serialize)]
struct JsonComparison<'a> {
    version: u32,
    ok: bool,
    significance: f64,
    #[serde(flatten)]
    comparison: &'a Comparison,
}

pub(super) async fn run(globals: &Globals, args: &Compare) -> Exit {
    dropped_on_interrupt(async {
        match show(globals, args).await {
            Ok(exit) => exit,
            Err(error) => term::usage_error(&error),
        }
    })
    .await
}

async fn show(globals: &Globals, args: &Compare) -> Result<Exit, UsageError> {
    let paths = Paths::find(globals)?;
    let location_a = store::location(args.store.location.as_deref(), &paths)?;
    let location_b = match &args.store_b {
        Some(given) => store::parse("--store-b", given)?,
        None => location_a.clone(),
    };
    let store_a = open(&location_a).await?;
    let store_b = if location_b == location_a { Arc::clone(&store_a) } else { open(&location_b).await? };
    let (run_a, run_b) = (store::run_id(&args.a), store::run_id(&args.b));
    let a = ComparedRun { store: &*store_a, run: &run_a, model: args.model_a.as_deref() };
    let b = ComparedRun { store: &*store_b, run: &run_b, model: args.model_b.as_deref() };
    let comparison = compare(a, b).await.map_err(|error| failed(&error))?;
    refuse_differences(&comparison, args)?;
    let exit = exit(&comparison);
    let shown = if globals.json {
        let ok = exit == Exit::Done;
        term::json(&JsonComparison { version: 1, ok, significance: SIGNIFICANCE, comparison: &comparison }).await
    } else {
        term::out(comparison_table::of(&comparison, globals.is_verbose())).await
    };
    Ok(exit.max(shown))
}

/// Opens a store that exists: reading creates nothing.
async fn open(location: &StoreLocation) -> Result<Arc<dyn RunStore>, UsageError> {
    if !store::exists(location) {
        let message = format!("no runs: {location} does not exist");
        return Err(usage_error(message, Some("choose another file with --store FILE or --store-b FILE")));
    }
    store::open(location).await
}

fn failed(error: &ComparisonError) -> UsageError {
    match error {
        ComparisonError::Store(error) => store::failed(error),
        ComparisonError::UnknownModel { known, .. } => {
            usage_error(error.to_string(), Some(&format!("its models are {}", known.join(", "))))
        }
        ComparisonError::NoCommonModel { a, b } => {
            let hint =
                format!("A has {}, B has {}; choose them with --model-a and --model-b", a.join(", "), b.join(", "));
            usage_error(error.to_string(), Some(&hint))
        }
    }
}

/// Numbers of different questions, judges or tools mean nothing side by side, unless the user wants exactly that.
fn refuse_differences(comparison: &Comparison, args: &Compare) -> Result<(), UsageError> {
    let differences: Vec<String> = comparison.differences.iter().map(ToString::to_string).collect();
    if args.allow_different {
        for difference in &differences {
            term::warning(difference);
        }
        return Ok(());
    }
    if differences.is_empty() {
        return Ok(());
    }
    let message = format!("the runs are not comparable: {}", differences.join("; "));
    Err(usage_error(message, Some("compare them anyway with --allow-different")))
}

/// Decides the exit code, and reports what is wrong.
fn exit(comparison: &Comparison) -> Exit {
    let mut exit = Exit::Done;
    for model in &comparison.models {
        let message = match model.outcome {
            ComparisonOutcome::Regression => format!("{} became significantly worse", model.model_b),
            ComparisonOutcome::NothingCompared => {
                format!("{} has no question with a score in both runs", model.model_b)
            }
            ComparisonOutcome::Improvement | ComparisonOutcome::NotSignificant => continue,
        };
        term::error(&message, &[], None);
        exit = Exit::Failed;
    }
    exit
}
