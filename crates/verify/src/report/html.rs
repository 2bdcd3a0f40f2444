//! One self-contained HTML file with the results of a run.
//!
//! The file has no address of another file, and its policy forbids the browser to load any. Everything that a model, a
//! tool or a benchmark wrote is in compressed chunks that the browser never parses as HTML; the script shows it as text.
//! Chunks are written while results are read, so the memory that a report needs does not grow with its traces:
//!
//! - `details`: the complete results of some units. The script decompresses one when a unit of it is opened.
//! - `texts`: the beginnings of the answers of some units, for the search.
//! - `rows`: what lists, filters and the matrix show of some units.
//! - `overview`: the run, its questions, models and judges, and the statistics. It is the last one.

mod chunk;
mod cut;
mod detail;
mod overview;
mod page;
mod row;

use std::io::{self, Write};

use serde_json::Value;

use super::questions::{BenchmarkText, ReportQuestion};
use super::summary::SummaryBuilder;
use crate::outcome::UnitResult;
use crate::paired::RunTally;
use crate::panel::PanelRule;
use crate::store::RunSummary;
use chunk::{ChunkKind, ChunkList};
use cut::{MAX_TEXT_CHARS, cut};
use detail::UnitDetail;
use overview::{Names, Overview};
use row::Row;

/// Version of the data in the file. The script in the file always has the same one.
pub(super) const DATA_FORMAT: u32 = 1;
/// Characters of an answer that the search sees.
const MAX_SEARCHED_CHARS: usize = 4_000;

/// What a report says about its run, beside the results.
#[derive(Clone, Debug, PartialEq)]
pub struct HtmlInput {
    /// The run.
    pub run: RunSummary,
    /// What the benchmark measures.
    pub description: Option<String>,
    /// The questions, in the order of the benchmark.
    pub questions: Vec<ReportQuestion>,
    /// When a panel of judges passes an answer.
    pub panel: PanelRule,
}

impl HtmlInput {
    /// Creates the input from a run and its settings. The texts of the questions come from the benchmark in the
    /// settings; without one, the report shows the ids of the questions.
    pub fn new(run: RunSummary, settings: &Value) -> Self {
        let benchmark = BenchmarkText::of_settings(settings);
        let panel = PanelRule::of_settings(settings);
        Self { run, description: benchmark.description, questions: benchmark.questions, panel }
    }
}

/// An HTML report that results are added to, in the order of the plan.
pub struct HtmlWriter<W: Write> {
    out: W,
    input: HtmlInput,
    names: Names,
    summary: SummaryBuilder,
    tally: RunTally,
    details: ChunkList,
    texts: ChunkList,
    rows: ChunkList,
}

impl<W: Write> HtmlWriter<W> {
    /// Writes the beginning of the file.
    ///
    /// # Errors
    /// If the file cannot be written.
    pub fn new(mut out: W, mut input: HtmlInput) -> io::Result<Self> {
        page::write_head(&mut out)?;
        for question in &mut input.questions {
            // Only comparisons need it.
            question.digest = None;
            question.question = cut(&question.question, MAX_TEXT_CHARS);
            question.answer = question.answer.take().map(|answer| cut(&answer, MAX_TEXT_CHARS));
        }
        Ok(Self {
            out,
            names: Names::new(&input.questions),
            summary: SummaryBuilder::new(input.run.progress.units, input.panel),
            tally: RunTally::default(),
            input,
            details: ChunkList::new(ChunkKind::Details),
            texts: ChunkList::new(ChunkKind::Texts),
            rows: ChunkList::new(ChunkKind::Rows),
        })
    }

    /// Adds a result.
    ///
    /// # Errors
    /// If the file cannot be written.
    pub fn add(&mut self, unit: &UnitResult) -> io::Result<()> {
        self.summary.add(unit);
        self.tally.add(unit);
        let place = self.names.place(unit);
        self.rows.push(&mut self.out, &Row::new(unit, place))?;
        let answer = unit.response.as_deref().unwrap_or_default();
        self.texts.push(&mut self.out, &cut(answer, MAX_SEARCHED_CHARS))?;
        self.details.push(&mut self.out, &UnitDetail::new(unit)?)
    }

    /// Writes the rest of the file.
    ///
    /// # Errors
    /// If the file cannot be written.
    pub fn finish(mut self) -> io::Result<W> {
        self.details.flush(&mut self.out)?;
        self.texts.flush(&mut self.out)?;
        self.rows.flush(&mut self.out)?;
        let overview = Overview::new(&self.input, self.names, self.summary.finish(), &self.tally);
        chunk::write(&mut self.out, ChunkKind::Overview, &serde_json::to_string(&overview)?, (0, 1))?;
        page::write_tail(&mut self.out)?;
        self.out.flush()?;
        Ok(self.out)
    }
}
