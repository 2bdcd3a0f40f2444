//! What a stage is.

use wharf_protocol::BoxFuture;

use super::context::UnitContext;
use crate::journal::JournalError;
use crate::outcome::Finding;
use crate::stage_name::StageName;

/// What stages make and need.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Artifact {
    /// The template, checked.
    Template,
    /// The model's answer and its trace.
    Answer,
    /// The values that the judge extracted from the answer.
    Extraction,
    /// The results of fields and assertions.
    Verification,
    /// The results of the traits.
    Rubric,
    /// The result of the unit.
    Result,
}

/// One step of the evaluation of a unit.
pub(crate) trait Stage: Send + Sync {
    /// Returns the name of the stage.
    fn name(&self) -> StageName;

    /// Returns what earlier stages must have made.
    fn needs(&self) -> &'static [Artifact] {
        &[]
    }

    /// Returns what the stage makes.
    fn makes(&self) -> &'static [Artifact] {
        &[]
    }

    /// Runs the stage. Its paid work goes through the journal, so a stage that runs again after a crash pays nothing twice.
    fn run<'a>(&'a self, unit: &'a mut UnitContext) -> BoxFuture<'a, Result<(), StageError>>;
}

/// Why a stage ends its unit.
#[derive(Debug)]
pub(crate) enum StageError {
    /// The unit does not pass.
    Failed(Finding),
    /// No further step may be executed. The unit gets no result.
    Journal(JournalError),
}

impl Artifact {
    /// Returns the name of the artifact.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Template => "template",
            Self::Answer => "answer",
            Self::Extraction => "extraction",
            Self::Verification => "verification",
            Self::Rubric => "rubric",
            Self::Result => "result",
        }
    }
}
