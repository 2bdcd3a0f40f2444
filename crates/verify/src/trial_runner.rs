//! Runs the trials of a benchmark: one answer of a model, and the pipeline for each judge.

use std::collections::HashMap;
use std::sync::Arc;

use wharf_protocol::{BoxFuture, Redactor};

use crate::benchmark::{Benchmark, NamedTrait, Question};
use crate::embedding::EmbeddingModel;
use crate::evaluation::EvaluationOptions;
use crate::ids::{QuestionId, UnitId};
use crate::journal::{Journal, JournalError};
use crate::model_under_test::{Judge, ModelUnderTest};
use crate::pipeline::{InvalidPipeline, Pipeline, TrialContext, TrialParts, UnitContext};
use crate::plan::{Trial, Unit};
use crate::servers::{ServerSet, ToolSets, isolation};
use crate::tool_set::{PlannedTools, ToolSet};
use crate::workbench::{ServerPool, Workbench};
use crate::worker::TrialRunner;

/// What the trials of a run need.
pub struct RunnerParts {
    /// The benchmark.
    pub benchmark: Benchmark,
    /// The answering models.
    pub models: Vec<ModelUnderTest>,
    /// The judges.
    pub judges: Vec<Judge>,
    /// How answers are evaluated.
    pub evaluation: EvaluationOptions,
    /// The model that compares meanings.
    pub embedding: Option<EmbeddingModel>,
    /// The tools as planned.
    pub tool_sets: ToolSets,
    /// Opens the servers.
    pub workbench: Arc<dyn Workbench>,
    /// The secrets of the run. The digests of requests do not depend on them.
    pub redactor: Redactor,
}

/// Runs the trials of a benchmark. One runner serves all workers of a process.
pub struct BenchmarkRunner {
    benchmark: Benchmark,
    questions: HashMap<QuestionId, Arc<Question>>,
    models: HashMap<String, Arc<ModelUnderTest>>,
    judges: HashMap<String, Arc<Judge>>,
    evaluation: EvaluationOptions,
    embedding: Option<EmbeddingModel>,
    tool_sets: HashMap<String, Arc<PlannedTools>>,
    no_tools: Arc<PlannedTools>,
    pool: Arc<ServerPool>,
    redactor: Redactor,
    pipeline: Pipeline,
}

impl BenchmarkRunner {
    /// Creates the runner of a planned run.
    ///
    /// # Errors
    /// Returns an error if the evaluation is not available.
    pub fn new(parts: RunnerParts) -> Result<Self, InvalidPipeline> {
        let RunnerParts { mut benchmark, models, judges, evaluation, embedding, tool_sets, workbench, redactor } =
            parts;
        let pipeline = Pipeline::new(&evaluation)?;
        let questions = std::mem::take(&mut benchmark.questions).into_iter();
        let questions = questions.map(|question| (question.id.clone(), Arc::new(question))).collect();
        let models = models.into_iter().map(|model| (model.label.clone(), Arc::new(model))).collect();
        let judges = judges.into_iter().map(|judge| (judge.label.clone(), Arc::new(judge))).collect();
        let tool_sets =
            tool_sets.0.into_iter().map(|(key, tools)| (key, Arc::new(PlannedTools::from(tools)))).collect();
        let pool = Arc::new(ServerPool::new(workbench));
        let no_tools = Arc::new(PlannedTools::from(ToolSet::default()));
        Ok(Self {
            benchmark,
            questions,
            models,
            judges,
            evaluation,
            embedding,
            tool_sets,
            no_tools,
            pool,
            redactor,
            pipeline,
        })
    }

    /// Returns the stages of every unit.
    pub fn pipeline(&self) -> &Pipeline {
        &self.pipeline
    }

    /// Closes the servers that trials shared.
    pub async fn close(&self) {
        self.pool.close().await;
    }

    fn context(&self, trial: &Trial, journal: Arc<dyn Journal>) -> Result<TrialContext, JournalError> {
        let unknown = |what: &str, name: &str| JournalError::Diverged(format!("the plan has no {what} `{name}`"));
        let question = self.questions.get(&trial.question);
        let question = question.ok_or_else(|| unknown("question", trial.question.as_str()))?;
        let model = self.models.get(&trial.model).ok_or_else(|| unknown("model", &trial.model))?;
        let servers = ServerSet::of(&self.benchmark, question, model);
        let tools = if servers.is_empty() { Some(&self.no_tools) } else { self.tool_sets.get(&servers.key()) };
        let tools = Arc::clone(tools.ok_or_else(|| unknown("tool set of model", &trial.model))?);
        let steering_judge = match trial.units.first().and_then(|unit| unit.judge.as_ref()) {
            Some(label) if question.scenario.is_some() => {
                Some(Arc::clone(self.judges.get(label).ok_or_else(|| unknown("judge", label))?))
            }
            _ => None,
        };
        let traits = self.benchmark.traits_of(question);
        let traits = traits.map(|(name, of)| NamedTrait { name: name.to_owned(), definition: of.clone() }).collect();
        Ok(TrialContext::new(TrialParts {
            id: trial.id.clone(),
            traits,
            question: Arc::clone(question),
            replicate: trial.replicate,
            model: Arc::clone(model),
            steering_judge,
            isolation: isolation(&self.benchmark, &tools.tools),
            servers,
            tools,
            evaluation: self.evaluation,
            embedding: self.embedding.clone(),
            journal,
            pool: Arc::clone(&self.pool),
            redactor: self.redactor.clone(),
        }))
    }

    async fn run_unit(&self, trial: &Arc<TrialContext>, unit: &Unit) -> Result<(), JournalError> {
        let judge = match &unit.judge {
            None => None,
            Some(label) => {
                let judge = self.judges.get(label);
                let unknown = || JournalError::Diverged(format!("the plan has no judge `{label}`"));
                Some(Arc::clone(judge.ok_or_else(unknown)?))
            }
        };
        let mut context = UnitContext::new(Arc::clone(trial), unit.id.clone(), judge);
        let result = self.pipeline.run(&mut context).await?;
        trial.journal.finish_unit(&result).await
    }
}

impl TrialRunner for BenchmarkRunner {
    fn run<'a>(
        &'a self,
        trial: &'a Trial,
        open_units: &'a [UnitId],
        journal: Arc<dyn Journal>,
    ) -> BoxFuture<'a, Result<(), JournalError>> {
        Box::pin(async move {
            let context = Arc::new(self.context(trial, journal)?);
            for unit in trial.units.iter().filter(|unit| open_units.contains(&unit.id)) {
                self.run_unit(&context, unit).await?;
            }
            Ok(())
        })
    }
}
