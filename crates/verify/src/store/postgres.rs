//! The store in a PostgreSQL database, for any number of processes on any number of machines.
//!
//! A store has one connection that writes, up to [`MAX_READERS`] that read, and one that listens while a worker has nothing
//! to do. A worker has a second store for its heartbeat, which only writes: at most five connections.
//!
//! The database may go away for a while. Transactions and reads are tried again until [`PostgresOptions::retry_time`] is
//! over. A transaction whose commit was not confirmed is looked up by its number before that, so nothing is written twice.

mod connect;
mod link;
mod migrate;
mod offers;

use std::sync::Arc;
use std::time::Duration;

use sqlx::postgres::{PgPool, PgPoolOptions};
use tokio::sync::watch;
use wharf_protocol::BoxFuture;

use super::location::PostgresUrl;
use super::sql::connection::{Connection, Fault, reason};
use super::sql::retries::Retries;
use super::sql::writer::Writer;
use super::sql::{Read, SqlStore};
use super::{RunStore, StoreError};

use connect::Server;
use link::PostgresLink;
use offers::Offers;

/// Connections for reading.
const MAX_READERS: u32 = 2;
/// How long a connection for reading is awaited, before the next attempt.
const ACQUIRE_TIMEOUT: Duration = Duration::from_secs(15);
/// How long a connection for reading stays open unused.
const IDLE_TIMEOUT: Duration = Duration::from_secs(300);

/// Settings of a store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PostgresOptions {
    /// How long reads and writes are tried again while the server does not respond or restarts.
    pub retry_time: Duration,
}

impl Default for PostgresOptions {
    fn default() -> Self {
        Self { retry_time: Duration::from_secs(120) }
    }
}

/// A store in a PostgreSQL database.
pub struct PostgresStore {
    url: PostgresUrl,
    options: PostgresOptions,
    server: Arc<Server>,
    writer: Writer,
    readers: PgPool,
    offers: Offers,
}

impl PostgresStore {
    /// Opens a store, or creates its tables. Its connections belong to the current runtime.
    ///
    /// What the URL does not say is read from the `PG*` variables of the environment and from the password file, as other
    /// programs do. The tables are in the first schema of a `search_path` that is set in the URL or in `PGOPTIONS`, or else
    /// in `wharf`.
    ///
    /// # Errors
    /// [`StoreError::Open`] if the server refuses the connection, or if a newer version has written the tables.
    pub async fn open(url: &PostgresUrl) -> Result<Self, StoreError> {
        Self::open_with(url, PostgresOptions::default()).await
    }

    /// Opens a store with other limits.
    ///
    /// # Errors
    /// As [`PostgresStore::open`].
    pub async fn open_with(url: &PostgresUrl, options: PostgresOptions) -> Result<Self, StoreError> {
        let (server, connection) = connect::open(url, options.retry_time).await?;
        let server = Arc::new(server);
        let writer = Writer::start(Box::new(PostgresLink::new(Arc::clone(&server), connection)));
        let session = Arc::clone(&server);
        let readers = PgPoolOptions::new()
            .max_connections(MAX_READERS)
            .acquire_timeout(ACQUIRE_TIMEOUT)
            .idle_timeout(IDLE_TIMEOUT)
            .max_lifetime(None)
            // A lost connection is noticed by its use. A test before each use would double the messages.
            .test_before_acquire(false)
            .after_connect(move |connection, _| {
                let session = Arc::clone(&session);
                Box::pin(async move { session.set_up(connection).await })
            })
            .connect_lazy_with(server.options.clone());
        Ok(Self { url: url.clone(), options, offers: Offers::new(Arc::clone(&server)), server, writer, readers })
    }

    /// Reads once.
    async fn try_read<T>(&self, read: &Read<T>) -> Result<T, (StoreError, Option<Fault>)> {
        let acquired = self.readers.acquire().await;
        let mut pooled = acquired.map_err(|error| (StoreError::Failed(reason(&error)), Fault::of(&error)))?;
        let mut connection = Connection::postgres(&mut pooled);
        let outcome = read(&mut connection).await;
        let fault = connection.fault();
        outcome.map_err(|error| {
            if fault == Some(Fault::Lost) {
                drop(pooled.detach());
            }
            (error, fault)
        })
    }
}

impl SqlStore for PostgresStore {
    fn writer(&self) -> &Writer {
        &self.writer
    }

    fn read<T: Send + 'static>(&self, read: Read<T>) -> BoxFuture<'_, Result<T, StoreError>> {
        Box::pin(async move {
            let mut retries = Retries::within(self.options.retry_time);
            loop {
                match self.try_read(&read).await {
                    Ok(read) => return Ok(read),
                    Err((error, None)) => return Err(error),
                    Err((error, Some(_))) => {
                        if !retries.wait().await {
                            return Err(self.server.describe(error));
                        }
                    }
                }
            }
        })
    }

    fn reopen(&self) -> BoxFuture<'_, Result<Arc<dyn RunStore>, StoreError>> {
        Box::pin(async { Ok(Arc::new(Self::open_with(&self.url, self.options).await?) as Arc<dyn RunStore>) })
    }

    fn offers(&self) -> Option<watch::Receiver<u64>> {
        Some(self.offers.subscribe())
    }

    fn close_readers(&self) -> BoxFuture<'_, ()> {
        Box::pin(async {
            self.offers.stop();
            self.readers.close().await;
        })
    }
}
