//! The requests for the traits of one unit: first whether their concepts are present, then their values.

use std::sync::{Arc, Mutex, PoisonError};

use serde_json::Value;
use wharf_agent::ModelError;

use super::super::context::{TrialContext, UnitContext};
use super::super::stage::StageError;
use crate::benchmark::{MetricTrait, NamedTrait, TraitKind};
use crate::judge::JudgeError;
use crate::judge_prompt::{JudgePrompt, JudgedAnswer, check_presence, count_items, evaluate_traits};
use crate::outcome::Caveat;
use crate::rubric::form::{self, Presence, TraitJudgment};
use crate::rubric::{TraitOutcome, TraitResult, TraitValue, match_pattern, matrix, requests};
use crate::stage_name::StageName;

/// The evaluation of the traits of one unit.
pub(super) struct Judging<'a> {
    unit: &'a mut UnitContext,
    trial: Arc<TrialContext>,
    /// What is evaluated.
    text: String,
    /// Why the judge does not respond. It is not asked again.
    failure: Option<ModelError>,
}

/// Why the stage ends before all traits are evaluated.
pub(super) enum Ended {
    /// The verdict is decided.
    Decided,
    /// The stage failed.
    Error(StageError),
}

/// A value, or why there is none.
type Asked<T> = Result<T, String>;

impl<'a> Judging<'a> {
    pub(super) fn new(unit: &'a mut UnitContext, text: String) -> Self {
        let trial = Arc::clone(&unit.trial);
        Self { unit, trial, text, failure: None }
    }

    /// Returns why the judge did not respond.
    pub(super) fn into_failure(self) -> Option<ModelError> {
        self.failure
    }

    /// Evaluates all traits, and returns their results in order.
    pub(super) async fn evaluate(&mut self) -> Result<Vec<TraitResult>, Ended> {
        let trial = Arc::clone(&self.trial);
        let traits = &trial.traits;
        let mut results: Vec<Option<TraitResult>> = self.absent(traits).await?;
        for request in requests(traits, trial.evaluation.rubric_strategy) {
            let open: Vec<usize> = request.into_iter().filter(|index| results[*index].is_none()).collect();
            if open.is_empty() {
                continue;
            }
            let together: Vec<&NamedTrait> = open.iter().map(|index| &traits[*index]).collect();
            let judged = self.judge_together(&together).await?;
            for (index, judgment) in open.into_iter().zip(judged) {
                results[index] = Some(result(&traits[index], judgment));
            }
        }
        let mut complete = Vec::with_capacity(traits.len());
        for (of, result) in traits.iter().zip(results) {
            complete.push(match result {
                Some(result) => result,
                None => self.evaluate_alone(of).await?,
            });
        }
        Ok(complete)
    }

    /// Returns the results of traits whose concept is not present in the answer, at their positions.
    async fn absent(&mut self, traits: &[NamedTrait]) -> Result<Vec<Option<TraitResult>>, Ended> {
        let mut results = vec![None; traits.len()];
        let dynamic: Vec<usize> = (0..traits.len()).filter(|index| traits[*index].definition.if_present).collect();
        if dynamic.is_empty() {
            return Ok(results);
        }
        let together: Vec<&NamedTrait> = dynamic.iter().map(|index| &traits[*index]).collect();
        let prompt = check_presence(self.judged(), form::presence_schema(&together));
        let asked = self.ask(prompt, |value| form::read_presence(&together, value)).await?;
        let presences: Vec<Asked<Presence>> = match asked {
            Ok(presences) => presences.into_iter().map(Ok).collect(),
            Err(reason) => vec![Err(reason); dynamic.len()],
        };
        for (index, presence) in dynamic.into_iter().zip(presences) {
            let outcome = match presence {
                Ok(Presence { is_present: true, .. }) => continue,
                Ok(Presence { is_present: false, reason }) => TraitOutcome::Absent(reason),
                Err(reason) => TraitOutcome::Failed(format!("unknown whether the concept is present: {reason}")),
            };
            results[index] = Some(TraitResult::new(&traits[index], outcome));
        }
        Ok(results)
    }

