//! Runs: their creation, their state, and units that run again.

use wharf_protocol::BoxFuture;

use crate::ids::RunId;
use crate::json_name::json_name;
use crate::plan::RESULT_FORMAT;
use crate::store::{NewRun, Rerun, RunState, StoreError};

use super::connection::Connection;
use super::plan::{lock_run, recount};
use super::query::{Sql, now};
use super::transaction::Transaction;
use super::writer::Write;

pub(super) struct CreateRun(pub(super) NewRun);

pub(super) struct SetState {
    pub(super) run: RunId,
    pub(super) state: RunState,
}

pub(super) struct SetPriority {
    pub(super) run: RunId,
    pub(super) priority: i64,
}

pub(super) struct RerunUnits {
    pub(super) run: RunId,
    pub(super) which: Rerun,
}

impl Write for CreateRun {
    type Output = ();

    fn apply<'a>(&'a self, transaction: &'a mut Transaction<'_>) -> BoxFuture<'a, Result<(), StoreError>> {
        macro_rules! create {
            ($dialect:ident) => {
                concat!(
                    "INSERT INTO run (id, benchmark, created, state, format) VALUES ($1, $2, ",
                    now!($dialect),
                    ", $3, $4) ON CONFLICT (id) DO NOTHING"
                )
            };
        }
        const CREATE: Sql = Sql { sqlite: create!(sqlite), postgres: create!(postgres) };
        const SETTINGS: Sql = Sql::same("INSERT INTO run_settings (run, settings) VALUES ($1, $2)");
        Box::pin(async move {
            let NewRun { id, benchmark, settings } = &self.0;
            let connection = &mut transaction.connection;
            let (settings, state) = (settings.to_string(), json_name(&RunState::Running));
            let create = CREATE.query().bind(&*id.0).bind(benchmark).bind(&state).bind(i64::from(RESULT_FORMAT));
            if connection.execute(create).await? == 0 {
                let is_same = is_same(connection, &self.0, &settings).await?;
                return if is_same { Ok(()) } else { Err(StoreError::RunExists(id.clone())) };
            }
            connection.execute(SETTINGS.query().bind(&*id.0).bind(&settings)).await?;
            create_counters(connection, id).await
        })
    }
}

/// Returns whether a run is in the store as another process created it.
async fn is_same(connection: &mut Connection<'_>, run: &NewRun, settings: &str) -> Result<bool, StoreError> {
    const SAME: Sql = Sql::same(
        "SELECT 1 FROM run JOIN run_settings ON run_settings.run = run.id \
         WHERE run.id = $1 AND run.benchmark = $2 AND run_settings.settings = $3",
    );
    let same = SAME.query().bind(&*run.id.0).bind(&run.benchmark).bind(settings);
    Ok(connection.row(same).await?.is_some())
}

/// Creates the rows of the counters, where they are not columns of the run.
async fn create_counters(connection: &mut Connection<'_>, run: &RunId) -> Result<(), StoreError> {
    #[cfg(feature = "postgres")]
    if connection.dialect() == super::query::Dialect::Postgres {
        let create = Sql::same("INSERT INTO run_counter (run, number) SELECT $1, generate_series(0, $2 - 1)");
        let create = create.query().bind(&*run.0).bind(super::transaction::COUNTER_ROWS);
        connection.execute(create).await?;
    }
    #[cfg(not(feature = "postgres"))]
    let _ = (connection, run);
    Ok(())
}

impl Write for SetState {
    type Output = ();

    fn apply<'a>(&'a self, transaction: &'a mut Transaction<'_>) -> BoxFuture<'a, Result<(), StoreError>> {
        const SET: Sql = Sql::same("UPDATE run SET state = $2 WHERE id = $1");
        Box::pin(async move {
            let state = json_name(&self.state);
            let updated = transaction.connection.execute(SET.query().bind(&*self.run.0).bind(&state)).await?;
            if updated == 0 {
                return Err(StoreError::UnknownRun(self.run.clone()));
            }
            if self.state == RunState::Running {
                transaction.offer_trials();
            }
            Ok(())
        })
    }
}

impl Write for SetPriority {
    type Output = ();

