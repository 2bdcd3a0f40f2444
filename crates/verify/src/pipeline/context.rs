//! What the stages of a unit know and have made.

use std::collections::BTreeSet;
use std::sync::Arc;

use serde_json::{Map, Value};
use tokio::sync::OnceCell;
use wharf_protocol::Redactor;

use super::answer::Answer;
use super::answering;
use super::conversation::TurnChecks;
use super::stage::StageError;
use crate::assertion::AssertionResult;
use crate::benchmark::{Isolation, NamedTrait, Question};
use crate::embedding::EmbeddingModel;
use crate::evaluation::EvaluationOptions;
use crate::evidence::Excerpt;
use crate::ids::{TrialId, UnitId};
use crate::journal::{Journal, JournalError, StepOwner};
use crate::journaled::{Steps, StopCause};
use crate::judge::{JudgeError, UnitJudge};
use crate::model_under_test::{Judge, ModelUnderTest};
use crate::outcome::{Caveat, Finding, UnitResult};
use crate::rubric::RubricResult;
use crate::scenario::CriterionResult;
use crate::servers::ServerSet;
use crate::stage_name::StageName;
use crate::template::TemplateResult;
use crate::tool_set::PlannedTools;
use crate::workbench::ServerPool;

/// What a trial is made of.
pub(crate) struct TrialParts {
    pub(crate) id: TrialId,
    pub(crate) question: Arc<Question>,
    /// The traits of the question.
    pub(crate) traits: Vec<NamedTrait>,
    pub(crate) replicate: u32,
    pub(crate) model: Arc<ModelUnderTest>,
    /// The judge that reads answers to decide which turn of a scenario follows: the first one of the run, whatever judge
    /// a unit has, because all units share the conversation.
    pub(crate) steering_judge: Option<Arc<Judge>>,
    pub(crate) servers: ServerSet,
    pub(crate) isolation: Isolation,
    /// The tools that the model is offered, as planned.
    pub(crate) tools: Arc<PlannedTools>,
    pub(crate) evaluation: EvaluationOptions,
    /// Compares meanings.
    pub(crate) embedding: Option<EmbeddingModel>,
    pub(crate) journal: Arc<dyn Journal>,
    pub(crate) pool: Arc<ServerPool>,
    pub(crate) redactor: Redactor,
}

/// One trial: everything that its units share.
pub(crate) struct TrialContext {
    parts: TrialParts,
    pub(super) is_replay: bool,
    /// The answer, once a unit has needed it.
    answer: OnceCell<Arc<Answer>>,
}

/// One unit: what its stages know and have made.
pub(crate) struct UnitContext {
    pub(super) trial: Arc<TrialContext>,
    pub(super) id: UnitId,
    judge: Option<UnitJudge>,
    answer: Option<Arc<Answer>>,
    pub(super) extraction: Option<Map<String, Value>>,
    pub(super) template_result: Option<TemplateResult>,
    pub(super) assertions: Vec<AssertionResult>,
    /// The values that the judge extracted from each turn of a scenario.
    pub(super) turn_values: Vec<Option<Map<String, Value>>>,
    /// The results of each turn of a scenario.
    pub(super) turn_checks: Vec<TurnChecks>,
    /// The results of a scenario's criteria.
    pub(super) criteria: Vec<CriterionResult>,
    pub(super) rubric: Option<RubricResult>,
    /// The excerpts that were found in the answer.
    pub(super) excerpts: Vec<Excerpt>,
    /// The judge's reasoning about the fields.
    pub(super) judge_reasoning: Option<String>,
    /// Fields with a value and without an excerpt.
    pub(super) unsupported_fields: Vec<String>,
    /// Traits without an excerpt.
    pub(super) unsupported_traits: Vec<String>,
    pub(super) findings: Vec<Finding>,
    pub(super) caveats: BTreeSet<Caveat>,
    pub(super) invalid: Option<String>,
    pub(super) indeterminate: Option<String>,
    is_decided: bool,
    pub(super) result: Option<UnitResult>,
}

impl std::ops::Deref for TrialContext {
    type Target = TrialParts;

    fn deref(&self) -> &TrialParts {
        &self.parts
    }
}

impl TrialContext {
    pub(crate) fn new(parts: TrialParts) -> Self {
        let is_replay = parts.journal.is_replay();
        Self { parts, is_replay, answer: OnceCell::new() }
    }

