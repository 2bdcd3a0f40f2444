//! Statistics beyond counts and accuracy: repeated attempts, tools, failures and percentiles.
//!
//! This file owns the statistics of one model; `statistics/questions.rs` owns those over questions.

mod questions;

use std::collections::BTreeMap;

use serde::Serialize;

use crate::assertion::AssertionResult;
use crate::ids::LastTrial;
use crate::outcome::{FailureCategory, FailureGroup, UnitResult, Verdict};
use crate::stats::{Attempts, pass_all_k, pass_at_k, percentile, replicate_agreement};
use questions::QuestionCounts;
pub use questions::{FlakyQuestion, KeywordAccuracy};

/// The statistics of one model.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct ModelStatistics {
    /// Answers of the model. Several judges judge the same answer.
    pub trials: u64,
    /// The 95th percentile of the time of a unit, in milliseconds.
    pub p95_millis: Option<f64>,
    /// The cost of an answer without judging. `None` if no price is known.
    pub answer_cost: Option<CostPercentiles>,
    /// Repeated attempts, if questions were asked more than once.
    pub repeated: Option<Repeated>,
    /// Results of tools.
    pub tools: ToolResults,
    /// Share of the tool results that are not failures, from 0 to 1. `None` without tool results.
    pub tool_success: Option<f64>,
    /// The mean path efficiency of the answers whose question asserts it, from 0 to 1. `None` without such answers.
    pub path_efficiency: Option<f64>,
    /// Units that did not pass, by category.
    pub failures: Vec<FailureCount>,
    /// Units that did not pass and have no category, for example because a required server was missing.
    pub uncategorized: u64,
}

/// How often a group of failures occurred.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GroupCount {
    /// The group. `None` for units without a category.
    pub group: Option<FailureGroup>,
    /// Number of units, at least one.
    pub units: u64,
}

/// The cost of answers, in US dollars.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct CostPercentiles {
    /// The median.
    pub p50: f64,
    /// The 95th percentile.
    pub p95: f64,
}

/// Repeated attempts at the same questions.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Repeated {
    /// The number of attempts of `pass_at_k` and `pass_all_k`.
    pub k: usize,
    /// Questions with at least `k` scored attempts.
    pub questions: usize,
    /// Probability that at least one of `k` attempts passes.
    pub pass_at_k: Option<f64>,
    /// Probability that all of `k` attempts pass (pass^k).
    pub pass_all_k: Option<f64>,
    /// Probability that two attempts at the same question have the same verdict.
    pub agreement: Option<f64>,
}

/// Results of tools in traces.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct ToolResults {
    /// All results.
    pub all: u64,
    /// Results that are failures.
    pub failed: u64,
}

/// How often a failure occurred.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct FailureCount {
    /// Its category.
    pub category: FailureCategory,
    /// Its group.
    pub group: FailureGroup,
    /// Number of units.
    pub units: u64,
}

/// The statistics of a run over all models.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct RunStatistics {
    /// Questions with different verdicts in different attempts, the least decided first.
    pub flaky: Vec<FlakyQuestion>,
    /// Accuracy by keyword, in the order of first occurrence.
    pub keywords: Vec<KeywordAccuracy>,
}

/// Statistics that results are added to, in the order of the plan.
#[derive(Debug, Default)]
pub(super) struct StatisticsBuilder {
    models: BTreeMap<String, ModelCounts>,
    questions: QuestionCounts,
}

#[derive(Debug, Default)]
struct ModelCounts {
    millis: Vec<f64>,
    /// Cost of each answer with a known price.
    costs: Vec<f64>,
    /// Path efficiency of each answer that has one.
    efficiencies: Vec<f64>,
    tools: ToolResults,
    failures: BTreeMap<FailureCategory, u64>,
    uncategorized: u64,
    trials: u64,
    last_trial: LastTrial,
}

impl ModelStatistics {
    /// Counts the units that did not pass, by group.
    pub fn failures_by_group(&self) -> Vec<GroupCount> {
        let mut groups: Vec<GroupCount> = Vec::new();
        let named = self.failures.iter().map(|failure| (Some(failure.group), failure.units));
        for (group, units) in named.chain((self.uncategorized > 0).then_some((None, self.uncategorized))) {
            match groups.iter_mut().find(|known| known.group == group) {
                Some(known) => known.units += units,
                None => groups.push(GroupCount { group, units }),
            }
        }
        groups
    }
}

