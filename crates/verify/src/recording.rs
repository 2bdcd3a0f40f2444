//! Recordings of whole runs: every step with its result, in one file that a run can be replayed from.
//!
//! A recording is a file of JSON lines. The first line describes the run; each further line is one trial with its steps.
//! Trials are found by question, model label and replicate, judges by label, so a recording can be replayed by another run
//! of the same benchmark. Secrets are redacted.

mod export;
mod index;
mod replay;

use serde::{Deserialize, Serialize};
use serde_json::Value;
use wharf_protocol::{Redactor, Usage};

use crate::digest::sha256;
use crate::ids::{RunId, UnitId};
use crate::outcome::{UnitResult, Verdict};
use crate::step::StepKind;

pub use export::write_recording;
pub use index::Recording;
pub use replay::ReplayJournal;

/// Marks a file as a recording.
const FORMAT: &str = "wharf-verify-recording";
/// Version of the format.
const VERSION: u32 = 1;
/// Version of Wharf.
const WHARF: &str = env!("CARGO_PKG_VERSION");

/// A failure to write or read a recording.
#[derive(Debug, thiserror::Error)]
pub enum RecordingError {
    /// The file cannot be read or written.
    #[error("cannot access the recording {path}: {reason}")]
    Io {
        /// The file.
        path: String,
        /// Why.
        reason: String,
    },
    /// The file is not a recording, or it is damaged.
    #[error("invalid recording {path}, line {line}: {reason}")]
    Invalid {
        /// The file.
        path: String,
        /// Number of the line, from 1.
        line: u64,
        /// What is wrong.
        reason: String,
    },
    /// The run cannot be read.
    #[error(transparent)]
    Store(#[from] crate::store::StoreError),
}

/// The first line of a recording.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RecordingHeader {
    format: String,
    version: u32,
    /// The version of Wharf that wrote it. Another version may describe a result in other words.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    wharf: Option<String>,
    /// The run that was recorded.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub run: Option<RunId>,
    /// Name of the benchmark.
    pub benchmark: String,
    /// The settings of the run, with its tool sets.
    pub settings: Value,
}

/// A trial in a recording.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RecordedTrial {
    /// Id of the question.
    pub question: String,
    /// Label of the answering model.
    pub model: String,
    /// Number of the replicate, from 1.
    pub replicate: u32,
    /// The units that have a result.
    pub units: Vec<RecordedUnit>,
    steps: Vec<StepLine>,
}

/// A unit in a recording.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RecordedUnit {
    /// Label of the judge.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub judge: Option<String>,
    /// Id of the unit. A replayed unit with the same id must have the same verdict and result; one with another id is
    /// evaluated in another way.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unit: Option<UnitId>,
    /// The verdict.
    pub verdict: Verdict,
    /// Digest of the result, see [`result_digest`].
    pub result: String,
}

/// A step in a recording.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct StepLine {
    /// Index of its unit. Absent for the answer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    unit: Option<usize>,
    kind: StepKind,
    request: String,
    occurrence: u32,
    /// Absent if the step was interrupted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    result: Option<ResultLine>,
}

/// The result of a step in a recording.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct ResultLine {
    /// JSON as text, so that it is replayed byte for byte.
    body: String,
    #[serde(default, skip_serializing_if = "is_false")]
    failed: bool,
    usage: Usage,
    millis: u64,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
fn is_false(value: &bool) -> bool {
    !value
}

/// Returns a digest of everything in a result, with secrets redacted: the replay of a unit gives the same digest.
pub fn result_digest(result: &UnitResult, redactor: &Redactor) -> String {
    let text = serde_json::to_string(result).unwrap_or_default();
    sha256(redactor.redact_json(&text).as_bytes())
}
