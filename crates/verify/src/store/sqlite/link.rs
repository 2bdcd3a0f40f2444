//! Transactions of the connection that writes to a file.

use sqlx::{Connection as _, SqliteConnection};
use wharf_protocol::BoxFuture;

use crate::store::StoreError;
use crate::store::sql::connection::{Connection, Fault, failed};
use crate::store::sql::link::{CommitOutcome, Link};
use crate::store::sql::transaction::{Transaction, Trouble};

/// The connection that writes.
pub(super) struct SqliteLink(pub(super) SqliteConnection);

impl SqliteLink {
    async fn execute(&mut self, sql: &'static str) -> Result<(), StoreError> {
        sqlx::query(sql).execute(&mut self.0).await.map_err(failed)?;
        Ok(())
    }
}

impl Link for SqliteLink {
    fn begin(&mut self) -> BoxFuture<'_, Result<Transaction<'_>, Trouble>> {
        Box::pin(async {
            let begun = self.execute("BEGIN IMMEDIATE").await;
            begun.map_err(|error| Trouble { error, fault: None })?;
            Ok(Transaction::new(Connection::sqlite(&mut self.0), 0))
        })
    }

    fn commit(&mut self) -> BoxFuture<'_, Result<(), StoreError>> {
        Box::pin(self.execute("COMMIT"))
    }

    fn roll_back(&mut self, _fault: Option<Fault>) -> BoxFuture<'_, ()> {
        Box::pin(async {
            // Some errors end the transaction by themselves, so this one may fail.
            let _ = self.execute("ROLLBACK").await;
        })
    }

    fn look_up(&mut self) -> BoxFuture<'_, CommitOutcome<'_>> {
        Box::pin(async {
            let _ = self.execute("ROLLBACK").await;
            CommitOutcome::InRows(Connection::sqlite(&mut self.0))
        })
    }

    fn close(self: Box<Self>) -> BoxFuture<'static, ()> {
        Box::pin(async {
            let _ = self.0.close().await;
        })
    }
}
