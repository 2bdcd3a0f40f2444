//! The store in one SQLite file: the default, for one machine and any number of processes.
//!
//! The file is in WAL mode with full synchronization: what is committed survives `kill -9` and a power failure.

mod link;
mod open;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use sqlx::sqlite::SqlitePool;
use tokio::sync::watch;
use wharf_protocol::BoxFuture;

use crate::store::sql::connection::{Connection, failed};
use crate::store::sql::writer::Writer;
use crate::store::sql::{Read, SqlStore};
use crate::store::{RunStore, StoreError};

use link::SqliteLink;

pub use open::SqliteOptions;

/// A store in one SQLite file.
pub struct SqliteStore {
    path: PathBuf,
    options: SqliteOptions,
    writer: Writer,
    readers: SqlitePool,
}

impl SqliteStore {
    /// Opens a store, or creates it. Its connections belong to the current runtime.
    pub async fn open(path: &Path) -> Result<Self, StoreError> {
        Self::open_with(path, SqliteOptions::default()).await
    }

    /// Opens a store with limits.
    pub async fn open_with(path: &Path, options: SqliteOptions) -> Result<Self, StoreError> {
        let open::Connections { writer, readers } = open::open(path, options).await?;
        Ok(Self { path: path.to_owned(), options, writer: Writer::start(Box::new(SqliteLink(writer))), readers })
    }

    /// Returns the path of the file.
    pub fn path(&self) -> &Path {
        &self.path
    }
}

impl SqlStore for SqliteStore {
    fn writer(&self) -> &Writer {
        &self.writer
    }

    fn read<T: Send + 'static>(&self, read: Read<T>) -> BoxFuture<'_, Result<T, StoreError>> {
        Box::pin(async move {
            let mut connection = self.readers.acquire().await.map_err(failed)?;
            read(&mut Connection::sqlite(&mut connection)).await
        })
    }

    fn reopen(&self) -> BoxFuture<'_, Result<Arc<dyn RunStore>, StoreError>> {
        Box::pin(async { Ok(Arc::new(Self::open_with(&self.path, self.options).await?) as Arc<dyn RunStore>) })
    }

    fn offers(&self) -> Option<watch::Receiver<u64>> {
        None
    }

    fn close_readers(&self) -> BoxFuture<'_, ()> {
        Box::pin(self.readers.close())
    }
}
