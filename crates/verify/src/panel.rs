//! Panels: one verdict of several judges on a trial, and how far the judges agree. Computed from stored results.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::ids::{QuestionId, TrialId};
use crate::outcome::{UnitResult, Verdict};
use crate::stats::{cohen_kappa, fleiss_kappa};

/// When a panel of judges passes an answer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PanelRule {
    /// More than half of the judges with a verdict pass it. A tie does not pass.
    #[default]
    Majority,
    /// All judges with a verdict pass it.
    Unanimity,
}

/// The verdict of all judges of a trial.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct PanelVerdict {
    /// Id of the trial.
    pub trial: TrialId,
    /// Id of the question.
    pub question: QuestionId,
    /// Label of the answering model.
    pub model: String,
    /// Number of the replicate, from 1.
    pub replicate: u32,
    /// The verdict by the rule. Without a scored judge it is that of the first judge.
    pub verdict: Verdict,
    /// Judges that passed the answer.
    pub passed: usize,
    /// Judges that failed the answer.
    pub failed: usize,
    /// Judges without a scored verdict. They do not vote.
    pub unscored: usize,
}

/// How far the judges of a run agree, over the answers that they scored.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Agreement {
    /// Answers that all judges scored.
    pub trials: usize,
    /// Share of these answers on which all judges agree. `None` without such answers.
    pub unanimous: Option<f64>,
    /// Fleiss' kappa of all judges. `None` if it is undefined.
    pub fleiss_kappa: Option<f64>,
    /// The votes of each judge.
    pub judges: Vec<JudgeVotes>,
    /// Each pair of judges.
    pub pairs: Vec<PairAgreement>,
}

/// How one judge voted, over the answers that it scored.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct JudgeVotes {
    /// Label of the judge.
    pub judge: String,
    /// Answers that it passed.
    pub passed: usize,
    /// Answers that it failed.
    pub failed: usize,
}

/// How far two judges agree.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct PairAgreement {
    /// Labels of the judges.
    pub judges: [String; 2],
    /// Answers that both scored.
    pub trials: usize,
    /// Share of these answers on which they agree. `None` without such answers.
    pub agreed: Option<f64>,
    /// Cohen's kappa. `None` if it is undefined.
    pub cohen_kappa: Option<f64>,
}

/// The verdicts and the agreement of a run.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Panel {
    /// The rule.
    pub rule: PanelRule,
    /// The agreement of the judges.
    pub agreement: Agreement,
    /// The verdicts on trials with several judges, in the order of the plan.
    pub trials: Vec<PanelVerdict>,
}

/// A panel that results are added to, in the order of the plan.
#[derive(Debug, Default)]
pub(crate) struct PanelBuilder {
    rule: PanelRule,
    open: Option<OpenTrial>,
    trials: Vec<PanelVerdict>,
    /// The judges, in the order of their first result.
    judges: Vec<String>,
    /// For each trial, whether each judge passed it, by the place of the judge.
    votes: Vec<BTreeMap<usize, bool>>,
}

/// The trial whose units are being added. The units of a trial follow each other.
#[derive(Debug)]
struct OpenTrial {
    verdict: PanelVerdict,
    judges: usize,
    votes: BTreeMap<usize, bool>,
}

impl PanelRule {
    /// Returns the rule in the stored settings of a run.
    pub(crate) fn of_settings(settings: &Value) -> Self {
        let rule = settings.pointer("/config/panel").cloned();
        rule.and_then(|rule| serde_json::from_value(rule).ok()).unwrap_or_default()
    }

    fn passes(self, passed: usize, failed: usize) -> bool {
        match self {
            Self::Majority => passed > failed,
            Self::Unanimity => failed == 0,
        }
    }
}

impl PanelBuilder {
    pub(crate) fn new(rule: PanelRule) -> Self {
        Self { rule, ..Self::default() }
    }

