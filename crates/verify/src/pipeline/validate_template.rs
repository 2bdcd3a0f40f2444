//! Checks the template before anything is paid for.

use wharf_protocol::BoxFuture;

use super::context::UnitContext;
use super::stage::{Artifact, Stage, StageError};
use crate::outcome::Finding;
use crate::stage_name::StageName;
use crate::template::{InvalidTemplate, Template};

pub(super) struct ValidateTemplate;

impl Stage for ValidateTemplate {
    fn name(&self) -> StageName {
        StageName::ValidateTemplate
    }

    fn makes(&self) -> &'static [Artifact] {
        &[Artifact::Template]
    }

    fn run<'a>(&'a self, unit: &'a mut UnitContext) -> BoxFuture<'a, Result<(), StageError>> {
        let question = &unit.trial.question;
        let turns = question.scenario.iter().flat_map(|scenario| &scenario.turns);
        let templates = question.template.iter().chain(turns.filter_map(|turn| turn.template.as_ref()));
        let checked: Result<(), InvalidTemplate> = templates.into_iter().try_for_each(Template::validate);
        let checked = checked.map_err(|error| StageError::Failed(Finding::TemplateInvalid(error.to_string())));
        Box::pin(std::future::ready(checked))
    }
}
