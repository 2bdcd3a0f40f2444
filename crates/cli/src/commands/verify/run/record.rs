//! The file of `--record`: an existing one is replaced only by a recording of the same run.

use std::path::Path;

use wharf::verify::RunId;
use wharf::verify::recording::Recording;

use crate::error::{UsageError, usage_error};

/// Checks before anything is paid for that a recording may be written to a file.
pub(super) async fn check_target(file: &Path, resumed: Option<&RunId>) -> Result<(), UsageError> {
    if file.symlink_metadata().is_err() {
        return Ok(());
    }
    let recorded = Recording::open(file).await.ok().and_then(|recording| recording.header().run.clone());
    if recorded.is_some() && recorded.as_ref() == resumed {
        return Ok(());
    }
    let message = match recorded {
        Some(run) => format!("--record {}: the file exists and is a recording of run `{run}`", file.display()),
        None => format!("--record {}: the file exists", file.display()),
    };
    Err(usage_error(message, Some("delete it, or choose another file")))
}
