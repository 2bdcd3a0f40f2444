//! The store in one SQLite file: the default, for one machine and any number of processes.
//!
//! The file is in WAL mode with full synchronization: what is committed survives `kill -9` and a power failure. One task
//! writes ([`writer`]); a second connection reads.

mod blob;
mod leases;
mod open;
mod reads;
mod runs;
mod steps;
mod transaction;
mod units;
mod writer;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde_json::Value;
use sqlx::Row as _;
use sqlx::sqlite::{SqlitePool, SqliteRow};
use wharf_protocol::BoxFuture;

use crate::ids::{RunId, TrialId};
use crate::outcome::UnitResult;
use crate::plan::{Trial, Trials};
use crate::step::{RecordedStep, Recovery, StepRequest, StepResult, StepStart};
use crate::store::{
    Claim, ClaimedTrial, Commit, Lease, NewRun, PlacedResult, Progress, Rerun, RunState, RunStore, RunSummary,
    StoreError,
};

use writer::Writer;

pub use open::SqliteOptions;

/// The current time in SQL. Within one statement it does not change.
macro_rules! now {
    () => {
        "CAST(unixepoch('subsec') * 1000 AS INTEGER)"
    };
}
use now;

/// A store in one SQLite file.
pub struct SqliteStore {
    path: PathBuf,
    options: SqliteOptions,
    writer: Writer,
    readers: SqlitePool,
}

impl SqliteStore {
    /// Opens a store, or creates it. Its connections belong to the current runtime.
    pub async fn open(path: &Path) -> Result<Self, StoreError> {
        Self::open_with(path, SqliteOptions::default()).await
    }

    /// Opens a store with limits.
    pub async fn open_with(path: &Path, options: SqliteOptions) -> Result<Self, StoreError> {
        let open::Connections { writer, readers } = open::open(path, options).await?;
        Ok(Self { path: path.to_owned(), options, writer: Writer::start(writer), readers })
    }

    /// Returns the path of the file.
    pub fn path(&self) -> &Path {
        &self.path
    }
}

impl RunStore for SqliteStore {
    fn create_run<'a>(&'a self, run: &'a NewRun) -> BoxFuture<'a, Result<(), StoreError>> {
        Box::pin(self.writer.commit(runs::CreateRun(run.clone())))
    }

    fn runs(&self) -> BoxFuture<'_, Result<Vec<RunSummary>, StoreError>> {
        Box::pin(reads::runs(&self.readers))
    }

    fn run<'a>(&'a self, run: &'a RunId) -> BoxFuture<'a, Result<(RunSummary, Value), StoreError>> {
        Box::pin(reads::run(&self.readers, run))
    }

    fn set_plan<'a>(&'a self, run: &'a RunId, trials: Arc<dyn Trials>) -> BoxFuture<'a, Result<(), StoreError>> {
        Box::pin(self.writer.commit(runs::SetPlan { run: run.clone(), trials }))
    }

    fn set_state<'a>(&'a self, run: &'a RunId, state: RunState) -> BoxFuture<'a, Result<(), StoreError>> {
        Box::pin(self.writer.commit(runs::SetState { run: run.clone(), state }))
    }

    fn rerun<'a>(&'a self, run: &'a RunId, which: &'a Rerun) -> BoxFuture<'a, Result<u64, StoreError>> {
        Box::pin(self.writer.commit(runs::RerunUnits { run: run.clone(), which: which.clone() }))
    }

    fn claim<'a>(&'a self, claim: &'a Claim<'a>) -> BoxFuture<'a, Result<Vec<ClaimedTrial>, StoreError>> {
        Box::pin(self.writer.commit(leases::ClaimTrials(claim.into())))
    }

    fn renew<'a>(&'a self, claim: &'a Claim<'a>) -> BoxFuture<'a, Result<Vec<Lease>, StoreError>> {
        Box::pin(self.writer.commit(leases::RenewLeases(claim.into())))
    }

    fn release<'a>(&'a self, lease: &'a Lease) -> BoxFuture<'a, Result<(), StoreError>> {
        Box::pin(self.writer.commit(leases::ReleaseLease(lease.clone())))
    }

    fn begin_step<'a>(
        &'a self,
        lease: &'a Lease,
        step: &'a StepRequest,
        recovery: Recovery,
    ) -> BoxFuture<'a, Result<StepStart, StoreError>> {
        Box::pin(self.writer.commit(steps::BeginStep { lease: lease.clone(), step: step.clone(), recovery }))
    }

    fn finish_step<'a>(
        &'a self,
        lease: &'a Lease,
        step: i64,
        result: StepResult,
    ) -> BoxFuture<'a, Result<Commit, StoreError>> {
        Box::pin(async move { self.writer.queue(steps::FinishStep::new(lease, step, result).await?).await })
    }

    fn finish_unit<'a>(
        &'a self,
        lease: &'a Lease,
        result: &'a UnitResult,
    ) -> BoxFuture<'a, Result<Commit, StoreError>> {
        Box::pin(async move { self.writer.queue(units::FinishUnit::new(lease, result).await?).await })
    }

    fn progress<'a>(&'a self, run: &'a RunId) -> BoxFuture<'a, Result<Progress, StoreError>> {
        Box::pin(reads::progress(&self.readers, run))
    }

    fn results<'a>(
        &'a self,
        run: &'a RunId,
        after: Option<u64>,
        limit: u32,
    ) -> BoxFuture<'a, Result<Vec<PlacedResult>, StoreError>> {
        Box::pin(reads::results(&self.readers, run, after, limit))
    }

    fn trials<'a>(&'a self, run: &'a RunId, skip: u64, limit: u32) -> BoxFuture<'a, Result<Vec<Trial>, StoreError>> {
        Box::pin(reads::trials(&self.readers, run, skip, limit))
    }

    fn steps<'a>(&'a self, run: &'a RunId, trial: &'a TrialId) -> BoxFuture<'a, Result<Vec<RecordedStep>, StoreError>> {
        Box::pin(reads::steps(&self.readers, run, trial))
    }

    fn reopen(&self) -> BoxFuture<'_, Result<Arc<dyn RunStore>, StoreError>> {
        Box::pin(async { Ok(Arc::new(Self::open_with(&self.path, self.options).await?) as Arc<dyn RunStore>) })
    }

    fn close(&self) -> BoxFuture<'_, Result<(), StoreError>> {
        Box::pin(async {
            self.readers.close().await;
            self.writer.close().await;
            Ok(())
        })
    }
}

#[expect(clippy::needless_pass_by_value, reason = "for `map_err`")]
fn failed(error: sqlx::Error) -> StoreError {
    StoreError::Failed(open::reason(&error))
}

/// Returns a column as a shared text.
fn id(row: &SqliteRow, column: &str) -> Arc<str> {
    row.get::<&str, _>(column).into()
}