    fn apply<'a>(&'a self, transaction: &'a mut Transaction<'_>) -> BoxFuture<'a, Result<(), StoreError>> {
        const SET: Sql = Sql::same("UPDATE run SET priority = $2 WHERE id = $1");
        Box::pin(async move {
            let set = SET.query().bind(&*self.run.0).bind(self.priority);
            if transaction.connection.execute(set).await? == 0 {
                return Err(StoreError::UnknownRun(self.run.clone()));
            }
            transaction.offer_trials();
            Ok(())
        })
    }
}

impl Write for RerunUnits {
    type Output = u64;

    fn apply<'a>(&'a self, transaction: &'a mut Transaction<'_>) -> BoxFuture<'a, Result<u64, StoreError>> {
        // The trials that no worker is running and that have such a unit. Their fence rises: a worker that was stopped past
        // its lease must not write the old result as the new one.
        macro_rules! fence {
            (sqlite, $column:literal) => {
                concat!(
                    "UPDATE trial SET fence = fence + 1, worker = NULL, lease_until = 0, state = 'queued' \
                     WHERE run = $1 AND lease_until <= ",
                    now!(sqlite),
                    " AND id IN (SELECT trial FROM unit WHERE run = $1 AND in_plan = 1 AND ",
                    $column,
                    " = $2) RETURNING id"
                )
            };
            (postgres, $column:literal) => {
                concat!(
                    "WITH idle AS (SELECT id FROM trial WHERE run = $1 AND lease_until <= ",
                    now!(postgres),
                    " AND id IN (SELECT trial FROM unit WHERE run = $1 AND in_plan = 1 AND ",
                    $column,
                    " = $2) FOR UPDATE) \
                     UPDATE trial SET fence = fence + 1, worker = NULL, lease_until = 0, state = 'queued' \
                     FROM idle WHERE trial.run = $1 AND trial.id = idle.id RETURNING trial.id"
                )
            };
        }
        const BY_VERDICT: Sql = Sql { sqlite: fence!(sqlite, "verdict"), postgres: fence!(postgres, "verdict") };
        const BY_GROUP: Sql =
            Sql { sqlite: fence!(sqlite, "failure_group"), postgres: fence!(postgres, "failure_group") };
        const DISCARD: Sql = Sql {
            sqlite: "UPDATE step SET state = 'discarded' WHERE run = $1 AND trial IN (SELECT value FROM json_each($2))",
            postgres: "UPDATE step SET state = 'discarded' WHERE run = $1 \
                       AND trial = ANY(ARRAY(SELECT json_array_elements_text($2::JSON)))",
        };
        macro_rules! clear {
            ($of_trials:literal) => {
                concat!(
                    "UPDATE unit SET verdict = NULL, failure_group = NULL, failure_category = NULL, response = NULL, \
                     finished = NULL, turns = NULL, tool_calls = NULL, input_tokens = NULL, output_tokens = NULL, cost_usd = NULL, \
                     millis = NULL, result = NULL, trace = NULL, fence = NULL WHERE run = $1 AND verdict IS NOT NULL AND ",
                    $of_trials,
                    " AND ($3 IS NULL OR in_plan = 1 AND failure_group = $3)"
                )
            };
        }
        const CLEAR: Sql = Sql {
            sqlite: clear!("trial IN (SELECT value FROM json_each($2))"),
            postgres: clear!("trial = ANY(ARRAY(SELECT json_array_elements_text($2::JSON)))"),
        };
        Box::pin(async move {
            let run = &*self.run.0;
            let connection = &mut transaction.connection;
            lock_run(connection, &self.run).await?;
            let (fence, name, group) = match &self.which {
                Rerun::Verdict(verdict) => (BY_VERDICT, json_name(verdict), None),
                Rerun::ProviderFailures => {
                    let group = json_name(&crate::outcome::FailureGroup::Retry);
                    (BY_GROUP, group.clone(), Some(group))
                }
            };
            let fenced = connection.rows(fence.query().bind(run).bind(&name)).await?;
            let trials = fenced.iter().map(|row| row.text("id")).collect::<Result<Vec<_>, _>>()?;
            let trials = serde_json::json!(trials).to_string();
            if group.is_none() {
                connection.execute(DISCARD.query().bind(run).bind(&trials)).await?;
            }
            let units = connection.execute(CLEAR.query().bind(run).bind(&trials).bind(&group)).await?;
            recount(transaction, &self.run).await?;
            transaction.offer_trials();
            Ok(units)
        })
    }
}
