//! Reading runs, results and steps.

use std::sync::Arc;

use serde::de::DeserializeOwned;
use serde_json::Value;
use wharf_protocol::Usage;

use crate::ids::{RunId, TrialId, UnitId};
use crate::outcome::UnitResult;
use crate::plan::Trial;
use crate::step::{RecordedStep, StepOwner, StepRequest};
use crate::store::{PlacedResult, Progress, RunSummary, StoreError};

use super::connection::{Connection, Row, damaged};
use super::leases::{trial_of, units_of};
use super::query::{Sql, now};
use super::{blob, steps};

const RUN: Sql = Sql {
    sqlite: concat!(
        "SELECT run.*, (SELECT COUNT(*) FROM trial WHERE trial.run = run.id AND trial.state <> 'done' \
         AND trial.in_plan = 1 AND trial.lease_until > 0 AND trial.lease_until > ",
        now!(sqlite),
        ") AS running FROM run WHERE id = $1"
    ),
    postgres: concat!(
        "SELECT run.*, counted.*, (SELECT COUNT(*) FROM trial WHERE trial.run = run.id AND trial.state = 'running' \
         AND trial.in_plan = 1 AND trial.lease_until > ",
        now!(postgres),
        ") AS running FROM run, LATERAL (SELECT SUM(passed)::BIGINT AS passed, SUM(failed)::BIGINT AS failed, \
         SUM(invalid)::BIGINT AS invalid, SUM(indeterminate)::BIGINT AS indeterminate, \
         SUM(input_tokens)::BIGINT AS input_tokens, SUM(output_tokens)::BIGINT AS output_tokens, \
         SUM(cache_read_tokens)::BIGINT AS cache_read_tokens, SUM(cache_write_tokens)::BIGINT AS cache_write_tokens, \
         SUM(reasoning_tokens)::BIGINT AS reasoning_tokens, SUM(cost_nanos)::BIGINT AS cost_nanos \
         FROM run_counter WHERE run_counter.run = run.id) AS counted WHERE run.id = $1"
    ),
};

pub(super) async fn runs(connection: &mut Connection<'_>) -> Result<Vec<RunSummary>, StoreError> {
    const IDS: Sql = Sql::same("SELECT id FROM run ORDER BY created DESC, id DESC");
    let rows = connection.rows(IDS.query()).await?;
    let mut runs = Vec::with_capacity(rows.len());
    for row in &rows {
        let id = RunId(row.text("id")?.into());
        runs.push(summary(&run_row(connection, &id).await?)?);
    }
    Ok(runs)
}

pub(super) async fn run(connection: &mut Connection<'_>, run: &RunId) -> Result<(RunSummary, Value), StoreError> {
    const SETTINGS: Sql = Sql::same("SELECT settings FROM run_settings WHERE run = $1");
    let row = run_row(connection, run).await?;
    let settings = connection.row(SETTINGS.query().bind(&*run.0)).await?;
    let settings = settings.ok_or_else(|| damaged(&"it has no settings"))?;
    Ok((summary(&row)?, json(settings.text("settings")?)?))
}

pub(super) async fn progress(connection: &mut Connection<'_>, run: &RunId) -> Result<Progress, StoreError> {
    progress_of(&run_row(connection, run).await?)
}

pub(super) async fn results(
    connection: &mut Connection<'_>,
    run: &RunId,
    after: Option<u64>,
    limit: u32,
) -> Result<Vec<PlacedResult>, StoreError> {
    const RESULTS: Sql = Sql::same(
        "SELECT unit.position, result.bytes AS result, trace.bytes AS trace FROM unit \
         JOIN blob AS result ON result.hash = unit.result JOIN blob AS trace ON trace.hash = unit.trace \
         WHERE unit.run = $1 AND unit.in_plan = 1 AND unit.verdict IS NOT NULL \
         AND unit.position > $2 ORDER BY unit.position LIMIT $3",
    );
    run_row(connection, run).await?;
    let after = after.map_or(-1, |after| i64::try_from(after).unwrap_or(i64::MAX));
    let rows = connection.rows(RESULTS.query().bind(&*run.0).bind(after).bind(i64::from(limit))).await?;
    let result = |row: &Row| {
        let mut result: UnitResult = json(&blob::decompress(row.bytes("result")?)?)?;
        result.trace = json(&blob::decompress(row.bytes("trace")?)?)?;
        let position = u64::try_from(row.int("position")?).unwrap_or_default();
        Ok(PlacedResult { position, result: Arc::new(result) })
    };
    rows.iter().map(result).collect()
}

