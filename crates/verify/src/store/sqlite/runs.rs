//! Runs and their plans.

use std::sync::Arc;

use sqlx::SqliteConnection;
use wharf_protocol::BoxFuture;

use crate::ids::RunId;
use crate::json_name::json_name;
use crate::plan::Trials;
use crate::store::{NewRun, Rerun, RunState, StoreError};

use super::transaction::Transaction;
use super::writer::Write;
use super::{failed, now};

pub(super) struct CreateRun(pub(super) NewRun);

pub(super) struct SetState {
    pub(super) run: RunId,
    pub(super) state: RunState,
}

pub(super) struct SetPlan {
    pub(super) run: RunId,
    pub(super) trials: Arc<dyn Trials>,
}

pub(super) struct RerunUnits {
    pub(super) run: RunId,
    pub(super) which: Rerun,
}

impl Write for CreateRun {
    type Output = ();

    fn apply<'a>(&'a self, transaction: &'a mut Transaction<'_>) -> BoxFuture<'a, Result<(), StoreError>> {
        const CREATE: &str =
            concat!("INSERT INTO run (id, benchmark, created, state) VALUES ($1, $2, ", now!(), ", $3)");
        const SETTINGS: &str = "INSERT INTO run_settings (run, settings) VALUES ($1, $2)";
        Box::pin(async move {
            let NewRun { id, benchmark, settings } = &self.0;
            let create = sqlx::query(CREATE).bind(&*id.0).bind(benchmark).bind(json_name(&RunState::Running));
            create.execute(&mut *transaction.connection).await.map_err(failed)?;
            let store_settings = sqlx::query(SETTINGS).bind(&*id.0).bind(settings.to_string());
            store_settings.execute(&mut *transaction.connection).await.map_err(failed)?;
            Ok(())
        })
    }
}

impl Write for SetState {
    type Output = ();

    fn apply<'a>(&'a self, transaction: &'a mut Transaction<'_>) -> BoxFuture<'a, Result<(), StoreError>> {
        Box::pin(async move {
            let update = sqlx::query("UPDATE run SET state = $2 WHERE id = $1").bind(&*self.run.0);
            let updated =
                update.bind(json_name(&self.state)).execute(&mut *transaction.connection).await.map_err(failed)?;
            if updated.rows_affected() == 0 { Err(StoreError::UnknownRun(self.run.clone())) } else { Ok(()) }
        })
    }
}

impl Write for SetPlan {
    type Output = ();

    fn apply<'a>(&'a self, transaction: &'a mut Transaction<'_>) -> BoxFuture<'a, Result<(), StoreError>> {
        const TRIAL: &str = "INSERT INTO trial (run, id, position, in_plan, question, model, replicate, state) \
             VALUES ($1, $2, $3, 1, $4, $5, $6, 'queued') ON CONFLICT (run, id) DO UPDATE SET position = excluded.position, \
             in_plan = 1, question = excluded.question, model = excluded.model, replicate = excluded.replicate";
        const UNIT: &str = "INSERT INTO unit (run, id, trial, position, in_plan, judge) VALUES ($1, $2, $3, $4, 1, $5) \
             ON CONFLICT (run, id) DO UPDATE SET trial = excluded.trial, position = excluded.position, in_plan = 1, \
             judge = excluded.judge";
        Box::pin(async move {
            let run = &*self.run.0;
            exists(transaction.connection, &self.run).await?;
            for clear in ["UPDATE trial SET in_plan = 0 WHERE run = $1", "UPDATE unit SET in_plan = 0 WHERE run = $1"] {
                sqlx::query(clear).bind(run).execute(&mut *transaction.connection).await.map_err(failed)?;
            }
            let mut unit_position = 0_i64;
            for (position, trial) in self.trials.iter().enumerate() {
                let insert = sqlx::query(TRIAL)
                    .bind(run)
                    .bind(&*trial.id.0)
                    .bind(i64::try_from(position).unwrap_or(i64::MAX))
                    .bind(trial.question.as_str())
                    .bind(&trial.model)
                    .bind(i64::from(trial.replicate));
                insert.execute(&mut *transaction.connection).await.map_err(failed)?;
                for unit in &trial.units {
                    let insert = sqlx::query(UNIT).bind(run).bind(&*unit.id.0).bind(&*trial.id.0);
                    let insert = insert.bind(unit_position).bind(&unit.judge);
                    insert.execute(&mut *transaction.connection).await.map_err(failed)?;
                    unit_position += 1;
                }
            }
            recount(transaction, &self.run).await
        })
    }
}

impl Write for RerunUnits {
    type Output = u64;

