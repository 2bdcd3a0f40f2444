//! Workers: their registration, what they lack, and which runs have something for them.

use wharf_protocol::BoxFuture;

use crate::ids::RunId;
use crate::plan::RESULT_FORMAT;
use crate::store::{Lack, StoreError, WorkerRecord, WorkerStatus};

use super::connection::Connection;
use super::query::{Sql, now};
use super::transaction::Transaction;
use super::writer::Write;

/// A condition on a trial in SQL: the worker lacks nothing for it.
macro_rules! not_lacked {
    ($worker:literal) => {
        concat!(
            "NOT EXISTS (SELECT 1 FROM worker_lack WHERE worker_lack.worker = ",
            $worker,
            " AND worker_lack.run = trial.run AND (worker_lack.model IS NULL OR worker_lack.model = trial.model) \
             AND (worker_lack.question IS NULL OR worker_lack.question = trial.question) \
             AND (worker_lack.judge IS NULL OR EXISTS (SELECT 1 FROM unit AS judged WHERE judged.run = trial.run \
             AND judged.trial = trial.id AND judged.in_plan = 1 AND judged.verdict IS NULL \
             AND judged.judge = worker_lack.judge)))"
        )
    };
}
pub(super) use not_lacked;

/// How long a worker counts as alive after a heartbeat.
macro_rules! alive_millis {
    () => {
        "60000"
    };
}
pub(super) use alive_millis;

/// Registers a worker, or renews its registration.
pub(super) struct Register(pub(super) WorkerRecord);

/// Forgets a worker.
pub(super) struct Unregister(pub(super) String);

/// Replaces what a worker lacks for a run.
pub(super) struct SetLacks {
    pub(super) worker: String,
    pub(super) run: RunId,
    pub(super) lacks: Vec<Lack>,
}

impl Write for Register {
    type Output = ();

    fn apply<'a>(&'a self, transaction: &'a mut Transaction<'_>) -> BoxFuture<'a, Result<(), StoreError>> {
        macro_rules! register {
            ($dialect:ident) => {
                concat!(
                    "INSERT INTO worker (id, host, pid, version, slots, since, seen, run) VALUES ($1, $2, $3, $4, $5, ",
                    now!($dialect),
                    ", ",
                    now!($dialect),
                    ", $6) ON CONFLICT (id) DO UPDATE SET seen = excluded.seen, slots = excluded.slots, run = excluded.run"
                )
            };
        }
        const REGISTER: Sql = Sql { sqlite: register!(sqlite), postgres: register!(postgres) };
        Box::pin(async move {
            let WorkerRecord { id, host, pid, version, slots, run } = &self.0;
            let run = run.as_ref().map(|run| run.0.to_string());
            let register = REGISTER.query().bind(id).bind(host).bind(i64::from(*pid)).bind(version);
            transaction.connection.execute(register.bind(i64::from(*slots)).bind(&run)).await?;
            Ok(())
        })
    }
}

impl Write for Unregister {
    type Output = ();

    fn apply<'a>(&'a self, transaction: &'a mut Transaction<'_>) -> BoxFuture<'a, Result<(), StoreError>> {
        // Workers that were killed leave their rows behind. After a day they say nothing.
        macro_rules! gone {
            ($dialect:ident) => {
                concat!("DELETE FROM worker WHERE id = $1 OR seen < ", now!($dialect), " - 86400000")
            };
        }
        const GONE: Sql = Sql { sqlite: gone!(sqlite), postgres: gone!(postgres) };
        const LACKS: Sql = Sql::same("DELETE FROM worker_lack WHERE worker NOT IN (SELECT id FROM worker)");
        Box::pin(async move {
            transaction.connection.execute(GONE.query().bind(&self.0)).await?;
            transaction.connection.execute(LACKS.query()).await?;
            Ok(())
        })
    }
}

impl Write for SetLacks {
    type Output = ();

