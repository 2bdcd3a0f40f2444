//! The traits of the question: a judge and regular expressions evaluate them. A trait that cannot be evaluated does not
//! end the unit and does not change its verdict.

mod agentic;
mod judging;

use std::sync::Arc;

use wharf_protocol::BoxFuture;

use super::context::UnitContext;
use super::stage::{Artifact, Stage, StageError};
use crate::outcome::Finding;
use crate::rubric::{RubricResult, TraitOutcome, TraitResult};
use crate::stage_name::StageName;
use judging::{Ended, Judging};

pub(super) struct RubricEvaluation;

impl Stage for RubricEvaluation {
    fn name(&self) -> StageName {
        StageName::RubricEvaluation
    }

    fn needs(&self) -> &'static [Artifact] {
        &[Artifact::Answer]
    }

    fn makes(&self) -> &'static [Artifact] {
        &[Artifact::Rubric]
    }

    fn run<'a>(&'a self, unit: &'a mut UnitContext) -> BoxFuture<'a, Result<(), StageError>> {
        Box::pin(async move {
            let trial = Arc::clone(&unit.trial);
            if trial.traits.is_empty() {
                return Ok(());
            }
            let answer = unit.needed_answer(self.name())?;
            let text = answer.judged_text(trial.evaluation.use_full_trace_for_rubric);
            let mut judging = Judging::new(unit, answer.asked.clone(), text);
            let results = match judging.evaluate().await {
                Ok(results) => results,
                Err(Ended::Decided) => return Ok(()),
                Err(Ended::Error(error)) => return Err(error),
            };
            let failure = judging.into_failure();
            if !trial.evaluation.mode.has_template() && results.iter().all(is_failed) {
                // Nothing is known about the answer, and that is not the model's fault.
                let reason = results.iter().find_map(|result| match &result.outcome {
                    TraitOutcome::Failed(reason) => Some(format!("trait `{}`: {reason}", result.name)),
                    TraitOutcome::Value(_) | TraitOutcome::Absent(_) => None,
                });
                unit.findings.push(match failure {
                    Some(error) => Finding::ModelFailed(self.name(), error),
                    None => Finding::Unexpected(self.name(), reason.unwrap_or_default()),
                });
            }
            unit.rubric = Some(RubricResult { traits: results });
            Ok(())
        })
    }
}

fn is_failed(result: &TraitResult) -> bool {
    matches!(result.outcome, TraitOutcome::Failed(_))
}
