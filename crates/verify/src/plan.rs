//! Plans: questions × models × replicates are trials, and trials × judges are units.

mod estimate;
mod identity;
mod selection;

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use crate::assertion::Assertion;
use crate::benchmark::{Benchmark, Question, Trait, TraitKind};
use crate::embedding::EmbeddingModel;
use crate::evaluation::EvaluationOptions;
use crate::ids::{QuestionId, TrialId, UnitId};
use crate::model_under_test::{Judge, ModelUnderTest};
use crate::scenario::Scenario;
use crate::servers::{ServerSet, ToolSets};
use crate::template::{Check, Field, Template};
use crate::tool_set::OfferedTool;
pub use estimate::Estimate;
use identity::{SteeringIdentity, ToolsIdentity, TrialIdentity, UnitIdentity};
pub use selection::Selection;

/// Version of the result format. It is part of every id: results of another version are not reused.
pub const RESULT_FORMAT: u32 = 1;

/// Trials in the order in which they are claimed.
pub trait Trials: Send + Sync {
    /// Returns the trials.
    fn iter(&self) -> Box<dyn Iterator<Item = Trial> + Send + '_>;
}

impl Trials for Vec<Trial> {
    fn iter(&self) -> Box<dyn Iterator<Item = Trial> + Send + '_> {
        Box::new(self.as_slice().iter().cloned())
    }
}

/// All trials of a run. They are made as they are read: a plan does not grow with the number of replicates.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Plan {
    answers: Vec<PlannedAnswer>,
    replicates: u32,
}

/// All replicates of a model's answer to a question.
#[derive(Clone, Debug, PartialEq)]
struct PlannedAnswer {
    question: QuestionId,
    model: String,
    identity: TrialIdentity,
    units: Vec<PlannedUnit>,
}

/// A judge of an answer.
#[derive(Clone, Debug, PartialEq)]
struct PlannedUnit {
    judge: Option<String>,
    identity: UnitIdentity,
}

/// One answer of one model to one question.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Trial {
    /// A digest of everything that can change the answer.
    pub id: TrialId,
    /// The question.
    pub question: QuestionId,
    /// Label of the answering model.
    pub model: String,
    /// Number of the replicate, from 1.
    pub replicate: u32,
    /// The units of the trial: one for each judge.
    pub units: Vec<Unit>,
}

/// A trial under one judge.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Unit {
    /// A digest of everything that can change the result.
    pub id: UnitId,
    /// Label of the judge. `None` if the question needs no judge.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub judge: Option<String>,
}

/// What a plan is made of.
#[derive(Clone, Copy)]
pub struct PlanInput<'a> {
    /// The benchmark.
    pub benchmark: &'a Benchmark,
    /// The answering models.
    pub models: &'a [ModelUnderTest],
    /// The judges.
    pub judges: &'a [Judge],
    /// How often each question is asked, at least once.
    pub replicates: u32,
    /// How answers are evaluated.
    pub evaluation: &'a EvaluationOptions,
    /// The model that compares meanings.
    pub embedding: Option<&'a EmbeddingModel>,
    /// The tools that the servers offer now.
    pub tool_sets: &'a ToolSets,
    /// Whether a model may judge its own answers.
    pub allow_self_judging: bool,
    /// The questions to run.
    pub selection: &'a Selection,
}

