//! Statistics over questions: attempts, flaky questions, and accuracy by keyword.

use std::collections::BTreeMap;

use serde::Serialize;

use crate::ids::QuestionId;
use crate::outcome::{UnitResult, Verdict};
use crate::report::proportion::{Interval, wilson};
use crate::stats::{Attempts, is_flaky};

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

/// A question, the label of a model, and that of a judge.
type AttemptKey = (QuestionId, String, Option<String>);

#[derive(Debug, Default)]
pub(super) struct QuestionCounts {
    attempts: Vec<(AttemptKey, Attempts)>,
    places: BTreeMap<AttemptKey, usize>,
    keywords: Vec<KeywordAccuracy>,
    keyword_places: BTreeMap<(String, String), usize>,
}

impl QuestionCounts {
    pub(super) fn add(&mut self, unit: &UnitResult) {
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

    /// Returns the attempts of a model, for each question and judge.
    pub(super) fn attempts_of(&self, model: &str) -> Vec<Attempts> {
        let of_model = self.attempts.iter().filter(|((_, of, _), _)| of == model);
        of_model.map(|(_, attempts)| *attempts).collect()
    }

    pub(super) fn finish(mut self) -> (Vec<FlakyQuestion>, Vec<KeywordAccuracy>) {
        let flaky = self.attempts.into_iter().filter(|(_, attempts)| is_flaky(*attempts));
        let flaky = flaky.map(|((question, model, judge), attempts)| {
            let Attempts { passed, scored } = attempts;
            FlakyQuestion { question, model, judge, passed, scored }
        });
        let mut flaky: Vec<FlakyQuestion> = flaky.collect();
        // Compares |2p/n - 1| without rounding.
        let lead = |flaky: &FlakyQuestion| (2 * flaky.passed).abs_diff(flaky.scored);
        flaky.sort_by(|a, b| (lead(a) * b.scored).cmp(&(lead(b) * a.scored)));
        for counts in &mut self.keywords {
            counts.interval = wilson(counts.passed, counts.scored);
        }
        (flaky, self.keywords)
    }
}
