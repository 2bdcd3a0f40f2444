//! What the stores in SQL databases have in common: their statements, one writer, and readers.
//!
//! A store has one connection that writes ([`writer`]) and a few that read. What differs between the databases is how they
//! are opened, how a transaction begins and ends ([`link::Link`]), and some statements ([`query::Sql`]).

mod activity;
mod blob;
pub(super) mod connection;
mod leases;
pub(super) mod link;
mod plan;
pub(super) mod query;
mod rates;
mod reads;
mod retention;
pub(super) mod retries;
mod runs;
mod steps;
pub(super) mod transaction;
mod units;
mod workers;
pub(super) mod writer;

use std::sync::Arc;

use serde_json::Value;
use tokio::sync::watch;
use wharf_protocol::BoxFuture;

use crate::ids::{RunId, TrialId};
use crate::outcome::UnitResult;
use crate::plan::{Trial, Trials};
use crate::rate_limit::{RateGrant, RateReport};
use crate::step::{RecordedStep, Recovery, StepRequest, StepResult, StepStart};
use crate::store::{
    Claim, ClaimedTrial, Commit, Lack, Lease, NewRun, PlacedResult, Progress, Rerun, RunActivity, RunState, RunStore,
    RunSummary, StoreError, WorkerRecord, WorkerStatus,
};

use connection::Connection;
use writer::Writer;

/// Something to read. It may be read several times, if the connection is lost.
pub(super) type Read<T> =
    Box<dyn for<'c> Fn(&'c mut Connection<'_>) -> BoxFuture<'c, Result<T, StoreError>> + Send + Sync>;

/// A store in an SQL database.
pub(super) trait SqlStore: Send + Sync {
    /// Returns the connection that writes.
    fn writer(&self) -> &Writer;

    /// Reads with one of the connections that read.
    fn read<T: Send + 'static>(&self, read: Read<T>) -> BoxFuture<'_, Result<T, StoreError>>;

    /// Opens the store again.
    fn reopen(&self) -> BoxFuture<'_, Result<Arc<dyn RunStore>, StoreError>>;

    /// Returns a signal for workers without trials.
    fn offers(&self) -> Option<watch::Receiver<u64>>;

    /// Closes the connections that read.
    fn close_readers(&self) -> BoxFuture<'_, ()>;
}

impl<S: SqlStore> RunStore for S {
    fn create_run<'a>(&'a self, run: &'a NewRun) -> BoxFuture<'a, Result<(), StoreError>> {
        Box::pin(self.writer().commit(runs::CreateRun(run.clone())))
    }