impl ToolResults {
    /// Counts the tool results in the trace of a unit.
    pub(super) fn of(unit: &UnitResult) -> Self {
        let results = || unit.trace.iter().filter_map(|message| message.tool_result.as_ref());
        Self { all: results().count() as u64, failed: results().filter(|result| result.is_error).count() as u64 }
    }
}

impl StatisticsBuilder {
    pub(super) fn add(&mut self, unit: &UnitResult) {
        self.models.entry(unit.model.label.clone()).or_default().add(unit);
        self.questions.add(unit);
    }

    /// Returns the statistics of a model. A second call for the same model returns nothing.
    pub(super) fn take_model(&mut self, model: &str) -> ModelStatistics {
        let counts = self.models.remove(model).unwrap_or_default();
        counts.finish(&self.questions.attempts_of(model))
    }

    pub(super) fn finish(self) -> RunStatistics {
        let (flaky, keywords) = self.questions.finish();
        RunStatistics { flaky, keywords }
    }
}

impl ModelCounts {
    #[expect(clippy::cast_precision_loss, reason = "milliseconds are far below 2^52")]
    fn add(&mut self, unit: &UnitResult) {
        self.millis.push(unit.millis as f64);
        match &unit.failure {
            Some(failure) => *self.failures.entry(failure.category).or_default() += 1,
            None if unit.verdict != Verdict::Passed => self.uncategorized += 1,
            None => {}
        }
        // All judges of a trial share its answer, and so its tool calls and its cost.
        if self.last_trial.is_new(&unit.trial) {
            self.add_answer(unit);
        }
    }

    fn add_answer(&mut self, unit: &UnitResult) {
        self.trials += 1;
        let tools = ToolResults::of(unit);
        self.tools.all += tools.all;
        self.tools.failed += tools.failed;
        self.costs.extend(unit.usage.cost_usd);
        let turns = unit.scenario.iter().flat_map(|scenario| &scenario.turns).map(|turn| &turn.assertions);
        let measured = std::iter::once(&unit.assertions).chain(turns);
        let efficiency = |assertions: &Vec<AssertionResult>| assertions.iter().find_map(|of| of.path_efficiency);
        self.efficiencies.extend(measured.filter_map(efficiency));
    }

    #[expect(clippy::cast_precision_loss, reason = "counts are far below 2^52")]
    fn finish(mut self, attempts: &[Attempts]) -> ModelStatistics {
        self.millis.sort_unstable_by(f64::total_cmp);
        let tools = self.tools;
        let efficiencies = &self.efficiencies;
        let failures = self.failures.into_iter();
        ModelStatistics {
            trials: self.trials,
            p95_millis: percentile(&self.millis, 95.0),
            answer_cost: CostPercentiles::of(self.costs),
            repeated: Repeated::of(attempts),
            tools,
            tool_success: (tools.all > 0).then(|| 1.0 - tools.failed as f64 / tools.all as f64),
            path_efficiency: (!efficiencies.is_empty())
                .then(|| efficiencies.iter().sum::<f64>() / efficiencies.len() as f64),
            failures: failures
                .map(|(category, units)| FailureCount { category, group: category.group(), units })
                .collect(),
            uncategorized: self.uncategorized,
        }
    }
}

impl CostPercentiles {
    fn of(mut costs: Vec<f64>) -> Option<Self> {
        costs.sort_unstable_by(f64::total_cmp);
        Some(Self { p50: percentile(&costs, 50.0)?, p95: percentile(&costs, 95.0)? })
    }
}

impl Repeated {
    /// `k` is the median number of scored attempts: invalid attempts at some questions do not hide the others.
    fn of(attempts: &[Attempts]) -> Option<Self> {
        let mut counts: Vec<usize> =
            attempts.iter().map(|attempts| attempts.scored).filter(|count| *count > 0).collect();
        counts.sort_unstable();
        let k = *counts.get(counts.len() / 2)?;
        (k > 1).then(|| Self {
            k,
            questions: counts.iter().filter(|count| **count >= k).count(),
            pass_at_k: pass_at_k(attempts, k),
            pass_all_k: pass_all_k(attempts, k),
            agreement: replicate_agreement(attempts),
        })
    }
}
