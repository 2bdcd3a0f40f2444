//! `wharf verify import` and `wharf verify export`: checkpoints of karenina.

use std::fs::OpenOptions;
use std::io::Write as _;
use std::path::{Path, PathBuf};

use serde::Serialize;
use serde_json::Value;
use wharf::verify::karenina::{self, HandWritten, ImportError, Omission};

use super::args::{Convert, ImportArgs};
use crate::error::{UsageError, usage_error};
use crate::exit::Exit;
use crate::globals::Globals;
use crate::models::choose::read_file;
use crate::term;
use crate::verification::benchmark_file;

/// The layout of `--json`.
#[derive(Serialize)]
struct Converted {
    version: u32,
    /// The written file.
    output: Option<PathBuf>,
    /// The number of questions of the source.
    found: usize,
    /// The number of questions that were taken over.
    questions: usize,
    omitted: Vec<Omission>,
    /// The result, if it was not written to a file.
    #[serde(skip_serializing_if = "Option::is_none")]
    file: Option<Value>,
}

pub(super) async fn import(globals: &Globals, args: &ImportArgs) -> Exit {
    let hand_written = if args.infer_checks { HandWritten::Infer } else { HandWritten::LeaveOut };
    let args = &args.convert;
    let text = match read_file(&args.file) {
        Ok(text) => text,
        Err(error) => return term::usage_error(&error),
    };
    let name = args.file.display();
    match karenina::import(&text, hand_written) {
        Ok(imported) => {
            let counts = (imported.questions_found, imported.questions);
            finish(globals, args, imported.file, imported.omissions, counts).await
        }
        Err(ImportError::NothingLeft { questions_found: found, omissions }) if globals.json => {
            let report = Converted { version: 1, output: None, found, questions: 0, omitted: omissions, file: None };
            term::json(&report).await;
            Exit::Failed
        }
        Err(error) => {
            if let ImportError::NothingLeft { omissions, .. } = &error {
                list(omissions);
            }
            let is_usage = !matches!(error, ImportError::NothingLeft { .. });
            let hint = (!is_usage && hand_written == HandWritten::LeaveOut).then_some("try --infer-checks");
            term::error(&format!("cannot import {name}: {error}"), &[], hint);
            if is_usage { Exit::Usage } else { Exit::Failed }
        }
    }
}

pub(super) async fn export(globals: &Globals, args: &Convert) -> Exit {
    match benchmark_file::read(&args.file) {
        Ok(benchmark) => {
            let exported = karenina::export(&benchmark);
            let count = benchmark.questions.len();
            finish(globals, args, exported.file, exported.omissions, (count, count)).await
        }
        Err(error) => term::usage_error(&error),
    }
}

/// Writes the result and reports what is missing from it. What is missing was asked for, so it is not a failure.
async fn finish(
    globals: &Globals,
    args: &Convert,
    file: Value,
    omitted: Vec<Omission>,
    (found, questions): (usize, usize),
) -> Exit {
    let text = format!("{file:#}\n");
    if let Some(output) = &args.output
        && let Err(error) = write(output, &text, args.force)
    {
        return term::usage_error(&error);
    }
    if globals.json {
        let file = args.output.is_none().then_some(file);
        return term::json(&Converted { version: 1, output: args.output.clone(), found, questions, omitted, file })
            .await;
    }
    list(&omitted);
    match &args.output {
        None => term::exactly(text.into_bytes()).await,
        Some(output) => {
            let questions = if questions == found {
                term::counted(questions, "question")
            } else {
                format!("{questions} of {}", term::counted(found, "question"))
            };
            let remarks = match omitted.len() {
                0 => String::new(),
                count => format!("; {}", term::counted(count, "remark")),
            };
            term::out(format!("{}: {questions}{remarks}", output.display())).await
        }
    }
}

fn list(omissions: &[Omission]) {
    for omission in omissions {
        term::note(&term::flat(&omission.to_string()));
    }
}

fn write(path: &Path, text: &str, force: bool) -> Result<(), UsageError> {
    let mut options = OpenOptions::new();
    options.write(true);
    if force {
        options.create(true).truncate(true);
    } else {
        options.create_new(true);
    }
    let failed = |error: std::io::Error| {
        let hint = (error.kind() == std::io::ErrorKind::AlreadyExists).then_some("use --force to replace it");
        usage_error(format!("cannot write {}: {error}", path.display()), hint)
    };
    let mut file = options.open(path).map_err(failed)?;
    file.write_all(text.as_bytes()).and_then(|()| file.sync_all()).map_err(failed)
}
