//! The statistics of a run, beyond its summary: repeated attempts, tools, failures, percentiles and agreement of judges.

use std::collections::BTreeMap;

use serde::Serialize;

use super::proportion::{Interval, wilson};
use super::summary::{ModelSummary, SummaryBuilder};
use crate::ids::{QuestionId, TrialId};
use crate::outcome::{FailureCategory, FailureGroup, UnitResult, Verdict};
use crate::stats::{Attempts, fleiss_kappa, is_flaky, pass_all_k, pass_at_k, percentile};

/// The statistics of one model.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ModelStatistics {
    /// Counts, accuracy, tokens and cost.
    #[serde(flatten)]
    pub summary: ModelSummary,
    /// Answers of the model. Several judges judge the same answer.
    pub trials: u64,
    /// The 95th percentile of the time of a unit, in milliseconds.
    pub p95_millis: Option<f64>,
    /// Repeated attempts, if questions were asked more than once.
    pub repeated: Option<Repeated>,
    /// Results of tools.
    pub tools: ToolResults,
    /// Share of the tool results that are not failures, from 0 to 1. `None` without tool results.
    pub tool_success: Option<f64>,
    /// Units that did not pass, by category.
    pub failures: Vec<FailureCount>,
    /// Units that did not pass and have no category, for example because a required server was missing.
    pub uncategorized: u64,
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

/// A question that a model sometimes passed and sometimes failed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct FlakyQuestion {
    /// Id of the question.
    pub question: QuestionId,
    /// Label of the model.
    pub model: String,
    /// Label of the judge.
    pub judge: Option<String>,
    /// Attempts that passed.
    pub passed: usize,
    /// All scored attempts.
    pub scored: usize,
}

/// The results of the questions with one keyword, for one model.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct KeywordAccuracy {
    /// The keyword.
    pub keyword: String,
    /// Label of the model.
    pub model: String,
    /// Units that passed.
    pub passed: u64,
    /// Scored units.
    pub scored: u64,
    /// The 95 % Wilson interval.
    pub interval: Option<Interval>,
}

/// Agreement of several judges on the same answers.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct JudgeAgreement {
    /// Number of judges.
    pub judges: usize,
    /// Answers that all judges scored.
    pub answers: usize,
    /// Answers on which all judges agree.
    pub agreed: usize,
    /// Fleiss' kappa. `None` if it is not defined.
    pub kappa: Option<f64>,
}

/// The statistics of a run.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Statistics {
    /// Units of the plan.
    pub planned: u64,
    /// The models, in the order of the plan.
    pub results: Vec<ModelStatistics>,
    /// Questions with different verdicts in different attempts, the least decided first.
    pub flaky: Vec<FlakyQuestion>,
    /// Accuracy by keyword, in the order of first occurrence.
    pub keywords: Vec<KeywordAccuracy>,
    /// Agreement of the judges, if there are several.
    pub agreement: Option<JudgeAgreement>,
}

/// Statistics that results are added to, in the order of the plan.
#[derive(Debug)]
pub(super) struct StatisticsBuilder {
    summary: SummaryBuilder,
    models: BTreeMap<String, ModelCounts>,
    attempts: Vec<(AttemptKey, Attempts)>,
    places: BTreeMap<AttemptKey, usize>,
    keywords: Vec<KeywordAccuracy>,
    keyword_places: BTreeMap<(String, String), usize>,
    judged: JudgedAnswers,
}

type AttemptKey = (QuestionId, String, Option<String>);

#[derive(Debug, Default)]
struct ModelCounts {
    millis: Vec<u64>,
    tools: ToolResults,
    failures: BTreeMap<FailureCategory, u64>,
    uncategorized: u64,
    trials: u64,
    last_trial: Option<TrialId>,
}

/// The verdicts of the judges, answer by answer. The units of a trial follow each other.
#[derive(Debug, Default)]
struct JudgedAnswers {
    trial: Option<TrialId>,
    /// Judges that passed and failed the current answer.
    open: [usize; 2],
    answers: Vec<Vec<usize>>,
}

impl ToolResults {
    /// Counts the tool results in the trace of a unit.
    pub(super) fn of(unit: &UnitResult) -> Self {
        let results = || unit.trace.iter().filter_map(|message| message.tool_result.as_ref());
        Self { all: results().count() as u64, failed: results().filter(|result| result.is_error).count() as u64 }
    }
}

impl StatisticsBuilder {
    pub(super) fn new(planned: u64) -> Self {
        Self {
            summary: SummaryBuilder::new(planned),
            models: BTreeMap::new(),
            attempts: Vec::new(),
            places: BTreeMap::new(),
            keywords: Vec::new(),
            keyword_places: BTreeMap::new(),
            judged: JudgedAnswers::default(),
        }
    }

