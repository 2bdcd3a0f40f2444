//! The judge fills the fields of the template, or of the templates of a scenario's turns. It never sees the expected values.

mod support;

use std::sync::Arc;

use serde_json::{Map, Value};
use wharf_protocol::BoxFuture;

use super::answer::Answer;
use super::context::UnitContext;
use super::conversation::Conversation;
use super::deep_judgment::{Evidence, NoEvidence, Sources};
use super::stage::{Artifact, Stage, StageError};
use crate::evaluation::DeepTemplate;
use crate::judge::JudgeError;
use crate::judge_prompt::{JudgedAnswer, fill_template};
use crate::outcome::{Caveat, Finding};
use crate::scenario::Scenario;
use crate::stage_name::StageName;
use crate::template::Template;

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
            let trial = Arc::clone(&unit.trial);
            let answer = unit.needed_answer(self.name())?;
            if let (Some(scenario), Some(conversation)) = (&trial.question.scenario, &answer.conversation) {
                return read_turns(unit, scenario, conversation, &answer).await;
            }
            let Some(template) = &trial.question.template else {
                unit.extraction = Some(Map::new());
                return Ok(());
            };
            let full_trace = trial.evaluation.use_full_trace_for_template;
            let text = answer.judged_text(full_trace);
            let judged = JudgedAnswer { question: &trial.question.question, answer: &text };
            let sources = if full_trace { Sources::Trace } else { Sources::Response };
            unit.extraction =
                fill(unit, template, Evidence { stage: self.name(), judged, sources, turn: None }).await?;
            Ok(())
        })
    }
}

/// Lets the judge fill the templates of all turns. What the steering judge has read counts for its own unit.
async fn read_turns(
    unit: &mut UnitContext,
    scenario: &Scenario,
    conversation: &Conversation,
    answer: &Answer,
) -> Result<(), StageError> {
    let options = unit.trial.evaluation;
    let is_deep = options.deep_judgment.template != DeepTemplate::Disabled;
    let full_trace = options.use_full_trace_for_template;
    let label = unit.judge().map(|judge| judge.judge().label.clone());
    let is_steering = conversation.steering.as_ref().is_some_and(|steering| Some(&steering.judge) == label.as_ref());
    for (index, taken) in conversation.turns.iter().enumerate() {
        let template = scenario.turn(&taken.name).and_then(|turn| turn.template.as_ref());
        let values = match (template, &taken.values) {
            (None, _) => None,
            (Some(_), Some(values)) if is_steering && !is_deep => Some(values.clone()),
            (Some(template), _) => {
                let text = taken.judged_text(&answer.trace, full_trace);
                let evidence = Evidence {
                    stage: StageName::ParseTemplate,
                    judged: JudgedAnswer { question: &taken.prompt, answer: &text },
                    sources: if full_trace { Sources::TurnMessages(index) } else { Sources::TurnResponse(index) },
                    turn: Some(&taken.name),
                };
                let values = fill(unit, template, evidence).await?;
                if unit.is_decided() {
                    return Ok(());
                }
                values
            }
        };
        unit.turn_values.push(values);
    }
    Ok(())
}

/// Lets the judge fill a template. `None` if the verdict is decided.
async fn fill(
    unit: &mut UnitContext,
    template: &Template,
    evidence: Evidence<'_>,
) -> Result<Option<Map<String, Value>>, StageError> {
    let Some(schema) = template.judge_schema() else { return Ok(Some(Map::new())) };
    let (judged, turn) = (evidence.judged, evidence.turn);
    let support = match support::collect(unit, &evidence, template).await {
        Ok(support) => support,
        Err(NoEvidence::Stage(error)) => return Err(error),
        Err(NoEvidence::Judge(error)) => return judge_failed(unit, turn, error),
    };
    let prompt = fill_template(judged, support.as_ref().map(|support| support.notes.as_str()), schema);
    let read = |value: &Value| template.parse_judgment(value).map_err(|error| error.to_string());
    let judged = match unit.needed_judge(StageName::ParseTemplate)?.ask(prompt, read).await {
        Ok(judged) => judged,
        Err(error) => return judge_failed(unit, turn, error),
    };
    if judged.repairs > 0 {
        unit.caveats.insert(Caveat::ParseDecisionMalformed);
    }
    // A value that the answer does not contain needs no excerpt: it fails by itself.
    let has_value = |name: &String| judged.value.get(name).is_some_and(|value| !value.is_null());
    let unsupported = support.map(|support| support.without_excerpt).unwrap_or_default().into_iter().filter(has_value);
    unit.unsupported_fields.extend(unsupported.map(|name| of_turn(turn, &name)));
    Ok(Some(judged.value))
}

/// Returns the name of a field in a turn of a scenario.
fn of_turn(turn: Option<&str>, field: &str) -> String {
    turn.map_or_else(|| field.to_owned(), |turn| format!("{turn}.{field}"))
}

fn judge_failed(
    unit: &mut UnitContext,
    turn: Option<&str>,
    error: JudgeError,
) -> Result<Option<Map<String, Value>>, StageError> {
    match error {
        JudgeError::Stopped(cause) => unit.judge_stopped(cause).map(|()| None),
        JudgeError::Unparseable(reason) => {
            let reason = turn.map_or(reason.clone(), |turn| format!("turn `{turn}`: {reason}"));
            Err(StageError::Failed(Finding::Unparseable(StageName::ParseTemplate, reason)))
        }
        JudgeError::Model(error) => Err(StageError::Failed(Finding::ModelFailed(StageName::ParseTemplate, error))),
    }
}
