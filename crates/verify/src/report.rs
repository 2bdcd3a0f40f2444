//! Results of a run as files: JSON, JSON Lines, CSV and Parquet, and the summary of each model.
//!
//! Results are read from the store page by page, so the memory that an export needs does not grow with the run.

mod columns;
mod csv;
mod export;
mod format;
mod json;
mod parquet;
mod proportion;
mod summary;

pub use columns::{COLUMNS, Cell, CellType, Column};
pub use export::{ExportError, NotPassed, export, not_passed, summarize};
pub use format::{Format, UnknownFormat};
pub use json::{REPORT_VERSION, ReportHeader};
pub use proportion::{Interval, wilson};
pub use summary::{ModelSummary, Summary, TokenTotals};