pub(super) async fn trials(
    connection: &mut Connection<'_>,
    run: &RunId,
    skip: u64,
    limit: u32,
) -> Result<Vec<Trial>, StoreError> {
    const TRIALS: Sql = Sql::same(
        "SELECT id, question, model, replicate FROM trial WHERE run = $1 AND in_plan = 1 ORDER BY position \
         LIMIT $2 OFFSET $3",
    );
    run_row(connection, run).await?;
    let select = TRIALS.query().bind(&*run.0).bind(i64::from(limit)).bind(i64::try_from(skip).unwrap_or(i64::MAX));
    let rows = connection.rows(select).await?;
    let mut trials = rows.iter().map(trial_of).collect::<Result<Vec<_>, _>>()?;
    let mut units = units_of(connection, run, trials.iter()).await?;
    for trial in &mut trials {
        trial.units = units.remove(&trial.id).into_iter().flatten().map(|unit| unit.unit).collect();
    }
    Ok(trials)
}

pub(super) async fn steps(
    connection: &mut Connection<'_>,
    run: &RunId,
    trial: &TrialId,
) -> Result<Vec<RecordedStep>, StoreError> {
    const STEPS: Sql = Sql::same(
        "SELECT step.unit, step.request, step.occurrence, step.kind, step.state, step.failed, step.usage, \
         step.millis, step.clock, blob.bytes FROM step LEFT JOIN blob ON blob.hash = step.result \
         WHERE step.run = $1 AND step.trial = $2 AND step.state IN ('done', 'indeterminate') \
         AND (step.unit = '' OR EXISTS (SELECT 1 FROM unit WHERE unit.run = step.run AND unit.id = step.unit \
         AND unit.verdict IS NOT NULL)) \
         AND NOT EXISTS (SELECT 1 FROM step AS later WHERE later.run = step.run AND later.trial = step.trial \
         AND later.unit = step.unit AND later.request = step.request AND later.occurrence = step.occurrence \
         AND later.attempt > step.attempt) ORDER BY step.id",
    );
    let rows = connection.rows(STEPS.query().bind(&*run.0).bind(&*trial.0)).await?;
    rows.iter().map(recorded_step).collect()
}

fn recorded_step(row: &Row) -> Result<RecordedStep, StoreError> {
    let unit = row.text("unit")?;
    let owner = if unit.is_empty() { StepOwner::Trial } else { StepOwner::Unit(UnitId(unit.into())) };
    let request = StepRequest {
        owner,
        kind: named(row.text("kind")?)?,
        request: row.text("request")?.to_owned(),
        occurrence: u32::try_from(row.int("occurrence")?).unwrap_or_default(),
    };
    let result = if row.text("state")? == "done" { Some(steps::result_of(row)?) } else { None };
    Ok(RecordedStep { request, result })
}

async fn run_row(connection: &mut Connection<'_>, run: &RunId) -> Result<Row, StoreError> {
    let row = connection.row(RUN.query().bind(&*run.0)).await?;
    row.ok_or_else(|| StoreError::UnknownRun(run.clone()))
}

fn summary(row: &Row) -> Result<RunSummary, StoreError> {
    Ok(RunSummary {
        id: RunId(row.text("id")?.into()),
        benchmark: row.text("benchmark")?.to_owned(),
        created: row.int("created")? / 1000,
        state: named(row.text("state")?)?,
        progress: progress_of(row)?,
    })
}

fn progress_of(row: &Row) -> Result<Progress, StoreError> {
    let count = |column: &str| Ok(u64::try_from(row.int(column)?).unwrap_or_default());
    let [passed, failed, invalid, indeterminate] =
        [count("passed")?, count("failed")?, count("invalid")?, count("indeterminate")?];
    let usage = Usage {
        input_tokens: count("input_tokens")?,
        output_tokens: count("output_tokens")?,
        cache_read_tokens: count("cache_read_tokens")?,
        cache_write_tokens: count("cache_write_tokens")?,
        reasoning_tokens: count("reasoning_tokens")?,
        cost_usd: row.optional_int("cost_nanos")?.map(dollars),
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

pub(super) fn named<T: DeserializeOwned>(name: &str) -> Result<T, StoreError> {
    serde_json::from_value(Value::String(name.to_owned())).map_err(|error| damaged(&error))
}
