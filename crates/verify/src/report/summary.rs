//! The summary of a run: accuracy, counts, cost and time of each model.

use serde::Serialize;
use wharf_protocol::Usage;

use super::proportion::{Interval, wilson};
use super::statistics::{ModelStatistics, RunStatistics, StatisticsBuilder};
use crate::ids::LastTrial;
use crate::outcome::{FailureGroup, UnitResult, Verdict};
use crate::panel::{Agreement, Panel, PanelBuilder, PanelRule};

/// Tokens and cost of a model's answers, or of the judges.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct TokenTotals {
    /// Input tokens.
    pub input_tokens: u64,
    /// Output tokens.
    pub output_tokens: u64,
    /// Cost in US dollars, of all requests whose price is known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cost_usd: Option<f64>,
}

/// The results of one model.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct ModelSummary {
    /// Label of the model.
    pub model: String,
    /// Units with a result.
    pub units: u64,
    /// Units that passed.
    pub passed: u64,
    /// Units that failed.
    pub failed: u64,
    /// Units that are invalid, including those whose provider failed. Never scored.
    pub invalid: u64,
    /// Units that are invalid because the provider failed after all retries. A resumed run tries them again.
    pub provider_failures: u64,
    /// Units with an interrupted step that may have had an effect. Never scored.
    pub indeterminate: u64,
    /// Share of the scored units that passed, from 0 to 1. `None` without scored units.
    pub accuracy: Option<f64>,
    /// The 95 % Wilson interval of the accuracy.
    pub interval: Option<Interval>,
    /// Tokens and cost of the answers. An answer that several judges judge counts once.
    pub answers: TokenTotals,
    /// Tokens and cost of the judges.
    pub judging: TokenTotals,
    /// Median time of a unit, in milliseconds.
    pub p50_millis: Option<u64>,
    /// Repeated attempts, tools, failures and percentiles.
    #[serde(flatten)]
    pub statistics: ModelStatistics,
    /// Verdicts of all judges together, by the rule of the run. `None` if no answer has several judges.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub panel: Option<PanelSummary>,
}

/// The verdicts of a panel on the answers of one model.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct PanelSummary {
    /// The rule.
    pub rule: PanelRule,
    /// Answers that passed.
    pub passed: u64,
    /// Answers that failed.
    pub failed: u64,
    /// Answers that no judge scored.
    pub unscored: u64,
    /// Share of the scored answers that passed, from 0 to 1. `None` without scored answers.
    pub accuracy: Option<f64>,
    /// The 95 % Wilson interval of the accuracy.
    pub interval: Option<Interval>,
}

/// The results of a run.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Summary {
    /// Units of the plan.
    pub planned: u64,
    /// The models, in the order of the plan.
    pub models: Vec<ModelSummary>,
    /// Flaky questions, and keywords.
    #[serde(flatten)]
    pub statistics: RunStatistics,
    /// How far the judges agree. `None` if no answer has several judges.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub agreement: Option<Agreement>,
}

/// A summary that results are added to, in the order of the plan.
#[derive(Debug, Default)]
pub(super) struct SummaryBuilder {
    planned: u64,
    models: Vec<ModelTotals>,
    statistics: StatisticsBuilder,
    panel: PanelBuilder,
}

#[derive(Debug, Default)]
struct ModelTotals {
    summary: ModelSummary,
    last_trial: LastTrial,
    millis: Vec<u64>,
}

impl SummaryBuilder {
    pub(super) fn new(planned: u64, rule: PanelRule) -> Self {
        Self { planned, panel: PanelBuilder::new(rule), ..Self::default() }
    }

    pub(super) fn add(&mut self, unit: &UnitResult) {
        let place = self.models.iter().position(|totals| totals.summary.model == unit.model.label);
        let place = place.unwrap_or_else(|| {
            let summary = ModelSummary { model: unit.model.label.clone(), ..ModelSummary::default() };
            self.models.push(ModelTotals { summary, ..ModelTotals::default() });
            self.models.len() - 1
        });
        self.models[place].add(unit);
        self.statistics.add(unit);
        self.panel.add(unit);
    }

    pub(super) fn finish(mut self) -> Summary {
        let mut models: Vec<ModelSummary> = self.models.into_iter().map(ModelTotals::finish).collect();
        let panel = self.panel.finish();
        for model in &mut models {
            model.statistics = self.statistics.take_model(&model.model);
            model.panel = panel.as_ref().and_then(|panel| PanelSummary::of(panel, &model.model));
        }
        let agreement = panel.map(|panel| panel.agreement);
        Summary { planned: self.planned, models, statistics: self.statistics.finish(), agreement }
    }
}

impl ModelTotals {
    fn add(&mut self, unit: &UnitResult) {
        let summary = &mut self.summary;
        summary.units += 1;
        match unit.verdict {
            Verdict::Passed => summary.passed += 1,
            Verdict::Failed => summary.failed += 1,
            Verdict::Invalid => summary.invalid += 1,
            Verdict::Indeterminate => summary.indeterminate += 1,
        }
        let is_provider_failure = unit.failure.as_ref().is_some_and(|failure| failure.group == FailureGroup::Retry);
        if unit.verdict == Verdict::Invalid && is_provider_failure {
            summary.provider_failures += 1;
        }
        if self.last_trial.is_new(&unit.trial) {
            summary.answers.add(&unit.usage);
        }
        summary.judging.add(&unit.judge_usage);
        self.millis.push(unit.millis);
    }

    #[expect(clippy::cast_precision_loss, reason = "counts are far below 2^52")]
    fn finish(mut self) -> ModelSummary {
        let scored = self.summary.passed + self.summary.failed;
        self.millis.sort_unstable();
        ModelSummary {
            accuracy: (scored > 0).then(|| self.summary.passed as f64 / scored as f64),
            interval: wilson(self.summary.passed, scored),
            p50_millis: self.millis.get(self.millis.len().saturating_sub(1) / 2).copied(),
            ..self.summary
        }
    }
}

impl PanelSummary {
    /// Sums up the verdicts on the answers of a model. `None` if no answer has several judges.
    #[expect(clippy::cast_precision_loss, reason = "counts are far below 2^52")]
    fn of(panel: &Panel, model: &str) -> Option<Self> {
        let mut summary = Self { rule: panel.rule, ..Self::default() };
        for trial in panel.trials.iter().filter(|trial| trial.model == model) {
            match trial.verdict {
                Verdict::Passed => summary.passed += 1,
                Verdict::Failed => summary.failed += 1,
                Verdict::Invalid | Verdict::Indeterminate => summary.unscored += 1,
            }
        }
        let scored = summary.passed + summary.failed;
        summary.accuracy = (scored > 0).then(|| summary.passed as f64 / scored as f64);
        summary.interval = wilson(summary.passed, scored);
        (scored + summary.unscored > 0).then_some(summary)
    }
}

impl TokenTotals {
    fn add(&mut self, usage: &Usage) {
        self.input_tokens = self.input_tokens.saturating_add(usage.input_tokens);
        self.output_tokens = self.output_tokens.saturating_add(usage.output_tokens);
        if let Some(cost) = usage.cost_usd {
            self.cost_usd = Some(self.cost_usd.unwrap_or_default() + cost);
        }
    }
}
