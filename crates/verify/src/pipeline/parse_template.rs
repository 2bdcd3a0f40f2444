//! The judge fills the fields of the template. It never sees the expected values.

mod support;

use serde_json::{Map, Value};
use wharf_protocol::BoxFuture;

use super::context::UnitContext;
use super::deep_judgment::{Evidence, NoEvidence};
use super::stage::{Artifact, Stage, StageError};
use crate::judge::JudgeError;
use crate::judge_prompt::{JudgedAnswer, fill_template};
use crate::outcome::{Caveat, Finding};
use crate::stage_name::StageName;

pub(super) struct ParseTemplate;

impl Stage for ParseTemplate {
    fn name(&self) -> StageName {
        StageName::ParseTemplate
    }

    fn needs(&self) -> &'static [Artifact] {
        &[Artifact::Template, Artifact::Answer]
    }

    fn makes(&self) -> &'static [Artifact] {
        &[Artifact::Extraction]
    }

    fn run<'a>(&'a self, unit: &'a mut UnitContext) -> BoxFuture<'a, Result<(), StageError>> {
        Box::pin(async move {
            let trial = std::sync::Arc::clone(&unit.trial);
            let template = trial.question.template.as_ref();
            let Some((template, schema)) = template.and_then(|template| Some((template, template.judge_schema()?)))
            else {
                unit.extraction = Some(Map::new());
                return Ok(());
            };
            let answer = unit.needed_answer(self.name())?;
            let text = answer.judged_text(trial.evaluation.use_full_trace_for_template);
            let judged = JudgedAnswer { question: &trial.question.question, answer: &text };
            let full_trace = trial.evaluation.use_full_trace_for_template;
            let evidence = Evidence { stage: self.name(), judged, full_trace };
            let support = match support::collect(unit, evidence, template).await {
                Ok(support) => support,
                Err(NoEvidence::Stage(error)) => return Err(error),
                Err(NoEvidence::Judge(error)) => return judge_failed(unit, error),
            };
            let prompt = fill_template(judged, support.as_ref().map(|support| support.notes.as_str()), schema);
            let read = |value: &Value| template.parse_judgment(value).map_err(|error| error.to_string());
            let judged = match unit.needed_judge(self.name())?.ask(prompt, read).await {
                Ok(judged) => judged,
                Err(error) => return judge_failed(unit, error),
            };
            if judged.repairs > 0 {
                unit.caveats.insert(Caveat::ParseDecisionMalformed);
            }
            // A value that the answer does not contain needs no excerpt: it fails by itself.
            let has_value = |name: &String| judged.value.get(name).is_some_and(|value| !value.is_null());
            unit.unsupported_fields = support.map(|support| support.without_excerpt).unwrap_or_default();
            unit.unsupported_fields.retain(has_value);
            unit.extraction = Some(judged.value);
            Ok(())
        })
    }
}

fn judge_failed(unit: &mut UnitContext, error: JudgeError) -> Result<(), StageError> {
    match error {
        JudgeError::Stopped(cause) => unit.judge_stopped(cause),
        JudgeError::Unparseable(reason) => Err(StageError::Failed(Finding::Unparseable(reason))),
        JudgeError::Model(error) => Err(StageError::Failed(Finding::ModelFailed(StageName::ParseTemplate, error))),
    }
}
