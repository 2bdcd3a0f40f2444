//! Opening the store of runs.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use wharf::verify::store::{StoreLocation, open_store};
use wharf::verify::{RunId, RunStore, StoreError};

use crate::config::{Paths, no_home};
use crate::env::variable;
use crate::error::{UsageError, usage_error};

/// The values of `PGSSLMODE`.
const SSL_MODES: [&str; 6] = ["disable", "allow", "prefer", "require", "verify-ca", "verify-full"];

/// Returns where the store is: the given place, that of the environment, or the user's file.
pub(crate) fn location(given: Option<&Path>, paths: &Paths) -> Result<StoreLocation, UsageError> {
    let named = given.map(Path::to_owned).or_else(|| variable(&["WHARF_VERIFY_STORE"]).map(PathBuf::from));
    match named {
        Some(named) => parse("--store", &named),
        None => paths.verify_store.clone().map(StoreLocation::File).ok_or_else(no_home),
    }
}

/// Reads the value of an option.
pub(crate) fn parse(option: &str, text: &Path) -> Result<StoreLocation, UsageError> {
    // The text itself may have a password.
    StoreLocation::parse(text).map_err(|error| {
        usage_error(format!("{option}: {error}"), Some("write a path or postgres://USER@HOST/DATABASE"))
    })
}

/// Returns a word of the command line. If it is the URL of a store, its password is removed.
pub(crate) fn without_password(word: String) -> String {
    let (option, value) = match word.split_once('=') {
        Some((option, value)) if option.starts_with("--store") => (format!("{option}="), value),
        _ => (String::new(), word.as_str()),
    };
    match StoreLocation::parse(Path::new(value)) {
        Ok(location @ StoreLocation::Postgres(_)) => format!("{option}{location}"),
        _ => word,
    }
}

/// Returns the file, unless the store is in a database.
pub(crate) fn file(location: &StoreLocation) -> Option<&Path> {
    match location {
        StoreLocation::File(file) => Some(file),
        StoreLocation::Postgres(_) => None,
    }
}

/// Returns whether there is something to read. Whether a database has tables shows when it is opened.
pub(crate) fn exists(location: &StoreLocation) -> bool {
    file(location).is_none_or(Path::exists)
}

/// Opens a store, or creates it.
pub(crate) async fn open(location: &StoreLocation) -> Result<Arc<dyn RunStore>, UsageError> {
    check_environment(location)?;
    open_store(location).await.map_err(|error| match (&error, location) {
        (StoreError::Open { .. }, StoreLocation::Postgres(_)) => {
            usage_error(error.to_string(), Some("check the URL and the PG* variables; try them with `psql URL`"))
        }
        _ => failed(&error),
    })
}

/// Refuses a misspelled `PGSSLMODE`, which would otherwise be ignored.
fn check_environment(location: &StoreLocation) -> Result<(), UsageError> {
    let Some(mode) = variable(&["PGSSLMODE"]).filter(|_| file(location).is_none()) else { return Ok(()) };
    if SSL_MODES.contains(&mode.as_str()) {
        return Ok(());
    }
    Err(usage_error(format!("invalid PGSSLMODE \"{mode}\": expected {}", SSL_MODES.join(", ")), None))
}

/// Returns the error for a store that failed.
pub(crate) fn failed(error: &StoreError) -> UsageError {
    let hint = match error {
        StoreError::Open { .. } => Some("choose another file with --store FILE"),
        StoreError::UnknownRun(_) => Some("list the runs with `wharf verify status`"),
        StoreError::RunExists(_) | StoreError::LeaseLost | StoreError::Failed(_) => None,
    };
    usage_error(error.to_string(), hint)
}

/// Returns the run with this id.
pub(crate) fn run_id(text: &str) -> RunId {
    RunId(text.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_to_resume_has_no_password() {
        for (word, expected) in [
            ("--store=postgres://me:hush@db/runs", "--store=postgres://me@db/runs"),
            ("postgresql://me:hush@db/runs", "postgresql://me@db/runs"),
            ("--store=runs.db", "--store=runs.db"),
            ("--models=a=b", "--models=a=b"),
            ("https://example.com", "https://example.com"),
        ] {
            assert_eq!(without_password(word.to_owned()), expected);
        }
    }
}
