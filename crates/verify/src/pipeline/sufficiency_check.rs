//! A judge decides whether the answer contains enough to fill the template. A failure of the judge does not end the unit.

use serde::Deserialize;
use serde_json::Value;
use wharf_protocol::BoxFuture;

use super::context::UnitContext;
use super::stage::{Artifact, Stage, StageError};
use crate::judge_prompt::{JudgedAnswer, check_sufficiency};
use crate::outcome::{Caveat, Finding};
use crate::stage_name::StageName;
use crate::template::Template;

pub(super) struct SufficiencyCheck;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Decision {
    sufficient: bool,
    reason: String,
}

impl Stage for SufficiencyCheck {
    fn name(&self) -> StageName {
        StageName::SufficiencyCheck
    }

    fn needs(&self) -> &'static [Artifact] {
        &[Artifact::Template, Artifact::Answer]
    }

    fn run<'a>(&'a self, unit: &'a mut UnitContext) -> BoxFuture<'a, Result<(), StageError>> {
        Box::pin(async move {
            let Some(schema) = unit.trial.question.template.as_ref().and_then(Template::judge_schema) else {
                return Ok(());
            };
            let answer = unit.needed_answer(self.name())?;
            let text = answer.judged_text(unit.trial.evaluation.use_full_trace_for_template);
            let judged = JudgedAnswer { question: &unit.trial.question.question, answer: &text };
            let prompt = check_sufficiency(judged, &schema);
            let read = |value: &Value| Decision::deserialize(value).map_err(|error| error.to_string());
            match unit.needed_judge(self.name())?.ask(prompt, read).await {
                Ok(judged) => {
                    if judged.repairs > 0 {
                        unit.caveats.insert(Caveat::ParseDecisionMalformed);
                    }
                    if !judged.value.sufficient {
                        unit.decide(Finding::Insufficient(judged.value.reason));
                    }
                    Ok(())
                }
                Err(error) => unit.check_failed(self.name(), error),
            }
        })
    }
}
