//! The judge fills the fields of the template. It never sees the expected values.

use serde_json::{Map, Value};
use wharf_protocol::BoxFuture;

use super::context::UnitContext;
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
            let prompt = fill_template(JudgedAnswer { question: &trial.question.question, answer: &text }, schema);
            let read = |value: &Value| template.parse_judgment(value).map_err(|error| error.to_string());
            match unit.needed_judge(self.name())?.ask(prompt, read).await {
                Ok(judged) => {
                    if judged.repairs > 0 {
                        unit.caveats.insert(Caveat::ParseDecisionMalformed);
                    }
                    unit.extraction = Some(judged.value);
                    Ok(())
                }
                Err(JudgeError::Stopped(cause)) => unit.judge_stopped(cause),
                Err(JudgeError::Unparseable(reason)) => Err(StageError::Failed(Finding::Unparseable(reason))),
                Err(JudgeError::Model(error)) => Err(StageError::Failed(Finding::ModelFailed(self.name(), error))),
            }
        })
    }
}
