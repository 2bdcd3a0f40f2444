//! How well judges agree with people.

use serde::Serialize;
use serde_json::Value;

use super::labels::{HumanLabel, LabeledAnswer};
use crate::outcome::{UnitResult, Verdict};
use crate::report::{Interval, wilson};
use crate::stats::cohen_kappa;

/// How well a judge agrees with people.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct JudgeScore {
    /// Label of the judge.
    pub judge: String,
    /// Answers with a verdict of the judge.
    pub scored: u64,
    /// Answers without one: the judge failed, or its output was unusable.
    pub unscored: u64,
    /// Share of the scored answers on which judge and person agree. `None` without such answers.
    pub accuracy: Option<f64>,
    /// The 95 % Wilson interval of the accuracy.
    pub interval: Option<Interval>,
    /// Cohen's kappa of judge and person. `None` if it is undefined.
    pub kappa: Option<f64>,
    /// The verdicts of the judge by those of people.
    pub confusion: Confusion,
    /// The values that the judge read. `None` if no label has fields.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fields: Option<FieldScore>,
}

/// The verdicts of a judge by those of people.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Confusion {
    /// The judge passed right answers.
    pub rightly_passed: u64,
    /// The judge passed wrong answers.
    pub wrongly_passed: u64,
    /// The judge failed wrong answers.
    pub rightly_failed: u64,
    /// The judge failed right answers.
    pub wrongly_failed: u64,
}

/// The values that a judge read, compared with those of people.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct FieldScore {
    /// Values that were compared.
    pub compared: u64,
    /// Values that are the same.
    pub same: u64,
}

/// Scores that results are added to.
#[derive(Default)]
pub(super) struct ScoreBuilder {
    judges: Vec<JudgeRatings>,
}

struct JudgeRatings {
    judge: String,
    /// The verdicts of the person and of the judge.
    ratings: Vec<(HumanLabel, HumanLabel)>,
    unscored: u64,
    fields: FieldScore,
}

impl ScoreBuilder {
    pub(super) fn add(&mut self, label: &LabeledAnswer, result: &UnitResult) {
        let Some(judge) = &result.judge else { return };
        let place = self.judges.iter().position(|ratings| ratings.judge == judge.label).unwrap_or_else(|| {
            let (judge, fields) = (judge.label.clone(), FieldScore::default());
            self.judges.push(JudgeRatings { judge, ratings: Vec::new(), unscored: 0, fields });
            self.judges.len() - 1
        });
        let ratings = &mut self.judges[place];
        match result.verdict {
            Verdict::Passed => ratings.ratings.push((label.label, HumanLabel::Passed)),
            Verdict::Failed => ratings.ratings.push((label.label, HumanLabel::Failed)),
            Verdict::Invalid | Verdict::Indeterminate => ratings.unscored += 1,
        }
        let read = result.template.iter().flat_map(|template| &template.fields);
        for field in read {
            let (Some(expected), Some(found)) = (label.fields.get(&field.name), &field.extracted) else { continue };
            ratings.fields.compared += 1;
            ratings.fields.same += u64::from(is_same(expected, found));
        }
    }

    pub(super) fn finish(self) -> Vec<JudgeScore> {
        self.judges.into_iter().map(JudgeRatings::finish).collect()
    }
}

impl JudgeRatings {
    #[expect(clippy::cast_precision_loss, reason = "counts are far below 2^52")]
    fn finish(self) -> JudgeScore {
        let mut confusion = Confusion::default();
        for rating in &self.ratings {
            let count = match rating {
                (HumanLabel::Passed, HumanLabel::Passed) => &mut confusion.rightly_passed,
                (HumanLabel::Failed, HumanLabel::Passed) => &mut confusion.wrongly_passed,
                (HumanLabel::Failed, HumanLabel::Failed) => &mut confusion.rightly_failed,
                (HumanLabel::Passed, HumanLabel::Failed) => &mut confusion.wrongly_failed,
            };
            *count += 1;
        }
        let scored = self.ratings.len() as u64;
        let right = confusion.rightly_passed + confusion.rightly_failed;
        JudgeScore {
            judge: self.judge,
            scored,
            unscored: self.unscored,
            accuracy: (scored > 0).then(|| right as f64 / scored as f64),
            interval: wilson(right, scored),
            kappa: cohen_kappa(&self.ratings),
            confusion,
            fields: Some(self.fields).filter(|fields| fields.compared > 0),
        }
    }
}

/// Compares values. Texts may differ in case and in white space around them.
fn is_same(expected: &Value, found: &Value) -> bool {
    match (expected, found) {
        (Value::String(expected), Value::String(found)) => {
            expected.trim().to_lowercase() == found.trim().to_lowercase()
        }
        (Value::Number(expected), Value::Number(found)) => expected.as_f64() == found.as_f64(),
        _ => expected == found,
    }
}
