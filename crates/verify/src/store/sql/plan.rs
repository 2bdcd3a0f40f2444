//! Plans: the trials and units of a run, and its counters.

use std::sync::Arc;

use serde_json::{Value, json};
use wharf_protocol::BoxFuture;

use crate::ids::RunId;
use crate::plan::Trials;
use crate::store::StoreError;

use super::connection::Connection;
use super::query::{Dialect, Sql};
use super::transaction::Transaction;
use super::writer::Write;

/// Trials, or units, of one statement. They are one value, as JSON.
const MAX_ROWS: usize = 500;

/// A new plan.
pub(super) struct SetPlan {
    pub(super) run: RunId,
    pub(super) trials: Arc<dyn Trials>,
}

/// The trials and units of a plan that are not written yet.
struct Rows<'a> {
    run: &'a RunId,
    trials: Vec<Value>,
    units: Vec<Value>,
    /// How many of them were written.
    written: (i64, i64),
}

impl Write for SetPlan {
    type Output = ();

    fn apply<'a>(&'a self, transaction: &'a mut Transaction<'_>) -> BoxFuture<'a, Result<(), StoreError>> {
        Box::pin(async move {
            lock_run(&mut transaction.connection, &self.run).await?;
            // Most plans replace none, or an equal one: then no row changes that a worker is using.
            let planned = self.write(&mut transaction.connection).await?;
            if planned != self.in_plan(&mut transaction.connection).await? {
                self.clear(&mut transaction.connection).await?;
                self.write(&mut transaction.connection).await?;
            }
            recount(transaction, &self.run).await?;
            transaction.offer_trials();
            Ok(())
        })
    }
}

impl SetPlan {
    /// Writes all trials and units. Returns their numbers.
    async fn write(&self, connection: &mut Connection<'_>) -> Result<(i64, i64), StoreError> {
        let mut rows = Rows { run: &self.run, trials: Vec::new(), units: Vec::new(), written: (0, 0) };
        for trial in self.trials.iter() {
            for unit in &trial.units {
                let position = rows.written.1 + count(&rows.units);
                rows.units.push(json!({
                    "id": &*unit.id.0, "trial": &*trial.id.0, "position": position, "judge": unit.judge,
                }));
            }
            let position = rows.written.0 + count(&rows.trials);
            rows.trials.push(json!({
                "id": &*trial.id.0, "position": position, "question": trial.question.as_str(), "model": trial.model,
                "replicate": trial.replicate,
            }));
            if rows.trials.len() >= MAX_ROWS || rows.units.len() >= MAX_ROWS {
                rows.write(connection).await?;
            }
        }
        rows.write(connection).await?;
        Ok(rows.written)
    }

    /// Returns the numbers of trials and units that are in the plan.
    async fn in_plan(&self, connection: &mut Connection<'_>) -> Result<(i64, i64), StoreError> {
        const COUNT: Sql = Sql::same(
            "SELECT (SELECT COUNT(*) FROM trial WHERE run = $1 AND in_plan = 1) AS trials, \
             (SELECT COUNT(*) FROM unit WHERE run = $1 AND in_plan = 1) AS units",
        );
        match connection.row(COUNT.query().bind(&*self.run.0)).await? {
            Some(row) => Ok((row.int("trials")?, row.int("units")?)),
            None => Ok((0, 0)),
        }
    }

    async fn clear(&self, connection: &mut Connection<'_>) -> Result<(), StoreError> {
        for clear in ["UPDATE trial SET in_plan = 0 WHERE run = $1", "UPDATE unit SET in_plan = 0 WHERE run = $1"] {
            connection.execute(Sql::same(clear).query().bind(&*self.run.0)).await?;
        }
        Ok(())
    }
}

