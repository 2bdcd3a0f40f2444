//! Intents and results of steps.

use wharf_protocol::{BoxFuture, Usage};

use crate::failpoint::{self, Failpoint};
use crate::json_name::json_name;
use crate::step::{Recovery, StepOwner, StepRequest, StepResult, StepStart};
use crate::store::{Lease, StoreError};

use super::blob::{self, Blob};
use super::connection::{Connection, Row};
use super::leases::is_held;
use super::query::{Dialect, Query, Sql};
use super::transaction::Transaction;
use super::writer::Write;

/// The intent of a step.
pub(super) struct BeginStep {
    pub(super) lease: Lease,
    pub(super) step: StepRequest,
    pub(super) recovery: Recovery,
}

/// The result of a step.
pub(super) struct FinishStep {
    lease: Lease,
    step: i64,
    failed: bool,
    usage: Usage,
    usage_json: String,
    millis: i64,
    clock: Option<i64>,
    body: Blob,
}

/// The last attempt of a step.
struct Attempt {
    id: i64,
    number: i64,
    state: String,
    result: Option<StepResult>,
}

impl BeginStep {
    fn unit(&self) -> &str {
        owner_column(&self.step.owner)
    }

    /// Records the first attempt of a step in one statement. Returns nothing if the step is known or the lease is lost.
    async fn begin_first(&self, connection: &mut Connection<'_>) -> Result<Option<i64>, StoreError> {
        const BEGIN: Sql = Sql {
            sqlite: "INSERT INTO step (run, trial, unit, request, occurrence, attempt, kind, state, fence) \
                     SELECT $1, $2, $3, $4, $5, 0, $6, 'started', $7 \
                     WHERE EXISTS (SELECT 1 FROM trial WHERE run = $1 AND id = $2 AND fence = $7 AND state = 'running') \
                     AND NOT EXISTS (SELECT 1 FROM step WHERE run = $1 AND trial = $2 AND unit = $3 AND request = $4 \
                     AND occurrence = $5) RETURNING id",
            postgres: "WITH held AS (SELECT 1 FROM trial WHERE run = $1 AND id = $2 AND fence = $7 AND state = 'running' \
                       FOR KEY SHARE) \
                       INSERT INTO step (run, trial, unit, request, occurrence, attempt, kind, state, fence) \
                       SELECT $1, $2, $3, $4, $5, 0, $6, 'started', $7 FROM held \
                       WHERE NOT EXISTS (SELECT 1 FROM step WHERE run = $1 AND trial = $2 AND unit = $3 AND request = $4 \
                       AND occurrence = $5) RETURNING id",
        };
        let insert = self.bind_key(BEGIN.query());
        let kind = json_name(&self.step.kind);
        let inserted = connection.row(insert.bind(&kind).bind(self.lease.fence)).await?;
        inserted.map(|row| row.int("id")).transpose()
    }

    async fn begin_next(&self, connection: &mut Connection<'_>, attempt: i64) -> Result<StepStart, StoreError> {
        const BEGIN: Sql = Sql::same(
            "INSERT INTO step (run, trial, unit, request, occurrence, attempt, kind, state, fence) \
             VALUES ($1, $2, $3, $4, $5, $6, $7, 'started', $8) RETURNING id",
        );
        let kind = json_name(&self.step.kind);
        let insert = self.bind_key(BEGIN.query()).bind(attempt).bind(&kind).bind(self.lease.fence);
        let row = connection.row(insert).await?.ok_or_else(not_recorded)?;
        Ok(StepStart::Execute(row.int("id")?))
    }

    async fn last_attempt(&self, connection: &mut Connection<'_>) -> Result<Option<Attempt>, StoreError> {
        const LAST: Sql = Sql::same(
            "SELECT step.id, step.attempt, step.state, step.failed, step.usage, step.millis, step.clock, blob.bytes \
             FROM step LEFT JOIN blob ON blob.hash = step.result \
             WHERE run = $1 AND trial = $2 AND unit = $3 AND request = $4 AND occurrence = $5 \
             ORDER BY attempt DESC LIMIT 1",
        );
        let Some(row) = connection.row(self.bind_key(LAST.query())).await? else { return Ok(None) };
        let state = row.text("state")?.to_owned();
        let result = if state == "done" { Some(result_of(&row)?) } else { None };
        Ok(Some(Attempt { id: row.int("id")?, number: row.int("attempt")?, state, result }))
    }

