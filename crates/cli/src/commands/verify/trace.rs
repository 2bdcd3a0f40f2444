//! `wharf verify trace`: logs of runs that already happened, evaluated like the answers of a run.

use wharf::verify::logged::{LogErrorKind, LoggedModels, Logs};

use super::args::{SelectionArgs, Trace, VerifyRun};
use super::run::run as run_benchmark;
use crate::error::{UsageError, usage_error};
use crate::exit::Exit;
use crate::globals::Globals;
use crate::models::choose::read_file;
use crate::term;
use crate::verification::benchmark_file;

pub(super) async fn run(globals: &Globals, args: Trace) -> Exit {
    match logged(&args) {
        Ok(logged) => run_benchmark(globals, as_run(args, &logged), Some(logged)).await,
        Err(error) => term::usage_error(&error),
    }
}

fn logged(args: &Trace) -> Result<LoggedModels, UsageError> {
    if !args.settings.model.is_empty() {
        let message = "-m has no effect: the answers are those of the log".to_owned();
        return Err(usage_error(message, Some("run the benchmark with `wharf verify run`")));
    }
    let benchmark = benchmark_file::read(&args.benchmark)?;
    let logs = Logs::parse(&read_file(&args.file)?);
    let models = logs.and_then(|logs| logs.models(&benchmark, args.question.as_deref()));
    models.map_err(|error| {
        let hint = match &error.kind {
            LogErrorKind::NoQuestion => Some("name it with --question ID"),
            LogErrorKind::Several(_) => Some("write `question_id` into every line, and leave out --question"),
            _ => None,
        };
        usage_error(format!("{}: {error}", args.file.display()), hint)
    })
}

/// Returns the run that evaluates the log.
fn as_run(args: Trace, logged: &LoggedModels) -> VerifyRun {
    let only = logged.questions().into_iter().map(ToString::to_string).collect();
    VerifyRun {
        benchmark: args.benchmark,
        selection: SelectionArgs { only, ..SelectionArgs::default() },
        resume: args.resume,
        rerun: Vec::new(),
        output: args.output,
        record: None,
        replay: None,
        store: args.store,
        run_id: None,
        submit_only: false,
        allow: Vec::new(),
        trust: args.trust,
        timeouts: args.timeouts,
        settings: args.settings,
    }
}