impl Rows<'_> {
    async fn write(&mut self, connection: &mut Connection<'_>) -> Result<(), StoreError> {
        const TRIALS: Sql = Sql {
            sqlite: "INSERT INTO trial (run, id, position, in_plan, question, model, replicate, state) \
                     SELECT $1, value ->> 'id', value ->> 'position', 1, value ->> 'question', value ->> 'model', \
                     value ->> 'replicate', 'queued' FROM json_each($2) WHERE 1 \
                     ON CONFLICT (run, id) DO UPDATE SET position = excluded.position, in_plan = 1, \
                     question = excluded.question, model = excluded.model, replicate = excluded.replicate \
                     WHERE (trial.position, trial.in_plan, trial.question, trial.model, trial.replicate) \
                     IS NOT (excluded.position, 1, excluded.question, excluded.model, excluded.replicate)",
            postgres: "INSERT INTO trial (run, id, position, in_plan, question, model, replicate, state) \
                       SELECT $1, id, position, 1, question, model, replicate, 'queued' FROM json_to_recordset($2::JSON) \
                       AS new (id TEXT, position BIGINT, question TEXT, model TEXT, replicate BIGINT) \
                       ON CONFLICT (run, id) DO UPDATE SET position = excluded.position, in_plan = 1, \
                       question = excluded.question, model = excluded.model, replicate = excluded.replicate \
                       WHERE (trial.position, trial.in_plan, trial.question, trial.model, trial.replicate) \
                       IS DISTINCT FROM (excluded.position, 1, excluded.question, excluded.model, excluded.replicate)",
        };
        const UNITS: Sql = Sql {
            sqlite: "INSERT INTO unit (run, id, trial, position, in_plan, judge) \
                     SELECT $1, value ->> 'id', value ->> 'trial', value ->> 'position', 1, value ->> 'judge' \
                     FROM json_each($2) WHERE 1 \
                     ON CONFLICT (run, id) DO UPDATE SET trial = excluded.trial, position = excluded.position, \
                     in_plan = 1, judge = excluded.judge \
                     WHERE (unit.trial, unit.position, unit.in_plan, unit.judge) \
                     IS NOT (excluded.trial, excluded.position, 1, excluded.judge)",
            postgres: "INSERT INTO unit (run, id, trial, position, in_plan, judge) \
                       SELECT $1, id, trial, position, 1, judge FROM json_to_recordset($2::JSON) \
                       AS new (id TEXT, trial TEXT, position BIGINT, judge TEXT) \
                       ON CONFLICT (run, id) DO UPDATE SET trial = excluded.trial, position = excluded.position, \
                       in_plan = 1, judge = excluded.judge \
                       WHERE (unit.trial, unit.position, unit.in_plan, unit.judge) \
                       IS DISTINCT FROM (excluded.trial, excluded.position, 1, excluded.judge)",
        };
        self.written.0 += count(&self.trials);
        self.written.1 += count(&self.units);
        for (sql, rows) in [(TRIALS, &mut self.trials), (UNITS, &mut self.units)] {
            if !rows.is_empty() {
                let json = Value::Array(std::mem::take(rows)).to_string();
                connection.execute(sql.query().bind(&*self.run.0).bind(&json)).await?;
            }
        }
        Ok(())
    }
}

fn count(rows: &[Value]) -> i64 {
    i64::try_from(rows.len()).unwrap_or(i64::MAX)
}

/// Checks that a run exists. In PostgreSQL, nothing else changes its plan until the transaction ends.
pub(super) async fn lock_run(connection: &mut Connection<'_>, run: &RunId) -> Result<(), StoreError> {
    const LOCK: Sql = Sql {
        sqlite: "SELECT 1 FROM run WHERE id = $1",
        postgres: "SELECT 1 FROM run WHERE id = $1 FOR NO KEY UPDATE",
    };
    match connection.row(LOCK.query().bind(&*run.0)).await? {
        Some(_) => Ok(()),
        None => Err(StoreError::UnknownRun(run.clone())),
    }
}

/// Sets the counters of a run and the states of its trials from its units.
pub(super) async fn recount(transaction: &mut Transaction<'_>, run: &RunId) -> Result<(), StoreError> {
    const TRIALS: &str = "UPDATE trial SET state = CASE WHEN state = 'done' THEN 'queued' ELSE 'done' END \
         WHERE run = $1 AND state <> 'running' AND (state = 'queued') <> EXISTS (SELECT 1 FROM unit \
         WHERE unit.run = trial.run AND unit.trial = trial.id AND unit.in_plan = 1 AND unit.verdict IS NULL)";
    macro_rules! verdicts {
        () => {
            "passed = (SELECT COUNT(*) FROM unit WHERE run = $1 AND in_plan = 1 AND verdict = 'passed'), \
             failed = (SELECT COUNT(*) FROM unit WHERE run = $1 AND in_plan = 1 AND verdict = 'failed'), \
             invalid = (SELECT COUNT(*) FROM unit WHERE run = $1 AND in_plan = 1 AND verdict = 'invalid'), \
             indeterminate = (SELECT COUNT(*) FROM unit WHERE run = $1 AND in_plan = 1 AND verdict = 'indeterminate')"
        };
    }
    macro_rules! units {
        () => {
            "UPDATE run SET units = (SELECT COUNT(*) FROM unit WHERE run = $1 AND in_plan = 1)"
        };
    }
    const SQLITE: [&str; 2] = [TRIALS, concat!(units!(), ", ", verdicts!(), " WHERE id = $1")];
    // The first statement for the counters locks all of their rows. Results that were committed before are counted by the
    // next one, which sees them; results that are committed later add to the new numbers.
    const POSTGRES: [&str; 4] = [
        TRIALS,
        concat!(units!(), " WHERE id = $1"),
        "UPDATE run_counter SET passed = 0, failed = 0, invalid = 0, indeterminate = 0 WHERE run = $1",
        concat!("UPDATE run_counter SET ", verdicts!(), " WHERE run = $1 AND number = 0"),
    ];
    // Earlier writes of the transaction are in these numbers already.
    transaction.write_counters().await?;
    let statements = match transaction.connection.dialect() {
        Dialect::Sqlite => &SQLITE[..],
        #[cfg(feature = "postgres")]
        Dialect::Postgres => &POSTGRES[..],
    };
    for sql in statements {
        transaction.connection.execute(Sql::same(sql).query().bind(&*run.0)).await?;
    }
    Ok(())
}
