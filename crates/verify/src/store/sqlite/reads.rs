//! Reading runs, results and steps.

use std::sync::Arc;

use serde::de::DeserializeOwned;
use serde_json::Value;
use sqlx::sqlite::{SqlitePool, SqliteRow};
use sqlx::{Row as _, SqliteConnection};
use wharf_protocol::Usage;

use crate::ids::{RunId, TrialId, UnitId};
use crate::outcome::UnitResult;
use crate::plan::Trial;
use crate::step::{RecordedStep, StepOwner, StepRequest};
use crate::store::{PlacedResult, Progress, RunSummary, StoreError};

use super::leases::{trial_of, units_of};
use super::{blob, failed, id, now, steps};

const RUN: &str = concat!(
    "SELECT run.*, (SELECT COUNT(*) FROM trial WHERE trial.run = run.id AND trial.state <> 'done' AND trial.in_plan = 1 \
     AND trial.lease_until > 0 AND trial.lease_until > ",
    now!(),
    ") AS running FROM run WHERE id = $1"
);

pub(super) async fn runs(readers: &SqlitePool) -> Result<Vec<RunSummary>, StoreError> {
    let mut connection = readers.acquire().await.map_err(failed)?;
    let ids = sqlx::query("SELECT id FROM run ORDER BY created DESC, id DESC");
    let ids: Vec<RunId> =
        ids.fetch_all(&mut *connection).await.map_err(failed)?.iter().map(|row| RunId(id(row, "id"))).collect();
    let mut runs = Vec::with_capacity(ids.len());
    for run in ids {
        runs.push(summary(&run_row(&mut connection, &run).await?)?);
    }
    Ok(runs)
}

pub(super) async fn run(readers: &SqlitePool, run: &RunId) -> Result<(RunSummary, Value), StoreError> {
    let mut connection = readers.acquire().await.map_err(failed)?;
    let row = run_row(&mut connection, run).await?;
    let select = sqlx::query_scalar("SELECT settings FROM run_settings WHERE run = $1").bind(&*run.0);
    let settings: String = select.fetch_one(&mut *connection).await.map_err(|error| damaged(&error))?;
    let settings = serde_json::from_str(&settings).map_err(|error| damaged(&error))?;
    Ok((summary(&row)?, settings))
}

pub(super) async fn progress(readers: &SqlitePool, run: &RunId) -> Result<Progress, StoreError> {
    let mut connection = readers.acquire().await.map_err(failed)?;
    progress_of(&run_row(&mut connection, run).await?)
}

pub(super) async fn results(
    readers: &SqlitePool,
    run: &RunId,
    after: Option<u64>,
    limit: u32,
) -> Result<Vec<PlacedResult>, StoreError> {
    let sql = "SELECT unit.position, result.bytes AS result, trace.bytes AS trace FROM unit \
               JOIN blob AS result ON result.hash = unit.result JOIN blob AS trace ON trace.hash = unit.trace \
               WHERE unit.run = $1 AND unit.in_plan = 1 AND unit.verdict IS NOT NULL \
               AND unit.position > $2 ORDER BY unit.position LIMIT $3";
    let mut connection = readers.acquire().await.map_err(failed)?;
    run_row(&mut connection, run).await?;
    let after = after.map_or(-1, |after| i64::try_from(after).unwrap_or(i64::MAX));
    let select = sqlx::query(sql).bind(&*run.0).bind(after).bind(i64::from(limit));
    let rows = select.fetch_all(&mut *connection).await.map_err(failed)?;
    let result = |row: &SqliteRow| {
        let mut result: UnitResult = json(&blob::decompress(row.get("result"))?)?;
        result.trace = json(&blob::decompress(row.get("trace"))?)?;
        let position = u64::try_from(row.get::<i64, _>("position")).unwrap_or_default();
        Ok(PlacedResult { position, result: Arc::new(result) })
    };
    rows.iter().map(result).collect()
}

pub(super) async fn trials(readers: &SqlitePool, run: &RunId, skip: u64, limit: u32) -> Result<Vec<Trial>, StoreError> {
    let sql = "SELECT id, question, model, replicate FROM trial WHERE run = $1 AND in_plan = 1 ORDER BY position \
               LIMIT $2 OFFSET $3";
    let mut connection = readers.acquire().await.map_err(failed)?;
    run_row(&mut connection, run).await?;
    let select = sqlx::query(sql).bind(&*run.0).bind(i64::from(limit)).bind(i64::try_from(skip).unwrap_or(i64::MAX));
    let rows = select.fetch_all(&mut *connection).await.map_err(failed)?;
    let mut trials = rows.iter().map(trial_of).collect::<Result<Vec<_>, _>>()?;
    let mut units = units_of(&mut connection, run, &trials).await?;
    for trial in &mut trials {
        trial.units = units.remove(&trial.id).into_iter().flatten().map(|unit| unit.unit).collect();
    }
    Ok(trials)
}

