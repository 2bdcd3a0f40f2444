//! Claiming, renewing and releasing trials. The clock of the database decides which leases are valid.

use std::collections::HashMap;
use std::time::Duration;

use sqlx::sqlite::SqliteRow;
use sqlx::{Row as _, SqliteConnection};
use wharf_protocol::BoxFuture;

use crate::ids::{RunId, TrialId, UnitId};
use crate::plan::{Trial, Unit};
use crate::store::{Claim, ClaimedTrial, Lease, StoreError};

use super::transaction::Transaction;
use super::writer::Write;
use super::{failed, id, now};

/// A claim of trials, or a renewal of those that a worker holds.
pub(super) struct Claimant {
    run: RunId,
    worker: String,
    limit: i64,
    lease_millis: i64,
}

pub(super) struct ClaimTrials(pub(super) Claimant);
pub(super) struct RenewLeases(pub(super) Claimant);
pub(super) struct ReleaseLease(pub(super) Lease);

impl From<&Claim<'_>> for Claimant {
    fn from(claim: &Claim<'_>) -> Self {
        let millis = |duration: Duration| i64::try_from(duration.as_millis()).unwrap_or(i64::MAX / 2);
        Self {
            run: claim.run.clone(),
            worker: claim.worker.to_owned(),
            limit: claim.limit.into(),
            lease_millis: millis(claim.lease),
        }
    }
}

impl Write for ClaimTrials {
    type Output = Vec<ClaimedTrial>;

    fn is_urgent(&self) -> bool {
        true
    }

    fn apply<'a>(&'a self, transaction: &'a mut Transaction<'_>) -> BoxFuture<'a, Result<Self::Output, StoreError>> {
        const CLAIM: &str = concat!(
            "UPDATE trial SET state = 'running', worker = $2, fence = fence + 1, lease_until = ",
            now!(),
            " + $3 WHERE run = $1 AND id IN (SELECT id FROM trial WHERE run = $1 AND state <> 'done' AND in_plan = 1 \
             AND (worker IS NULL OR worker <> $2) AND lease_until <= ",
            now!(),
            " ORDER BY position LIMIT $4) RETURNING id, fence, position, question, model, replicate"
        );
        Box::pin(async move {
            let Claimant { run, worker, limit, lease_millis } = &self.0;
            let claim = sqlx::query(CLAIM).bind(&*run.0).bind(worker.as_str()).bind(*lease_millis).bind(*limit);
            let mut rows = claim.fetch_all(&mut *transaction.connection).await.map_err(failed)?;
            rows.sort_by_key(|row| row.get::<i64, _>("position"));
            let trials = rows.iter().map(trial_of).collect::<Result<Vec<_>, _>>()?;
            let mut units = units_of(transaction.connection, run, &trials).await?;
            let claimed = |(mut trial, row): (Trial, &SqliteRow)| {
                let units = units.remove(&trial.id).unwrap_or_default();
                let lease = Lease { run: run.clone(), trial: trial.id.clone(), fence: row.get("fence") };
                let open_units = units.iter().filter(|unit| unit.is_open).map(|unit| unit.unit.id.clone()).collect();
                trial.units = units.into_iter().map(|unit| unit.unit).collect();
                ClaimedTrial { lease, trial, open_units }
            };
            Ok(trials.into_iter().zip(&rows).map(claimed).collect())
        })
    }

    fn is_recorded<'a>(
        &'a self,
        output: &'a Self::Output,
        connection: &'a mut SqliteConnection,
    ) -> BoxFuture<'a, Result<bool, StoreError>> {
        Box::pin(async move {
            for claimed in output {
                if !is_held(connection, &claimed.lease).await? {
                    return Ok(false);
                }
            }
            Ok(true)
        })
    }
}

impl Write for RenewLeases {
    type Output = Vec<Lease>;

