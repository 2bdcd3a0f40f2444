//! The end of a run: the table, the files, how to resume, and the exit code.

use std::path::PathBuf;
use std::sync::Arc;

use serde::Serialize;
use wharf::Redactor;
use wharf::verify::recording::write_recording;
use wharf::verify::report::{Summary, summarize};
use wharf::verify::store::StoreLocation;
use wharf::verify::worker::{UnfinishedTrial, WorkerEnd, WorkerReport};
use wharf::verify::{BudgetExceeded, StoreError, VerificationConfig};

use super::super::args::VerifyRun;
use crate::exit::Exit;
use crate::globals::Globals;
use crate::term;
use crate::verification::engine::PlannedRun;
use crate::verification::key_watch::KeyWatch;
use crate::verification::outputs::OutputFile;
use crate::verification::{failures, statistics_table, store, table};

/// A run after its trials were executed.
pub(super) struct Finished<'a> {
    pub(super) planned: &'a PlannedRun,
    pub(super) config: &'a VerificationConfig,
    pub(super) benchmark: String,
    pub(super) store_location: StoreLocation,
    pub(super) outputs: Vec<OutputFile>,
    pub(super) redactor: Redactor,
    pub(super) keys: Arc<KeyWatch>,
}

/// The layout of `--json`.
#[derive(Serialize)]
struct JsonReport<'a> {
    version: u32,
    run: &'a str,
    benchmark: &'a str,
    state: &'static str,
    ok: bool,
    store: String,
    #[serde(flatten)]
    summary: &'a Summary,
    outputs: Vec<&'a PathBuf>,
    #[serde(skip_serializing_if = "Option::is_none")]
    recording: Option<&'a PathBuf>,
    #[serde(skip_serializing_if = "Option::is_none")]
    resume: Option<&'a str>,
}

