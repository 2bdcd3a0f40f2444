//! The end of a run: the table, the files, how to resume, and the exit code.

use std::path::PathBuf;

use serde::Serialize;
use wharf::Redactor;
use wharf::verify::recording::write_recording;
use wharf::verify::report::{Summary, summarize};
use wharf::verify::{JournalError, StoreError, VerificationConfig};

use super::super::args::VerifyRun;
use crate::exit::Exit;
use crate::globals::Globals;
use crate::term;
use crate::verification::engine::{PlannedRun, WorkEnd};
use crate::verification::outputs::OutputFile;
use crate::verification::{failures, table};

/// A run after its trials were executed.
pub(super) struct Finished<'a> {
    pub(super) planned: &'a PlannedRun,
    pub(super) config: &'a VerificationConfig,
    pub(super) benchmark: String,
    pub(super) store_file: PathBuf,
    pub(super) redactor: Redactor,
}

/// The layout of `--json`.
#[derive(Serialize)]
struct JsonReport<'a> {
    version: u32,
    run: &'a str,
    benchmark: &'a str,
    state: &'static str,
    ok: bool,
    store: &'a PathBuf,
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
        (end, outputs): (Result<WorkEnd, StoreError>, &[OutputFile]),
    ) -> Exit {
        let end = match end {
            Ok(end) => end,
            Err(error) => WorkEnd::Stopped(JournalError::Store(error)),
        };
        let store = &*self.planned.store;
        let summary = match summarize(store, &self.planned.run).await {
            Ok(summary) => summary,
            Err(error) => {
                term::error(&error.to_string(), &[], None);
                return Exit::Failed;
            }
        };
        let mut exit = self.exit(&end, &summary);
        exit = exit.max(self.write_files(args, outputs).await);
        let resume = (!matches!(end, WorkEnd::Finished)).then(|| resume_command(&self.planned.run.to_string()));
        if globals.json {
            let report = JsonReport {
                version: 1,
                run: &self.planned.run.0,
                benchmark: &self.benchmark,
                state: if matches!(end, WorkEnd::Finished) { "finished" } else { "stopped" },
                ok: exit == Exit::Done,
                store: &self.store_file,
                summary: &summary,
                outputs: outputs.iter().map(|output| &output.path).collect(),
                recording: args.record.as_ref(),
                resume: resume.as_deref(),
            };
            exit = exit.max(term::redacted_json(&report, &self.redactor).await);
        } else {
            exit = exit.max(self.print(globals, &summary).await);
        }
        if !globals.quiet {
            let files = outputs.iter().map(|output| &output.path).chain(&args.record);
            files.for_each(|file| term::note(&format!("wrote {}", file.display())));
            if let Some(command) = &resume {
                term::note(&format!("resume it with: {command}"));
            }
        }
        exit
    }

    async fn print(&self, globals: &Globals, summary: &Summary) -> Exit {
        let mut text = table::of_summary(summary);
        match failures::table(globals, &*self.planned.store, &self.planned.run).await {
            Ok(Some(failed)) => text.push_str(&format!("\n\n{failed}")),
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
    fn exit(&self, end: &WorkEnd, summary: &Summary) -> Exit {
        let mut exit = match end {
            WorkEnd::Finished => Exit::Done,
            WorkEnd::Interrupted => Exit::Interrupted,
            WorkEnd::Stopped(error) => {
                let hint = match error {
                    JournalError::Budget(_) => Some("raise it with --max-cost, --max-tokens or --max-time, and resume"),
                    JournalError::Diverged(_) => Some("record it again with --record, or undo what changed"),
                    JournalError::LeaseLost => Some("another process works on this run"),
                    JournalError::Store(_) => None,
                };
                term::error(&error.to_string(), &[], hint);
                Exit::Failed
            }
        };
        let done: u64 = summary.models.iter().map(|model| model.units).sum();
        let unscored: u64 = summary.models.iter().map(|model| model.invalid + model.indeterminate).sum();
        if unscored > 0 || done < summary.planned {
            exit = exit.max(Exit::Failed);
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

    async fn write_files(&self, args: &VerifyRun, outputs: &[OutputFile]) -> Exit {
        let mut exit = Exit::Done;
        for output in outputs {
            if let Err(error) = output.write(&*self.planned.store, &self.planned.run).await {
                term::error(&format!("cannot write {}: {error}", output.path.display()), &[], None);
                exit = Exit::Failed;
            }
        }
        if let Some(file) = &args.record {
            let written = write_recording(&*self.planned.store, &self.planned.run, file, &self.redactor).await;
            if let Err(error) = written {
                term::error(&error.to_string(), &[], None);
                exit = Exit::Failed;
            }
        }
        exit
    }
}

/// Returns the command line of this process with `--resume RUN`.
fn resume_command(run: &str) -> String {
    let mut words: Vec<String> = std::env::args().collect();
    if let Some(program) = words.first_mut() {
        "wharf".clone_into(program);
    }
    let is_resume = |word: &String| word == "--resume" || word.starts_with("--resume=");
    if !words.iter().any(is_resume) {
        words.push(format!("--resume={run}"));
    }
    shlex::try_join(words.iter().map(String::as_str)).unwrap_or_default()
}
