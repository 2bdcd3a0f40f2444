//! Checks the template before anything is paid for.

use wharf_protocol::BoxFuture;

use super::context::UnitContext;
use super::stage::{Artifact, Stage, StageError};
use crate::outcome::Finding;
use crate::stage_name::StageName;

pub(super) struct ValidateTemplate;

impl Stage for ValidateTemplate {
    fn name(&self) -> StageName {
        StageName::ValidateTemplate
    }

    fn makes(&self) -> &'static [Artifact] {
        &[Artifact::Template]
    }

    fn run<'a>(&'a self, unit: &'a mut UnitContext) -> BoxFuture<'a, Result<(), StageError>> {
        let checked = match &unit.trial.question.template {
            Some(template) => template.validate(),
            None => Ok(()),
        };
        let checked = checked.map_err(|error| StageError::Failed(Finding::TemplateInvalid(error.to_string())));
        Box::pin(std::future::ready(checked))
    }
}
