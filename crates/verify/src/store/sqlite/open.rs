//! Opening a store: the file, its settings, and the migration of its tables.

use std::fs::OpenOptions;
use std::io;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use sqlx::sqlite::{SqliteConnectOptions, SqliteJournalMode, SqlitePool, SqlitePoolOptions, SqliteSynchronous};
use sqlx::{AssertSqlSafe, Connection as _, SqliteConnection};
use wharf_io::create_private_folder;

use crate::failpoint::{self, Failpoint};
use crate::store::sql::connection::reason;
use crate::store::{StoreError, newer_format};

/// Marks a database as a store of Wharf: "Whrf".
const APPLICATION_ID: i64 = 0x5768_7266;
/// The migrations, in order. The version of a database is the number of those that it has.
const MIGRATIONS: [&str; 6] = [
    include_str!("../migrations/sqlite/0001.sql"),
    include_str!("../migrations/sqlite/0002.sql"),
    include_str!("../migrations/sqlite/0003.sql"),
    include_str!("../migrations/sqlite/0004.sql"),
    include_str!("../migrations/sqlite/0005.sql"),
    include_str!("../migrations/sqlite/0006.sql"),
];
/// How long a connection waits for other processes.
const BUSY_TIMEOUT: Duration = Duration::from_secs(30);
/// Connections for reading.
const MAX_READERS: u32 = 2;
/// Page cache of the connection that writes, in KiB. The rows of a run are written and read once, so more does not help.
const WRITER_CACHE_KIB: u32 = 1024;
/// Page cache of a connection that reads, in KiB.
const READER_CACHE_KIB: u32 = 256;

/// Limits of a store, for tests of a full disk.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SqliteOptions {
    /// The maximum size of the database, in pages of 4096 bytes. Writes beyond it fail as on a full disk.
    pub max_pages: Option<u32>,
}

/// The connections of a store.
pub(super) struct Connections {
    pub(super) writer: SqliteConnection,
    pub(super) readers: SqlitePool,
}

/// Opens a database, or creates it, and brings its tables up to date.
pub(super) async fn open(path: &Path, options: SqliteOptions) -> Result<Connections, StoreError> {
    let fail = |reason: String| StoreError::Open { location: path.display().to_string(), reason };
    let file = path.to_owned();
    let created = tokio::task::spawn_blocking(move || create_private(&file)).await;
    created.map_err(|error| fail(error.to_string()))?.map_err(|error| fail(error.to_string()))?;
    let mut writer = connect(path, options).await.map_err(|error| fail(reason(&error)))?;
    migrate(&mut writer).await.map_err(fail)?;
    let readers = SqlitePoolOptions::new()
        .max_connections(MAX_READERS)
        .acquire_timeout(BUSY_TIMEOUT)
        .idle_timeout(None)
        .max_lifetime(None)
        .connect_lazy_with(settings(path, READER_CACHE_KIB).read_only(true));
    Ok(Connections { writer, readers })
}

/// Creates the file for its owner alone. SQLite gives its other files the permissions of the first one.
fn create_private(path: &Path) -> io::Result<()> {
    if let Some(folder) = path.parent().filter(|folder| !folder.as_os_str().is_empty()) {
        create_private_folder(folder)?;
    }
    match OpenOptions::new().write(true).create_new(true).mode(0o600).open(path) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
            if path.is_file() {
                Ok(())
            } else {
                Err(io::Error::other("not a regular file"))
            }
        }
        created => created.map(drop),
    }
}

fn settings(path: &Path, cache_kib: u32) -> SqliteConnectOptions {
    SqliteConnectOptions::new()
        .filename(PathBuf::from(path))
        .busy_timeout(BUSY_TIMEOUT)
        .foreign_keys(true)
        .synchronous(SqliteSynchronous::Full)
        // A negative number is a size in KiB.
        .pragma("cache_size", format!("-{cache_kib}"))
}

