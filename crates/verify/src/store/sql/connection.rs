//! A connection to either database, and the rows that it returns.

use sqlx::sqlite::{SqliteArguments, SqliteRow};
use sqlx::{Row as _, Sqlite, SqliteConnection};

use crate::store::StoreError;

use super::query::{Bound, Dialect, Query};

#[cfg(feature = "postgres")]
pub(in crate::store) use postgres::answer;

/// A connection. It belongs to a writer or to a pool of readers.
pub(in crate::store) struct Connection<'c> {
    driver: Driver<'c>,
    fault: Option<Fault>,
}

/// Why a failure may pass by itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(not(feature = "postgres"), expect(dead_code, reason = "a file has no such failures"))]
pub(in crate::store) enum Fault {
    /// The connection is gone, or its state is unknown. The next attempt needs a new one.
    Lost,
    /// Other transactions were in the way, or the server was too slow.
    Conflict,
}

enum Driver<'c> {
    Sqlite(&'c mut SqliteConnection),
    #[cfg(feature = "postgres")]
    Postgres(&'c mut sqlx::PgConnection),
}

/// A row. Its columns are read by name.
pub(in crate::store) enum Row {
    Sqlite(SqliteRow),
    #[cfg(feature = "postgres")]
    Postgres(sqlx::postgres::PgRow),
}

impl<'c> Connection<'c> {
    pub(in crate::store) fn sqlite(connection: &'c mut SqliteConnection) -> Self {
        Self { driver: Driver::Sqlite(connection), fault: None }
    }

    /// Returns why the last failure may pass. `None` if it does not.
    pub(in crate::store) fn fault(&self) -> Option<Fault> {
        self.fault
    }

    /// Returns the database.
    pub(in crate::store) fn dialect(&self) -> Dialect {
        match self.driver {
            Driver::Sqlite(_) => Dialect::Sqlite,
            #[cfg(feature = "postgres")]
            Driver::Postgres(_) => Dialect::Postgres,
        }
    }

    /// Executes a statement. Returns the number of rows that it changed.
    pub(in crate::store) async fn execute(&mut self, query: Query<'_>) -> Result<u64, StoreError> {
        match &mut self.driver {
            Driver::Sqlite(connection) => {
                let done = sqlite_query(&query).execute(&mut **connection).await.map_err(failed)?;
                Ok(done.rows_affected())
            }
            #[cfg(feature = "postgres")]
            Driver::Postgres(connection) => {
                let done = postgres::query(&query).execute(&mut **connection);
                let done = postgres::answer(done).await.map_err(|error| error.record(&mut self.fault))?;
                Ok(done.rows_affected())
            }
        }
    }

    /// Executes a statement. Returns all rows.
    pub(in crate::store) async fn rows(&mut self, query: Query<'_>) -> Result<Vec<Row>, StoreError> {
        match &mut self.driver {
            Driver::Sqlite(connection) => {
                let rows = sqlite_query(&query).fetch_all(&mut **connection).await.map_err(failed)?;
                Ok(rows.into_iter().map(Row::Sqlite).collect())
            }
            #[cfg(feature = "postgres")]
            Driver::Postgres(connection) => {
                let rows = postgres::query(&query).fetch_all(&mut **connection);
                let rows = postgres::answer(rows).await.map_err(|error| error.record(&mut self.fault))?;
                Ok(rows.into_iter().map(Row::Postgres).collect())
            }
        }
    }

    /// Executes a statement. Returns the first row.
    pub(in crate::store) async fn row(&mut self, query: Query<'_>) -> Result<Option<Row>, StoreError> {
        match &mut self.driver {
            Driver::Sqlite(connection) => {
                let row = sqlite_query(&query).fetch_optional(&mut **connection).await.map_err(failed)?;
                Ok(row.map(Row::Sqlite))
            }
            #[cfg(feature = "postgres")]
            Driver::Postgres(_) => Ok(self.rows(query).await?.into_iter().next()),
        }
    }
}

fn sqlite_query<'q>(query: &Query<'_>) -> sqlx::query::Query<'q, Sqlite, SqliteArguments> {
    query.values.iter().fold(sqlx::query(query.sql.sqlite), |bound, value| match *value {
        Bound::Int(value) => bound.bind(value),
        Bound::Float(value) => bound.bind(value),
        Bound::Text(value) => bound.bind(value),
        Bound::Bytes(value) => bound.bind(value),
    })
}

/// Reads a column of either row.
macro_rules! column {
    ($row:expr, $name:expr, $type:ty) => {
        match $row {
            Row::Sqlite(row) => row.try_get::<$type, _>($name),
            #[cfg(feature = "postgres")]
            Row::Postgres(row) => row.try_get::<$type, _>($name),
        }
        .map_err(|error| damaged(&error))
    };
}

/// Anything may have changed the database, so the types of its values are not trusted.
impl Row {
    pub(in crate::store) fn int(&self, name: &str) -> Result<i64, StoreError> {
        column!(self, name, i64)
    }

    pub(in crate::store) fn optional_int(&self, name: &str) -> Result<Option<i64>, StoreError> {
        column!(self, name, Option<i64>)
    }

    pub(in crate::store) fn float(&self, name: &str) -> Result<f64, StoreError> {
        column!(self, name, f64)
    }

    pub(in crate::store) fn text(&self, name: &str) -> Result<&str, StoreError> {
        column!(self, name, &str)
    }

    pub(in crate::store) fn optional_text(&self, name: &str) -> Result<Option<&str>, StoreError> {
        column!(self, name, Option<&str>)
    }

    pub(in crate::store) fn bytes(&self, name: &str) -> Result<&[u8], StoreError> {
        column!(self, name, &[u8])
    }