    fn apply<'a>(&'a self, transaction: &'a mut Transaction<'_>) -> BoxFuture<'a, Result<(), StoreError>> {
        const CLEAR: Sql = Sql::same("DELETE FROM worker_lack WHERE worker = $1 AND run = $2");
        const ADD: Sql = Sql::same(
            "INSERT INTO worker_lack (worker, run, model, question, judge, reason) VALUES ($1, $2, $3, $4, $5, $6)",
        );
        Box::pin(async move {
            let Self { worker, run, lacks } = self;
            transaction.connection.execute(CLEAR.query().bind(worker).bind(&*run.0)).await?;
            for lack in lacks {
                let question = lack.question.as_ref().map(|question| question.as_str().to_owned());
                let add = ADD.query().bind(worker).bind(&*run.0).bind(&lack.model).bind(&question);
                transaction.connection.execute(add.bind(&lack.judge).bind(&lack.reason)).await?;
            }
            Ok(())
        })
    }
}

/// Returns the runs with trials that a worker can claim now, in the order in which it serves them.
pub(super) async fn claimable_runs(connection: &mut Connection<'_>, worker: &str) -> Result<Vec<RunId>, StoreError> {
    macro_rules! claimable {
        ($dialect:ident) => {
            concat!(
                "SELECT run.id FROM run WHERE run.state = 'running' AND run.format = $1 AND EXISTS (SELECT 1 FROM trial \
                 WHERE trial.run = run.id AND trial.state <> 'done' AND trial.in_plan = 1 \
                 AND (trial.worker IS NULL OR trial.worker <> $2) AND trial.lease_until <= ",
                now!($dialect),
                " AND ",
                not_lacked!("$2"),
                ") ORDER BY run.priority DESC, run.created, run.id"
            )
        };
    }
    const CLAIMABLE: Sql = Sql { sqlite: claimable!(sqlite), postgres: claimable!(postgres) };
    let claimable = CLAIMABLE.query().bind(i64::from(RESULT_FORMAT)).bind(worker);
    let rows = connection.rows(claimable).await?;
    rows.iter().map(|row| Ok(RunId(row.text("id")?.into()))).collect()
}

/// Returns all registered workers, the living ones first.
pub(super) async fn workers(connection: &mut Connection<'_>) -> Result<Vec<WorkerStatus>, StoreError> {
    macro_rules! workers {
        ($dialect:ident) => {
            concat!(
                "SELECT worker.*, ",
                now!($dialect),
                " AS now_millis, (SELECT COUNT(*) FROM trial WHERE trial.worker = worker.id AND trial.state = 'running' \
                 AND trial.run = worker.run AND trial.lease_until > ",
                now!($dialect),
                ") AS trials, worker.seen > ",
                now!($dialect),
                " - ",
                alive_millis!(),
                " AS is_alive FROM worker ORDER BY is_alive DESC, host, since, id"
            )
        };
    }
    const WORKERS: Sql = Sql { sqlite: workers!(sqlite), postgres: workers!(postgres) };
    const LACKS: Sql = Sql::same("SELECT DISTINCT worker, reason FROM worker_lack ORDER BY worker, reason");
    let lacks = connection.rows(LACKS.query()).await?;
    let rows = connection.rows(WORKERS.query()).await?;
    let mut workers = Vec::with_capacity(rows.len());
    for row in &rows {
        let id = row.text("id")?.to_owned();
        let mut own = Vec::new();
        for lack in &lacks {
            if lack.text("worker")? == id {
                own.push(lack.text("reason")?.to_owned());
            }
        }
        let small = |name: &str| Ok::<_, StoreError>(u32::try_from(row.int(name)?).unwrap_or_default());
        let age = row.int("now_millis")?.saturating_sub(row.int("seen")?);
        workers.push(WorkerStatus {
            host: row.text("host")?.to_owned(),
            pid: small("pid")?,
            version: row.text("version")?.to_owned(),
            slots: small("slots")?,
            since: row.int("since")? / 1000,
            seen_seconds_ago: u64::try_from(age / 1000).unwrap_or_default(),
            is_alive: row.condition("is_alive")?,
            run: row.optional_text("run")?.map(|run| RunId(run.into())),
            trials: u64::try_from(row.int("trials")?).unwrap_or_default(),
            lacks: own,
            id,
        });
    }
    Ok(workers)
}
