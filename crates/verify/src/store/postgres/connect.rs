//! Connections to the server, and the settings of their sessions.

use std::str::FromStr as _;
use std::time::Duration;

use sqlx::postgres::PgConnectOptions;
use sqlx::{ConnectOptions as _, Connection as _, PgConnection, Row as _};
use tokio::time::timeout;

use crate::store::StoreError;
use crate::store::location::PostgresUrl;
use crate::store::sql::connection::{Fault, reason};
use crate::store::sql::retries::Retries;
use crate::store::sql::transaction::Trouble;

use super::migrate::migrate;

/// How long a new connection may take.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
/// The schema of the tables, unless the URL names another one.
const DEFAULT_SCHEMA: &str = "wharf";
/// The oldest server that can tell what became of a transaction, as `server_version_num`.
const MIN_SERVER_VERSION: i64 = 130_000;

/// A database, and how to connect to it.
pub(super) struct Server {
    pub(super) options: PgConnectOptions,
    pub(super) schema: String,
    pub(super) retry_time: Duration,
    /// Host and database, without a password.
    location: String,
}

/// Connects, finds the schema, and brings its tables up to date.
pub(super) async fn open(url: &PostgresUrl, retry_time: Duration) -> Result<(Server, PgConnection), StoreError> {
    let invalid = |error: sqlx::Error| StoreError::Open { location: url.to_string(), reason: reason(&error) };
    let mut options = PgConnectOptions::from_str(url.with_password()).map_err(invalid)?.disable_statement_logging();
    if options.get_application_name().is_none() {
        options = options.application_name("wharf");
    }
    let location = location(&options);
    let mut server = Server { options, schema: DEFAULT_SCHEMA.to_owned(), retry_time, location };
    let refused = |reason: String| StoreError::Open { location: server.location.clone(), reason };
    let mut connection = first_connection(&server).await.map_err(refused)?;
    if let Some(schema) = given_schema(&mut connection).await.map_err(refused)? {
        server.schema = schema;
    }
    let refused = |reason: String| StoreError::Open { location: server.location.clone(), reason };
    server.set_up(&mut connection).await.map_err(|error| refused(reason(&error)))?;
    migrate(&mut connection, &server.schema).await.map_err(refused)?;
    Ok((server, connection))
}

/// Returns where the server is, from the URL and the environment.
fn location(options: &PgConnectOptions) -> String {
    let host = match options.get_socket() {
        Some(folder) => folder.display().to_string(),
        None => options.get_host().to_owned(),
    };
    let user = options.get_username();
    // The server's default is the database with the name of the user.
    format!("postgres://{user}@{host}:{}/{}", options.get_port(), options.get_database().unwrap_or(user))
}

/// Connects for the first time. A server that starts is awaited; one that is not there is an error at once.
async fn first_connection(server: &Server) -> Result<PgConnection, String> {
    let mut retries = Retries::within(server.retry_time);
    loop {
        let is_starting = match timeout(CONNECT_TIMEOUT, PgConnection::connect_with(&server.options)).await {
            Ok(Ok(connection)) => return Ok(connection),
            Ok(Err(sqlx::Error::Database(error))) if error.code().as_deref() == Some("57P03") => error.to_string(),
            Ok(Err(error)) => return Err(reason(&error)),
            Err(_) => return Err(no_answer()),
        };
        if !retries.wait().await {
            return Err(is_starting);
        }
    }
}

/// Returns the schema that the client asked for. Fails if the server is too old.
async fn given_schema(connection: &mut PgConnection) -> Result<Option<String>, String> {
    const SETTINGS: &str = "SELECT current_setting('server_version') AS name, \
         current_setting('server_version_num')::BIGINT AS number, setting, source \
         FROM pg_settings WHERE name = 'search_path'";
    let row = sqlx::query(SETTINGS).fetch_one(connection).await.map_err(|error| reason(&error))?;
    if row.get::<i64, _>("number") < MIN_SERVER_VERSION {
        return Err(format!("PostgreSQL 13 or newer is required, and the server is {}", row.get::<&str, _>("name")));
    }
    if row.get::<&str, _>("source") != "client" {
        return Ok(None);
    }
    let path: &str = row.get("setting");
    let first = path.split(',').next().unwrap_or_default().trim();
    let unquoted = first.strip_prefix('"').and_then(|quoted| quoted.strip_suffix('"'));
    let schema = unquoted.map_or_else(|| first.to_owned(), |quoted| quoted.replace("\"\"", "\""));
    if schema.is_empty() || schema == "$user" {
        return Err(format!("the search_path `{path}` does not name a schema"));
    }
    Ok(Some(schema))
}

impl Server {
    /// Connects again.
    pub(super) async fn connect(&self) -> Result<PgConnection, Trouble> {
        let connect = async {
            let mut connection = PgConnection::connect_with(&self.options).await?;
            self.set_up(&mut connection).await?;
            Ok(connection)
        };
        match timeout(CONNECT_TIMEOUT, connect).await {
            Ok(Ok(connection)) => Ok(connection),
            Ok(Err(error)) => {
                Err(Trouble { fault: Fault::of(&error), error: self.describe(StoreError::Failed(reason(&error))) })
            }
            Err(_) => Err(Trouble { error: StoreError::Failed(no_answer()), fault: Some(Fault::Lost) }),
        }
    }

    /// Sets up a session: its schema, its deadlines, and that a commit is on disk when it is confirmed.
    pub(super) async fn set_up(&self, connection: &mut PgConnection) -> Result<(), sqlx::Error> {
        // The server ends statements, and transactions of workers that were stopped, so that they block no other worker.
        const SET_UP: &str = "SELECT set_config('search_path', quote_ident($1), false), \
             set_config('statement_timeout', '60s', false), \
             set_config('idle_in_transaction_session_timeout', '60s', false), \
             set_config('tcp_keepalives_idle', '30', false), \
             set_config('tcp_keepalives_interval', '10', false), \
             set_config('tcp_keepalives_count', '3', false), \
             set_config('synchronous_commit', CASE current_setting('synchronous_commit') WHEN 'off' THEN 'on' \
             ELSE current_setting('synchronous_commit') END, false)";
        sqlx::query(SET_UP).bind(&self.schema).execute(connection).await?;
        Ok(())
    }

    /// Returns an error with the name of the database.
    pub(super) fn describe(&self, error: StoreError) -> StoreError {
        match error {
            StoreError::Failed(reason) if !reason.contains(&self.location) => {
                StoreError::Failed(format!("{}: {reason}", self.location))
            }
            error => error,
        }
    }
}

fn no_answer() -> String {
    "the server does not answer".to_owned()
}