    /// Evaluates a trait that shares no request.
    async fn evaluate_alone(&mut self, of: &NamedTrait) -> Result<TraitResult, Ended> {
        Ok(match &of.definition.kind {
            TraitKind::Regex(regex) => TraitResult::new(of, match_pattern(regex, &self.text)),
            TraitKind::Metric(metric) => {
                let judgment = self.count(metric, of.definition.description.as_deref()).await?;
                result(of, judgment)
            }
            TraitKind::LlmBoolean(_)
            | TraitKind::LlmScore(_)
            | TraitKind::LlmLiteral(_)
            | TraitKind::LlmStructured(_)
            | TraitKind::Agentic(_) => {
                // Plans reject the kinds that are not evaluated.
                TraitResult::new(of, TraitOutcome::Failed("the kind is not available".to_owned()))
            }
        })
    }

    /// Evaluates traits in one request. If the judge never fills the form completely, the usable values of its last answer
    /// count.
    async fn judge_together(&mut self, traits: &[&NamedTrait]) -> Result<Vec<Asked<TraitJudgment>>, Ended> {
        let trial = Arc::clone(&self.trial);
        let includes_truth =
            traits.iter().any(|of| of.definition.judge_settings().is_some_and(|of| of.include_ground_truth));
        let reference = if includes_truth { trial.question.answer.as_deref() } else { None };
        let description = match traits {
            [only] => only.definition.description.as_deref(),
            _ => None,
        };
        let prompt = evaluate_traits(self.judged(), reference, description, form::schema(traits));
        let last: Mutex<Vec<Asked<TraitJudgment>>> = Mutex::default();
        let read = |value: &Value| {
            let judgments = form::read(traits, value);
            let problems: Vec<String> = judgments.iter().filter_map(|of| of.as_ref().err().cloned()).collect();
            *last.lock().unwrap_or_else(PoisonError::into_inner) = judgments;
            if problems.is_empty() { Ok(()) } else { Err(problems.join("\n")) }
        };
        let asked = self.ask(prompt, read).await?;
        let judgments = last.into_inner().unwrap_or_else(PoisonError::into_inner);
        Ok(match asked {
            Err(reason) if judgments.is_empty() => vec![Err(reason); traits.len()],
            Ok(()) | Err(_) => judgments,
        })
    }

    async fn count(&mut self, of: &MetricTrait, description: Option<&str>) -> Result<Asked<TraitJudgment>, Ended> {
        let prompt = count_items(self.judged(), of, description, matrix::schema(of));
        let counted = self.ask(prompt, |value| matrix::read(of, value)).await?;
        Ok(counted
            .map(|(value, reasoning)| TraitJudgment { value: TraitValue::Metrics(value), reasoning: Some(reasoning) }))
    }

    fn judged(&self) -> JudgedAnswer<'_> {
        JudgedAnswer { question: &self.trial.question.question, answer: &self.text }
    }

    /// Sends a request. A judge that does not respond is not asked again, and an unusable answer does not end the unit.
    async fn ask<T>(
        &mut self,
        prompt: JudgePrompt,
        read: impl Fn(&Value) -> Result<T, String>,
    ) -> Result<Asked<T>, Ended> {
        if let Some(error) = &self.failure {
            return Ok(Err(error.to_string()));
        }
        let judge = self.unit.needed_judge(StageName::RubricEvaluation).map_err(Ended::Error)?;
        match judge.ask(prompt, read).await {
            Ok(judged) => {
                if judged.repairs > 0 {
                    self.unit.caveats.insert(Caveat::ParseDecisionMalformed);
                }
                Ok(Ok(judged.value))
            }
            Err(JudgeError::Stopped(cause)) => {
                self.unit.judge_stopped(cause).map_err(Ended::Error)?;
                Err(Ended::Decided)
            }
            Err(JudgeError::Unparseable(reason)) => Ok(Err(reason)),
            Err(JudgeError::Model(error)) => {
                let reason = error.to_string();
                self.failure = Some(error);
                Ok(Err(reason))
            }
        }
    }
}

fn result(of: &NamedTrait, judgment: Asked<TraitJudgment>) -> TraitResult {
    match judgment {
        Ok(TraitJudgment { value, reasoning }) => {
            TraitResult { reasoning, ..TraitResult::new(of, TraitOutcome::Value(value)) }
        }
        Err(reason) => TraitResult::new(of, TraitOutcome::Failed(reason)),
    }
}
