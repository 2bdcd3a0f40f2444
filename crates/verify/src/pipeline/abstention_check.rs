//! A judge decides whether the model refused to answer. A failure of the judge does not end the unit.

use serde::Deserialize;
use serde_json::Value;
use wharf_protocol::BoxFuture;

use super::context::UnitContext;
use super::stage::{Artifact, Stage, StageError};
use crate::judge_prompt::{JudgedAnswer, check_abstention};
use crate::outcome::{Caveat, Finding};
use crate::stage_name::StageName;

pub(super) struct AbstentionCheck;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Decision {
    abstained: bool,
    reason: String,
}

impl Stage for AbstentionCheck {
    fn name(&self) -> StageName {
        StageName::AbstentionCheck
    }

    fn needs(&self) -> &'static [Artifact] {
        &[Artifact::Answer]
    }

    fn run<'a>(&'a self, unit: &'a mut UnitContext) -> BoxFuture<'a, Result<(), StageError>> {
        Box::pin(async move {
            let answer = unit.needed_answer(self.name())?;
            let text = answer.judged_text(unit.trial.evaluation.use_full_trace_for_template);
            let prompt = check_abstention(JudgedAnswer { question: &answer.asked, answer: &text });
            let read = |value: &Value| Decision::deserialize(value).map_err(|error| error.to_string());
            match unit.needed_judge(self.name())?.ask(prompt, read).await {
                Ok(judged) => {
                    if judged.repairs > 0 {
                        unit.caveats.insert(Caveat::ParseDecisionMalformed);
                    }
                    if judged.value.abstained {
                        unit.decide(Finding::Abstained(self.name(), judged.value.reason));
                    }
                    Ok(())
                }
                Err(error) => unit.check_failed(self.name(), error),
            }
        })
    }
}
