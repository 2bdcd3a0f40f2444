//! Results of units.

use wharf_protocol::BoxFuture;

use crate::failpoint::{self, Failpoint};
use crate::json_name::json_name;
use crate::outcome::{UnitResult, Verdict};
use crate::store::{Lease, StoreError};

use super::blob::Blob;
use super::connection::Connection;
use super::leases::is_held;
use super::query::{Dialect, Sql, now};
use super::transaction::Transaction;
use super::writer::Write;

/// The result of a unit. All judges of a trial have the same trace, so it is a blob of its own.
pub(super) struct FinishUnit {
    lease: Lease,
    unit: String,
    verdict: Verdict,
    columns: Columns,
    result: Blob,
    trace: Blob,
}

/// Parts of the result, for queries.
struct Columns {
    failure_group: Option<String>,
    failure_category: Option<String>,
    response: Option<String>,
    turns: i64,
    tool_calls: i64,
    input_tokens: i64,
    output_tokens: i64,
    cost_usd: Option<f64>,
    millis: i64,
}

impl FinishUnit {
    pub(super) async fn new(lease: &Lease, result: &UnitResult) -> Result<Self, StoreError> {
        let text = |error: serde_json::Error| StoreError::Failed(format!("cannot store a result: {error}"));
        let trace = serde_json::to_string(&result.trace).map_err(text)?;
        let without_trace = serde_json::to_string(&UnitResult { trace: Vec::new(), ..result.clone() }).map_err(text)?;
        Ok(Self {
            lease: lease.clone(),
            unit: result.unit.to_string(),
            verdict: result.verdict,
            columns: Columns::from(result),
            result: Blob::new(without_trace).await?,
            trace: Blob::new(trace).await?,
        })
    }

    async fn is_done(&self, connection: &mut Connection<'_>) -> Result<bool, StoreError> {
        const DONE: Sql = Sql::same("SELECT 1 FROM unit WHERE run = $1 AND id = $2 AND result = $3 AND trace = $4");
        let done = DONE.query().bind(&*self.lease.run.0).bind(&self.unit);
        let done = done.bind(&self.result.hash).bind(&self.trace.hash);
        Ok(connection.row(done).await?.is_some())
    }
}

impl From<&UnitResult> for Columns {
    fn from(result: &UnitResult) -> Self {
        let mut usage = result.usage;
        usage += result.judge_usage;
        let count = |number: u64| i64::try_from(number).unwrap_or(i64::MAX);
        Self {
            failure_group: result.failure.as_ref().map(|failure| json_name(&failure.group)),
            failure_category: result.failure.as_ref().map(|failure| json_name(&failure.category)),
            response: result.response.clone(),
            turns: result.turns.into(),
            tool_calls: i64::try_from(result.tool_calls).unwrap_or(i64::MAX),
            input_tokens: count(usage.input_tokens),
            output_tokens: count(usage.output_tokens),
            cost_usd: usage.cost_usd,
            millis: count(result.millis),
        }
    }
}

impl Write for FinishUnit {
    type Output = ();

    fn lease(&self) -> Option<&Lease> {
        Some(&self.lease)
    }

    fn blobs(&self) -> Vec<&Blob> {
        vec![&self.result, &self.trace]
    }

    fn apply<'a>(&'a self, transaction: &'a mut Transaction<'_>) -> BoxFuture<'a, Result<(), StoreError>> {
        macro_rules! set {
            ($dialect:ident) => {
                concat!("UPDATE unit SET finished = ", now!($dialect), ", verdict = $5, failure_group = $6, failure_category = $7, response = $8, turns = $9, \
                 tool_calls = $10, input_tokens = $11, output_tokens = $12, cost_usd = $13, millis = $14, result = $15, \
                 trace = $16, fence = $4 WHERE run = $1 AND trial = $2 AND id = $3 AND verdict IS NULL ")
            };
        }
        const FINISH: Sql = Sql {
            sqlite: concat!(
                set!(sqlite),
                "AND EXISTS (SELECT 1 FROM trial \
                 WHERE trial.run = $1 AND trial.id = $2 AND trial.fence = $4 AND trial.state = 'running') \
                 RETURNING in_plan; \
                 INSERT INTO blob (hash, size, bytes) SELECT $15, $17, $18 WHERE EXISTS (SELECT 1 FROM unit WHERE run = $1 \
                 AND id = $3 AND fence = $4 AND result = $15) ON CONFLICT (hash) DO NOTHING; \
                 INSERT INTO blob (hash, size, bytes) SELECT $16, $19, $20 WHERE EXISTS (SELECT 1 FROM unit WHERE run = $1 \
                 AND id = $3 AND fence = $4 AND trace = $16) ON CONFLICT (hash) DO NOTHING"
            ),
            postgres: concat!(
                "WITH held AS (SELECT 1 FROM trial WHERE run = $1 AND id = $2 AND fence = $4 AND state = 'running' \
                 FOR KEY SHARE) ",
                set!(postgres),
                "AND EXISTS (SELECT 1 FROM held) RETURNING in_plan"
            ),
        };
        Box::pin(async move {
            let columns = &self.columns;
            let connection = &mut transaction.connection;
            let verdict = json_name(&self.verdict);
            let mut finish = FINISH
                .query()
                .bind(&*self.lease.run.0)
                .bind(&*self.lease.trial.0)
                .bind(&self.unit)
                .bind(self.lease.fence)
                .bind(&verdict)
                .bind(&columns.failure_group)
                .bind(&columns.failure_category)
                .bind(&columns.response)
                .bind(columns.turns)
                .bind(columns.tool_calls)
                .bind(columns.input_tokens)
                .bind(columns.output_tokens)
                .bind(columns.cost_usd)
                .bind(columns.millis)
                .bind(&self.result.hash)
                .bind(&self.trace.hash);
            if connection.dialect() == Dialect::Sqlite {
                for blob in self.blobs() {
                    finish = finish.bind(blob.size).bind(&*blob.compressed);
                }
            }
            let finished = connection.rows(finish).await?;
            let Some(finished) = finished.first() else {
                if !is_held(connection, &self.lease).await? {
                    return Err(StoreError::LeaseLost);
                }
                let is_done = self.is_done(connection).await?;
                let refused = || StoreError::Failed(format!("unit `{}` is unknown or has another result", self.unit));
                return if is_done { Ok(()) } else { Err(refused()) };
            };
            let is_in_plan = finished.int("in_plan")? != 0;
            failpoint::hit(Failpoint::AfterBlobWrite);
            if is_in_plan {
                transaction.count_verdict(&self.lease.run, self.verdict);
            }
            Ok(())
        })
    }

    fn is_recorded<'a>(
        &'a self,
        (): &'a (),
        connection: &'a mut Connection<'_>,
    ) -> BoxFuture<'a, Result<bool, StoreError>> {
        Box::pin(self.is_done(connection))
    }
}
