//! The model answers the question, with its tools. All judges of a trial share the answer.

use wharf_agent::RunEnd;
use wharf_protocol::BoxFuture;

use super::context::UnitContext;
use super::conversation::Stopped;
use super::stage::{Artifact, Stage, StageError};
use crate::outcome::{Caveat, Finding};
use crate::stage_name::StageName;

pub(super) struct GenerateAnswer;

impl Stage for GenerateAnswer {
    fn name(&self) -> StageName {
        StageName::GenerateAnswer
    }

    fn makes(&self) -> &'static [Artifact] {
        &[Artifact::Answer]
    }

    fn run<'a>(&'a self, unit: &'a mut UnitContext) -> BoxFuture<'a, Result<(), StageError>> {
        Box::pin(async move {
            let answer = unit.trial.answer().await.map_err(StageError::Journal)?;
            unit.set_answer(answer.clone());
            if !answer.totals.retries.is_empty() {
                unit.caveats.insert(Caveat::RetriesUsed);
            }
            if let Some(reason) = &answer.indeterminate {
                unit.set_indeterminate(reason.clone());
                return Ok(());
            }
            if let Some(reason) = &answer.invalid {
                unit.set_invalid(reason.clone());
                return Ok(());
            }
            let stage = self.name();
            if let Some(conversation) = &answer.conversation {
                if conversation.turns.iter().any(|turn| turn.end == RunEnd::Truncated) {
                    unit.caveats.insert(Caveat::PartialContent);
                }
                if let Some(Stopped::Finding(finding)) = &conversation.stopped {
                    unit.decide(finding.clone());
                    return Ok(());
                }
            }
            match &answer.end {
                RunEnd::Completed | RunEnd::Limit(_) => {}
                RunEnd::Truncated => drop(unit.caveats.insert(Caveat::PartialContent)),
                RunEnd::Refused => {
                    unit.decide(Finding::Abstained(stage, "the model refused to answer".to_owned()));
                }
                // A later stage decides about what a retry may fix.
                RunEnd::ModelFailed(error) if error.is_transient() => {}
                RunEnd::ModelFailed(error) => unit.decide(Finding::ModelFailed(stage, error.clone())),
                RunEnd::ToolFailed(reason) => {
                    unit.decide(Finding::Unexpected(stage, format!("a tool call failed: {reason}")));
                }
                RunEnd::Cancelled | RunEnd::CheckpointFailed(_) => {
                    unit.decide(Finding::Unexpected(stage, format!("the run ended early: {}", answer.end.as_str())));
                }
            }
            Ok(())
        })
    }
}
