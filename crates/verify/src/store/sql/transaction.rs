//! One transaction: its connection, and what it adds to the counters of runs.
//!
//! The counters are rows that every write changes. They are added up and written once, before the commit.

use std::collections::BTreeMap;

use wharf_protocol::Usage;

use crate::failpoint::{self, Failpoint};
use crate::ids::RunId;
use crate::outcome::Verdict;
use crate::store::StoreError;

use super::blob::Blob;
use super::connection::{Connection, Fault};
use super::query::Sql;

/// Tokens of one step that count at most. A provider may report any number, and totals must not overflow.
const MAX_STEP_TOKENS: u64 = 1_000_000_000_000;
/// The cost of one step that counts at most, in US dollars.
const MAX_STEP_COST_USD: f64 = 1_000.0;

/// Rows with counters of each run in PostgreSQL. A row stays locked until the transaction that changes it is durable, so
/// with one row all workers would wait for each other. Each writer has one of these, at random.
pub(in crate::store) const COUNTER_ROWS: i64 = 16;

/// A transaction that is not committed yet.
pub(in crate::store) struct Transaction<'c> {
    pub(in crate::store) connection: Connection<'c>,
    /// The counters that it changes, of [`COUNTER_ROWS`].
    counter_row: i64,
    added: BTreeMap<RunId, Counters>,
    offers_trials: bool,
}

/// Why a transaction failed.
pub(in crate::store) struct Trouble {
    pub(in crate::store) error: StoreError,
    /// Why it may pass.
    pub(in crate::store) fault: Option<Fault>,
}

/// What is added to the counters of a run.
#[derive(Default)]
struct Counters {
    passed: i64,
    failed: i64,
    invalid: i64,
    indeterminate: i64,
    input_tokens: i64,
    output_tokens: i64,
    cache_read_tokens: i64,
    cache_write_tokens: i64,
    reasoning_tokens: i64,
    cost_nanos: Option<i64>,
}

impl<'c> Transaction<'c> {
    pub(in crate::store) fn new(connection: Connection<'c>, counter_row: i64) -> Self {
        Self { connection, counter_row, added: BTreeMap::new(), offers_trials: false }
    }

    /// Returns an error with the reason why it may pass.
    pub(super) fn trouble(&self, error: StoreError) -> Trouble {
        Trouble { error, fault: self.connection.fault() }
    }

    /// Stores the blobs of all writes, where one statement can. Otherwise each write stores its own.
    pub(super) async fn store_blobs(&mut self, blobs: Vec<&Blob>) -> Result<(), StoreError> {
        #[cfg(feature = "postgres")]
        if !blobs.is_empty() {
            self.connection.store_blobs(blobs).await?;
        }
        #[cfg(not(feature = "postgres"))]
        drop(blobs);
        Ok(())
    }

    /// Notes that a worker without trials may find some after the commit.
    pub(super) fn offer_trials(&mut self) {
        self.offers_trials = true;
    }

    /// Counts the result of a unit in the plan.
    pub(super) fn count_verdict(&mut self, run: &RunId, verdict: Verdict) {
        let counters = self.counters(run);
        let counter = match verdict {
            Verdict::Passed => &mut counters.passed,
            Verdict::Failed => &mut counters.failed,
            Verdict::Invalid => &mut counters.invalid,
            Verdict::Indeterminate => &mut counters.indeterminate,
        };
        *counter += 1;
    }

    /// Counts what a step used.
    pub(super) fn count_usage(&mut self, run: &RunId, usage: &Usage) {
        let tokens = |count: u64| i64::try_from(count.min(MAX_STEP_TOKENS)).unwrap_or_default();
        let counters = self.counters(run);
        counters.input_tokens += tokens(usage.input_tokens);
        counters.output_tokens += tokens(usage.output_tokens);
        counters.cache_read_tokens += tokens(usage.cache_read_tokens);
        counters.cache_write_tokens += tokens(usage.cache_write_tokens);
        counters.reasoning_tokens += tokens(usage.reasoning_tokens);
        if let Some(cost) = usage.cost_usd {
            *counters.cost_nanos.get_or_insert_default() += nanos(cost);
        }
    }

    fn counters(&mut self, run: &RunId) -> &mut Counters {
        self.added.entry(run.clone()).or_default()
    }

    /// Writes what belongs to the whole transaction, before its commit.
    pub(super) async fn finish(&mut self) -> Result<(), StoreError> {
        // The payload tells stores in the same database apart.
        #[cfg(feature = "postgres")]
        if self.offers_trials && self.connection.dialect() == super::query::Dialect::Postgres {
            let notify = Sql::same("SELECT pg_notify('wharf_trials', current_schema())");
            self.connection.execute(notify.query()).await?;
        }
        self.write_counters().await
    }

    /// Writes what was counted so far.
    pub(super) async fn write_counters(&mut self) -> Result<(), StoreError> {
        macro_rules! add {
            ($table:literal, $row:literal) => {
                concat!(
                    "UPDATE ",
                    $table,
                    " SET passed = passed + $2, failed = failed + $3, invalid = invalid + $4, \
                     indeterminate = indeterminate + $5, input_tokens = input_tokens + $6, \
                     output_tokens = output_tokens + $7, cache_read_tokens = cache_read_tokens + $8, \
                     cache_write_tokens = cache_write_tokens + $9, reasoning_tokens = reasoning_tokens + $10, \
                     cost_nanos = CASE WHEN $11 IS NULL THEN cost_nanos ELSE COALESCE(cost_nanos, 0) + $11 END WHERE ",
                    $row
                )
            };
        }
        const ADD: Sql =
            Sql { sqlite: add!("run", "id = $1"), postgres: add!("run_counter", "run = $1 AND number = $12") };
        for (run, counters) in std::mem::take(&mut self.added) {
            failpoint::hit(Failpoint::BeforeCounters);
            let add = ADD
                .query()
                .bind(&*run.0)
                .bind(counters.passed)
                .bind(counters.failed)
                .bind(counters.invalid)
                .bind(counters.indeterminate)
                .bind(counters.input_tokens)
                .bind(counters.output_tokens)
                .bind(counters.cache_read_tokens)
                .bind(counters.cache_write_tokens)
                .bind(counters.reasoning_tokens)
                .bind(counters.cost_nanos)
                .bind(self.counter_row);
            self.connection.execute(add).await?;
        }
        Ok(())
    }
}

/// Returns billionths of a US dollar.
#[expect(clippy::cast_possible_truncation, reason = "the number is far smaller than the type allows")]
fn nanos(cost_usd: f64) -> i64 {
    // A cost that is not a number counts as none.
    (cost_usd.clamp(0.0, MAX_STEP_COST_USD) * 1e9).round() as i64
}
