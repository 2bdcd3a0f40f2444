//! Where a store is: a file, or a database of a PostgreSQL server.

use std::fmt;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::sync::Arc;

use wharf_io::percent;

use super::sqlite::SqliteStore;
use super::{RunStore, StoreError};

/// The parameters that a URL can have. Others would be ignored, and a misspelled `sslmode` must not be.
const PARAMETERS: [&str; 13] = [
    "application_name",
    "dbname",
    "host",
    "hostaddr",
    "options",
    "password",
    "port",
    "sslcert",
    "sslkey",
    "sslmode",
    "sslrootcert",
    "user",
    "statement-cache-capacity",
];

/// Where a store is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StoreLocation {
    /// A SQLite file.
    File(PathBuf),
    /// A database of a PostgreSQL server.
    Postgres(PostgresUrl),
}

/// The URL of a database: `postgres://user@host:port/database?parameters`.
///
/// It may have a password, which is in neither of its texts (`Debug`, `Display`).
#[derive(Clone, PartialEq, Eq)]
pub struct PostgresUrl(Arc<str>);

/// A text that is not the location of a store. Its message repeats nothing that could be a part of a password.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum InvalidLocation {
    /// A URL of another kind.
    #[error("unsupported scheme `{0}`: expected a path or `postgres://…`")]
    Scheme(String),
    /// A part of the URL is not escaped.
    #[error(
        "invalid URL: `/`, `?`, `#` and `@` in a user name, a password or a parameter are written as %2F, %3F, %23 and %40"
    )]
    Unescaped,
    /// A parameter is unknown.
    #[error("unsupported parameter `{0}`")]
    Parameter(String),
}

impl StoreLocation {
    /// Reads a path or URL.
    ///
    /// # Errors
    /// If it is an invalid URL.
    pub fn parse(text: &Path) -> Result<Self, InvalidLocation> {
        match text.to_str().and_then(|text| text.split_once("://")) {
            Some(("postgres" | "postgresql", _)) => text.to_string_lossy().parse().map(Self::Postgres),
            Some((scheme, _)) => Err(InvalidLocation::Scheme(scheme.to_owned())),
            None => Ok(Self::File(text.to_owned())),
        }
    }
}

impl fmt::Display for StoreLocation {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::File(path) => path.display().fmt(formatter),
            Self::Postgres(url) => url.fmt(formatter),
        }
    }
}

impl FromStr for PostgresUrl {
    type Err = InvalidLocation;

    fn from_str(text: &str) -> Result<Self, InvalidLocation> {
        let parts = Parts::of(text);
        // An unescaped character of the password ends the part that is never shown. Nothing after it may be a password.
        if text.contains('#') || parts.path.contains('@') || parts.query.contains(['@', '?']) {
            return Err(InvalidLocation::Unescaped);
        }
        for parameter in parts.parameters() {
            let name = parameter_name(parameter);
            let is_setting = name.starts_with("options[") && name.ends_with(']');
            if !is_setting && !PARAMETERS.contains(&name.as_str()) {
                return Err(InvalidLocation::Parameter(name));
            }
        }
        Ok(Self(text.into()))
    }
}

impl PostgresUrl {
    /// Returns the URL with its password.
    #[cfg_attr(not(feature = "postgres"), expect(dead_code, reason = "nothing connects to it"))]
    pub(super) fn with_password(&self) -> &str {
        &self.0
    }
}

/// Shows the URL without passwords.
impl fmt::Display for PostgresUrl {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let parts = Parts::of(&self.0);
        let (user, host) = parts.authority.rsplit_once('@').unwrap_or(("", parts.authority));
        let user = user.split(':').next().unwrap_or_default();
        let at = if user.is_empty() { "" } else { "@" };
        write!(formatter, "{}://{user}{at}{host}{}", parts.scheme, parts.path)?;
        let shown = parts.parameters().filter(|parameter| parameter_name(parameter) != "password");
        for (index, parameter) in shown.enumerate() {
            write!(formatter, "{}{parameter}", if index == 0 { "?" } else { "&" })?;
        }
        Ok(())
    }
}

