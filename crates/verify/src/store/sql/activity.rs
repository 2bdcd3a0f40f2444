//! What happens in a run: its rate, what is stuck, and why.

use crate::ids::RunId;
use crate::store::{RunActivity, RunState, StoreError};

use super::connection::Connection;
use super::query::{Sql, now};
use super::reads::{named, progress};
use super::workers::{alive_millis, not_lacked};

/// The shortest time from which a rate is computed, in milliseconds.
const MIN_WINDOW_MILLIS: i64 = 1_000;

/// Returns the state of a run.
pub(super) async fn state(connection: &mut Connection<'_>, run: &RunId) -> Result<RunState, StoreError> {
    const STATE: Sql = Sql::same("SELECT state FROM run WHERE id = $1");
    match connection.row(STATE.query().bind(&*run.0)).await? {
        Some(row) => named(row.text("state")?),
        None => Err(StoreError::UnknownRun(run.clone())),
    }
}

/// Returns what happens in a run.
pub(super) async fn activity(connection: &mut Connection<'_>, run: &RunId) -> Result<RunActivity, StoreError> {
    // The rate is that of the last five minutes, or of the time since the first result in them.
    macro_rules! rate {
        ($dialect:ident) => {
            concat!(
                "SELECT COUNT(finished) AS units, ",
                now!($dialect),
                " - MIN(finished) AS millis FROM unit WHERE run = $1 AND in_plan = 1 AND finished > ",
                now!($dialect),
                " - 300000"
            )
        };
    }
    macro_rules! expired {
        ($dialect:ident) => {
            concat!(
                "SELECT run.priority, (SELECT COUNT(*) FROM trial WHERE trial.run = run.id AND trial.state = 'running' \
                 AND trial.in_plan = 1 AND trial.lease_until <= ",
                now!($dialect),
                ") AS expired FROM run WHERE run.id = $1"
            )
        };
    }
    const RATE: Sql = Sql { sqlite: rate!(sqlite), postgres: rate!(postgres) };
    const EXPIRED: Sql = Sql { sqlite: expired!(sqlite), postgres: expired!(postgres) };
    let progress = progress(connection, run).await?;
    let row = connection.row(EXPIRED.query().bind(&*run.0)).await?;
    let row = row.ok_or_else(|| StoreError::UnknownRun(run.clone()))?;
    let count = |number: i64| u64::try_from(number).unwrap_or_default();
    let mut activity = RunActivity {
        priority: row.int("priority")?,
        expired_leases: count(row.int("expired")?),
        ..RunActivity::default()
    };
    if let Some(row) = connection.row(RATE.query().bind(&*run.0)).await? {
        activity.recent_units = count(row.int("units")?);
        let window = row.optional_int("millis")?.filter(|millis| *millis >= MIN_WINDOW_MILLIS);
        activity.units_per_minute = window.map(|millis| per_minute(activity.recent_units, millis));
        let open = progress.units.saturating_sub(progress.done);
        activity.eta_seconds = activity.units_per_minute.filter(|rate| *rate > 0.0).map(|rate| seconds(open, rate));
    }
    stuck(connection, run, &mut activity).await?;
    Ok(activity)
}

/// Counts the open units that no living worker can run: each lacks something for them, or none is there.
async fn stuck(connection: &mut Connection<'_>, run: &RunId, activity: &mut RunActivity) -> Result<(), StoreError> {
    macro_rules! alive {
        ($dialect:ident) => {
            concat!("worker.seen > ", now!($dialect), " - ", alive_millis!())
        };
    }
    macro_rules! stuck {
        ($dialect:ident) => {
            concat!(
                "SELECT COUNT(*) AS units FROM unit JOIN trial ON trial.run = unit.run AND trial.id = unit.trial \
                 WHERE unit.run = $1 AND unit.in_plan = 1 AND unit.verdict IS NULL AND trial.lease_until <= ",
                now!($dialect),
                " AND NOT EXISTS (SELECT 1 FROM worker WHERE ",
                alive!($dialect),
                " AND ",
                not_lacked!("worker.id"),
                ")"
            )
        };
    }
    macro_rules! reasons {
        ($dialect:ident) => {
            concat!(
                "SELECT DISTINCT reason FROM worker_lack JOIN worker ON worker.id = worker_lack.worker \
                 WHERE worker_lack.run = $1 AND ",
                alive!($dialect),
                " ORDER BY reason"
            )
        };
    }
    const STUCK: Sql = Sql { sqlite: stuck!(sqlite), postgres: stuck!(postgres) };
    const REASONS: Sql = Sql { sqlite: reasons!(sqlite), postgres: reasons!(postgres) };
    if let Some(row) = connection.row(STUCK.query().bind(&*run.0)).await? {
        activity.stuck_units = u64::try_from(row.int("units")?).unwrap_or_default();
    }
    for row in connection.rows(REASONS.query().bind(&*run.0)).await? {
        activity.stuck_reasons.push(row.text("reason")?.to_owned());
    }
    Ok(())
}

#[expect(clippy::cast_precision_loss, reason = "a rate is not exact")]
fn per_minute(units: u64, millis: i64) -> f64 {
    units as f64 * 60_000.0 / millis as f64
}

#[expect(
    clippy::cast_precision_loss,
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "an estimate is not exact"
)]
fn seconds(units: u64, per_minute: f64) -> u64 {
    (units as f64 * 60.0 / per_minute).ceil() as u64
}
