//! The tables of the store, and their versions.

use std::time::Duration;

use sqlx::{Connection as _, PgConnection};
use tokio::time::timeout;

use crate::failpoint::{self, Failpoint};
use crate::store::newer_format;
use crate::store::sql::connection::reason;

/// The migrations, in order. The version of a schema is the number of those that it has.
const MIGRATIONS: [&str; 3] = [
    include_str!("../migrations/postgres/0001.sql"),
    include_str!("../migrations/postgres/0002.sql"),
    include_str!("../migrations/postgres/0003.sql"),
];
/// How long the migrations may take, and those of another process before them.
const MIGRATION_TIMEOUT: Duration = Duration::from_secs(600);

/// Brings the tables up to date, in one transaction. Of several processes, the first one does it.
///
/// A user who may not create tables can use those that are up to date.
pub(super) async fn migrate(connection: &mut PgConnection, schema: &str) -> Result<(), String> {
    if is_current(connection).await? {
        return Ok(());
    }
    match timeout(MIGRATION_TIMEOUT, apply(connection, schema)).await {
        Ok(migrated) => migrated,
        Err(_) => Err("its tables are not up to date after ten minutes".to_owned()),
    }
}

async fn apply(connection: &mut PgConnection, schema: &str) -> Result<(), String> {
    // `IF NOT EXISTS` does not protect processes that do the same at once.
    const LOCK: &str = "SELECT pg_advisory_xact_lock(hashtextextended('wharf ' || $1, 0))";
    const HAS_SCHEMA: &str = "SELECT EXISTS (SELECT 1 FROM pg_namespace WHERE nspname = $1)";
    let text = |error: sqlx::Error| reason(&error);
    let mut transaction = connection.begin().await.map_err(text)?;
    sqlx::query("SET LOCAL statement_timeout = 0").execute(&mut *transaction).await.map_err(text)?;
    sqlx::query(LOCK).bind(schema).execute(&mut *transaction).await.map_err(text)?;
    if is_current(&mut transaction).await? {
        return Ok(());
    }
    // Who may not create a schema may still use one.
    if !sqlx::query_scalar(HAS_SCHEMA).bind(schema).fetch_one(&mut *transaction).await.map_err(text)? {
        let create = format!("CREATE SCHEMA \"{}\"", schema.replace('"', "\"\""));
        sqlx::raw_sql(sqlx::AssertSqlSafe(create)).execute(&mut *transaction).await.map_err(text)?;
    }
    let version = version(&mut transaction).await?;
    if version.is_none() && has_our_names(&mut transaction).await? {
        return Err(format!("the schema `{schema}` has tables of another program"));
    }
    for migration in MIGRATIONS.iter().skip(usize::try_from(version.unwrap_or_default()).unwrap_or_default()) {
        // One statement at a time: a test ends the process between two of them.
        for statement in migration.split_inclusive(";\n") {
            sqlx::raw_sql(statement).execute(&mut *transaction).await.map_err(text)?;
            failpoint::hit(Failpoint::DuringMigration);
        }
    }
    sqlx::query("DELETE FROM store_format").execute(&mut *transaction).await.map_err(text)?;
    let insert = sqlx::query("INSERT INTO store_format (version) VALUES ($1)").bind(supported());
    insert.execute(&mut *transaction).await.map_err(text)?;
    transaction.commit().await.map_err(text)
}

/// Returns whether the tables are up to date. Those of newer versions are an error.
async fn is_current(connection: &mut PgConnection) -> Result<bool, String> {
    match version(connection).await? {
        Some(version) if version > supported() => Err(newer_format(version, supported())),
        version => Ok(version == Some(supported())),
    }
}

/// Returns the version of the tables. Nothing if there are none.
async fn version(connection: &mut PgConnection) -> Result<Option<i64>, String> {
    let text = |error: sqlx::Error| reason(&error);
    let exists = sqlx::query_scalar("SELECT to_regclass('store_format') IS NOT NULL");
    if !exists.fetch_one(&mut *connection).await.map_err(text)? {
        return Ok(None);
    }
    sqlx::query_scalar("SELECT MAX(version) FROM store_format").fetch_one(connection).await.map_err(text)
}

async fn has_our_names(connection: &mut PgConnection) -> Result<bool, String> {
    const NAMES: &str = "SELECT EXISTS (SELECT 1 FROM pg_class JOIN pg_namespace ON pg_namespace.oid = relnamespace \
         WHERE nspname = current_schema() AND relname IN ('run', 'run_settings', 'run_counter', 'trial', 'unit', 'step', 'blob', 'result', 'worker', 'worker_lack', 'provider_rate'))";
    sqlx::query_scalar(NAMES).fetch_one(connection).await.map_err(|error| reason(&error))
}

fn supported() -> i64 {
    i64::try_from(MIGRATIONS.len()).unwrap_or(i64::MAX)
}
