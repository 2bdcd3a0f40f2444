//! Benchmarks of models with live tools.
//!
//! A [`Benchmark`] holds questions. A [`Plan`] multiplies them with models, judges and replicates: a *trial* is one
//! answer of a model to a question, a *unit* is one trial under one judge. A worker claims trials from a [`RunStore`] and
//! runs the pipeline: the model answers with live tools, the judge fills the fields of the [`Template`], and code compares
//! them with the truth. Every paid or writing step goes through a [`Journal`], so that a run that is killed resumes
//! without paying again for what is on record.

pub mod assertion;
pub mod benchmark;
mod budget;
pub mod comparison;
pub mod config;
mod digest;
mod embedding;
mod evaluation;
pub mod evidence;
mod expression;
#[doc(hidden)]
pub mod failpoint;
mod ids;
pub mod journal;
mod journaled;
mod json_name;
mod judge;
pub mod judge_check;
mod judge_prompt;
pub mod karenina;
pub mod logged;
mod model_under_test;
mod object_schema;
pub mod outcome;
mod paired;
pub mod panel;
pub mod pipeline;
pub mod plan;
mod problem;
pub mod rate_limit;
pub mod recording;
pub mod report;
pub mod rubric;
pub mod scenario;
mod servers;
mod shape;
mod stage_name;
pub mod stats;
mod step;
pub mod store;
pub mod template;
mod tool_set;
mod trace_calls;
mod trial_runner;
mod workbench;
pub mod worker;

pub use assertion::Assertion;
pub use benchmark::{Benchmark, Question};
pub use budget::{Budget, BudgetExceeded};
pub use config::VerificationConfig;
pub use digest::digest;
pub use embedding::EmbeddingModel;
pub use evaluation::{DeepJudgmentOptions, DeepRubric, DeepTemplate, EvaluationOptions, Mode, RubricStrategy};
pub use expression::{Expression, InvalidExpression, RegexFlag};
pub use ids::{InvalidId, QuestionId, RunId, TrialId, UnitId};
pub use journal::{Journal, JournalError};
pub use judge_prompt::JUDGE_PROMPT_VERSION;
pub use model_under_test::{Judge, ModelSettings, ModelUnderTest};
pub use outcome::{Failure, FailureCategory, FailureGroup, UnitResult, Verdict};
pub use pipeline::Pipeline;
pub use plan::{Estimate, Plan, PlanError, PlanInput, Selection, Trial, Trials, Unit, question_needs_judge};
pub use problem::Problem;
pub use rate_limit::RateLimit;
pub use scenario::Scenario;
pub use servers::{ServerSet, ToolSets};
pub use stage_name::StageName;
pub use store::{RunStore, StoreError};
pub use template::Template;
pub use tool_set::{OfferedTool, ToolSet};
pub use trial_runner::{BenchmarkRunner, RunnerParts};
pub use workbench::Workbench;
pub use worker::{TrialRunner, Worker, WorkerOptions};
