//! One transaction: its connection, and what it adds to the counters of runs.
//!
//! The counters are rows that every write changes. They are added up and written once, before the commit.

use std::collections::BTreeMap;

use sqlx::SqliteConnection;
use wharf_protocol::Usage;

use crate::failpoint::{self, Failpoint};
use crate::ids::RunId;
use crate::outcome::Verdict;
use crate::store::StoreError;

use super::failed;

/// Tokens of one step that count at most. A provider may report any number, and totals must not overflow.
const MAX_STEP_TOKENS: u64 = 1_000_000_000_000;
/// The cost of one step that counts at most, in US dollars.
const MAX_STEP_COST_USD: f64 = 1_000.0;

/// A transaction that is not committed yet.
pub(super) struct Transaction<'c> {
    pub(super) connection: &'c mut SqliteConnection,
    added: BTreeMap<RunId, Counters>,
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
    pub(super) fn new(connection: &'c mut SqliteConnection) -> Self {
        Self { connection, added: BTreeMap::new() }
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

    /// Writes what was counted so far.
    pub(super) async fn write_counters(&mut self) -> Result<(), StoreError> {
        const ADD: &str = "UPDATE run SET passed = passed + $2, failed = failed + $3, invalid = invalid + $4, \
             indeterminate = indeterminate + $5, input_tokens = input_tokens + $6, output_tokens = output_tokens + $7, \
             cache_read_tokens = cache_read_tokens + $8, cache_write_tokens = cache_write_tokens + $9, \
             reasoning_tokens = reasoning_tokens + $10, \
             cost_nanos = CASE WHEN $11 IS NULL THEN cost_nanos ELSE COALESCE(cost_nanos, 0) + $11 END WHERE id = $1";
        for (run, counters) in std::mem::take(&mut self.added) {
            failpoint::hit(Failpoint::BeforeCounters);
            let add = sqlx::query(ADD)
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
                .bind(counters.cost_nanos);
            add.execute(&mut *self.connection).await.map_err(failed)?;
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
