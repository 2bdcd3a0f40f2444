//! The connection of a writer: how its transactions begin and end.

use std::time::Duration;

use wharf_protocol::BoxFuture;

use crate::store::StoreError;

use super::connection::{Connection, Fault};
use super::transaction::{Transaction, Trouble};

/// What became of a commit whose outcome was unknown.
pub(in crate::store) enum CommitOutcome<'c> {
    /// All of its writes are in the database.
    Committed,
    /// None of its writes is.
    RolledBack,
    /// The database does not know. Its rows tell.
    InRows(Connection<'c>),
    /// Nothing tells.
    Unknown,
}

/// A connection for writing.
pub(in crate::store) trait Link: Send + 'static {
    /// Begins a transaction.
    fn begin(&mut self) -> BoxFuture<'_, Result<Transaction<'_>, Trouble>>;

    /// Commits the transaction. After an error its outcome is unknown.
    fn commit(&mut self) -> BoxFuture<'_, Result<(), StoreError>>;

    /// Rolls the transaction back, after a failure.
    fn roll_back(&mut self, fault: Option<Fault>) -> BoxFuture<'_, ()>;

    /// Finds out what became of a commit whose outcome is unknown.
    fn look_up(&mut self) -> BoxFuture<'_, CommitOutcome<'_>>;

    /// Returns how long a transaction is tried again whose failure may pass.
    fn retry_time(&self) -> Duration {
        Duration::ZERO
    }

    /// Returns an error with the name of the database.
    fn describe(&self, error: StoreError) -> StoreError {
        error
    }

    /// Closes the connection.
    fn close(self: Box<Self>) -> BoxFuture<'static, ()>;
}
