//! Checks that the values of the template have a supporting excerpt. A value without one was not read in the answer.

use wharf_protocol::BoxFuture;

use super::context::UnitContext;
use super::stage::{Artifact, Stage, StageError};
use crate::outcome::Finding;
use crate::stage_name::StageName;

pub(super) struct DeepJudgmentAutofail;

impl Stage for DeepJudgmentAutofail {
    fn name(&self) -> StageName {
        StageName::DeepJudgmentAutofail
    }

    fn needs(&self) -> &'static [Artifact] {
        &[Artifact::Verification]
    }

    fn run<'a>(&'a self, unit: &'a mut UnitContext) -> BoxFuture<'a, Result<(), StageError>> {
        if !unit.unsupported_fields.is_empty() {
            let names: Vec<String> = unit.unsupported_fields.iter().map(|name| format!("`{name}`")).collect();
            let reason = format!("no excerpt of the answer supports: {}", names.join(", "));
            unit.findings.push(Finding::UnsupportedFields(reason));
        }
        Box::pin(std::future::ready(Ok(())))
    }
}
