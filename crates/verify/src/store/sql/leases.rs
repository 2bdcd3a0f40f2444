//! Claiming, renewing and releasing trials. The clock of the database decides which leases are valid.

use std::collections::HashMap;
use std::time::Duration;

use wharf_protocol::BoxFuture;

use crate::ids::{RunId, TrialId, UnitId};
use crate::plan::{RESULT_FORMAT, Trial, Unit};
use crate::store::{Claim, ClaimedTrial, Lease, StoreError};

use super::connection::{Connection, Row, damaged};
use super::query::{Sql, now};
use super::transaction::Transaction;
use super::workers::not_lacked;
use super::writer::Write;

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
        macro_rules! claimable {
            () => {
                concat!(
                    "EXISTS (SELECT 1 FROM run WHERE run.id = $1 AND run.state NOT IN ('paused', 'canceled') \
                     AND run.format = $5) AND ",
                    not_lacked!("$2")
                )
            };
        }
        // Other workers claim at the same time: each of them skips what another one is claiming.
        const CLAIM: Sql = Sql {
            sqlite: concat!(
                "UPDATE trial SET state = 'running', worker = $2, fence = fence + 1, lease_until = ",
                now!(sqlite),
                " + $3 WHERE run = $1 AND id IN (SELECT id FROM trial WHERE run = $1 AND state <> 'done' AND in_plan = 1 \
                 AND (worker IS NULL OR worker <> $2) AND lease_until <= ",
                now!(sqlite),
                " AND ",
                claimable!(),
                " ORDER BY position LIMIT $4) RETURNING id, fence, position, question, model, replicate"
            ),
            postgres: concat!(
                "WITH open AS (SELECT id FROM trial WHERE run = $1 AND state <> 'done' AND in_plan = 1 \
                 AND (worker IS NULL OR worker <> $2) AND lease_until <= ",
                now!(postgres),
                " AND ",
                claimable!(),
                " ORDER BY position LIMIT $4 FOR UPDATE SKIP LOCKED) \
                 UPDATE trial SET state = 'running', worker = $2, fence = fence + 1, lease_until = ",
                now!(postgres),
                " + $3 FROM open WHERE trial.run = $1 AND trial.id = open.id \
                 RETURNING trial.id, fence, position, question, model, replicate"
            ),
        };
        Box::pin(async move {
            let Claimant { run, worker, limit, lease_millis } = &self.0;
            let claim = CLAIM.query().bind(&*run.0).bind(worker).bind(*lease_millis).bind(*limit);
            let claim = claim.bind(i64::from(RESULT_FORMAT));
            let mut claimed = Vec::new();
            for row in transaction.connection.rows(claim).await? {
                let trial = trial_of(&row)?;
                let lease = Lease { run: run.clone(), trial: trial.id.clone(), fence: row.int("fence")? };
                claimed.push((row.int("position")?, ClaimedTrial { lease, trial, open_units: Vec::new() }));
            }
            claimed.sort_by_key(|(position, _)| *position);
            let mut claimed: Vec<ClaimedTrial> = claimed.into_iter().map(|(_, claimed)| claimed).collect();
            let trials = claimed.iter().map(|claimed| &claimed.trial);
            let mut units = units_of(&mut transaction.connection, run, trials).await?;
            for claimed in &mut claimed {
                let units = units.remove(&claimed.trial.id).unwrap_or_default();
                let open = units.iter().filter(|unit| unit.is_open);
                claimed.open_units = open.map(|unit| unit.unit.id.clone()).collect();
                claimed.trial.units = units.into_iter().map(|unit| unit.unit).collect();
            }
            Ok(claimed)
        })
    }

    fn is_recorded<'a>(
        &'a self,
        output: &'a Self::Output,
        connection: &'a mut Connection<'_>,
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
        // In PostgreSQL, trials are left out that another transaction is changing: the writer of the same worker releases
        // several in one transaction, and each would wait for the other. The worker still holds them.
        const RENEW: Sql = Sql {
            sqlite: concat!(
                "UPDATE trial SET lease_until = ",
                now!(sqlite),
                " + $3 WHERE run = $1 AND worker = $2 AND state = 'running' AND lease_until > 0 RETURNING id, fence"
            ),
            postgres: concat!(
                "WITH free AS (SELECT id FROM trial WHERE run = $1 AND worker = $2 AND state = 'running' \
                 FOR NO KEY UPDATE SKIP LOCKED), \
                 renewed AS (UPDATE trial SET lease_until = ",
                now!(postgres),
                " + $3 FROM free WHERE trial.run = $1 AND trial.id = free.id) \
                 SELECT id, fence FROM trial WHERE run = $1 AND worker = $2 AND state = 'running'"
            ),
        };
        Box::pin(async move {
            let Claimant { run, worker, lease_millis, .. } = &self.0;
            let renew = RENEW.query().bind(&*run.0).bind(worker).bind(*lease_millis);
            let lease = |row: &Row| {
                Ok(Lease { run: run.clone(), trial: TrialId(row.text("id")?.into()), fence: row.int("fence")? })
            };
            transaction.connection.rows(renew).await?.iter().map(lease).collect()
        })
    }
}

