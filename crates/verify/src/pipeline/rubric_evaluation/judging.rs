//! The requests for the traits of one unit: first whether their concepts are present, then their values.

use std::sync::{Arc, Mutex, PoisonError};

use serde_json::Value;
use wharf_agent::ModelError;

use super::super::context::{TrialContext, UnitContext};
use super::super::deep_judgment::{Evidence, NoEvidence, Sources, Supported, excerpts_text};
use super::super::stage::StageError;
use crate::benchmark::{MetricTrait, NamedTrait, TraitKind};
use crate::evidence::{ExcerptRules, Subject};
use crate::judge::JudgeError;
use crate::judge_prompt::{
    EvidenceItem, JudgePrompt, JudgedAnswer, TraitNotes, check_presence, count_items, evaluate_traits,
};
use crate::outcome::Caveat;
use crate::rubric::form::{self, Presence, TraitJudgment};
use crate::rubric::{TraitOutcome, TraitResult, TraitValue, excerpt_rules, match_pattern, matrix, requests};
use crate::stage_name::StageName;

/// The evaluation of the traits of one unit.
pub(super) struct Judging<'a> {
    pub(super) unit: &'a mut UnitContext,
    pub(super) trial: Arc<TrialContext>,
    /// What the model was asked.
    pub(super) question: String,
    /// What is evaluated.
    pub(super) text: String,
    /// Why the judge does not respond. It is not asked again.
    pub(super) failure: Option<ModelError>,
}

/// Why the stage ends before all traits are evaluated.
pub(super) enum Ended {
    /// The verdict is decided.
    Decided,
    /// The stage failed.
    Error(StageError),
}

/// A value, or why there is none.
pub(super) type Asked<T> = Result<T, String>;

impl<'a> Judging<'a> {
    pub(super) fn new(unit: &'a mut UnitContext, question: String, text: String) -> Self {
        let trial = Arc::clone(&unit.trial);
        Self { unit, trial, question, text, failure: None }
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
        for request in requests(traits, &trial.evaluation) {
            let open: Vec<usize> = request.into_iter().filter(|index| results[*index].is_none()).collect();
            if open.is_empty() {
                continue;
            }
            let together: Vec<&NamedTrait> = open.iter().map(|index| &traits[*index]).collect();
            let judged = self.judge_together(&together, TraitNotes::default()).await?;
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
        if let Some(rules) = excerpt_rules(&of.definition, &self.trial.evaluation.deep_judgment) {
            return self.judge_with_excerpts(of, rules).await;
        }
        Ok(match &of.definition.kind {
            TraitKind::Regex(regex) => TraitResult::new(of, match_pattern(regex, &self.text)),
            TraitKind::Metric(metric) => {
                let judgment = self.count(metric, of.definition.description.as_deref()).await?;
                result(of, judgment)
            }
            TraitKind::LlmBoolean(_)
            | TraitKind::LlmScore(_)
            | TraitKind::LlmLiteral(_)
            | TraitKind::LlmStructured(_) => {
                // They are in a request with others, or have excerpts.
                failed(of, "the trait was not evaluated".to_owned())
            }
            TraitKind::Agentic(agentic) => self.investigate(of, agentic).await?,
        })
    }

    /// Evaluates a trait from excerpts of the answer. Without an excerpt, it has no value.
    async fn judge_with_excerpts(&mut self, of: &NamedTrait, rules: ExcerptRules) -> Result<TraitResult, Ended> {
        if let Some(error) = &self.failure {
            return Ok(failed(of, error.to_string()));
        }
        let (trial, question, text) = (Arc::clone(&self.trial), self.question.clone(), self.text.clone());
        let description = of.definition.description.as_ref().or(of.definition.summary.as_ref()).unwrap_or(&of.name);
        let supported = [Supported {
            item: EvidenceItem { key: "excerpts".to_owned(), description: description.trim().to_owned() },
            subject: Subject::Name(of.name.clone()),
        }];
        let evidence = Evidence {
            stage: StageName::RubricEvaluation,
            judged: JudgedAnswer { question: &question, answer: &text },
            sources: if trial.evaluation.use_full_trace_for_rubric { Sources::Trace } else { Sources::Response },
            turn: None,
        };
        let collected = match evidence.collect(self.unit, &supported, rules).await {
            Err(NoEvidence::Stage(error)) => return Err(Ended::Error(error)),
            Err(NoEvidence::Judge(error)) => Err(error),
            Ok(excerpts) => Ok(excerpts),
        };
        let excerpts = match self.asked(collected)? {
            Ok(excerpts) => excerpts,
            Err(reason) => return Ok(failed(of, reason)),
        };
        if excerpts.is_empty() {
            self.unit.unsupported_traits.push(of.name.clone());
            return Ok(failed(of, "no excerpt of the answer supports a value".to_owned()));
        }
        let listed = excerpts_text(&supported, &excerpts);
        self.unit.keep_excerpts(&supported, excerpts);
        let notes = TraitNotes { excerpts: Some(&listed), ..TraitNotes::default() };
        let mut judged = self.judge_together(&[of], notes).await?;
        Ok(result(of, judged.pop().unwrap_or_else(|| Err("no value".to_owned()))))
    }

    /// Evaluates traits in one request. If the judge never fills the form completely, the usable values of its last answer
    /// count.
    pub(super) async fn judge_together(
        &mut self,
        traits: &[&NamedTrait],
        notes: TraitNotes<'_>,
    ) -> Result<Vec<Asked<TraitJudgment>>, Ended> {
        let trial = Arc::clone(&self.trial);
        let includes_truth =
            traits.iter().any(|of| of.definition.judge_settings().is_some_and(|of| of.include_ground_truth));
        let reference = if includes_truth { trial.question.answer.as_deref() } else { None };
        let description = match traits {
            [only] => only.definition.description.as_deref(),
            _ => None,
        };
        let prompt =
            evaluate_traits(self.judged(), TraitNotes { reference, description, ..notes }, form::schema(traits));
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
        JudgedAnswer { question: &self.question, answer: &self.text }
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
        let asked = judge.ask(prompt, read).await;
        if asked.as_ref().is_ok_and(|judged| judged.repairs > 0) {
            self.unit.caveats.insert(Caveat::ParseDecisionMalformed);
        }
        self.asked(asked.map(|judged| judged.value))
    }

    /// Handles a judge's failure: one that does not respond is not asked again, and an unusable answer does not end the
    /// unit.
    pub(super) fn asked<T>(&mut self, asked: Result<T, JudgeError>) -> Result<Asked<T>, Ended> {
        match asked {
            Ok(value) => Ok(Ok(value)),
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

/// Returns the result of a trait without a value.
pub(super) fn failed(of: &NamedTrait, reason: String) -> TraitResult {
    TraitResult::new(of, TraitOutcome::Failed(reason))
}

pub(super) fn result(of: &NamedTrait, judgment: Asked<TraitJudgment>) -> TraitResult {
    match judgment {
        Ok(TraitJudgment { value, reasoning }) => {
            TraitResult { reasoning, ..TraitResult::new(of, TraitOutcome::Value(value)) }
        }
        Err(reason) => failed(of, reason),
    }
}
