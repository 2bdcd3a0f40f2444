//! Files of earlier runs, which a run overwrites only with `--force`.

use std::path::Path;

use wharf::agent::{CheckpointFile, RunEnd};

use super::args::Run;
use crate::error::{UsageError, usage_error};

/// Checks that the files of `--checkpoint` and `--record` can be written without losing anything.
pub(super) async fn check(run: &Run) -> Result<(), UsageError> {
    if run.force {
        return Ok(());
    }
    if let Some(file) = run.checkpoint.as_deref().filter(|file| has_content(file)) {
        let saved = CheckpointFile::read(file).await.ok();
        // Other ends, such as a refusal of the model, cannot be continued.
        let is_unfinished = saved.is_some_and(|saved| match saved.stop() {
            None => true,
            Some(RunEnd::Limit(_)) => saved.final_response().is_none(),
            Some(_) => false,
        });
        let shown = file.display();
        if is_unfinished {
            let hint = format!("continue it: --resume {shown}, or overwrite it with --force");
            return Err(usage_error(format!("{shown} has an unfinished run"), Some(&hint)));
        }
        return Err(exists(file));
    }
    match run.record.as_deref().filter(|file| has_content(file)) {
        Some(file) => Err(exists(file)),
        None => Ok(()),
    }
}

fn exists(file: &Path) -> UsageError {
    usage_error(format!("{} already exists", file.display()), Some("overwrite it with --force"))
}

/// Whether a regular file has content. Whether anything else may be written is checked when it is opened.
fn has_content(file: &Path) -> bool {
    file.symlink_metadata().is_ok_and(|found| found.is_file() && found.len() > 0)
}