impl Write for ReleaseLease {
    type Output = ();

    fn lease(&self) -> Option<&Lease> {
        Some(&self.0)
    }

    fn apply<'a>(&'a self, transaction: &'a mut Transaction<'_>) -> BoxFuture<'a, Result<(), StoreError>> {
        const RELEASE: Sql = Sql::same(
            "UPDATE trial SET worker = NULL, lease_until = 0, state = CASE WHEN EXISTS (SELECT 1 FROM unit \
             WHERE unit.run = trial.run AND unit.trial = trial.id AND unit.in_plan = 1 AND unit.verdict IS NULL) \
             THEN 'queued' ELSE 'done' END \
             WHERE run = $1 AND id = $2 AND fence = $3 AND state = 'running' RETURNING state",
        );
        Box::pin(async move {
            let Lease { run, trial, fence } = &self.0;
            let release = RELEASE.query().bind(&*run.0).bind(&*trial.0).bind(*fence);
            let Some(released) = transaction.connection.row(release).await? else {
                return Err(StoreError::LeaseLost);
            };
            if released.text("state")? == "queued" {
                transaction.offer_trials();
            }
            Ok(())
        })
    }
}

/// Returns whether no other worker has claimed the trial since. A lease that expired is still held until then.
///
/// In PostgreSQL nothing can claim the trial until the transaction ends: a claim locks its rows `FOR UPDATE`. A renewal does
/// not, so that it is not held up.
pub(super) async fn is_held(connection: &mut Connection<'_>, lease: &Lease) -> Result<bool, StoreError> {
    const HELD: Sql = Sql {
        sqlite: "SELECT 1 FROM trial WHERE run = $1 AND id = $2 AND fence = $3 AND state = 'running'",
        postgres: "SELECT 1 FROM trial WHERE run = $1 AND id = $2 AND fence = $3 AND state = 'running' FOR KEY SHARE",
    };
    let held = HELD.query().bind(&*lease.run.0).bind(&*lease.trial.0).bind(lease.fence);
    Ok(connection.row(held).await?.is_some())
}

/// A unit of the plan, and whether it has no result yet.
pub(super) struct PlannedUnit {
    pub(super) unit: Unit,
    is_open: bool,
}

/// Returns the units of trials in the order of the plan.
pub(super) async fn units_of(
    connection: &mut Connection<'_>,
    run: &RunId,
    trials: impl Iterator<Item = &Trial>,
) -> Result<HashMap<TrialId, Vec<PlannedUnit>>, StoreError> {
    const UNITS: Sql = Sql {
        sqlite: "SELECT trial, id, judge, verdict IS NULL AS is_open FROM unit WHERE run = $1 AND in_plan = 1 \
                 AND trial IN (SELECT value FROM json_each($2)) ORDER BY trial, position",
        postgres: "SELECT trial, id, judge, verdict IS NULL AS is_open FROM unit WHERE run = $1 AND in_plan = 1 \
                   AND trial = ANY(ARRAY(SELECT json_array_elements_text($2::JSON))) ORDER BY trial, position",
    };
    let ids: Vec<&str> = trials.map(|trial| &*trial.id.0).collect();
    let ids = serde_json::json!(ids).to_string();
    let mut units: HashMap<TrialId, Vec<PlannedUnit>> = HashMap::new();
    for row in connection.rows(UNITS.query().bind(&*run.0).bind(&ids)).await? {
        let judge = row.optional_text("judge")?.map(str::to_owned);
        let unit = Unit { id: UnitId(row.text("id")?.into()), judge };
        let planned = PlannedUnit { unit, is_open: row.condition("is_open")? };
        units.entry(TrialId(row.text("trial")?.into())).or_default().push(planned);
    }
    Ok(units)
}

/// Returns the trial of a row, without its units.
pub(super) fn trial_of(row: &Row) -> Result<Trial, StoreError> {
    Ok(Trial {
        id: TrialId(row.text("id")?.into()),
        question: row.text("question")?.parse().map_err(|error: crate::ids::InvalidId| damaged(&error))?,
        model: row.text("model")?.to_owned(),
        replicate: u32::try_from(row.int("replicate")?).unwrap_or_default(),
        units: Vec::new(),
    })
}