    /// Binds the first five values, which identify the step.
    fn bind_key<'a>(&'a self, query: Query<'a>) -> Query<'a> {
        query
            .bind(&*self.lease.run.0)
            .bind(&*self.lease.trial.0)
            .bind(self.unit())
            .bind(&self.step.request)
            .bind(i64::from(self.step.occurrence))
    }
}

impl Write for BeginStep {
    type Output = StepStart;

    fn lease(&self) -> Option<&Lease> {
        Some(&self.lease)
    }

    fn is_urgent(&self) -> bool {
        true
    }

    fn apply<'a>(&'a self, transaction: &'a mut Transaction<'_>) -> BoxFuture<'a, Result<StepStart, StoreError>> {
        Box::pin(async move {
            let connection = &mut transaction.connection;
            if let Some(id) = self.begin_first(connection).await? {
                return Ok(StepStart::Execute(id));
            }
            if !is_held(connection, &self.lease).await? {
                return Err(StoreError::LeaseLost);
            }
            let Some(last) = self.last_attempt(connection).await? else {
                return Err(not_recorded());
            };
            match (last.state.as_str(), last.result) {
                ("done", Some(result)) if !result.failed => Ok(StepStart::Recorded(result)),
                ("done" | "discarded" | "interrupted", _) => self.begin_next(connection, last.number + 1).await,
                ("started", _) if self.step.kind.is_repeatable(self.recovery) => {
                    set_state(connection, last.id, "interrupted").await?;
                    self.begin_next(connection, last.number + 1).await
                }
                ("started", _) => {
                    set_state(connection, last.id, "indeterminate").await?;
                    Ok(StepStart::Indeterminate)
                }
                _ => Ok(StepStart::Indeterminate),
            }
        })
    }

    fn is_recorded<'a>(
        &'a self,
        output: &'a StepStart,
        connection: &'a mut Connection<'_>,
    ) -> BoxFuture<'a, Result<bool, StoreError>> {
        const STARTED: Sql = Sql::same(
            "SELECT 1 FROM step WHERE run = $1 AND trial = $2 AND unit = $3 AND request = $4 AND occurrence = $5 \
             AND id = $6 AND fence = $7 AND state = 'started'",
        );
        Box::pin(async move {
            let StepStart::Execute(id) = output else { return Ok(true) };
            // The number could belong to a step of another process, but only this worker has this fence.
            let started = self.bind_key(STARTED.query()).bind(*id).bind(self.lease.fence);
            Ok(connection.row(started).await?.is_some())
        })
    }
}

impl FinishStep {
    pub(super) async fn new(lease: &Lease, step: i64, result: StepResult) -> Result<Self, StoreError> {
        let usage_json = serde_json::to_string(&result.usage).map_err(|error| StoreError::Failed(error.to_string()))?;
        Ok(Self {
            lease: lease.clone(),
            step,
            failed: result.failed,
            usage: result.usage,
            usage_json,
            millis: i64::try_from(result.millis).unwrap_or(i64::MAX),
            clock: result.clock.map(|clock| i64::try_from(clock).unwrap_or(i64::MAX)),
            body: Blob::new(result.body).await?,
        })
    }

    async fn is_done(&self, connection: &mut Connection<'_>) -> Result<bool, StoreError> {
        const DONE: Sql = Sql::same(
            "SELECT 1 FROM step WHERE id = $1 AND run = $2 AND trial = $3 AND fence = $4 AND state = 'done' \
             AND result = $5",
        );
        let done = DONE
            .query()
            .bind(self.step)
            .bind(&*self.lease.run.0)
            .bind(&*self.lease.trial.0)
            .bind(self.lease.fence)
            .bind(&self.body.hash);
        Ok(connection.row(done).await?.is_some())
    }
}

impl Write for FinishStep {
    type Output = ();

    fn lease(&self) -> Option<&Lease> {
        Some(&self.lease)
    }

    fn is_urgent(&self) -> bool {
        true
    }

    fn blobs(&self) -> Vec<&Blob> {
        vec![&self.body]
    }