/// Why a run cannot be planned.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PlanError {
    /// No model answers.
    #[error("no answering model")]
    NoModel,
    /// Two models or two judges have the same label.
    #[error("duplicate label `{0}`: two models or two judges of a run need different labels")]
    DuplicateLabel(String),
    /// A selected question does not exist.
    #[error("unknown question `{id}`")]
    UnknownQuestion {
        /// The id as given.
        id: String,
        /// The most similar id of the benchmark, if one is similar.
        nearest: Option<QuestionId>,
    },
    /// No question has a selected keyword.
    #[error("no question has the keyword `{keyword}`")]
    UnknownKeyword {
        /// The keyword as given.
        keyword: String,
        /// The most similar keyword of the benchmark, if one is similar.
        nearest: Option<String>,
    },
    /// The selection is empty.
    #[error("no question is selected")]
    NoQuestion,
    /// An assertion names a tool that no model is offered.
    #[error("question `{question}`: no server offers the tool `{tool}` of its assertion")]
    UnknownTool {
        /// The question.
        question: QuestionId,
        /// The tool as the assertion names it.
        tool: String,
        /// The most similar tool, if one is similar.
        nearest: Option<String>,
    },
    /// A question needs a judge, and none is configured.
    #[error("question `{0}` needs a judge, and no judge is configured")]
    JudgeRequired(QuestionId),
    /// A question compares meanings, and no embedding model is configured.
    #[error("question `{0}` has a `semantic_match`, and no embedding model is configured")]
    EmbeddingRequired(QuestionId),
    /// A judge is the model whose answers it judges.
    #[error("judge `{judge}` and model `{model}` are the same model: a model may not judge its own answers")]
    SelfJudging {
        /// Label of the model.
        model: String,
        /// Label of the judge.
        judge: String,
    },
    /// A question has nothing that the mode evaluates.
    #[error("question `{question}` has nothing to check in mode `{mode}`")]
    NothingToCheck {
        /// The question.
        question: QuestionId,
        /// Name of the mode.
        mode: &'static str,
    },
    /// A trait of a kind that is not evaluated.
    #[error("trait `{name}` cannot be evaluated: {} not available", reason.as_str())]
    UnavailableTrait {
        /// Name of the trait.
        name: String,
        /// What is not available.
        reason: UnavailableTrait,
    },
    /// A model that replays prepared traces has servers of its own.
    #[error("model `{0}` is manual and calls no tools, so it cannot have servers")]
    ManualWithServers(String),
    /// A model that has prepared answers cannot take part in a conversation.
    #[error(
        "question `{question}` is a scenario, and model `{model}` has prepared answers: a scenario needs a model that answers each turn"
    )]
    ScenarioOfPrepared {
        /// The question.
        question: QuestionId,
        /// Label of the model.
        model: String,
    },
    /// The servers of a model were not opened before planning.
    #[error("the tools of model `{model}` for question `{question}` are unknown: its servers were not opened")]
    UnknownTools {
        /// Label of the model.
        model: String,
        /// The question.
        question: QuestionId,
    },
}

/// Why a trait cannot be evaluated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UnavailableTrait {
    /// The trace of an answer is not written to a file.
    TraceFile,
    /// Excerpts are not checked by a search of the web.
    Search,
}

impl UnavailableTrait {
    fn as_str(self) -> &'static str {
        match self {
            Self::TraceFile => "`materialize_trace` is",
            Self::Search => "`search` of `deep_judgment` is",
        }
    }

    fn of(definition: &Trait) -> Option<Self> {
        let settings = definition.judge_settings();
        let searches = settings.is_some_and(|of| of.deep_judgment.as_ref().is_some_and(|deep| deep.search));
        match &definition.kind {
            TraitKind::Agentic(agentic) if agentic.materialize_trace => Some(Self::TraceFile),
            _ if searches => Some(Self::Search),
            _ => None,
        }
    }
}

impl Plan {
    /// Plans a run.
    ///
    /// # Errors
    /// Returns an error if the parts do not fit together. Nothing is sent or started.
    pub fn new(input: &PlanInput<'_>) -> Result<Self, PlanError> {
        check(input)?;
        let mut answers = Vec::new();
        let mut known_tools: BTreeMap<String, ToolsIdentity> = BTreeMap::new();
        for question in input.selection.questions(input.benchmark)? {
            check_question(question, input)?;
            check_assertions(question, input)?;
            for model in input.models {
                let servers = ServerSet::of(input.benchmark, question, model);
                let Some(tools) = input.tool_sets.get(&servers) else {
                    return Err(PlanError::UnknownTools { model: model.label.clone(), question: question.id.clone() });
                };
                let identity = known_tools.entry(servers.key());
                let tools = identity.or_insert_with(|| ToolsIdentity::new(input.benchmark, tools));
                let steering = input.judges.first().filter(|_| is_steered(question)).map(|judge| SteeringIdentity {
                    judge,
                    reads_full_trace: input.evaluation.use_full_trace_for_template,
                });
                answers.push(PlannedAnswer {
                    question: question.id.clone(),
                    model: model.label.clone(),
                    identity: TrialIdentity::new(question, model, &servers, tools, steering.as_ref()),
                    units: units(question, input),
                });
            }
        }
        Ok(Self { answers, replicates: input.replicates.max(1) })
    }