    /// Returns the answer. The first unit that needs it gets it from the model.
    pub(super) async fn answer(&self) -> Result<Arc<Answer>, JournalError> {
        let answer = self.answer.get_or_try_init(|| async { answering::answer(self).await.map(Arc::new) });
        answer.await.cloned()
    }
}

impl UnitContext {
    pub(crate) fn new(trial: Arc<TrialContext>, id: UnitId, judge: Option<Arc<Judge>>) -> Self {
        let judge = judge.map(|judge| {
            let owner = StepOwner::Unit(id.clone());
            let steps = Steps::new(Arc::clone(&trial.journal), owner, trial.redactor.clone());
            UnitJudge::new(judge, id.to_string(), Arc::new(steps), trial.is_replay)
        });
        Self {
            trial,
            id,
            judge,
            answer: None,
            extraction: None,
            template_result: None,
            assertions: Vec::new(),
            turn_values: Vec::new(),
            turn_checks: Vec::new(),
            criteria: Vec::new(),
            rubric: None,
            excerpts: Vec::new(),
            judge_reasoning: None,
            unsupported_fields: Vec::new(),
            unsupported_traits: Vec::new(),
            findings: Vec::new(),
            caveats: BTreeSet::new(),
            invalid: None,
            indeterminate: None,
            is_decided: false,
            result: None,
        }
    }

    /// Whether no further stage can change the result.
    pub(super) fn is_decided(&self) -> bool {
        self.is_decided
    }

    /// Ends the unit with a finding.
    pub(super) fn decide(&mut self, finding: Finding) {
        self.findings.push(finding);
        self.is_decided = true;
    }

    /// Ends the unit as invalid.
    pub(super) fn set_invalid(&mut self, reason: String) {
        self.invalid = Some(reason);
        self.is_decided = true;
    }

    /// Ends the unit as indeterminate.
    pub(super) fn set_indeterminate(&mut self, reason: String) {
        self.indeterminate = Some(reason);
        self.is_decided = true;
    }

    pub(super) fn set_answer(&mut self, answer: Arc<Answer>) {
        self.answer = Some(answer);
    }

    /// Returns the answer, if the model was asked.
    pub(super) fn answer(&self) -> Option<&Arc<Answer>> {
        self.answer.as_ref()
    }

    /// Returns the answer for a stage that needs one.
    pub(super) fn needed_answer(&self, stage: StageName) -> Result<Arc<Answer>, StageError> {
        let missing = || StageError::Failed(Finding::Unexpected(stage, "there is no answer".to_owned()));
        self.answer.clone().ok_or_else(missing)
    }

    /// Returns the judge, if the unit has one.
    pub(super) fn judge(&self) -> Option<&UnitJudge> {
        self.judge.as_ref()
    }

    /// Returns the judge for a stage that needs one.
    pub(super) fn needed_judge(&mut self, stage: StageName) -> Result<&mut UnitJudge, StageError> {
        let missing = || StageError::Failed(Finding::Unexpected(stage, "no judge is configured".to_owned()));
        self.judge.as_mut().ok_or_else(missing)
    }

    /// Handles that no further step of a judge may be executed.
    pub(super) fn judge_stopped(&mut self, cause: StopCause) -> Result<(), StageError> {
        match cause {
            StopCause::Journal(error) => return Err(StageError::Journal(error)),
            StopCause::Indeterminate(reason) => self.set_indeterminate(reason),
            StopCause::Invalid(reason) => self.set_invalid(reason),
            StopCause::TimeLimit(seconds) => self.set_invalid(format!("the limit of {seconds} s was reached")),
        }
        Ok(())
    }

    /// Handles a failure of an optional check, which does not end the unit.
    pub(super) fn check_failed(&mut self, stage: StageName, error: JudgeError) -> Result<(), StageError> {
        match error {
            JudgeError::Stopped(cause) => return self.judge_stopped(cause),
            JudgeError::Unparseable(reason) => {
                tracing::warn!(stage = stage.as_str(), reason, "the judge's decision is unusable");
                self.caveats.insert(Caveat::ParseDecisionMalformed);
            }
            JudgeError::Model(error) => {
                tracing::warn!(stage = stage.as_str(), %error, "the judge did not respond");
                self.caveats.insert(Caveat::CheckIncomplete);
            }
        }
        Ok(())
    }

    /// Returns the result that the last stage has built.
    pub(super) fn take_result(&mut self) -> UnitResult {
        self.result.take().unwrap_or_else(|| super::finalize::result(self))
    }
}