    fn apply<'a>(&'a self, transaction: &'a mut Transaction<'_>) -> BoxFuture<'a, Result<u64, StoreError>> {
        // The trials that no worker is running and that have such a unit. Their fence rises: a worker that was stopped past
        // its lease must not write the old result as the new one.
        const FENCE_BY_VERDICT: &str = concat!(
            "UPDATE trial SET fence = fence + 1, worker = NULL, lease_until = 0, state = 'queued' WHERE run = $1 \
             AND lease_until <= ",
            now!(),
            " AND id IN (SELECT trial FROM unit WHERE run = $1 AND in_plan = 1 AND verdict = $2) RETURNING id"
        );
        const FENCE_BY_GROUP: &str = concat!(
            "UPDATE trial SET fence = fence + 1, worker = NULL, lease_until = 0, state = 'queued' WHERE run = $1 \
             AND lease_until <= ",
            now!(),
            " AND id IN (SELECT trial FROM unit WHERE run = $1 AND in_plan = 1 AND failure_group = $2) RETURNING id"
        );
        const DISCARD: &str = "UPDATE step SET state = 'discarded' WHERE run = $1 \
             AND trial IN (SELECT value FROM json_each($2))";
        const CLEAR: &str = "UPDATE unit SET verdict = NULL, failure_group = NULL, failure_category = NULL, response = NULL, \
             turns = NULL, tool_calls = NULL, input_tokens = NULL, output_tokens = NULL, cost_usd = NULL, millis = NULL, \
             result = NULL, trace = NULL, fence = NULL WHERE run = $1 AND verdict IS NOT NULL \
             AND trial IN (SELECT value FROM json_each($2)) AND ($3 IS NULL OR in_plan = 1 AND failure_group = $3)";
        Box::pin(async move {
            let run = &*self.run.0;
            exists(transaction.connection, &self.run).await?;
            let (fence, name, group) = match &self.which {
                Rerun::Verdict(verdict) => (FENCE_BY_VERDICT, json_name(verdict), None),
                Rerun::ProviderFailures => {
                    let group = json_name(&crate::outcome::FailureGroup::Retry);
                    (FENCE_BY_GROUP, group.clone(), Some(group))
                }
            };
            let fence = sqlx::query_scalar::<_, String>(fence).bind(run).bind(name);
            let trials = fence.fetch_all(&mut *transaction.connection).await.map_err(failed)?;
            let trials = serde_json::json!(trials).to_string();
            if group.is_none() {
                let discard = sqlx::query(DISCARD).bind(run).bind(trials.as_str());
                discard.execute(&mut *transaction.connection).await.map_err(failed)?;
            }
            let clear = sqlx::query(CLEAR).bind(run).bind(trials.as_str()).bind(group);
            let units = clear.execute(&mut *transaction.connection).await.map_err(failed)?.rows_affected();
            recount(transaction, &self.run).await?;
            Ok(units)
        })
    }
}

async fn exists(connection: &mut SqliteConnection, run: &RunId) -> Result<(), StoreError> {
    let select = sqlx::query("SELECT 1 FROM run WHERE id = $1").bind(&*run.0);
    match select.fetch_optional(connection).await.map_err(failed)? {
        Some(_) => Ok(()),
        None => Err(StoreError::UnknownRun(run.clone())),
    }
}

/// Sets the counters of a run and the states of its trials from its units.
async fn recount(transaction: &mut Transaction<'_>, run: &RunId) -> Result<(), StoreError> {
    const TRIALS: &str = "UPDATE trial SET state = CASE WHEN EXISTS (SELECT 1 FROM unit WHERE unit.run = trial.run \
         AND unit.trial = trial.id AND unit.in_plan = 1 AND unit.verdict IS NULL) THEN 'queued' ELSE 'done' END \
         WHERE run = $1 AND state <> 'running'";
    const COUNTERS: &str = "UPDATE run SET \
         units = (SELECT COUNT(*) FROM unit WHERE run = $1 AND in_plan = 1), \
         passed = (SELECT COUNT(*) FROM unit WHERE run = $1 AND in_plan = 1 AND verdict = 'passed'), \
         failed = (SELECT COUNT(*) FROM unit WHERE run = $1 AND in_plan = 1 AND verdict = 'failed'), \
         invalid = (SELECT COUNT(*) FROM unit WHERE run = $1 AND in_plan = 1 AND verdict = 'invalid'), \
         indeterminate = (SELECT COUNT(*) FROM unit WHERE run = $1 AND in_plan = 1 AND verdict = 'indeterminate') \
         WHERE id = $1";
    // Earlier writes of the transaction are in these numbers already.
    transaction.write_counters().await?;
    for sql in [TRIALS, COUNTERS] {
        sqlx::query(sql).bind(&*run.0).execute(&mut *transaction.connection).await.map_err(failed)?;
    }
    Ok(())
}
