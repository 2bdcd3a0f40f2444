//! Which questions of a benchmark are run.

use serde::Serialize;
use wharf_protocol::nearest;

use super::PlanError;
use crate::benchmark::{Benchmark, Question};

/// A selection of questions. The default selects all of them.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Selection {
    /// Ids of the questions to run. Empty means all.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub only: Vec<String>,
    /// Keywords of the questions to run: each has one of them. Empty means all.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub keywords: Vec<String>,
    /// The maximum number of questions, the first ones of the file.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub limit: Option<usize>,
}

impl Selection {
    /// Returns the selected questions, in the order of the file.
    ///
    /// # Errors
    /// If nothing is selected, or a selected question or keyword does not exist.
    pub fn questions<'a>(&self, benchmark: &'a Benchmark) -> Result<Vec<&'a Question>, PlanError> {
        let all = &benchmark.questions;
        for id in &self.only {
            if !all.iter().any(|question| question.id.as_str() == id) {
                let similar = nearest(id, all.iter().map(|question| question.id.as_str()));
                let find = |similar: &str| all.iter().find(|question| question.id.as_str() == similar);
                let nearest = similar.and_then(find).map(|question| question.id.clone());
                return Err(PlanError::UnknownQuestion { id: id.clone(), nearest });
            }
        }
        for keyword in &self.keywords {
            let known = || all.iter().flat_map(|question| &question.keywords).map(String::as_str);
            if !known().any(|known| known == keyword) {
                let nearest = nearest(keyword, known()).map(str::to_owned);
                return Err(PlanError::UnknownKeyword { keyword: keyword.clone(), nearest });
            }
        }
        let is_named =
            |question: &Question| self.only.is_empty() || self.only.iter().any(|id| id == question.id.as_str());
        let has_keyword = |question: &Question| {
            self.keywords.is_empty() || question.keywords.iter().any(|keyword| self.keywords.contains(keyword))
        };
        let is_selected = |question: &&Question| is_named(question) && has_keyword(question);
        let selected: Vec<&Question> = all.iter().filter(is_selected).take(self.limit.unwrap_or(usize::MAX)).collect();
        if selected.is_empty() { Err(PlanError::NoQuestion) } else { Ok(selected) }
    }
}
