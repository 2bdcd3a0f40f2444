//! Results of a run as files: JSON, JSON Lines, CSV, Parquet and HTML, and the summary of each model.
//!
//! Results are read from the store page by page, so the memory that an export needs does not grow with the run.

mod columns;
mod csv;
mod export;
mod format;
mod html;
mod json;
mod parquet;
mod proportion;
mod questions;
mod statistics;
mod summary;

pub use columns::{COLUMNS, Cell, CellType, Column};
pub use export::{ExportError, NotPassed, export, not_passed, summarize};
pub use format::{Format, UnknownFormat};
pub use html::{HtmlInput, HtmlWriter};
pub use json::{REPORT_VERSION, ReportHeader};
pub use proportion::{Interval, wilson};
pub use questions::{BenchmarkText, ReportQuestion};
pub use statistics::{
    FailureCount, FlakyQuestion, JudgeAgreement, KeywordAccuracy, ModelStatistics, Repeated, Statistics, ToolResults,
};
pub use summary::{ModelSummary, Summary, TokenTotals};
