//! The pipeline of a unit: stages in a fixed order, from the template to the result.
//!
//! A stage declares what it needs and what it makes. The list is built from the options and checked once. A stage that
//! fails ends its unit, and the last stage always builds a result.

mod answer;
mod answering;
mod context;
mod conversation;
mod deep_judgment;
mod stage;

mod abstention_check;
mod deep_judgment_autofail;
mod deep_judgment_rubric_autofail;
mod embedding_check;
mod finalize;
mod generate_answer;
mod limit_autofail;
mod parse_template;
mod retries_exhausted_autofail;
mod rubric_evaluation;
mod steering;
mod sufficiency_check;
mod trace_validation_autofail;
mod validate_template;
mod verify_template;

use std::fmt;
use std::panic::AssertUnwindSafe;

use futures_util::FutureExt as _;

use crate::evaluation::{DeepRubric, DeepTemplate, EvaluationOptions};
use crate::journal::JournalError;
use crate::outcome::{Finding, UnitResult};
use crate::stage_name::StageName;
pub(crate) use context::{TrialContext, TrialParts, UnitContext};
pub use stage::Artifact;
use stage::{Stage, StageError};

/// The stages of a run, in order.
pub struct Pipeline {
    stages: Vec<Box<dyn Stage>>,
    finalize: Box<dyn Stage>,
}

/// A stage of a pipeline, for display.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StageInfo {
    /// Name of the stage.
    pub name: StageName,
    /// What it needs.
    pub needs: &'static [Artifact],
    /// What it makes.
    pub makes: &'static [Artifact],
}

/// A list of stages that cannot run.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum InvalidPipeline {
    /// No earlier stage makes what a stage needs.
    #[error("stage `{}` needs the {}, and no earlier stage makes it", stage.as_str(), artifact.as_str())]
    Missing {
        /// The stage.
        stage: StageName,
        /// What it needs.
        artifact: Artifact,
    },
    /// A stage runs twice, or not in its place.
    #[error("stage `{}` is not in its place", .0.as_str())]
    Misplaced(StageName),
    /// The last stage does not build a result.
    #[error("the last stage is not `finalize`")]
    NoFinalize,
}

impl Pipeline {
    /// Builds the pipeline of the options.
    ///
    /// # Errors
    /// Returns an error if the stages do not fit together.
    pub fn new(options: &EvaluationOptions) -> Result<Self, InvalidPipeline> {
        let (has_template, has_rubric) = (options.mode.has_template(), options.mode.has_rubric());
        let mut stages: Vec<Box<dyn Stage>> = Vec::new();
        if has_template {
            stages.push(Box::new(validate_template::ValidateTemplate));
        }
        stages.push(Box::new(generate_answer::GenerateAnswer));
        stages.push(Box::new(limit_autofail::LimitAutofail));
        stages.push(Box::new(trace_validation_autofail::TraceValidationAutofail));
        stages.push(Box::new(retries_exhausted_autofail::RetriesExhaustedAutofail));
        if options.abstention_check {
            stages.push(Box::new(abstention_check::AbstentionCheck));
        }
        if has_template && options.sufficiency_check {
            stages.push(Box::new(sufficiency_check::SufficiencyCheck));
        }
        if has_template {
            stages.push(Box::new(parse_template::ParseTemplate));
            stages.push(Box::new(verify_template::VerifyTemplate));
            stages.push(Box::new(embedding_check::EmbeddingCheck));
        }
        if has_template && options.deep_judgment.template == DeepTemplate::Full {
            stages.push(Box::new(deep_judgment_autofail::DeepJudgmentAutofail));
        }
        if has_rubric {
            stages.push(Box::new(rubric_evaluation::RubricEvaluation));
        }
        if has_rubric && options.deep_judgment.rubric != DeepRubric::Disabled {
            stages.push(Box::new(deep_judgment_rubric_autofail::DeepJudgmentRubricAutofail));
        }
        stages.push(Box::new(finalize::Finalize));
        Self::from_stages(stages)
    }

    /// Checks a list of stages: every need is made by an earlier stage, each stage is in its place, and `finalize` is the
    /// last one.
    fn from_stages(mut stages: Vec<Box<dyn Stage>>) -> Result<Self, InvalidPipeline> {
        let Some(finalize) = stages.pop().filter(|last| last.name() == StageName::Finalize) else {
            return Err(InvalidPipeline::NoFinalize);
        };
        let mut made: Vec<Artifact> = Vec::new();
        let mut last: Option<StageName> = None;
        for stage in stages.iter().chain([&finalize]) {
            if last.is_some_and(|last| last >= stage.name()) {
                return Err(InvalidPipeline::Misplaced(stage.name()));
            }
            last = Some(stage.name());
            if let Some(artifact) = stage.needs().iter().find(|artifact| !made.contains(artifact)) {
                return Err(InvalidPipeline::Missing { stage: stage.name(), artifact: *artifact });
            }
            made.extend(stage.makes());
        }
        Ok(Self { stages, finalize })
    }

    /// Returns the stages, in order.
    pub fn stages(&self) -> impl Iterator<Item = StageInfo> {
        let info = |stage: &dyn Stage| StageInfo { name: stage.name(), needs: stage.needs(), makes: stage.makes() };
        self.stages.iter().chain([&self.finalize]).map(move |stage| info(&**stage))
    }

    /// Runs the stages of a unit until one of them decides, and then the last one. An error of the journal ends the unit
    /// without a result.
    pub(crate) async fn run(&self, unit: &mut UnitContext) -> Result<UnitResult, JournalError> {
        for stage in &self.stages {
            if unit.is_decided() {
                break;
            }
            match run_stage(&**stage, unit).await {
                Ok(()) => {}
                Err(StageError::Journal(error)) => return Err(error),
                Err(StageError::Failed(finding)) => unit.decide(finding),
            }
        }
        match run_stage(&*self.finalize, unit).await {
            Ok(()) | Err(StageError::Failed(_)) => Ok(unit.take_result()),
            Err(StageError::Journal(error)) => Err(error),
        }
    }
}

/// Runs a stage. A panic is a failure of the unit, so that it does not end the others.
async fn run_stage(stage: &dyn Stage, unit: &mut UnitContext) -> Result<(), StageError> {
    tracing::debug!(stage = stage.name().as_str(), "running a stage");
    AssertUnwindSafe(stage.run(unit)).catch_unwind().await.unwrap_or_else(|panic| {
        let text = panic.downcast_ref::<String>().map(String::as_str).or_else(|| panic.downcast_ref::<&str>().copied());
        let reason = format!("the stage panicked: {}", text.unwrap_or("no message"));
        Err(StageError::Failed(Finding::Unexpected(stage.name(), reason)))
    })
}

/// One line per stage: its name, what it needs and what it makes.
impl fmt::Display for Pipeline {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let list = |artifacts: &[Artifact]| artifacts.iter().map(|of| of.as_str()).collect::<Vec<_>>().join(", ");
        for (index, StageInfo { name, needs, makes }) in self.stages().enumerate() {
            if index > 0 {
                f.write_str("\n")?;
            }
            write!(f, "{}. {}", index + 1, name.as_str())?;
            if !needs.is_empty() {
                write!(f, ", needs {}", list(needs))?;
            }
            if !makes.is_empty() {
                write!(f, ", makes {}", list(makes))?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
