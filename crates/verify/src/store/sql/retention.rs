//! Deleting runs, and contents that nothing refers to.

use wharf_protocol::BoxFuture;

use crate::ids::RunId;
use crate::store::StoreError;

use super::query::{Dialect, Sql};
use super::transaction::Transaction;
use super::writer::Write;

/// Rows that one transaction deletes: other writers wait for it.
const BATCH: i64 = 5_000;

/// Deletes a part of a run. Returns whether something is left.
pub(super) struct DeleteBatch(pub(super) RunId);

/// Deletes contents that nothing refers to. Returns how many.
pub(super) struct DeleteUnreferenced;

impl Write for DeleteBatch {
    type Output = bool;

    fn apply<'a>(&'a self, transaction: &'a mut Transaction<'_>) -> BoxFuture<'a, Result<bool, StoreError>> {
        // In this order: rows refer to those of later tables.
        const ROWS: [Sql; 3] = [
            Sql::same("DELETE FROM step WHERE id IN (SELECT id FROM step WHERE run = $1 LIMIT $2)"),
            Sql::same("DELETE FROM unit WHERE run = $1 AND id IN (SELECT id FROM unit WHERE run = $1 LIMIT $2)"),
            Sql::same("DELETE FROM trial WHERE run = $1 AND id IN (SELECT id FROM trial WHERE run = $1 LIMIT $2)"),
        ];
        const OWN: [Sql; 3] = [
            Sql::same("DELETE FROM worker_lack WHERE run = $1"),
            Sql::same("DELETE FROM run_settings WHERE run = $1"),
            Sql::same("DELETE FROM run WHERE id = $1"),
        ];
        Box::pin(async move {
            let (run, connection) = (&*self.0.0, &mut transaction.connection);
            for rows in ROWS {
                if connection.execute(rows.query().bind(run).bind(BATCH)).await? > 0 {
                    return Ok(true);
                }
            }
            if connection.dialect() != Dialect::Sqlite {
                connection.execute(Sql::same("DELETE FROM run_counter WHERE run = $1").query().bind(run)).await?;
            }
            let mut deleted = 0;
            for own in OWN {
                deleted = connection.execute(own.query().bind(run)).await?;
            }
            if deleted == 0 { Err(StoreError::UnknownRun(self.0.clone())) } else { Ok(false) }
        })
    }
}

impl Write for DeleteUnreferenced {
    type Output = u64;

    fn apply<'a>(&'a self, transaction: &'a mut Transaction<'_>) -> BoxFuture<'a, Result<u64, StoreError>> {
        // A writer may find a content stored already and refer to it before it commits. It has inserted into `blob` by then,
        // so this lock waits for it. In SQLite there is one writer at a time.
        const LOCK: Sql = Sql::same("LOCK TABLE blob IN SHARE ROW EXCLUSIVE MODE");
        // Each in the form that its database executes without looking at all rows for every content.
        const DELETE: Sql = Sql {
            sqlite: "DELETE FROM blob WHERE hash NOT IN (SELECT result FROM unit WHERE result IS NOT NULL \
                     UNION SELECT trace FROM unit WHERE trace IS NOT NULL \
                     UNION SELECT result FROM step WHERE result IS NOT NULL)",
            postgres: "DELETE FROM blob WHERE NOT EXISTS (SELECT 1 FROM unit WHERE unit.result = blob.hash) \
                       AND NOT EXISTS (SELECT 1 FROM unit WHERE unit.trace = blob.hash) \
                       AND NOT EXISTS (SELECT 1 FROM step WHERE step.result = blob.hash)",
        };
        Box::pin(async move {
            if transaction.connection.dialect() != Dialect::Sqlite {
                transaction.connection.execute(LOCK.query()).await?;
            }
            transaction.connection.execute(DELETE.query()).await
        })
    }
}