    fn apply<'a>(&'a self, transaction: &'a mut Transaction<'_>) -> BoxFuture<'a, Result<(), StoreError>> {
        const FINISH: Sql = Sql {
            // Two statements in one call: each call is a message to the thread of the connection and back.
            sqlite: "UPDATE step SET state = 'done', failed = $5, result = $6, usage = $7, millis = $8, clock = $9 \
                     WHERE id = $1 AND run = $2 AND trial = $3 AND fence = $4 AND state = 'started' \
                     AND EXISTS (SELECT 1 FROM trial WHERE trial.run = $2 AND trial.id = $3 AND trial.fence = $4 \
                     AND trial.state = 'running') RETURNING id; \
                     INSERT INTO blob (hash, size, bytes) SELECT $6, $10, $11 WHERE EXISTS (SELECT 1 FROM step \
                     WHERE id = $1 AND run = $2 AND trial = $3 AND fence = $4 AND result = $6) \
                     ON CONFLICT (hash) DO NOTHING",
            // The blobs of all writes of the transaction are stored already.
            postgres: "WITH held AS (SELECT 1 FROM trial WHERE run = $2 AND id = $3 AND fence = $4 AND state = 'running' \
                       FOR KEY SHARE) \
                       UPDATE step SET state = 'done', failed = $5, result = $6, usage = $7, millis = $8, clock = $9 \
                       WHERE id = $1 AND run = $2 AND trial = $3 AND fence = $4 AND state = 'started' \
                       AND EXISTS (SELECT 1 FROM held) RETURNING id",
        };
        Box::pin(async move {
            let connection = &mut transaction.connection;
            let mut finish = FINISH
                .query()
                .bind(self.step)
                .bind(&*self.lease.run.0)
                .bind(&*self.lease.trial.0)
                .bind(self.lease.fence)
                .bind(i64::from(self.failed))
                .bind(&self.body.hash)
                .bind(&self.usage_json)
                .bind(self.millis)
                .bind(self.clock);
            if connection.dialect() == Dialect::Sqlite {
                finish = finish.bind(self.body.size).bind(&*self.body.compressed);
            }
            if connection.rows(finish).await?.is_empty() {
                if !is_held(connection, &self.lease).await? {
                    return Err(StoreError::LeaseLost);
                }
                // The same result a second time changes nothing.
                let is_done = self.is_done(connection).await?;
                let unknown = || StoreError::Failed(format!("step {} was not started by this worker", self.step));
                return if is_done { Ok(()) } else { Err(unknown()) };
            }
            failpoint::hit(Failpoint::AfterBlobWrite);
            transaction.count_usage(&self.lease.run, &self.usage);
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

    fn committed(&self) {
        failpoint::hit(Failpoint::AfterResult);
    }
}

async fn set_state(connection: &mut Connection<'_>, step: i64, state: &str) -> Result<(), StoreError> {
    const SET: Sql = Sql::same("UPDATE step SET state = $2 WHERE id = $1");
    connection.execute(SET.query().bind(step).bind(state)).await?;
    Ok(())
}

fn not_recorded() -> StoreError {
    StoreError::Failed("the intent of a step was not recorded".to_owned())
}

/// Returns how a step's owner is stored.
pub(super) fn owner_column(owner: &StepOwner) -> &str {
    match owner {
        StepOwner::Trial => "",
        StepOwner::Unit(unit) => &unit.0,
    }
}

/// Returns the result in a row with the columns `failed`, `usage`, `millis`, `clock` and `bytes`.
pub(super) fn result_of(row: &Row) -> Result<StepResult, StoreError> {
    let damaged = |error: &dyn std::fmt::Display| StoreError::Failed(format!("a stored step is damaged: {error}"));
    let bytes = row.optional_bytes("bytes")?.ok_or_else(|| damaged(&"its result is missing"))?;
    let usage = row.optional_text("usage")?.unwrap_or("{}");
    Ok(StepResult {
        body: blob::decompress(bytes)?,
        failed: row.int("failed")? != 0,
        usage: serde_json::from_str(usage).map_err(|error| damaged(&error))?,
        millis: u64::try_from(row.optional_int("millis")?.unwrap_or_default()).unwrap_or_default(),
        clock: row.optional_int("clock")?.and_then(|clock| u64::try_from(clock).ok()),
    })
}
