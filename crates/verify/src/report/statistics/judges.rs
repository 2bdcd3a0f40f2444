//! Agreement of several judges on the same answers.

use serde::Serialize;

use crate::ids::TrialId;
use crate::outcome::{UnitResult, Verdict};
use crate::stats::fleiss_kappa;

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

/// The verdicts of the judges, answer by answer. The units of a trial follow each other.
#[derive(Debug, Default)]
pub(super) struct JudgedAnswers {
    trial: Option<TrialId>,
    /// Judges that passed and failed the current answer.
    open: [usize; 2],
    answers: Vec<Vec<usize>>,
}

impl JudgedAnswers {
    pub(super) fn add(&mut self, unit: &UnitResult) {
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

    pub(super) fn finish(mut self) -> Option<JudgeAgreement> {
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
