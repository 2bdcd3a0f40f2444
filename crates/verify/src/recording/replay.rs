//! The journal of a replayed trial: every result comes from a recording.

use std::collections::HashMap;
use std::sync::Arc;

use wharf_protocol::{BoxFuture, Redactor};

use crate::ids::UnitId;
use crate::journal::pending::PendingCommits;
use crate::journal::{Journal, JournalError};
use crate::outcome::UnitResult;
use crate::plan::Trial;
use crate::step::{StepOwner, StepRequest, StepResult, StepStart};
use crate::store::{Lease, RunStore};

use super::{RecordedTrial, RecordedUnit, Recording, ResultLine, StepLine, result_digest};

/// Answers the steps of one trial from a recording. It records no intents, because nothing is executed.
pub struct ReplayJournal {
    store: Arc<dyn RunStore>,
    lease: Lease,
    /// Index of the recorded unit for each unit of the trial.
    units: HashMap<UnitId, usize>,
    recorded_units: Vec<RecordedUnit>,
    /// Whether the digests of the results are comparable.
    compares_digests: bool,
    redactor: Redactor,
    /// The last attempt of each step. It is the one that decided, so a replay does not repeat the others.
    steps: HashMap<StepKey, Option<ResultLine>>,
    pending: PendingCommits,
}

#[derive(PartialEq, Eq, Hash)]
struct StepKey {
    unit: Option<usize>,
    request: String,
    occurrence: u32,
}

impl ReplayJournal {
    /// Reads the recorded steps of a trial. Its results go to the store.
    pub async fn open(
        recording: &Recording,
        trial: &Trial,
        store: Arc<dyn RunStore>,
        lease: Lease,
    ) -> Result<Self, JournalError> {
        let recorded = recording.trial(trial).await.map_err(|error| JournalError::Diverged(error.to_string()))?;
        let RecordedTrial { units: recorded_units, steps: lines, .. } = recorded.ok_or_else(|| {
            let Trial { question, model, replicate, .. } = trial;
            JournalError::Diverged(format!(
                "question `{question}`, model `{model}`, replicate {replicate} is not in the recording"
            ))
        })?;
        let mut units = HashMap::new();
        for unit in &trial.units {
            if let Some(index) = recorded_units.iter().position(|recorded| recorded.judge == unit.judge) {
                units.insert(unit.id.clone(), index);
            }
        }
        let mut steps = HashMap::with_capacity(lines.len());
        for StepLine { unit, request, occurrence, result, .. } in lines {
            steps.insert(StepKey { unit, request, occurrence }, result);
        }
        Ok(Self {
            store,
            lease,
            units,
            recorded_units,
            compares_digests: recording.is_of_this_version(),
            redactor: recording.redactor().clone(),
            steps,
            pending: PendingCommits::default(),
        })
    }

    /// Checks that a unit that is evaluated like the recorded one has the same verdict and result.
    fn compare(&self, result: &UnitResult) -> Result<(), JournalError> {
        let recorded = self.units.get(&result.unit).and_then(|index| self.recorded_units.get(*index));
        let Some(recorded) = recorded.filter(|recorded| recorded.unit.as_ref() == Some(&result.unit)) else {
            return Ok(());
        };
        let differs =
            |what: &str| Err(JournalError::Diverged(format!("the {what} of a unit differs from the recorded one")));
        if recorded.verdict != result.verdict {
            return differs("verdict");
        }
        if self.compares_digests && recorded.result != result_digest(result, &self.redactor) {
            return differs("result");
        }
        Ok(())
    }

    fn recorded(&self, step: &StepRequest) -> Result<StepStart, JournalError> {
        let unit = match &step.owner {
            StepOwner::Trial => None,
            StepOwner::Unit(unit) => Some(*self.units.get(unit).ok_or_else(|| {
                JournalError::Diverged(
                    "the judge of this unit is not in the recording, or its unit has no result".into(),
                )
            })?),
        };
        let key = StepKey { unit, request: step.request.clone(), occurrence: step.occurrence };
        match self.steps.get(&key).cloned() {
            Some(Some(ResultLine { body, failed, usage, millis })) => {
                Ok(StepStart::Recorded(StepResult { body, failed, usage, millis, clock: None }))
            }
            Some(None) => Ok(StepStart::Indeterminate),
            None => Err(diverged(step)),
        }
    }
}

fn diverged(step: &StepRequest) -> JournalError {
    use crate::step::StepKind;
    let request = match step.kind {
        StepKind::Model => "a model request",
        StepKind::ReadOnlyTool | StepKind::Tool => "a tool call",
        StepKind::Judge => "a request to the judge",
        StepKind::Embedding => "an embedding request",
    };
    let digest: String = step.request.chars().take(12).collect();
    JournalError::Diverged(format!(
        "{request} ({digest}) is not in the recording; the question, the settings of the model or the judge, or the tools \
         have changed since it was made"
    ))
}

impl Journal for ReplayJournal {
    fn is_replay(&self) -> bool {
        true
    }

    fn begin_step<'a>(&'a self, step: &'a StepRequest) -> BoxFuture<'a, Result<StepStart, JournalError>> {
        Box::pin(std::future::ready(self.recorded(step)))
    }

    fn finish_step(&self, step: i64, _result: StepResult) -> BoxFuture<'_, Result<(), JournalError>> {
        // No step is ever executed.
        Box::pin(async move { Err(JournalError::Diverged(format!("step {step} was executed during a replay"))) })
    }

    fn finish_unit<'a>(&'a self, result: &'a UnitResult) -> BoxFuture<'a, Result<(), JournalError>> {
        Box::pin(async move {
            self.compare(result)?;
            let commit = self.store.finish_unit(&self.lease, result).await?;
            Ok(self.pending.push(commit).await?)
        })
    }

    fn flush(&self) -> BoxFuture<'_, Result<(), JournalError>> {
        Box::pin(async move { Ok(self.pending.settle().await?) })
    }
}
