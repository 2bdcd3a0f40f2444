//! The results of a run, page by page, in the order of the plan.

use std::sync::Arc;

use super::{RunStore, StoreError};
use crate::ids::RunId;
use crate::outcome::UnitResult;

/// How many results are read at once.
const PAGE_SIZE: u32 = 256;

/// Reads results page by page. A run may go on meanwhile: each result is read at most once.
pub struct ResultPages<'a> {
    store: &'a dyn RunStore,
    run: &'a RunId,
    /// The position of the last result that was read.
    after: Option<u64>,
    is_done: bool,
}

impl<'a> ResultPages<'a> {
    /// Starts before the first result.
    pub fn new(store: &'a dyn RunStore, run: &'a RunId) -> Self {
        Self { store, run, after: None, is_done: false }
    }

    /// Returns the next page. `None` after the last one; no page is empty.
    ///
    /// # Errors
    /// If the results cannot be read.
    pub async fn next(&mut self) -> Result<Option<Vec<Arc<UnitResult>>>, StoreError> {
        if self.is_done {
            return Ok(None);
        }
        let page = self.store.results(self.run, self.after, PAGE_SIZE).await?;
        self.is_done = page.len() < PAGE_SIZE as usize;
        self.after = page.last().map(|last| last.position).or(self.after);
        let page: Vec<Arc<UnitResult>> = page.into_iter().map(|placed| placed.result).collect();
        Ok(Some(page).filter(|page| !page.is_empty()))
    }
}
