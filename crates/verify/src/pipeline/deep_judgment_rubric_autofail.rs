//! Checks that the traits have a supporting excerpt. A trait without one was not evaluated.

use wharf_protocol::BoxFuture;

use super::context::UnitContext;
use super::stage::{Artifact, Stage, StageError};
use crate::outcome::Finding;
use crate::stage_name::StageName;

pub(super) struct DeepJudgmentRubricAutofail;

impl Stage for DeepJudgmentRubricAutofail {
    fn name(&self) -> StageName {
        StageName::DeepJudgmentRubricAutofail
    }

    fn needs(&self) -> &'static [Artifact] {
        &[Artifact::Rubric]
    }

    fn run<'a>(&'a self, unit: &'a mut UnitContext) -> BoxFuture<'a, Result<(), StageError>> {
        if !unit.unsupported_traits.is_empty() {
            let names: Vec<String> = unit.unsupported_traits.iter().map(|name| format!("`{name}`")).collect();
            let reason = format!("no excerpt of the answer supports: {}", names.join(", "));
            unit.findings.push(Finding::UnsupportedTraits(reason));
        }
        Box::pin(std::future::ready(Ok(())))
    }
}