    fn apply<'a>(&'a self, transaction: &'a mut Transaction<'_>) -> BoxFuture<'a, Result<Self::Output, StoreError>> {
        const RENEW: &str = concat!(
            "UPDATE trial SET lease_until = ",
            now!(),
            " + $3 WHERE run = $1 AND worker = $2 AND state = 'running' AND lease_until > 0 RETURNING id, fence"
        );
        Box::pin(async move {
            let Claimant { run, worker, lease_millis, .. } = &self.0;
            let renew = sqlx::query(RENEW).bind(&*run.0).bind(worker.as_str()).bind(*lease_millis);
            let rows = renew.fetch_all(&mut *transaction.connection).await.map_err(failed)?;
            let lease =
                |row: &SqliteRow| Lease { run: run.clone(), trial: TrialId(id(row, "id")), fence: row.get("fence") };
            Ok(rows.iter().map(lease).collect())
        })
    }
}

impl Write for ReleaseLease {
    type Output = ();

    fn lease(&self) -> Option<&Lease> {
        Some(&self.0)
    }

    fn apply<'a>(&'a self, transaction: &'a mut Transaction<'_>) -> BoxFuture<'a, Result<(), StoreError>> {
        const RELEASE: &str = "UPDATE trial SET worker = NULL, lease_until = 0, state = CASE WHEN EXISTS (SELECT 1 FROM unit \
             WHERE unit.run = trial.run AND unit.trial = trial.id AND unit.in_plan = 1 AND unit.verdict IS NULL) \
             THEN 'queued' ELSE 'done' END \
             WHERE run = $1 AND id = $2 AND fence = $3 AND state = 'running'";
        Box::pin(async move {
            let Lease { run, trial, fence } = &self.0;
            let release = sqlx::query(RELEASE).bind(&*run.0).bind(&*trial.0).bind(fence);
            let released = release.execute(&mut *transaction.connection).await.map_err(failed)?;
            if released.rows_affected() == 0 { Err(StoreError::LeaseLost) } else { Ok(()) }
        })
    }
}

/// Returns whether no other worker has claimed the trial since. A lease that expired is still held until then.
pub(super) async fn is_held(connection: &mut SqliteConnection, lease: &Lease) -> Result<bool, StoreError> {
    let sql = "SELECT 1 FROM trial WHERE run = $1 AND id = $2 AND fence = $3 AND state = 'running'";
    let held = sqlx::query(sql).bind(&*lease.run.0).bind(&*lease.trial.0).bind(lease.fence);
    Ok(held.fetch_optional(connection).await.map_err(failed)?.is_some())
}

/// A unit of the plan, and whether it has no result yet.
pub(super) struct PlannedUnit {
    pub(super) unit: Unit,
    is_open: bool,
}

/// Returns the units of trials in the order of the plan.
pub(super) async fn units_of(
    connection: &mut SqliteConnection,
    run: &RunId,
    trials: &[Trial],
) -> Result<HashMap<TrialId, Vec<PlannedUnit>>, StoreError> {
    const UNITS: &str = "SELECT trial, id, judge, verdict IS NULL AS is_open FROM unit WHERE run = $1 AND in_plan = 1 \
         AND trial IN (SELECT value FROM json_each($2)) ORDER BY trial, position";
    let ids: Vec<&str> = trials.iter().map(|trial| &*trial.id.0).collect();
    let select = sqlx::query(UNITS).bind(&*run.0).bind(serde_json::json!(ids).to_string());
    let mut units: HashMap<TrialId, Vec<PlannedUnit>> = HashMap::with_capacity(trials.len());
    for row in select.fetch_all(connection).await.map_err(failed)? {
        let unit = Unit { id: UnitId(id(&row, "id")), judge: row.get("judge") };
        units.entry(TrialId(id(&row, "trial"))).or_default().push(PlannedUnit { unit, is_open: row.get("is_open") });
    }
    Ok(units)
}

/// Returns the trial of a row, without its units.
pub(super) fn trial_of(row: &SqliteRow) -> Result<Trial, StoreError> {
    let question: String = row.get("question");
    Ok(Trial {
        id: TrialId(id(row, "id")),
        question: question.parse().map_err(|error: crate::ids::InvalidId| StoreError::Failed(error.to_string()))?,
        model: row.get("model"),
        replicate: u32::try_from(row.get::<i64, _>("replicate")).unwrap_or_default(),
        units: Vec::new(),
    })
}
