//! Writing a recording from a store.

use std::collections::HashMap;
use std::io::Write as _;
use std::iter::Peekable;
use std::path::Path;
use std::sync::Arc;

use serde::Serialize;
use wharf_io::{Durability, FileMode, MissingFolder, ReplaceOptions, StagedFile};
use wharf_protocol::Redactor;

use crate::ids::{RunId, UnitId};
use crate::outcome::UnitResult;
use crate::plan::Trial;
use crate::step::{RecordedStep, StepOwner};
use crate::store::{ResultPages, RunStore, StoreError};

use super::{
    FORMAT, RecordedTrial, RecordedUnit, RecordingError, RecordingHeader, ResultLine, StepLine, VERSION, WHARF,
};

/// Trials that are in memory at once.
const PAGE_SIZE: u32 = 32;

/// Writes the trials of a run that have a result, in the order of the plan. Returns their number. The file appears as a
/// whole, and only its owner can read it.
pub async fn write_recording(
    store: &dyn RunStore,
    run: &RunId,
    path: &Path,
    redactor: &Redactor,
) -> Result<u64, RecordingError> {
    let (summary, settings) = store.run(run).await?;
    let settings = redactor.redact_json(&settings.to_string()).into_owned();
    let header = RecordingHeader {
        format: FORMAT.to_owned(),
        version: VERSION,
        wharf: Some(WHARF.to_owned()),
        run: Some(run.clone()),
        benchmark: summary.benchmark,
        settings: serde_json::from_str(&settings).unwrap_or_default(),
    };
    let mut lines = Vec::new();
    push_line(&mut lines, &header)?;
    let mut file = RecordingFile::create(path).await?;
    file.append(&mut lines).await?;
    let mut results = Results { pages: ResultPages::new(store, run), page: Vec::new().into_iter().peekable() };
    let mut skip = 0;
    let mut written = 0;
    loop {
        let trials = store.trials(run, skip, PAGE_SIZE).await?;
        if trials.is_empty() {
            results.expect_end()?;
            file.commit().await?;
            return Ok(written);
        }
        skip += trials.len() as u64;
        for trial in trials {
            let results = results.of(&trial).await?;
            if results.is_empty() {
                continue;
            }
            let steps = store.steps(run, &trial.id).await?;
            push_line(&mut lines, &recorded_trial(trial, &results, steps, redactor))?;
            written += 1;
        }
        file.append(&mut lines).await?;
    }
}

/// The results of a run, trial by trial.
struct Results<'a> {
    pages: ResultPages<'a>,
    page: Peekable<std::vec::IntoIter<Arc<UnitResult>>>,
}

impl Results<'_> {
    /// Takes the results of a trial. Trials and results have the same order. The next page is read while its first trial
    /// is the current one, so results that appear meanwhile belong to this trial or to later ones.
    async fn of(&mut self, trial: &Trial) -> Result<Vec<Arc<UnitResult>>, StoreError> {
        let mut results = Vec::new();
        loop {
            if self.page.peek().is_none() {
                let Some(page) = self.pages.next().await? else { return Ok(results) };
                self.page = page.into_iter().peekable();
            }
            match self.page.next_if(|result| result.trial == trial.id) {
                Some(result) => results.push(result),
                None => return Ok(results),
            }
        }
    }
}

impl Results<'_> {
    /// Fails if results are left: they belong to no trial of the plan that was read.
    fn expect_end(&mut self) -> Result<(), StoreError> {
        let changed = || StoreError::Failed("the plan of the run has changed while it was recorded".to_owned());
        if self.page.peek().is_some() { Err(changed()) } else { Ok(()) }
    }
}

fn recorded_trial(
    trial: Trial,
    results: &[Arc<UnitResult>],
    steps: Vec<RecordedStep>,
    redactor: &Redactor,
) -> RecordedTrial {
    let judges: HashMap<&UnitId, &Option<String>> = trial.units.iter().map(|unit| (&unit.id, &unit.judge)).collect();
    let unit = |result: &Arc<UnitResult>| RecordedUnit {
        judge: judges.get(&result.unit).copied().cloned().flatten(),
        unit: Some(result.unit.clone()),
        verdict: result.verdict,
        result: super::result_digest(result, redactor),
    };
    let units = results.iter().map(unit).collect();
    let indexes: HashMap<&UnitId, usize> =
        results.iter().enumerate().map(|(index, result)| (&result.unit, index)).collect();
    let line = |RecordedStep { request, result }: RecordedStep| {
        let unit = match &request.owner {
            StepOwner::Trial => None,
            // A judge that is no longer in the plan.
            StepOwner::Unit(unit) => Some(*indexes.get(unit)?),
        };
        let result = result.map(|result| ResultLine {
            body: redactor.redact_json(&result.body).into_owned(),
            failed: result.failed,
            usage: result.usage,
            millis: result.millis,
        });
        Some(StepLine { unit, kind: request.kind, request: request.request, occurrence: request.occurrence, result })
    };
    let steps = steps.into_iter().filter_map(line).collect();
    RecordedTrial { question: trial.question.to_string(), model: trial.model, replicate: trial.replicate, units, steps }
}

fn push_line(lines: &mut Vec<u8>, line: &impl Serialize) -> Result<(), StoreError> {
    serde_json::to_writer(&mut *lines, line).map_err(|error| StoreError::Failed(error.to_string()))?;
    lines.push(b'\n');
    Ok(())
}

/// A recording that is being written. Its path appears when it is complete.
struct RecordingFile {
    path: String,
    staged: Option<StagedFile>,
}

impl RecordingFile {
    async fn create(path: &Path) -> Result<Self, RecordingError> {
        const OPTIONS: ReplaceOptions = ReplaceOptions {
            mode: FileMode::Private,
            durability: Durability::ContentsAndName,
            folder: MissingFolder::CreatePrivate,
            follow_symlinks: false,
        };
        let name = path.display().to_string();
        let path = path.to_owned();
        let staged = blocking(&name, move || StagedFile::write(&path, b"", OPTIONS)).await?;
        Ok(Self { path: name, staged: Some(staged) })
    }

    /// Appends the lines, and empties the buffer.
    async fn append(&mut self, lines: &mut Vec<u8>) -> Result<(), RecordingError> {
        let lines = std::mem::take(lines);
        let Some(mut staged) = self.staged.take() else { return Ok(()) };
        let append = move || staged.write_all(&lines).map(|()| staged);
        self.staged = Some(blocking(&self.path, append).await?);
        Ok(())
    }

    async fn commit(self) -> Result<(), RecordingError> {
        let Some(staged) = self.staged else { return Ok(()) };
        blocking(&self.path, move || staged.commit()).await?;
        Ok(())
    }
}

/// Runs file operations where they block no other task.
pub(super) async fn blocking<T: Send + 'static>(
    path: &str,
    operation: impl FnOnce() -> std::io::Result<T> + Send + 'static,
) -> Result<T, RecordingError> {
    let io = |reason: String| RecordingError::Io { path: path.to_owned(), reason };
    let result = tokio::task::spawn_blocking(operation).await.map_err(|error| io(error.to_string()))?;
    result.map_err(|error| io(error.to_string()))
}