    pub(crate) fn add(&mut self, unit: &UnitResult) {
        if self.open.as_ref().is_none_or(|open| open.verdict.trial != unit.trial) {
            self.close();
            let verdict = PanelVerdict {
                trial: unit.trial.clone(),
                question: unit.question.clone(),
                model: unit.model.label.clone(),
                replicate: unit.replicate,
                verdict: unit.verdict,
                passed: 0,
                failed: 0,
                unscored: 0,
            };
            self.open = Some(OpenTrial { verdict, judges: 0, votes: BTreeMap::new() });
        }
        let Some(judge) = &unit.judge else { return };
        let place = self.judges.iter().position(|label| *label == judge.label).unwrap_or_else(|| {
            self.judges.push(judge.label.clone());
            self.judges.len() - 1
        });
        let Some(open) = &mut self.open else { return };
        open.judges += 1;
        match unit.verdict {
            Verdict::Passed => open.verdict.passed += 1,
            Verdict::Failed => open.verdict.failed += 1,
            Verdict::Invalid | Verdict::Indeterminate => open.verdict.unscored += 1,
        }
        if unit.verdict.is_scored() {
            open.votes.insert(place, unit.verdict == Verdict::Passed);
        }
    }

    fn close(&mut self) {
        let Some(OpenTrial { mut verdict, judges, votes }) = self.open.take() else { return };
        if judges < 2 {
            return;
        }
        if verdict.passed + verdict.failed > 0 {
            let passes = self.rule.passes(verdict.passed, verdict.failed);
            verdict.verdict = if passes { Verdict::Passed } else { Verdict::Failed };
        }
        self.trials.push(verdict);
        self.votes.push(votes);
    }

    /// Returns the panel. `None` if no trial has several judges.
    pub(crate) fn finish(mut self) -> Option<Panel> {
        self.close();
        if self.trials.is_empty() {
            return None;
        }
        let agreement = agreement(&self.judges, &self.votes);
        Some(Panel { rule: self.rule, agreement, trials: self.trials })
    }
}

fn agreement(judges: &[String], votes: &[BTreeMap<usize, bool>]) -> Agreement {
    let complete: Vec<Vec<usize>> = votes
        .iter()
        .filter(|votes| votes.len() == judges.len())
        .map(|votes| {
            let passed = votes.values().filter(|passed| **passed).count();
            vec![passed, votes.len() - passed]
        })
        .collect();
    let unanimous = complete.iter().filter(|counts| counts.contains(&0)).count();
    let mut pairs = Vec::new();
    for (place, first) in judges.iter().enumerate() {
        for (other, second) in judges.iter().enumerate().skip(place + 1) {
            let both = |votes: &BTreeMap<usize, bool>| Some((*votes.get(&place)?, *votes.get(&other)?));
            let ratings: Vec<(bool, bool)> = votes.iter().filter_map(both).collect();
            let agreed = ratings.iter().filter(|(first, second)| first == second).count();
            pairs.push(PairAgreement {
                judges: [first.clone(), second.clone()],
                trials: ratings.len(),
                agreed: share(agreed, ratings.len()),
                cohen_kappa: cohen_kappa(&ratings),
            });
        }
    }
    let votes_of = |(place, judge): (usize, &String)| {
        let given = || votes.iter().filter_map(|votes| votes.get(&place));
        let passed = given().filter(|passed| **passed).count();
        JudgeVotes { judge: judge.clone(), passed, failed: given().count() - passed }
    };
    Agreement {
        judges: judges.iter().enumerate().map(votes_of).collect(),
        trials: complete.len(),
        unanimous: share(unanimous, complete.len()),
        fleiss_kappa: fleiss_kappa(&complete),
        pairs,
    }
}

#[expect(clippy::cast_precision_loss, reason = "counts are far below 2^52")]
fn share(part: usize, whole: usize) -> Option<f64> {
    (whole > 0).then(|| part as f64 / whole as f64)
}
