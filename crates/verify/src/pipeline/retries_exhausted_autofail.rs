//! Ends a unit whose provider failed after all retries. It is not scored, and a resumed run tries again.

use wharf_agent::RunEnd;
use wharf_protocol::BoxFuture;

use super::context::UnitContext;
use super::stage::{Artifact, Stage, StageError};
use crate::outcome::Finding;
use crate::stage_name::StageName;

pub(super) struct RetriesExhaustedAutofail;

impl Stage for RetriesExhaustedAutofail {
    fn name(&self) -> StageName {
        StageName::RetriesExhaustedAutofail
    }

    fn needs(&self) -> &'static [Artifact] {
        &[Artifact::Answer]
    }

    fn run<'a>(&'a self, unit: &'a mut UnitContext) -> BoxFuture<'a, Result<(), StageError>> {
        Box::pin(async move {
            let answer = unit.needed_answer(self.name())?;
            if let RunEnd::ModelFailed(error) = &answer.end {
                unit.decide(Finding::ModelFailed(self.name(), error.clone()));
            }
            Ok(())
        })
    }
}
