//! Workers: they claim trials of a run, execute them, and release them.

use std::sync::Arc;

use wharf_protocol::BoxFuture;

use crate::ids::UnitId;
use crate::journal::{Journal, JournalError};
use crate::plan::Trial;

/// Executes trials. The pipeline implements it.
pub trait TrialRunner: Send + Sync {
    /// Runs a trial and records a result for each open unit. Every paid or writing step goes through the journal. An error
    /// of the journal ends the trial: what is on record stays, and the trial is continued later.
    ///
    /// The future may be dropped at any await.
    fn run<'a>(
        &'a self,
        trial: &'a Trial,
        open_units: &'a [UnitId],
        journal: Arc<dyn Journal>,
    ) -> BoxFuture<'a, Result<(), JournalError>>;
}
