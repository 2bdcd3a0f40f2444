//! The tools of the last list, with their schemas compiled on first use.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use arc_swap::ArcSwapOption;
use http::HeaderMap;
use tokio::sync::{OnceCell, Semaphore, SemaphorePermit};

use wharf_protocol::{Json, Listed, ServerName, Tool};

use super::param_headers::ParamHeaders;
use crate::{Admission, Schema, SchemaError, SchemaViolation};

/// The tools of the last list, until a notification invalidates it.
#[derive(Debug)]
pub(super) struct KnownTools {
    index: ArcSwapOption<ToolIndex>,
    /// Counts invalidations. A list that was requested before one is not stored.
    invalidations: AtomicU64,
    /// The invalidation count at which listing failed. Listing again before it changes is pointless.
    failed_at: AtomicU64,
    listing: Semaphore,
}

impl Default for KnownTools {
    fn default() -> Self {
        Self {
            index: ArcSwapOption::empty(),
            invalidations: AtomicU64::new(0),
            failed_at: AtomicU64::new(u64::MAX),
            listing: Semaphore::new(1),
        }
    }
}

impl KnownTools {
    pub(super) fn get(&self) -> Option<Arc<ToolIndex>> {
        self.index.load_full()
    }

    pub(super) fn forget(&self) {
        self.invalidations.fetch_add(1, Ordering::AcqRel);
        self.index.store(None);
    }

    /// Returns the invalidation count. Read it before requesting a list, and pass it to [`store`](Self::store).
    pub(super) fn age(&self) -> u64 {
        self.invalidations.load(Ordering::Acquire)
    }

    /// Waits until no other caller lists the tools.
    pub(super) async fn one_at_a_time(&self) -> Option<SemaphorePermit<'_>> {
        self.listing.acquire().await.ok()
    }

    pub(super) fn may_be_listed(&self) -> bool {
        self.failed_at.load(Ordering::Acquire) != self.age()
    }

    pub(super) fn cannot_be_listed(&self) {
        self.failed_at.store(self.age(), Ordering::Release);
    }

    /// Stores a list. Compiled schemas are kept if it is the same list as before.
    pub(super) fn store(&self, listed: &Arc<Listed<Tool>>, age: u64) {
        if self.get().is_some_and(|index| Arc::ptr_eq(&index.source, listed)) {
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
    source: Arc<Listed<Tool>>,
    /// Sorted by name. A server may have thousands, so each entry is small until it is used.
    tools: Vec<IndexedTool>,
}

#[derive(Debug)]
pub(super) struct IndexedTool {
    pub(super) tool: Arc<Tool>,
    /// The inner value is `None` if the schema is unusable; then nothing is checked against it.
    input: OnceCell<Option<Arc<Schema>>>,
    output: OnceCell<Option<Arc<Schema>>>,
    headers: OnceLock<Box<ParamHeaders>>,
}

impl ToolIndex {
    fn new(listed: &Arc<Listed<Tool>>) -> Self {
        let indexed = |tool: &Arc<Tool>| IndexedTool {
            tool: Arc::clone(tool),
            input: OnceCell::new(),
            output: OnceCell::new(),
            headers: OnceLock::new(),
        };
        let mut tools: Vec<IndexedTool> = listed.items.iter().map(indexed).collect();
        tools.sort_unstable_by(|one, other| one.tool.name.cmp(&other.tool.name));
        Self { source: Arc::clone(listed), tools }
    }

    pub(super) fn get(&self, name: &str) -> Option<&IndexedTool> {
        let found = self.tools.binary_search_by(|indexed| (*indexed.tool.name).cmp(name));
        found.ok().map(|at| &self.tools[at])
    }
}

impl IndexedTool {
    /// Checks arguments. Returns repaired arguments to send instead, if a repair was needed.
    pub(super) async fn admit(&self, server: &ServerName, arguments: &Json) -> Result<Option<Json>, NotAdmitted> {
        let schema = if let Some(schema) = self.input.get() {
            schema
        } else {
            let compile = || Box::pin(self.compile(server, &self.tool.input_schema));
            self.input.get_or_try_init(compile).await?
        };
        let Some(schema) = schema else {
            return SchemaViolation::in_text(arguments).map(|_| None).map_err(NotAdmitted::Violation);
        };
        match schema.admit(arguments).await.map_err(NotAdmitted::Violation)? {
            Admission::Valid => Ok(None),
            Admission::Repaired(repaired) => Ok(Some(repaired)),
            Admission::Unchecked(reason) => {
                tracing::warn!(tool = &*self.tool.name, reason, "arguments are not checked");
                Ok(None)
            }
            Admission::TimedOut => Err(NotAdmitted::TimedOut),
        }
    }

    /// Returns the headers that a call with these arguments needs.
    pub(super) fn headers(&self, arguments: &Json) -> HeaderMap {
        let read = || Box::new(ParamHeaders::read(&self.tool.input_schema).unwrap_or_default());
        self.headers.get_or_init(read).headers(arguments)
    }

    /// Checks structured content against the output schema.
    pub(super) async fn check_output(
        &self,
        server: &ServerName,
        structured: Option<&Json>,
    ) -> Result<(), SchemaViolation> {
        let Some(schema) = &self.tool.output_schema else { return Ok(()) };
        let Some(structured) = structured else {
            let message = "structured content is missing, although the tool has an output schema".to_owned();
            return Err(SchemaViolation::of_whole(message));
        };
        let compiled = if let Some(compiled) = self.output.get() {
            compiled
        } else {
            let compile = || Box::pin(self.compile(server, schema));
            let Ok(compiled) = self.output.get_or_try_init(compile).await else {
                tracing::warn!(tool = &*self.tool.name, "a result is not checked: compiling its schema took too long");
                return Ok(());
            };
            compiled
        };
        match compiled {
            Some(schema) => schema.check(structured).await,
            None => Ok(()),
        }
    }

    /// Returns the compiled schema; `None` if it cannot be used.
    async fn compile(&self, server: &ServerName, schema: &Json) -> Result<Option<Arc<Schema>>, NotAdmitted> {
        match Schema::compile_in_background(schema, Some(server)).await {
            Ok(schema) => Ok(Some(Arc::new(schema))),
            Err(SchemaError::TimedOut) => Err(NotAdmitted::TimedOut),
            Err(reason) => {
                tracing::warn!(tool = &*self.tool.name, %reason, "ignoring an unusable schema");
                Ok(None)
            }
        }
    }
}

/// Why arguments are not sent.
pub(super) enum NotAdmitted {
    /// They violate the schema.
    Violation(SchemaViolation),
    /// Compiling the schema or checking them took too long. The next call tries it again.
    TimedOut,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_requested_before_an_invalidation_is_not_stored() {
        let known = KnownTools::default();
        let listed = Arc::new(Listed::default());
        let age = known.age();
        known.store(&listed, age);
        assert!(known.get().is_some());
        known.forget();
        known.store(&listed, age);
        assert!(known.get().is_none());
    }
}