    fn runs(&self) -> BoxFuture<'_, Result<Vec<RunSummary>, StoreError>> {
        self.read(Box::new(|connection| Box::pin(reads::runs(connection))))
    }

    fn run<'a>(&'a self, run: &'a RunId) -> BoxFuture<'a, Result<(RunSummary, Value), StoreError>> {
        let run = run.clone();
        self.read(Box::new(move |connection| {
            let run = run.clone();
            Box::pin(async move { reads::run(connection, &run).await })
        }))
    }

    fn set_plan<'a>(&'a self, run: &'a RunId, trials: Arc<dyn Trials>) -> BoxFuture<'a, Result<(), StoreError>> {
        Box::pin(self.writer().commit(plan::SetPlan { run: run.clone(), trials }))
    }

    fn set_state<'a>(&'a self, run: &'a RunId, state: RunState) -> BoxFuture<'a, Result<(), StoreError>> {
        Box::pin(self.writer().commit(runs::SetState { run: run.clone(), state }))
    }

    fn state<'a>(&'a self, run: &'a RunId) -> BoxFuture<'a, Result<RunState, StoreError>> {
        let run = run.clone();
        self.read(Box::new(move |connection| {
            let run = run.clone();
            Box::pin(async move { activity::state(connection, &run).await })
        }))
    }

    fn set_priority<'a>(&'a self, run: &'a RunId, priority: i64) -> BoxFuture<'a, Result<(), StoreError>> {
        Box::pin(self.writer().commit(runs::SetPriority { run: run.clone(), priority }))
    }

    fn rerun<'a>(&'a self, run: &'a RunId, which: &'a Rerun) -> BoxFuture<'a, Result<u64, StoreError>> {
        Box::pin(self.writer().commit(runs::RerunUnits { run: run.clone(), which: which.clone() }))
    }

    fn claim<'a>(&'a self, claim: &'a Claim<'a>) -> BoxFuture<'a, Result<Vec<ClaimedTrial>, StoreError>> {
        Box::pin(self.writer().commit(leases::ClaimTrials(claim.into())))
    }

    fn renew<'a>(&'a self, claim: &'a Claim<'a>) -> BoxFuture<'a, Result<Vec<Lease>, StoreError>> {
        Box::pin(self.writer().commit(leases::RenewLeases(claim.into())))
    }

    fn release<'a>(&'a self, lease: &'a Lease) -> BoxFuture<'a, Result<(), StoreError>> {
        Box::pin(self.writer().commit(leases::ReleaseLease(lease.clone())))
    }

    fn begin_step<'a>(
        &'a self,
        lease: &'a Lease,
        step: &'a StepRequest,
        recovery: Recovery,
    ) -> BoxFuture<'a, Result<StepStart, StoreError>> {
        Box::pin(self.writer().commit(steps::BeginStep { lease: lease.clone(), step: step.clone(), recovery }))
    }

    fn finish_step<'a>(
        &'a self,
        lease: &'a Lease,
        step: i64,
        result: StepResult,
    ) -> BoxFuture<'a, Result<Commit, StoreError>> {
        Box::pin(async move { self.writer().queue(steps::FinishStep::new(lease, step, result).await?).await })
    }

    fn finish_unit<'a>(
        &'a self,
        lease: &'a Lease,
        result: &'a UnitResult,
    ) -> BoxFuture<'a, Result<Commit, StoreError>> {
        Box::pin(async move { self.writer().queue(units::FinishUnit::new(lease, result).await?).await })
    }

    fn exchange_rate<'a>(&'a self, report: &'a RateReport) -> BoxFuture<'a, Result<RateGrant, StoreError>> {
        Box::pin(self.writer().commit(rates::ExchangeRate(report.clone())))
    }

    fn progress<'a>(&'a self, run: &'a RunId) -> BoxFuture<'a, Result<Progress, StoreError>> {
        let run = run.clone();
        self.read(Box::new(move |connection| {
            let run = run.clone();
            Box::pin(async move { reads::progress(connection, &run).await })
        }))
    }

    fn results<'a>(
        &'a self,
        run: &'a RunId,
        after: Option<u64>,
        limit: u32,
    ) -> BoxFuture<'a, Result<Vec<PlacedResult>, StoreError>> {
        let run = run.clone();
        self.read(Box::new(move |connection| {
            let run = run.clone();
            Box::pin(async move { reads::results(connection, &run, after, limit).await })
        }))
    }

    fn trials<'a>(&'a self, run: &'a RunId, skip: u64, limit: u32) -> BoxFuture<'a, Result<Vec<Trial>, StoreError>> {
        let run = run.clone();
        self.read(Box::new(move |connection| {
            let run = run.clone();
            Box::pin(async move { reads::trials(connection, &run, skip, limit).await })
        }))
    }

    fn steps<'a>(&'a self, run: &'a RunId, trial: &'a TrialId) -> BoxFuture<'a, Result<Vec<RecordedStep>, StoreError>> {
        let (run, trial) = (run.clone(), trial.clone());
        self.read(Box::new(move |connection| {
            let (run, trial) = (run.clone(), trial.clone());
            Box::pin(async move { reads::steps(connection, &run, &trial).await })
        }))
    }

    fn register<'a>(&'a self, worker: &'a WorkerRecord) -> BoxFuture<'a, Result<(), StoreError>> {
        Box::pin(self.writer().commit(workers::Register(worker.clone())))
    }

    fn unregister<'a>(&'a self, worker: &'a str) -> BoxFuture<'a, Result<(), StoreError>> {
        Box::pin(self.writer().commit(workers::Unregister(worker.to_owned())))
    }

    fn set_lacks<'a>(
        &'a self,
        worker: &'a str,
        run: &'a RunId,
        lacks: Vec<Lack>,
    ) -> BoxFuture<'a, Result<(), StoreError>> {
        Box::pin(self.writer().commit(workers::SetLacks { worker: worker.to_owned(), run: run.clone(), lacks }))
    }

    fn workers(&self) -> BoxFuture<'_, Result<Vec<WorkerStatus>, StoreError>> {
        self.read(Box::new(|connection| Box::pin(workers::workers(connection))))
    }

    fn claimable_runs<'a>(&'a self, worker: &'a str) -> BoxFuture<'a, Result<Vec<RunId>, StoreError>> {
        let worker = worker.to_owned();
        self.read(Box::new(move |connection| {
            let worker = worker.clone();
            Box::pin(async move { workers::claimable_runs(connection, &worker).await })
        }))
    }

    fn activity<'a>(&'a self, run: &'a RunId) -> BoxFuture<'a, Result<RunActivity, StoreError>> {
        let run = run.clone();
        self.read(Box::new(move |connection| {
            let run = run.clone();
            Box::pin(async move { activity::activity(connection, &run).await })
        }))
    }

    fn delete_run<'a>(&'a self, run: &'a RunId) -> BoxFuture<'a, Result<(), StoreError>> {
        Box::pin(async move {
            // Nothing is claimed while it is deleted.
            self.writer().commit(runs::SetState { run: run.clone(), state: RunState::Canceled }).await?;
            while self.writer().commit(retention::DeleteBatch(run.clone())).await? {}
            Ok(())
        })
    }

    fn delete_unreferenced(&self) -> BoxFuture<'_, Result<u64, StoreError>> {
        Box::pin(self.writer().commit(retention::DeleteUnreferenced))
    }

    fn offers(&self) -> Option<watch::Receiver<u64>> {
        SqlStore::offers(self)
    }

    fn reopen(&self) -> BoxFuture<'_, Result<Arc<dyn RunStore>, StoreError>> {
        SqlStore::reopen(self)
    }

    fn close(&self) -> BoxFuture<'_, Result<(), StoreError>> {
        Box::pin(async {
            self.close_readers().await;
            self.writer().close().await;
            Ok(())
        })
    }
}