    /// Returns the trials in the order in which they are claimed.
    pub fn trials(&self) -> impl Iterator<Item = Trial> + Send {
        self.answers.iter().flat_map(|answer| (1..=self.replicates).map(|replicate| answer.trial(replicate)))
    }

    /// Returns the questions, each once.
    pub fn questions(&self) -> Vec<&QuestionId> {
        let mut questions: Vec<&QuestionId> = self.answers.iter().map(|answer| &answer.question).collect();
        questions.dedup();
        questions
    }

    /// Returns the labels of the judges, each once.
    pub fn judges(&self) -> BTreeSet<&str> {
        let units = self.answers.iter().flat_map(|answer| &answer.units);
        units.filter_map(|unit| unit.judge.as_deref()).collect()
    }

    /// Returns the questions with the models that answer them.
    pub fn answers(&self) -> impl Iterator<Item = (&QuestionId, &str)> {
        self.answers.iter().map(|answer| (&answer.question, answer.model.as_str()))
    }

    /// Returns how often each question is asked.
    pub fn replicates(&self) -> u32 {
        self.replicates
    }

    /// Keeps the answers of these questions and models.
    pub fn retain(&mut self, keep: impl Fn(&QuestionId, &str) -> bool) {
        self.answers.retain(|answer| keep(&answer.question, &answer.model));
    }

    /// Returns the number of trials.
    pub fn len(&self) -> usize {
        self.answers.len() * self.replicates as usize
    }

    /// Returns whether there is nothing to run.
    pub fn is_empty(&self) -> bool {
        self.answers.is_empty()
    }

    /// Returns the number of units.
    pub fn units(&self) -> usize {
        self.answers.iter().map(|answer| answer.units.len()).sum::<usize>() * self.replicates as usize
    }
}

impl Trials for Plan {
    fn iter(&self) -> Box<dyn Iterator<Item = Trial> + Send + '_> {
        Box::new(self.trials())
    }
}

impl PlannedAnswer {
    fn trial(&self, replicate: u32) -> Trial {
        let id = self.identity.trial_id(replicate);
        let unit = |unit: &PlannedUnit| Unit { id: unit.identity.unit_id(&id), judge: unit.judge.clone() };
        let units = self.units.iter().map(unit).collect();
        Trial { id, question: self.question.clone(), model: self.model.clone(), replicate, units }
    }
}

/// Returns whether a judge decides which turns of a scenario follow.
fn is_steered(question: &Question) -> bool {
    question.scenario.as_ref().is_some_and(Scenario::needs_steering)
}

fn needs_judge(question: &Question, input: &PlanInput<'_>) -> bool {
    question_needs_judge(question, input.benchmark, input.evaluation)
}

/// Returns whether a judge is needed for the answers to a question of a benchmark.
pub fn question_needs_judge(question: &Question, benchmark: &Benchmark, evaluation: &EvaluationOptions) -> bool {
    let of_turns = || question.scenario.as_ref().is_some_and(Scenario::needs_judge);
    let extracts = || question.template.as_ref().is_some_and(Template::needs_judge) || of_turns();
    let has_judged_traits = || benchmark.traits_of(question).any(|(_, of)| of.needs_judge());
    is_steered(question)
        || evaluation.abstention_check
        || evaluation.mode.has_template() && extracts()
        || evaluation.mode.has_rubric() && has_judged_traits()
}

fn check(input: &PlanInput<'_>) -> Result<(), PlanError> {
    if input.models.is_empty() {
        return Err(PlanError::NoModel);
    }
    let models: Vec<&str> = input.models.iter().map(|model| model.label.as_str()).collect();
    let judges: Vec<&str> = input.judges.iter().map(|judge| judge.label.as_str()).collect();
    for labels in [models, judges] {
        if let Some(twice) = labels.iter().enumerate().find(|(at, label)| labels[..*at].contains(label)) {
            return Err(PlanError::DuplicateLabel((*twice.1).to_owned()));
        }
    }
    let has_servers = |model: &&ModelUnderTest| model.settings.is_manual() && model.settings.own_servers().is_some();
    if let Some(model) = input.models.iter().find(has_servers) {
        return Err(PlanError::ManualWithServers(model.label.clone()));
    }
    Ok(())
}