impl fmt::Debug for PostgresUrl {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "PostgresUrl({self})")
    }
}

/// The parts of a URL, as they are written.
struct Parts<'a> {
    scheme: &'a str,
    authority: &'a str,
    /// With its first `/`.
    path: &'a str,
    query: &'a str,
}

impl<'a> Parts<'a> {
    fn of(text: &'a str) -> Self {
        let (scheme, rest) = text.split_once("://").unwrap_or(("", text));
        let (rest, query) = rest.split_once('?').unwrap_or((rest, ""));
        let (authority, path) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
        Self { scheme, authority, path, query }
    }

    fn parameters(&self) -> impl Iterator<Item = &'a str> {
        self.query.split('&').filter(|parameter| !parameter.is_empty())
    }
}

fn parameter_name(parameter: &str) -> String {
    percent::decode(parameter.split('=').next().unwrap_or_default())
}

/// Opens a store, or creates it. Its connections belong to the current runtime.
///
/// # Errors
/// If the file or the database cannot be opened.
pub async fn open_store(location: &StoreLocation) -> Result<Arc<dyn RunStore>, StoreError> {
    match location {
        StoreLocation::File(path) => Ok(Arc::new(SqliteStore::open(path).await?)),
        #[cfg(feature = "postgres")]
        StoreLocation::Postgres(url) => Ok(Arc::new(super::postgres::PostgresStore::open(url).await?)),
        #[cfg(not(feature = "postgres"))]
        StoreLocation::Postgres(url) => Err(StoreError::Open {
            location: url.to_string(),
            reason: "this build of Wharf does not support PostgreSQL".to_owned(),
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(text: &str) -> String {
        match StoreLocation::parse(Path::new(text)) {
            Ok(location) => {
                format!("{location} {}", if matches!(location, StoreLocation::File(_)) { "file" } else { "url" })
            }
            Err(error) => format!("error: {error}"),
        }
    }

    #[test]
    fn passwords_are_never_shown() {
        let cases = [
            ("runs/my.db", "runs/my.db file"),
            ("postgres://", "postgres:// url"),
            ("postgresql://db/wharf", "postgresql://db/wharf url"),
            (
                "postgres://me:hush@db:5433/wharf?sslmode=verify-full",
                "postgres://me@db:5433/wharf?sslmode=verify-full url",
            ),
            ("postgres://me:hu@sh@db/wharf", "postgres://me@db/wharf url"),
            ("postgres://:hush@db/wharf", "postgres://db/wharf url"),
            ("postgres:///wharf?password=hush&host=/run/pg&p%61ssword=hush", "postgres:///wharf?host=/run/pg url"),
        ];
        for (text, expected) in cases {
            assert_eq!(shown(text), expected);
            assert!(!format!("{:?}", StoreLocation::parse(Path::new(text))).contains("hush"), "{text}");
        }
        let unescaped = shown("postgres://me:hu/sh@db/wharf");
        assert!(unescaped.starts_with("error: invalid URL"), "{unescaped}");
        for text in ["postgres://me:hu?sh@db/wharf", "postgres://me:hu#sh@db/wharf", "postgres://me:h?u?sh@db"] {
            assert_eq!(shown(text), unescaped);
        }
    }

    #[test]
    fn other_schemes_and_parameters_are_errors() {
        assert_eq!(shown("mysql://db/wharf"), "error: unsupported scheme `mysql`: expected a path or `postgres://…`");
        assert_eq!(shown("postgres://db/wharf?sslmod=verify-full"), "error: unsupported parameter `sslmod`");
        assert_eq!(
            shown("postgres://db/wharf?options%5Bsearch_path%5D=mine&options=-cjit%3Doff"),
            "postgres://db/wharf?options%5Bsearch_path%5D=mine&options=-cjit%3Doff url"
        );
    }
}