/// Opens the connection for writing. Only this one changes the journal mode.
async fn connect(path: &Path, options: SqliteOptions) -> Result<SqliteConnection, sqlx::Error> {
    let settings = settings(path, WRITER_CACHE_KIB).journal_mode(SqliteJournalMode::Wal);
    let deadline = tokio::time::Instant::now() + BUSY_TIMEOUT;
    let mut connection = loop {
        match SqliteConnection::connect_with(&settings).await {
            // The change of the journal mode does not wait for other processes by itself.
            Err(error) if is_busy(&error) && tokio::time::Instant::now() < deadline => {
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
            connected => break connected?,
        }
    };
    if let Some(pages) = options.max_pages {
        let pragma = format!("PRAGMA max_page_count = {pages}");
        sqlx::raw_sql(AssertSqlSafe(pragma)).execute(&mut connection).await?;
    }
    Ok(connection)
}

fn is_busy(error: &sqlx::Error) -> bool {
    // SQLITE_BUSY is 5; the extended codes have it in their low byte.
    let code = error.as_database_error().and_then(sqlx::error::DatabaseError::code);
    code.and_then(|code| code.parse::<u32>().ok()).is_some_and(|code| code & 0xff == 5)
}

/// Brings the tables up to date, in one transaction. Of several processes, the first one does it.
async fn migrate(connection: &mut SqliteConnection) -> Result<(), String> {
    let text = |error: sqlx::Error| reason(&error);
    // In one transaction: another process may bring the tables up to date between two of its queries.
    sqlx::query("BEGIN").execute(&mut *connection).await.map_err(text)?;
    let current = is_current(connection).await;
    sqlx::query("COMMIT").execute(&mut *connection).await.map_err(text)?;
    if current? {
        return Ok(());
    }
    sqlx::query("BEGIN IMMEDIATE").execute(&mut *connection).await.map_err(text)?;
    let migrated = apply_migrations(connection).await;
    let end = if migrated.is_ok() { "COMMIT" } else { "ROLLBACK" };
    let ended = sqlx::query(end).execute(&mut *connection).await.map_err(text);
    migrated.and(ended.map(drop))
}

async fn apply_migrations(connection: &mut SqliteConnection) -> Result<(), String> {
    let text = |error: sqlx::Error| reason(&error);
    if is_current(connection).await? {
        return Ok(());
    }
    let version = usize::try_from(pragma(connection, "PRAGMA user_version").await?).unwrap_or_default();
    for migration in MIGRATIONS.iter().skip(version) {
        // One statement at a time: a test ends the process between two of them.
        for statement in migration.split_inclusive(";\n") {
            sqlx::raw_sql(statement).execute(&mut *connection).await.map_err(text)?;
            failpoint::hit(Failpoint::DuringMigration);
        }
    }
    let version = format!("PRAGMA application_id = {APPLICATION_ID}; PRAGMA user_version = {}", MIGRATIONS.len());
    sqlx::raw_sql(AssertSqlSafe(version)).execute(&mut *connection).await.map_err(text)?;
    Ok(())
}

/// Returns whether the tables are up to date. Databases of other programs and of newer versions are errors.
async fn is_current(connection: &mut SqliteConnection) -> Result<bool, String> {
    let version = pragma(connection, "PRAGMA user_version").await?;
    let application = pragma(connection, "PRAGMA application_id").await?;
    let tables = pragma(connection, "SELECT COUNT(*) FROM sqlite_schema").await?;
    if application != APPLICATION_ID && (version != 0 || application != 0 || tables != 0) {
        return Err("it is a database of another program".to_owned());
    }
    let supported = i64::try_from(MIGRATIONS.len()).unwrap_or(i64::MAX);
    if version > supported {
        return Err(newer_format(version, supported));
    }
    Ok(version == supported)
}

async fn pragma(connection: &mut SqliteConnection, sql: &'static str) -> Result<i64, String> {
    sqlx::query_scalar(sql).fetch_one(connection).await.map_err(|error| reason(&error))
}
