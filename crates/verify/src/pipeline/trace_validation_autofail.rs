//! Fails a unit of a model with tools whose trace does not end with an answer.

use wharf_agent::RunEnd;
use wharf_protocol::{BoxFuture, Role};

use super::context::UnitContext;
use super::stage::{Artifact, Stage, StageError};
use crate::outcome::Finding;
use crate::stage_name::StageName;

pub(super) struct TraceValidationAutofail;

impl Stage for TraceValidationAutofail {
    fn name(&self) -> StageName {
        StageName::TraceValidationAutofail
    }

    fn needs(&self) -> &'static [Artifact] {
        &[Artifact::Answer]
    }

    fn run<'a>(&'a self, unit: &'a mut UnitContext) -> BoxFuture<'a, Result<(), StageError>> {
        Box::pin(async move {
            let answer = unit.needed_answer(self.name())?;
            // A manual model has no servers either.
            let is_agent = !unit.trial.servers.is_empty();
            // A trace that ends because the provider failed says nothing about the model.
            if !is_agent || matches!(answer.end, RunEnd::ModelFailed(_)) {
                return Ok(());
            }
            let problem = match answer.trace.last() {
                None => "the trace is empty",
                Some(last) if last.role != Role::Assistant => "the trace ends with a tool result",
                Some(last) if !last.tool_calls.is_empty() => "the trace ends with a tool call",
                Some(last) if last.content.trim().is_empty() => "the last message of the model has no text",
                Some(_) => return Ok(()),
            };
            unit.decide(Finding::TraceInvalid(problem.to_owned()));
            Ok(())
        })
    }
}