fn check_question(question: &Question, input: &PlanInput<'_>) -> Result<(), PlanError> {
    let mode = input.evaluation.mode;
    let has_checks = question.has_checks();
    let has_traits = input.benchmark.traits_of(question).next().is_some();
    if !(mode.has_template() && has_checks || mode.has_rubric() && has_traits) {
        return Err(PlanError::NothingToCheck { question: question.id.clone(), mode: mode.as_str() });
    }
    if question.scenario.is_some()
        && let Some(model) = input.models.iter().find(|model| model.settings.is_manual())
    {
        return Err(PlanError::ScenarioOfPrepared { question: question.id.clone(), model: model.label.clone() });
    }
    if mode.has_rubric() {
        for (name, definition) in input.benchmark.traits_of(question) {
            if let Some(reason) = UnavailableTrait::of(definition) {
                return Err(PlanError::UnavailableTrait { name: name.to_owned(), reason });
            }
        }
    }
    let is_semantic = |field: &Field| matches!(field.check, Check::SemanticMatch(_));
    let has_semantic = question.template.as_ref().is_some_and(|template| template.fields.iter().any(is_semantic));
    if mode.has_template() && has_semantic && input.embedding.is_none() {
        return Err(PlanError::EmbeddingRequired(question.id.clone()));
    }
    if needs_judge(question, input) && input.judges.is_empty() {
        return Err(PlanError::JudgeRequired(question.id.clone()));
    }
    if needs_judge(question, input) && !input.allow_self_judging {
        check_self_judging(input)?;
    }
    Ok(())
}

/// Checks that the tools of assertions exist, before anything is paid for. Only a complete list of tools proves that one
/// does not: every server of some model is connected, and no model is offered the tool.
fn check_assertions(question: &Question, input: &PlanInput<'_>) -> Result<(), PlanError> {
    let mut offered: Vec<&OfferedTool> = Vec::new();
    for model in input.models {
        let servers = ServerSet::of(input.benchmark, question, model);
        let Some(tools) = input.tool_sets.get(&servers) else { continue };
        let has_tools =
            |name: &String| tools.tools.iter().any(|tool| tool.server.as_ref().is_some_and(|of| of.as_str() == name));
        if !servers.servers.keys().all(has_tools) {
            return Ok(());
        }
        offered.extend(&tools.tools);
    }
    if offered.is_empty() {
        return Ok(());
    }
    let of_scenario = question.scenario.iter().flat_map(Scenario::assertions);
    let tools = question.trace.iter().chain(of_scenario).flat_map(Assertion::tools).filter(|tool| tool.is_exact());
    for tool in tools {
        if !offered.iter().any(|offered| tool.fits(offered)) {
            let names = offered.iter().flat_map(|offered| [offered.tool.as_str(), offered.name.as_str()]);
            let tool = tool.to_string();
            let nearest = wharf_protocol::nearest(&tool, names).map(str::to_owned);
            return Err(PlanError::UnknownTool { question: question.id.clone(), tool, nearest });
        }
    }
    Ok(())
}

fn check_self_judging(input: &PlanInput<'_>) -> Result<(), PlanError> {
    for model in input.models {
        let is_same = |judge: &&Judge| judge.settings.is_same_model(&model.settings);
        if let Some(judge) = input.judges.iter().find(is_same) {
            return Err(PlanError::SelfJudging { model: model.label.clone(), judge: judge.label.clone() });
        }
    }
    Ok(())
}

/// Returns the units of each trial of a question. A question that needs no judge has one, however many judges there are.
fn units(question: &Question, input: &PlanInput<'_>) -> Vec<PlannedUnit> {
    let unit = |judge: Option<&Judge>| PlannedUnit {
        judge: judge.map(|judge| judge.label.clone()),
        identity: UnitIdentity::new(question, judge, input),
    };
    if needs_judge(question, input) {
        input.judges.iter().map(|judge| unit(Some(judge))).collect()
    } else {
        vec![unit(None)]
    }
}
