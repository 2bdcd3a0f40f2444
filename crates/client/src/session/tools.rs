//! What is known of a server's tools: their schemas, compiled when first needed.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use arc_swap::ArcSwapOption;
use http::HeaderMap;
use tokio::sync::{Semaphore, SemaphorePermit};

use wharf_protocol::{Json, Listed, Tool};

use super::headers::Marked;
use crate::{Schema, SchemaViolation};

/// The tools of the last list, until something says that they may be others now.
#[derive(Debug)]
pub(super) struct KnownTools {
    index: ArcSwapOption<ToolIndex>,
    /// Counts how often they were forgotten: a list that was asked for before that is not kept.
    forgotten: AtomicU64,
    /// The value of `forgotten` at which a list could not be had; asking again before it changes is in vain.
    unlisted: AtomicU64,
    turn: Semaphore,
}

impl Default for KnownTools {
    fn default() -> Self {
        let (forgotten, unlisted) = (AtomicU64::new(0), AtomicU64::new(u64::MAX));
        Self { index: ArcSwapOption::empty(), forgotten, unlisted, turn: Semaphore::new(1) }
    }
}

impl KnownTools {
    pub(super) fn get(&self) -> Option<Arc<ToolIndex>> {
        self.index.load_full()
    }

    pub(super) fn forget(&self) {
        self.forgotten.fetch_add(1, Ordering::AcqRel);
        self.index.store(None);
    }

    /// To be taken before a list is asked for.
    pub(super) fn age(&self) -> u64 {
        self.forgotten.load(Ordering::Acquire)
    }

    /// Waits until nobody else is listing the tools.
    pub(super) async fn one_at_a_time(&self) -> Option<SemaphorePermit<'_>> {
        self.turn.acquire().await.ok()
    }

    pub(super) fn may_be_listed(&self) -> bool {
        self.unlisted.load(Ordering::Acquire) != self.age()
    }

    pub(super) fn cannot_be_listed(&self) {
        self.unlisted.store(self.age(), Ordering::Release);
    }

    /// Keeps a list. What was compiled for it stays for as long as it is the very same.
    pub(super) fn keep(&self, listed: &Arc<Listed<Tool>>, age: u64) {
        if self.get().is_some_and(|index| Arc::ptr_eq(&index.of, listed)) {
            return;
        }
        self.index.store(Some(Arc::new(ToolIndex::new(listed))));
        if self.age() != age {
            self.index.store(None);
        }
    }
}

#[derive(Debug)]
pub(super) struct ToolIndex {
    /// The list it is made of.
    of: Arc<Listed<Tool>>,
    /// Sorted by name. There may be thousands, so that each is small until it is used.
    tools: Vec<Known>,
}

#[derive(Debug)]
pub(super) struct Known {
    pub(super) tool: Arc<Tool>,
    /// `None` inside: the schema cannot be used, so nothing is checked against it.
    input: OnceLock<Option<Box<Schema>>>,
    output: OnceLock<Option<Box<Schema>>>,
    marked: OnceLock<Box<Marked>>,
}

impl ToolIndex {
    fn new(listed: &Arc<Listed<Tool>>) -> Self {
        let known = |tool: &Arc<Tool>| {
            let (input, output, marked) = (OnceLock::new(), OnceLock::new(), OnceLock::new());
            Known { tool: Arc::clone(tool), input, output, marked }
        };
        let mut tools: Vec<Known> = listed.items.iter().map(known).collect();
        tools.sort_unstable_by(|one, other| one.tool.name.cmp(&other.tool.name));
        Self { of: Arc::clone(listed), tools }
    }

    pub(super) fn get(&self, name: &str) -> Option<&Known> {
        let found = self.tools.binary_search_by(|known| (*known.tool.name).cmp(name));
        found.ok().map(|at| &self.tools[at])
    }
}

impl Known {
    /// Checks arguments; what is returned is to be sent instead of them.
    pub(super) fn admit(&self, arguments: &Json) -> Result<Option<Json>, SchemaViolation> {
        match self.input.get_or_init(|| self.compile(&self.tool.input_schema)) {
            Some(schema) => schema.admit(arguments),
            None => Ok(None),
        }
    }

    /// The headers that a call with these arguments needs.
    pub(super) fn headers(&self, arguments: &Json) -> HeaderMap {
        let read = || Box::new(Marked::read(&self.tool.input_schema).unwrap_or_default());
        self.marked.get_or_init(read).headers(arguments)
    }

    /// Checks a structured result.
    pub(super) fn check_output(&self, structured: Option<&Json>) -> Result<(), SchemaViolation> {
        let Some(schema) = &self.tool.output_schema else { return Ok(()) };
        let Some(structured) = structured else {
            let message = "there is no structured content though the tool declares a schema for it".to_owned();
            return Err(SchemaViolation { path: String::new(), message });
        };
        match self.output.get_or_init(|| self.compile(schema)) {
            Some(schema) => schema.check(structured),
            None => Ok(()),
        }
    }

    fn compile(&self, schema: &Json) -> Option<Box<Schema>> {
        Schema::compile(schema)
            .map(Box::new)
            .inspect_err(|reason| tracing::warn!(tool = &*self.tool.name, reason, "a schema cannot be used"))
            .ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_that_was_asked_for_before_the_tools_changed_is_not_kept() {
        let (known, listed) = (KnownTools::default(), Arc::new(Listed::default()));
        let age = known.age();
        known.keep(&listed, age);
        assert!(known.get().is_some());
        known.forget();
        known.keep(&listed, age);
        assert!(known.get().is_none());
    }
}
