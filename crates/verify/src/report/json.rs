//! JSON: one versioned object with the run, the summary and all results.

use std::io::{self, Write};

use serde::Serialize;
use serde_json::Value;

use super::summary::Summary;
use crate::ids::RunId;
use crate::outcome::UnitResult;
use crate::panel::Panel;
use crate::store::RunSummary;

/// Version of the JSON report. A new version means that a key was removed or changed its meaning.
pub const REPORT_VERSION: u32 = 1;

/// The run of a report.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ReportHeader {
    /// Version of the report.
    pub version: u32,
    /// Id of the run.
    pub run: RunId,
    /// Name of the benchmark.
    pub benchmark: String,
    /// When the run was created, in seconds since 1970.
    pub created: i64,
    /// The settings of the run, without secrets.
    pub settings: Value,
}

impl ReportHeader {
    /// Creates the header of a run.
    pub fn new(run: &RunSummary, settings: Value) -> Self {
        Self {
            version: REPORT_VERSION,
            run: run.id.clone(),
            benchmark: run.benchmark.clone(),
            created: run.created,
            settings,
        }
    }
}

/// The keys before the results.
#[derive(Serialize)]
struct Head<'a> {
    #[serde(flatten)]
    header: &'a ReportHeader,
    #[serde(flatten)]
    summary: &'a Summary,
}

/// Writes everything before the first result.
pub(super) fn write_head(out: &mut impl Write, header: &ReportHeader, summary: &Summary) -> io::Result<()> {
    let text = serde_json::to_string(&Head { header, summary })?;
    // The object stays open: its last key is the list of results.
    let open = text.strip_suffix('}').unwrap_or(&text);
    writeln!(out, "{open},\"results\":[")
}

/// Writes one result. A result is one line, so the file can also be read line by line.
pub(super) fn write_result(out: &mut impl Write, unit: &UnitResult, is_first: bool) -> io::Result<()> {
    if !is_first {
        out.write_all(b",\n")?;
    }
    write_line(out, unit)
}

/// Writes the end of the list, and the verdicts of the panel if answers have several judges.
pub(super) fn write_tail(out: &mut impl Write, panel: Option<&Panel>) -> io::Result<()> {
    out.write_all(b"\n]")?;
    if let Some(panel) = panel {
        write!(out, ",\"panel\":{}", serde_json::to_string(panel)?)?;
    }
    out.write_all(b"}\n")
}

/// Writes one result without a line end.
pub(super) fn write_line(out: &mut impl Write, unit: &UnitResult) -> io::Result<()> {
    out.write_all(serde_json::to_string(unit)?.as_bytes())
}
