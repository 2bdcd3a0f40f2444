//! The steering judge: it reads answers to decide which turn of a scenario follows, once for all units of a trial.

use std::sync::Arc;

use serde_json::{Map, Value};
use wharf_protocol::Usage;

use super::context::TrialContext;
use super::conversation::Stopped;
use crate::journal::{JournalError, StepOwner};
use crate::journaled::{Steps, StopCause, Totals};
use crate::judge::{JudgeError, UnitJudge};
use crate::judge_prompt::{JudgedAnswer, fill_template};
use crate::outcome::Finding;
use crate::scenario::Turn;
use crate::stage_name::StageName;

/// What the steering judge did in a trial. It counts in the results of the judge's own unit.
#[derive(Clone, Debug)]
pub(crate) struct Steering {
    /// Label of the judge.
    pub(crate) judge: String,
    /// The model that responded last, according to its provider.
    pub(crate) actual_model: Option<String>,
    pub(crate) usage: Usage,
    pub(crate) totals: Totals,
    /// Whether an answer of the judge was repaired.
    pub(crate) was_repaired: bool,
}

/// The steering judge of a trial.
pub(super) struct SteeringJudge {
    judge: Option<UnitJudge>,
    has_read: bool,
    was_repaired: bool,
}

impl TrialContext {
    /// Returns the steering judge. Its requests are steps of the trial, so that all units share them.
    pub(super) fn steering(&self) -> SteeringJudge {
        let judge = self.steering_judge.as_ref().map(|judge| {
            let steps = Steps::new(Arc::clone(&self.journal), StepOwner::Trial, self.redactor.clone());
            UnitJudge::new(Arc::clone(judge), self.id.to_string(), Arc::new(steps), self.is_replay)
        });
        SteeringJudge { judge, has_read: false, was_repaired: false }
    }
}

impl SteeringJudge {
    /// Lets the judge fill the template of a turn. Without usable values the conversation cannot go on.
    pub(super) async fn read(
        &mut self,
        turn: &Turn,
        prompt: &str,
        answer: &str,
    ) -> Result<Result<Map<String, Value>, Stopped>, JournalError> {
        let finding = |finding| Ok(Err(Stopped::Finding(finding)));
        let form = turn.template.as_ref().and_then(|template| Some((template, template.judge_schema()?)));
        let Some((template, schema)) = form else { return Ok(Ok(Map::new())) };
        let Some(judge) = &mut self.judge else {
            let reason = "no judge is configured".to_owned();
            return finding(Finding::Unexpected(StageName::GenerateAnswer, reason));
        };
        self.has_read = true;
        let request = fill_template(JudgedAnswer { question: prompt, answer }, None, schema);
        let read = |value: &Value| template.parse_judgment(value).map_err(|error| error.to_string());
        match judge.ask(request, read).await {
            Ok(judged) => {
                self.was_repaired |= judged.repairs > 0;
                Ok(Ok(judged.value))
            }
            Err(JudgeError::Unparseable(reason)) => {
                let reason = format!("turn `{}`: {reason}", turn.name);
                finding(Finding::Unparseable(StageName::ParseTemplate, reason))
            }
            Err(JudgeError::Model(error)) => finding(Finding::ModelFailed(StageName::ParseTemplate, error)),
            Err(JudgeError::Stopped(StopCause::Journal(error))) => Err(error),
            Err(JudgeError::Stopped(StopCause::Indeterminate(reason))) => Ok(Err(Stopped::Indeterminate(reason))),
            Err(JudgeError::Stopped(StopCause::Invalid(reason))) => Ok(Err(Stopped::Invalid(reason))),
            Err(JudgeError::Stopped(StopCause::TimeLimit(seconds))) => {
                Ok(Err(Stopped::Invalid(format!("the limit of {seconds} s was reached"))))
            }
        }
    }

    /// Returns what the judge did. `None` if it read nothing.
    pub(super) fn finish(self) -> Option<Steering> {
        let judge = self.judge.filter(|_| self.has_read)?;
        Some(Steering {
            judge: judge.judge().label.clone(),
            actual_model: judge.actual_model().map(str::to_owned),
            usage: judge.usage(),
            totals: judge.totals(),
            was_repaired: self.was_repaired,
        })
    }
}
