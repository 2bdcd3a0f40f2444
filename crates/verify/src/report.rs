//! Results of a run as files: JSON, JSON Lines, CSV, Parquet, HTML, Markdown, JUnit XML and logs of Inspect, and the
//! summary of each model.
//!
//! Results are read from the store page by page, so the memory that an export needs does not grow with the run.

mod columns;
mod csv;
mod export;
mod format;
mod html;
mod inspect;
mod json;
mod junit;
mod markdown;
mod parquet;
mod proportion;
mod questions;
mod statistics;
mod summary;
mod visible;

pub use columns::{COLUMNS, Cell, CellType, Column};
pub use export::{ExportError, NotPassed, export, not_passed, summarize};
pub use format::{Format, UnknownFormat};
pub use html::{HtmlInput, HtmlWriter};
pub use inspect::{InspectLog, inspect_logs};
pub use json::{REPORT_VERSION, ReportHeader};
pub use proportion::{Interval, wilson};
pub use questions::{BenchmarkText, ReportQuestion};
pub use statistics::{
    CostPercentiles, FailureCount, FlakyQuestion, GroupCount, KeywordAccuracy, ModelStatistics, Repeated,
    RunStatistics, ToolResults,
};
pub use summary::{ModelSummary, PanelSummary, Summary, TokenTotals};