pub(super) async fn steps(readers: &SqlitePool, run: &RunId, trial: &TrialId) -> Result<Vec<RecordedStep>, StoreError> {
    let sql = "SELECT step.unit, step.request, step.occurrence, step.kind, step.state, step.failed, step.usage, \
               step.millis, step.clock, blob.bytes FROM step LEFT JOIN blob ON blob.hash = step.result \
               WHERE step.run = $1 AND step.trial = $2 AND step.state IN ('done', 'indeterminate') \
               AND (step.unit = '' OR EXISTS (SELECT 1 FROM unit WHERE unit.run = step.run AND unit.id = step.unit \
               AND unit.verdict IS NOT NULL)) \
               AND NOT EXISTS (SELECT 1 FROM step AS later WHERE later.run = step.run AND later.trial = step.trial \
               AND later.unit = step.unit AND later.request = step.request AND later.occurrence = step.occurrence \
               AND later.attempt > step.attempt) ORDER BY step.id";
    let mut connection = readers.acquire().await.map_err(failed)?;
    let rows = sqlx::query(sql).bind(&*run.0).bind(&*trial.0).fetch_all(&mut *connection).await.map_err(failed)?;
    rows.iter().map(recorded_step).collect()
}

fn recorded_step(row: &SqliteRow) -> Result<RecordedStep, StoreError> {
    let unit: String = row.get("unit");
    let owner = if unit.is_empty() { StepOwner::Trial } else { StepOwner::Unit(UnitId(unit.into())) };
    let request = StepRequest {
        owner,
        kind: named(row.get("kind"))?,
        request: row.get("request"),
        occurrence: u32::try_from(row.get::<i64, _>("occurrence")).unwrap_or_default(),
    };
    let result = if row.get::<&str, _>("state") == "done" { Some(steps::result_of(row)?) } else { None };
    Ok(RecordedStep { request, result })
}

async fn run_row(connection: &mut SqliteConnection, run: &RunId) -> Result<SqliteRow, StoreError> {
    let row = sqlx::query(RUN).bind(&*run.0).fetch_optional(connection).await.map_err(failed)?;
    row.ok_or_else(|| StoreError::UnknownRun(run.clone()))
}

fn summary(row: &SqliteRow) -> Result<RunSummary, StoreError> {
    Ok(RunSummary {
        id: RunId(id(row, "id")),
        benchmark: row.get("benchmark"),
        created: row.get::<i64, _>("created") / 1000,
        state: named(row.get("state"))?,
        progress: progress_of(row)?,
    })
}

fn progress_of(row: &SqliteRow) -> Result<Progress, StoreError> {
    // The file may have been changed by anything, so the types of its values are not trusted.
    let count = |column: &str| -> Result<u64, StoreError> {
        let number: i64 = row.try_get(column).map_err(|error| damaged(&error))?;
        Ok(u64::try_from(number).unwrap_or_default())
    };
    let [passed, failed, invalid, indeterminate] =
        [count("passed")?, count("failed")?, count("invalid")?, count("indeterminate")?];
    let cost: Option<i64> = row.try_get("cost_nanos").map_err(|error| damaged(&error))?;
    let usage = Usage {
        input_tokens: count("input_tokens")?,
        output_tokens: count("output_tokens")?,
        cache_read_tokens: count("cache_read_tokens")?,
        cache_write_tokens: count("cache_write_tokens")?,
        reasoning_tokens: count("reasoning_tokens")?,
        cost_usd: cost.map(dollars),
    };
    Ok(Progress {
        units: count("units")?,
        done: passed.saturating_add(failed).saturating_add(invalid).saturating_add(indeterminate),
        passed,
        failed,
        invalid,
        indeterminate,
        running: count("running")?,
        usage,
    })
}

#[expect(clippy::cast_precision_loss, reason = "a run does not cost millions of dollars")]
fn dollars(nanos: i64) -> f64 {
    nanos as f64 / 1e9
}

fn json<T: DeserializeOwned>(text: &str) -> Result<T, StoreError> {
    serde_json::from_str(text).map_err(|error| damaged(&error))
}

fn named<T: DeserializeOwned>(name: String) -> Result<T, StoreError> {
    serde_json::from_value(Value::String(name)).map_err(|error| damaged(&error))
}

fn damaged(error: &dyn std::fmt::Display) -> StoreError {
    StoreError::Failed(format!("a row is damaged: {error}"))
}
