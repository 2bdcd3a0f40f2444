//! Opening the store of runs.

use std::path::{Path, PathBuf};

use wharf::verify::store::SqliteStore;
use wharf::verify::{RunId, StoreError};

use crate::config::{Paths, no_home};
use crate::env::variable;
use crate::error::{UsageError, usage_error};

/// Returns the file of the store: the given one, that of the environment, or the user's.
pub(crate) fn file(given: Option<&Path>, paths: &Paths) -> Result<PathBuf, UsageError> {
    let named = given.map(Path::to_owned).or_else(|| variable(&["WHARF_VERIFY_STORE"]).map(PathBuf::from));
    if let Some(url) = named.as_ref().and_then(|file| file.to_str()).filter(|text| text.contains("://")) {
        return Err(usage_error(format!("--store {url}: a store is a file"), Some("write a path")));
    }
    named.or_else(|| paths.verify_store.clone()).ok_or_else(no_home)
}

/// Opens a store, or creates it.
pub(crate) async fn open(file: &Path) -> Result<SqliteStore, UsageError> {
    SqliteStore::open(file).await.map_err(|error| failed(&error))
}

/// Returns the error for a store that failed.
pub(crate) fn failed(error: &StoreError) -> UsageError {
    let hint = match error {
        StoreError::Open { .. } => Some("choose another file with --store FILE"),
        StoreError::UnknownRun(_) => Some("list the runs with `wharf verify status`"),
        StoreError::LeaseLost | StoreError::Failed(_) => None,
    };
    usage_error(error.to_string(), hint)
}

/// Returns the run with this id.
pub(crate) fn run_id(text: &str) -> RunId {
    RunId(text.into())
}
