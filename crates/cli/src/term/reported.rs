//! What the process has printed so far, for `--json`: every failure prints one JSON value on stdout, also where a command
//! prints no data.

use std::sync::{Mutex, MutexGuard, PoisonError};

use serde::Serialize;

use super::output::json;
use crate::exit::Exit;

/// How many errors are remembered. The last one is why the command failed.
const MAX_ERRORS: usize = 20;

/// The output of this process.
static REPORTED: Mutex<Reported> = Mutex::new(Reported { errors: Vec::new(), has_output: false });

struct Reported {
    errors: Vec<ReportedError>,
    /// Whether anything was written to stdout.
    has_output: bool,
}

#[derive(Clone, Serialize)]
struct ReportedError {
    message: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    hint: Option<String>,
}

/// The layout of a failure without data.
#[derive(Serialize)]
struct JsonFailure {
    version: u32,
    error: JsonError,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct JsonError {
    #[serde(flatten)]
    error: ReportedError,
    exit_code: u8,
    /// The errors that were printed before.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    causes: Vec<ReportedError>,
}

fn reported() -> MutexGuard<'static, Reported> {
    REPORTED.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Remembers an error that was printed.
pub(super) fn add_error(message: &str, hint: Option<&str>) {
    let mut reported = reported();
    if reported.errors.len() == MAX_ERRORS {
        reported.errors.remove(0);
    }
    reported.errors.push(ReportedError { message: message.to_owned(), hint: hint.map(str::to_owned) });
}

/// Starts the report of one of several commands of this process: what was printed before belongs to the others.
pub(crate) fn start_report() {
    let mut reported = reported();
    reported.errors.clear();
    reported.has_output = false;
}

/// Remembers that data was written to stdout.
pub(crate) fn set_output() {
    reported().has_output = true;
}

/// Prints a failure as JSON, unless the command has printed its own.
pub(crate) async fn json_failure(exit: Exit) {
    let Some(failure) = failure(exit) else { return };
    json(&failure).await;
}

/// Like [`json_failure`], for an error of the command line, before anything runs.
pub(crate) fn json_usage_error(message: &str, hint: Option<&str>) -> Option<String> {
    add_error(message, hint);
    serde_json::to_string(&failure(Exit::Usage)?).ok()
}

fn failure(exit: Exit) -> Option<JsonFailure> {
    let mut reported = reported();
    if reported.has_output || exit == Exit::Done {
        return None;
    }
    let mut causes = std::mem::take(&mut reported.errors);
    let error = causes.pop().unwrap_or_else(|| ReportedError { message: exit.as_str().to_owned(), hint: None });
    Some(JsonFailure { version: 1, error: JsonError { error, exit_code: exit as u8, causes } })
}
