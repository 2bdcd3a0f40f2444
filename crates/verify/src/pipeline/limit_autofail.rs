//! Fails a unit whose run reached a limit. The trace stays in the result.

use wharf_protocol::BoxFuture;

use super::context::UnitContext;
use super::stage::{Artifact, Stage, StageError};
use crate::outcome::Finding;
use crate::stage_name::StageName;

pub(super) struct LimitAutofail;

impl Stage for LimitAutofail {
    fn name(&self) -> StageName {
        StageName::LimitAutofail
    }

    fn needs(&self) -> &'static [Artifact] {
        &[Artifact::Answer]
    }

    fn run<'a>(&'a self, unit: &'a mut UnitContext) -> BoxFuture<'a, Result<(), StageError>> {
        Box::pin(async move {
            let answer = unit.needed_answer(self.name())?;
            if let Some(limits) = &answer.limits {
                unit.decide(Finding::LimitReached(limits.clone()));
            }
            Ok(())
        })
    }
}
