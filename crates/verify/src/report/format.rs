//! The formats of result files, by the extension of the file.

use std::path::Path;

/// A format of result files.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// One object with the summary and all results.
    Json,
    /// One result per line.
    JsonLines,
    /// One row per result.
    Csv,
    /// One row per result, with typed columns.
    Parquet,
    /// A page for people, with charts and traces.
    Html,
    /// A summary for pull requests.
    Markdown,
    /// JUnit XML for CI systems.
    JUnit,
}

/// A file name without the extension of a known format.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "unknown format `{extension}`: expected a file name that ends in .json, .jsonl, .csv, .parquet, .html, .md or .xml"
)]
pub struct UnknownFormat {
    /// The extension, or the whole name if it has none.
    pub extension: String,
}

impl Format {
    /// All formats.
    pub const ALL: [Self; 7] =
        [Self::Json, Self::JsonLines, Self::Csv, Self::Parquet, Self::Html, Self::Markdown, Self::JUnit];

    /// Returns the extension of the format's files.
    pub fn extension(self) -> &'static str {
        match self {
            Self::Json => "json",
            Self::JsonLines => "jsonl",
            Self::Csv => "csv",
            Self::Parquet => "parquet",
            Self::Html => "html",
            Self::Markdown => "md",
            Self::JUnit => "xml",
        }
    }

    /// Returns the format of a file.
    ///
    /// # Errors
    /// If the file has another extension.
    pub fn of(file: &Path) -> Result<Self, UnknownFormat> {
        let extension = file.extension().or(file.file_name()).unwrap_or_default().to_string_lossy();
        let known = Self::ALL.into_iter().find(|format| extension.eq_ignore_ascii_case(format.extension()));
        known.ok_or_else(|| UnknownFormat { extension: extension.into_owned() })
    }
}
