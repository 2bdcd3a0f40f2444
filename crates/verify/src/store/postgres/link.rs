//! Transactions of the connection that writes to the server.

use std::sync::Arc;
use std::time::Duration;

use sqlx::{Connection as _, PgConnection, Row as _};
use wharf_protocol::BoxFuture;

use crate::store::StoreError;
use crate::store::sql::connection::{Connection, Fault, answer};
use crate::store::sql::link::{CommitOutcome, Link};
use crate::store::sql::query::Sql;
use crate::store::sql::retries::Retries;
use crate::store::sql::transaction::{COUNTER_ROWS, Transaction, Trouble};

use super::connect::Server;

/// The connection that writes.
pub(super) struct PostgresLink {
    server: Arc<Server>,
    /// Nothing after it was lost.
    connection: Option<PgConnection>,
    /// The number of the last transaction.
    transaction: Option<String>,
    counter_row: i64,
}

impl PostgresLink {
    pub(super) fn new(server: Arc<Server>, connection: PgConnection) -> Self {
        Self { server, connection: Some(connection), transaction: None, counter_row: fastrand::i64(0..COUNTER_ROWS) }
    }

    /// Executes statements without values, in one message. A lost connection is dropped.
    async fn execute(&mut self, sql: &'static str) -> Result<Vec<sqlx::postgres::PgRow>, Trouble> {
        let mut connection = match self.connection.take() {
            Some(connection) => connection,
            None => self.server.connect().await?,
        };
        let answered = answer(sqlx::raw_sql(sql).fetch_all(&mut connection)).await;
        let mut fault = None;
        let answered = answered.map_err(|failure| failure.record(&mut fault));
        if fault != Some(Fault::Lost) {
            self.connection = Some(connection);
        }
        answered.map_err(|error| Trouble { error, fault })
    }

    /// Returns the state of the last transaction. Nothing if the server does not know it any more.
    async fn transaction_status(&mut self) -> Result<Option<String>, Trouble> {
        const STATUS: Sql = Sql::same("SELECT pg_xact_status(CAST($1 AS XID8)) AS status");
        let mut connection = match self.connection.take() {
            Some(connection) => connection,
            None => self.server.connect().await?,
        };
        let number = self.transaction.as_deref().unwrap_or_default();
        let mut asked = Connection::postgres(&mut connection);
        let row = asked.row(STATUS.query().bind(number)).await;
        let row = row.map_err(|error| Trouble { error, fault: asked.fault() })?;
        let status = row.and_then(|row| row.optional_text("status").ok().flatten().map(str::to_owned));
        self.connection = Some(connection);
        Ok(status)
    }
}

impl Link for PostgresLink {
    fn begin(&mut self) -> BoxFuture<'_, Result<Transaction<'_>, Trouble>> {
        const BEGIN: &str = "BEGIN ISOLATION LEVEL READ COMMITTED READ WRITE; SELECT pg_current_xact_id()::TEXT";
        Box::pin(async {
            self.transaction = None;
            let rows = self.execute(BEGIN).await?;
            self.transaction = rows.first().and_then(|row| row.try_get(0).ok());
            match &mut self.connection {
                Some(connection) => Ok(Transaction::new(Connection::postgres(connection), self.counter_row)),
                None => Err(Trouble { error: lost(), fault: Some(Fault::Lost) }),
            }
        })
    }

    fn commit(&mut self) -> BoxFuture<'_, Result<(), StoreError>> {
        Box::pin(async { self.execute("COMMIT").await.map(drop).map_err(|trouble| trouble.error) })
    }

    fn roll_back(&mut self, fault: Option<Fault>) -> BoxFuture<'_, ()> {
        Box::pin(async move {
            if fault == Some(Fault::Lost) {
                self.connection = None;
            }
            // The server rolls the transaction of a lost connection back by itself.
            if self.connection.is_some() && self.execute("ROLLBACK").await.is_err() {
                self.connection = None;
            }
        })
    }

    fn look_up(&mut self) -> BoxFuture<'_, CommitOutcome<'_>> {
        Box::pin(async {
            let mut retries = Retries::within(self.server.retry_time);
            loop {
                match self.transaction_status().await {
                    Ok(Some(status)) if status == "committed" => return CommitOutcome::Committed,
                    Ok(Some(status)) if status == "aborted" => return CommitOutcome::RolledBack,
                    // The server has not noticed yet that the connection is gone, or is still committing.
                    Ok(Some(_)) | Err(Trouble { fault: Some(_), .. }) => {}
                    Ok(None) | Err(Trouble { fault: None, .. }) => return CommitOutcome::Unknown,
                }
                if !retries.wait().await {
                    return CommitOutcome::Unknown;
                }
            }
        })
    }

    fn retry_time(&self) -> Duration {
        self.server.retry_time
    }

    fn describe(&self, error: StoreError) -> StoreError {
        self.server.describe(error)
    }

    fn close(self: Box<Self>) -> BoxFuture<'static, ()> {
        Box::pin(async {
            if let Some(connection) = self.connection {
                let _ = connection.close().await;
            }
        })
    }
}

fn lost() -> StoreError {
    StoreError::Failed("the connection was lost".to_owned())
}