    pub(super) fn add(&mut self, unit: &UnitResult) {
        self.summary.add(unit);
        self.judged.add(unit);
        self.models.entry(unit.model.label.clone()).or_default().add(unit);
        let judge = unit.judge.as_ref().map(|judge| judge.label.clone());
        let key = (unit.question.clone(), unit.model.label.clone(), judge);
        let attempts = &mut self.attempts;
        let place = *self.places.entry(key.clone()).or_insert_with(|| {
            attempts.push((key, Attempts::default()));
            attempts.len() - 1
        });
        if !unit.verdict.is_scored() {
            return;
        }
        let passed = unit.verdict == Verdict::Passed;
        attempts[place].1.scored += 1;
        attempts[place].1.passed += usize::from(passed);
        for keyword in &unit.keywords {
            let counts = self.keyword(keyword, &unit.model.label);
            counts.scored += 1;
            counts.passed += u64::from(passed);
        }
    }

    fn keyword(&mut self, keyword: &str, model: &str) -> &mut KeywordAccuracy {
        let counts = &mut self.keywords;
        let key = (keyword.to_owned(), model.to_owned());
        let place = *self.keyword_places.entry(key).or_insert_with(|| {
            let (keyword, model) = (keyword.to_owned(), model.to_owned());
            counts.push(KeywordAccuracy { keyword, model, passed: 0, scored: 0, interval: None });
            counts.len() - 1
        });
        &mut self.keywords[place]
    }

    pub(super) fn finish(mut self) -> Statistics {
        let summary = self.summary.finish();
        let attempts = &self.attempts;
        let results = summary.models.into_iter().map(|summary| {
            let counts = self.models.remove(&summary.model).unwrap_or_default();
            let of_model = attempts.iter().filter(|((_, model, _), _)| *model == summary.model);
            let of_model: Vec<Attempts> = of_model.map(|(_, attempts)| *attempts).collect();
            counts.finish(summary, &of_model)
        });
        let results = results.collect();
        let mut flaky: Vec<FlakyQuestion> = self
            .attempts
            .into_iter()
            .filter(|(_, attempts)| is_flaky(*attempts))
            .map(|((question, model, judge), Attempts { passed, scored })| FlakyQuestion {
                question,
                model,
                judge,
                passed,
                scored,
            })
            .collect();
        // Compares |2p/n - 1| without rounding.
        let lead = |flaky: &FlakyQuestion| (2 * flaky.passed).abs_diff(flaky.scored);
        flaky.sort_by(|a, b| (lead(a) * b.scored).cmp(&(lead(b) * a.scored)));
        for counts in &mut self.keywords {
            counts.interval = wilson(counts.passed, counts.scored);
        }
        Statistics {
            planned: summary.planned,
            results,
            flaky,
            keywords: self.keywords,
            agreement: self.judged.finish(),
        }
    }
}

impl ModelCounts {
    fn add(&mut self, unit: &UnitResult) {
        self.millis.push(unit.millis);
        match &unit.failure {
            Some(failure) => *self.failures.entry(failure.category).or_default() += 1,
            None if unit.verdict != Verdict::Passed => self.uncategorized += 1,
            None => {}
        }
        // All judges of a trial share its answer, and so its tool calls.
        if self.last_trial.as_ref() != Some(&unit.trial) {
            self.last_trial = Some(unit.trial.clone());
            self.trials += 1;
            let tools = ToolResults::of(unit);
            self.tools.all += tools.all;
            self.tools.failed += tools.failed;
        }
    }

    #[expect(clippy::cast_precision_loss, reason = "counts and milliseconds are far below 2^52")]
    fn finish(mut self, summary: ModelSummary, attempts: &[Attempts]) -> ModelStatistics {
        self.millis.sort_unstable();
        let millis: Vec<f64> = self.millis.iter().map(|millis| *millis as f64).collect();
        let tools = self.tools;
        let failures = self.failures.into_iter();
        ModelStatistics {
            summary,
            trials: self.trials,
            p95_millis: percentile(&millis, 95.0),
            repeated: Repeated::of(attempts),
            tools,
            tool_success: (tools.all > 0).then(|| 1.0 - tools.failed as f64 / tools.all as f64),
            failures: failures
                .map(|(category, units)| FailureCount { category, group: category.group(), units })
                .collect(),
            uncategorized: self.uncategorized,
        }
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
        })
    }
}

impl JudgedAnswers {
    fn add(&mut self, unit: &UnitResult) {
        if self.trial.as_ref() != Some(&unit.trial) {
            self.close();
            self.trial = Some(unit.trial.clone());
        }
        match unit.verdict {
            Verdict::Passed if unit.judge.is_some() => self.open[0] += 1,
            Verdict::Failed if unit.judge.is_some() => self.open[1] += 1,
            _ => {}
        }
    }

    fn close(&mut self) {
        let counts = std::mem::take(&mut self.open);
        if counts.iter().sum::<usize>() > 1 {
            self.answers.push(counts.to_vec());
        }
    }

    fn finish(mut self) -> Option<JudgeAgreement> {
        self.close();
        let judges = self.answers.iter().map(|counts| counts.iter().sum()).max()?;
        self.answers.retain(|counts| counts.iter().sum::<usize>() == judges);
        Some(JudgeAgreement {
            judges,
            answers: self.answers.len(),
            agreed: self.answers.iter().filter(|counts| counts.contains(&judges)).count(),
            kappa: fleiss_kappa(&self.answers),
        })
    }
}
