//! Which questions of a benchmark are run.

use wharf_protocol::nearest;

use super::PlanError;
use crate::benchmark::{Benchmark, Question};

/// A selection of questions. The default selects all of them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Selection {
    /// Ids of the questions to run. Empty means all.
    pub only: Vec<String>,
    /// The maximum number of questions, the first ones of the file.
    pub limit: Option<usize>,
}

impl Selection {
    /// Returns the selected questions, in the order of the file.
    pub(super) fn questions<'a>(&self, benchmark: &'a Benchmark) -> Result<Vec<&'a Question>, PlanError> {
        let all = &benchmark.questions;
        for id in &self.only {
            if !all.iter().any(|question| question.id.as_str() == id) {
                let similar = nearest(id, all.iter().map(|question| question.id.as_str()));
                let find = |similar: &str| all.iter().find(|question| question.id.as_str() == similar);
                let nearest = similar.and_then(find).map(|question| question.id.clone());
                return Err(PlanError::UnknownQuestion { id: id.clone(), nearest });
            }
        }
        let is_selected =
            |question: &&Question| self.only.is_empty() || self.only.iter().any(|id| id == question.id.as_str());
        let selected: Vec<&Question> = all.iter().filter(is_selected).take(self.limit.unwrap_or(usize::MAX)).collect();
        if selected.is_empty() { Err(PlanError::NoQuestion) } else { Ok(selected) }
    }
}