impl Finished<'_> {
    /// Prints the results, writes the files, and returns the exit code.
    pub(super) async fn report(
        &self,
        globals: &Globals,
        args: &VerifyRun,
        report: Result<WorkerReport, StoreError>,
    ) -> Exit {
        let (end, unfinished) = match report {
            Ok(report) => (report.end, report.unfinished),
            Err(error) => (WorkerEnd::Store(error), Vec::new()),
        };
        let store = &*self.planned.store;
        let summary = match summarize(store, &self.planned.run).await {
            Ok(summary) => summary,
            Err(error) => {
                term::error(&error.to_string(), &[], None);
                return Exit::Failed;
            }
        };
        report_unfinished(&unfinished);
        let mut exit = self.exit(&end, &summary);
        let written = self.write_files(args).await;
        exit = exit.max(written.exit);
        // A replay continues nothing: it is started again.
        let can_resume = end != WorkerEnd::Finished && args.replay.is_none();
        let resume = can_resume.then(|| resume_command(&self.planned.run.to_string()));
        if globals.json {
            let report = JsonReport {
                version: 1,
                run: &self.planned.run.0,
                benchmark: &self.benchmark,
                state: state_name(&end),
                ok: exit == Exit::Done,
                store: self.store_location.to_string(),
                summary: &summary,
                outputs: written.outputs.clone(),
                recording: written.recording,
                resume: resume.as_deref(),
            };
            exit = exit.max(term::redacted_json(&report, &self.redactor).await);
        } else {
            exit = exit.max(self.print(globals, &summary).await);
        }
        if !globals.quiet {
            let files = written.outputs.iter().copied().chain(written.recording);
            files.for_each(|file| term::note(&format!("wrote {}", file.display())));
            term::note(&format!("run {} is stored in {}", self.planned.run, self.store_location));
            if let Some(command) = &resume {
                let done: u64 = summary.models.iter().map(|model| model.units).sum();
                term::note(&format!("stopped after {done} of {} units; resume with:", summary.planned));
                term::line(&format!("  {command}"));
            }
        }
        exit
    }

    async fn print(&self, globals: &Globals, summary: &Summary) -> Exit {
        let mut text = table::of_summary(summary);
        if globals.is_verbose() || statistics_table::is_repeated(summary) {
            text = [text, statistics_table::of(summary)].join("\n\n");
        }
        match failures::table(globals, &*self.planned.store, &self.planned.run).await {
            Ok(Some(failed)) => text = [text, failed].join("\n\n"),
            Ok(None) => {}
            Err(error) => {
                term::error(&error.to_string(), &[], None);
                return Exit::Failed;
            }
        }
        if summary.models.is_empty() {
            return Exit::Done;
        }
        term::out(text).await
    }

    /// Decides the exit code, and reports what is wrong.
    fn exit(&self, end: &WorkerEnd, summary: &Summary) -> Exit {
        let mut exit = match end {
            WorkerEnd::Finished => Exit::Done,
            WorkerEnd::Stopped | WorkerEnd::Idle => Exit::Interrupted,
            WorkerEnd::Paused | WorkerEnd::Canceled => {
                let how = if *end == WorkerEnd::Paused { "paused" } else { "canceled" };
                let resume = format!("continue it with `wharf verify resume {}`", self.planned.run);
                term::error(&format!("run `{}` was {how}", self.planned.run), &[], Some(&resume));
                Exit::Failed
            }
            WorkerEnd::Unfinished => Exit::Failed,
            WorkerEnd::Budget(exceeded) => {
                let flag = match exceeded {
                    BudgetExceeded::Cost { .. } => "--max-cost",
                    BudgetExceeded::Tokens { .. } => "--max-tokens",
                    BudgetExceeded::Time { .. } => "--max-time",
                };
                term::error(&exceeded.to_string(), &[], Some(&format!("raise it with {flag}, and resume")));
                Exit::Failed
            }
            WorkerEnd::Store(error) => {
                term::error(
                    &error.to_string(),
                    &[],
                    Some("nothing more was begun; what is on record is not paid again when you resume it"),
                );
                Exit::Failed
            }
        };
        let done: u64 = summary.models.iter().map(|model| model.units).sum();
        let unscored: u64 = summary.models.iter().map(|model| model.invalid + model.indeterminate).sum();
        if unscored > 0 || done < summary.planned {
            exit = exit.max(Exit::Failed);
        }
        if unscored == done && self.keys.has_only_rejected() {
            let hint = "check the API key, and whether it covers this model";
            term::error("no unit could run: the provider rejected the API key", &[], Some(hint));
            exit = exit.max(Exit::Usage);
        }
        if let Some(least) = self.config.fail_under {
            for model in &summary.models {
                let reached = model.accuracy.map_or(0.0, |accuracy| accuracy * 100.0);
                if reached < least {
                    let message = format!("{} reached {reached:.1} %, less than {least} %", model.model);
                    term::error(&message, &[], None);
                    exit = exit.max(Exit::Failed);
                }
            }
        }
        exit
    }

    async fn write_files<'a>(&'a self, args: &'a VerifyRun) -> Written<'a> {
        let mut written = Written { exit: Exit::Done, outputs: Vec::new(), recording: None };
        for output in &self.outputs {
            match output.write(&*self.planned.store, &self.planned.run).await {
                Ok(()) => written.outputs.push(&output.path),
                Err(error) => {
                    term::error(&format!("cannot write {}: {error}", output.path.display()), &[], None);
                    written.exit = Exit::Failed;
                }
            }
        }
        if let Some(file) = &args.record {
            match write_recording(&*self.planned.store, &self.planned.run, file, &self.redactor).await {
                Ok(_) => written.recording = Some(file),
                Err(error) => {
                    term::error(&error.to_string(), &[], None);
                    written.exit = Exit::Failed;
                }
            }
        }
        written
    }
}

/// The files that were written.
struct Written<'a> {
    exit: Exit,
    outputs: Vec<&'a PathBuf>,
    recording: Option<&'a PathBuf>,
}

/// Reports trials that ended without a result.
fn report_unfinished(unfinished: &[UnfinishedTrial]) {
    let mut reported: Vec<&str> = Vec::new();
    for trial in unfinished {
        // Many trials fail for the same reason.
        if !reported.contains(&trial.reason.as_str()) {
            reported.push(&trial.reason);
            term::error(&trial.reason, &[], None);
        }
    }
}

/// Returns the command line of this process with `--resume RUN`.
fn resume_command(run: &str) -> String {
    let mut words: Vec<String> = std::env::args().map(store::without_password).collect();
    if let Some(program) = words.first_mut() {
        "wharf".clone_into(program);
    }
    let is_resume = |word: &String| word == "--resume" || word.starts_with("--resume=");
    if !words.iter().any(is_resume) {
        words.extend(["--resume".to_owned(), run.to_owned()]);
    }
    shlex::try_join(words.iter().map(String::as_str)).unwrap_or_default()
}

fn state_name(end: &WorkerEnd) -> &'static str {
    match end {
        WorkerEnd::Finished => "finished",
        WorkerEnd::Paused => "paused",
        WorkerEnd::Canceled => "canceled",
        WorkerEnd::Stopped | WorkerEnd::Idle | WorkerEnd::Budget(_) | WorkerEnd::Store(_) | WorkerEnd::Unfinished => {
            "stopped"
        }
    }
}
