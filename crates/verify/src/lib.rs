//! Benchmarks of models with live tools.
//!
//! A [`Benchmark`] holds questions. A [`Plan`] multiplies them with models, judges and replicates: a *trial* is one
//! answer of a model to a question, a *unit* is one trial under one judge. A worker claims trials from a [`RunStore`] and
//! runs the pipeline: the model answers with live tools, the judge fills the fields of the [`Template`], and code compares
//! them with the truth. Every paid or writing step goes through a [`Journal`], so that a run that is killed resumes
//! without paying again for what is on record.

pub mod assertion;
pub mod benchmark;
pub mod config;
mod budget;
mod digest;
mod evaluation;
mod expression;
mod ids;
pub mod journal;
mod judge_prompt;
mod model_under_test;
pub mod outcome;
pub mod plan;
pub mod report;
mod servers;
mod stage_name;
mod step;
mod problem;
mod shape;
pub mod stats;
pub mod store;
pub mod template;
mod tool_set;
pub mod worker;

pub use assertion::Assertion;
pub use benchmark::{Benchmark, Question};
pub use config::VerificationConfig;
pub use budget::{Budget, BudgetExceeded};
pub use digest::digest;
pub use evaluation::{EvaluationOptions, Mode};
pub use expression::{Expression, InvalidExpression, RegexFlag};
pub use ids::{InvalidId, QuestionId, RunId, TrialId, UnitId};
pub use journal::{Journal, JournalError};
pub use model_under_test::{Judge, ModelSettings, ModelUnderTest};
pub use outcome::{Failure, FailureCategory, FailureGroup, UnitResult, Verdict};
pub use plan::{Plan, Trial, Unit};
pub use servers::{ServerSet, ToolSets};
pub use stage_name::StageName;
pub use problem::Problem;
pub use store::{RunStore, StoreError};
pub use template::Template;
pub use tool_set::{OfferedTool, ToolSet};
pub use worker::TrialRunner;
