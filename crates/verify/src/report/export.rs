//! Reading results page by page, and writing them in a format.

use std::io::{self, Write};
use std::sync::Arc;

use super::csv;
use super::format::Format;
use super::html::{HtmlInput, HtmlWriter};
use super::json::{self, ReportHeader};
use super::junit::JUnitWriter;
use super::markdown;
use super::parquet::ParquetFile;
use super::summary::{Summary, SummaryBuilder};
use crate::ids::RunId;
use crate::outcome::{UnitResult, Verdict};
use crate::panel::{PanelBuilder, PanelRule};
use crate::store::{ResultPages, RunStore, StoreError};

/// A failed export.
#[derive(Debug, thiserror::Error)]
pub enum ExportError {
    /// The results could not be read.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The file could not be written.
    #[error(transparent)]
    Write(#[from] io::Error),
    /// The Parquet file could not be written.
    #[error(transparent)]
    Parquet(#[from] ::parquet::errors::ParquetError),
}

/// Summarizes the results of a run that are on record.
///
/// # Errors
/// If the results cannot be read.
pub async fn summarize(store: &dyn RunStore, run: &RunId) -> Result<Summary, StoreError> {
    let rule = PanelRule::of_settings(&store.run(run).await?.1);
    let mut summary = SummaryBuilder::new(store.progress(run).await?.units, rule);
    let mut pages = ResultPages::new(store, run);
    while let Some(page) = pages.next().await? {
        for unit in page {
            summary.add(&unit);
        }
    }
    Ok(summary.finish())
}

/// The units of a run that did not pass.
#[derive(Debug, Default)]
pub struct NotPassed {
    /// The first ones, in the order of the plan.
    pub first: Vec<Arc<UnitResult>>,
    /// How many there are.
    pub count: usize,
}

/// Returns the first `limit` units of a run that did not pass, and counts all of them.
///
/// # Errors
/// If the results cannot be read.
pub async fn not_passed(store: &dyn RunStore, run: &RunId, limit: usize) -> Result<NotPassed, StoreError> {
    let mut found = NotPassed::default();
    let mut pages = ResultPages::new(store, run);
    while let Some(page) = pages.next().await? {
        for unit in page.into_iter().filter(|unit| unit.verdict != Verdict::Passed) {
            found.count += 1;
            if found.first.len() < limit {
                found.first.push(unit);
            }
        }
    }
    Ok(found)
}

/// Writes the results of a run that are on record, in the order of the plan.
///
/// # Errors
/// If the results cannot be read or written.
pub async fn export<W: Write + Send>(
    store: &dyn RunStore,
    run: &RunId,
    format: Format,
    mut out: W,
) -> Result<(), ExportError> {
    let mut pages = ResultPages::new(store, run);
    match format {
        Format::Json => {
            let (found, settings) = store.run(run).await?;
            let summary = summarize(store, run).await?;
            let mut panel = PanelBuilder::new(PanelRule::of_settings(&settings));
            json::write_head(&mut out, &ReportHeader::new(&found, settings), &summary)?;
            let mut is_first = true;
            while let Some(page) = pages.next().await? {
                for unit in page {
                    json::write_result(&mut out, &unit, is_first)?;
                    panel.add(&unit);
                    is_first = false;
                }
            }
            json::write_tail(&mut out, panel.finish().as_ref())?;
        }
        Format::JsonLines => {
            while let Some(page) = pages.next().await? {
                for unit in page {
                    json::write_line(&mut out, &unit)?;
                    out.write_all(b"\n")?;
                }
            }
        }
        Format::Csv => {
            csv::write_header(&mut out)?;
            while let Some(page) = pages.next().await? {
                for unit in page {
                    csv::write_row(&mut out, &unit)?;
                }
            }
        }
        Format::Parquet => {
            let mut file = ParquetFile::new(&mut out)?;
            while let Some(page) = pages.next().await? {
                file.write_page(&page)?;
            }
            file.finish()?;
        }
        Format::Html => {
            let (found, settings) = store.run(run).await?;
            let mut report = HtmlWriter::new(&mut out, HtmlInput::new(found, &settings))?;
            while let Some(page) = pages.next().await? {
                for unit in page {
                    report.add(&unit)?;
                }
            }
            report.finish()?;
        }
        Format::Markdown => {
            let (found, _) = store.run(run).await?;
            let summary = summarize(store, run).await?;
            let not_passed = not_passed(store, run, markdown::MAX_UNITS).await?;
            markdown::write(&mut out, &found, &summary, &not_passed)?;
        }
        Format::JUnit => {
            let (found, settings) = store.run(run).await?;
            let planned = store.progress(run).await?.units;
            let mut summary = SummaryBuilder::new(planned, PanelRule::of_settings(&settings));
            let has_several_judges = settings["judges"].as_array().is_some_and(|judges| judges.len() > 1);
            let mut report = JUnitWriter::new(has_several_judges);
            while let Some(page) = pages.next().await? {
                for unit in page {
                    report.add(&unit)?;
                    summary.add(&unit);
                }
            }
            report.write(&mut out, &found, &summary.finish())?;
        }
    }
    out.flush()?;
    Ok(())
}