    pub(in crate::store) fn optional_bytes(&self, name: &str) -> Result<Option<&[u8]>, StoreError> {
        column!(self, name, Option<&[u8]>)
    }

    /// Reads the result of a condition.
    pub(in crate::store) fn condition(&self, name: &str) -> Result<bool, StoreError> {
        column!(self, name, bool)
    }
}

/// Returns the error for a row that cannot be read.
pub(in crate::store) fn damaged(error: &dyn std::fmt::Display) -> StoreError {
    StoreError::Failed(format!("a row is damaged: {error}"))
}

#[expect(clippy::needless_pass_by_value, reason = "for `map_err`")]
pub(in crate::store) fn failed(error: sqlx::Error) -> StoreError {
    StoreError::Failed(reason(&error))
}

/// Returns the text of an error without the prefix of the driver.
pub(in crate::store) fn reason(error: &sqlx::Error) -> String {
    match error {
        sqlx::Error::Database(error) => error.message().to_owned(),
        sqlx::Error::Io(error) => error.to_string(),
        error => error.to_string(),
    }
}

#[cfg(feature = "postgres")]
mod postgres {
    //! What differs with PostgreSQL: an answer has a deadline, and a failure may pass.

    use std::time::Duration;

    use sqlx::postgres::{PgArguments, Postgres};
    use tokio::time::timeout;

    use super::super::blob::Blob;
    use super::{Bound, Connection, Driver, Fault, Query, StoreError, reason};

    /// How long an answer is awaited. The server ends its statements before that.
    const ANSWER_TIMEOUT: Duration = Duration::from_secs(65);

    /// A failed statement.
    pub(in crate::store) struct Failure {
        fault: Option<Fault>,
        reason: String,
    }

    impl Failure {
        pub(in crate::store) fn record(self, fault: &mut Option<Fault>) -> StoreError {
            *fault = self.fault;
            StoreError::Failed(self.reason)
        }
    }

    impl Fault {
        /// Returns whether an error may pass.
        pub(in crate::store) fn of(error: &sqlx::Error) -> Option<Self> {
            match error {
                sqlx::Error::Io(_) | sqlx::Error::Protocol(_) | sqlx::Error::PoolTimedOut => Some(Self::Lost),
                sqlx::Error::Database(error) => Self::of_code(error.code()?.as_ref()),
                _ => None,
            }
        }

        fn of_code(code: &str) -> Option<Self> {
            match code {
                // A serialization failure, a deadlock, a lock that was not available, a statement that took too long.
                "40001" | "40P01" | "55P03" | "57014" => Some(Self::Conflict),
                // The server shuts down, starts, recovers, has too many connections, ended an idle one, or is a standby.
                "57P01" | "57P02" | "57P03" | "57P05" | "53300" | "25P03" | "25006" => Some(Self::Lost),
                code if code.starts_with("08") => Some(Self::Lost),
                _ => None,
            }
        }
    }

    impl<'c> Connection<'c> {
        pub(in crate::store) fn postgres(connection: &'c mut sqlx::PgConnection) -> Self {
            Self { driver: Driver::Postgres(connection), fault: None }
        }

        /// Stores blobs that are not there yet, in one statement. In the order of their hashes: two transactions with the
        /// same blobs must not wait for each other.
        pub(in crate::store) async fn store_blobs(&mut self, mut blobs: Vec<&Blob>) -> Result<(), StoreError> {
            const STORE: &str = "INSERT INTO blob (hash, size, bytes) SELECT * FROM unnest($1::TEXT[], $2::BIGINT[], \
                 $3::BYTEA[]) ON CONFLICT (hash) DO NOTHING";
            let Driver::Postgres(connection) = &mut self.driver else { return Ok(()) };
            blobs.sort_by(|a, b| a.hash.cmp(&b.hash));
            blobs.dedup_by(|a, b| a.hash == b.hash);
            let store = sqlx::query(STORE)
                .bind(blobs.iter().map(|blob| blob.hash.as_str()).collect::<Vec<_>>())
                .bind(blobs.iter().map(|blob| blob.size).collect::<Vec<_>>())
                .bind(blobs.iter().map(|blob| blob.compressed.as_slice()).collect::<Vec<_>>());
            let stored = answer(store.execute(&mut **connection)).await;
            stored.map_err(|error| error.record(&mut self.fault)).map(drop)
        }
    }

    /// Waits for an answer.
    pub(in crate::store) async fn answer<T>(
        answer: impl Future<Output = Result<T, sqlx::Error>>,
    ) -> Result<T, Failure> {
        match timeout(ANSWER_TIMEOUT, answer).await {
            Ok(Ok(answer)) => Ok(answer),
            Ok(Err(error)) => Err(Failure { fault: Fault::of(&error), reason: reason(&error) }),
            Err(_) => Err(Failure { fault: Some(Fault::Lost), reason: "it does not answer".to_owned() }),
        }
    }

    pub(super) fn query<'q>(query: &Query<'_>) -> sqlx::query::Query<'q, Postgres, PgArguments> {
        query.values.iter().fold(sqlx::query(query.sql.postgres), |bound, value| match *value {
            Bound::Int(value) => bound.bind(value),
            Bound::Float(value) => bound.bind(value),
            // PostgreSQL has no texts with a NUL. The columns that can have one repeat what is in a blob.
            Bound::Text(Some(value)) if value.contains('\0') => bound.bind(value.replace('\0', "\u{fffd}")),
            Bound::Text(value) => bound.bind(value),
            Bound::Bytes(value) => bound.bind(value),
        })
    }
}
