//! The journal of a live trial, in a store.

use std::sync::Arc;

use tokio::time::Instant;
use wharf_protocol::BoxFuture;

use crate::budget::{Budget, BudgetExceeded};
use crate::failpoint::{self, Failpoint};
use crate::ids::RunId;
use crate::outcome::UnitResult;
use crate::step::{Recovery, StepRequest, StepResult, StepStart};
use crate::store::{Lease, RunStore};

use super::pending::PendingCommits;
use super::{Journal, JournalError, RequestLimits, RequestPermit};

/// The budget of a run, as one worker checks it.
pub struct BudgetGuard {
    budget: Budget,
    started: Instant,
    store: Arc<dyn RunStore>,
    run: RunId,
}

/// What a step needs before it begins, shared by all trials of a worker.
#[derive(Clone)]
pub struct Guards {
    /// The budget of the run.
    pub budget: Arc<BudgetGuard>,
    /// The limits of the providers.
    pub limits: Arc<RequestLimits>,
}

/// Records the steps and results of one trial under its lease.
///
/// A result is queued, and the next intent is committed with it or after it: a step costs one wait for the disk instead of
/// two. A result that cannot be written is reported by the next call, before anything else is paid for.
pub struct StoreJournal {
    store: Arc<dyn RunStore>,
    lease: Lease,
    recovery: Recovery,
    guards: Guards,
    pending: PendingCommits,
}

impl BudgetGuard {
    /// Starts the clock of the time limit.
    pub fn new(budget: Budget, store: Arc<dyn RunStore>, run: RunId) -> Self {
        Self { budget, started: Instant::now(), store, run }
    }

    /// Checks the limits against what all workers of the run have on record.
    pub async fn check(&self) -> Result<(), JournalError> {
        let spent = if self.budget.needs_usage() {
            self.store.progress(&self.run).await?.usage
        } else {
            wharf_protocol::Usage::default()
        };
        self.budget.check(&spent, self.started.elapsed()).map_err(|exceeded: BudgetExceeded| exceeded.into())
    }
}

impl StoreJournal {
    /// Creates the journal of a claimed trial.
    pub fn new(store: Arc<dyn RunStore>, lease: Lease, recovery: Recovery, guards: Guards) -> Self {
        Self { store, lease, recovery, guards, pending: PendingCommits::default() }
    }
}

impl Journal for StoreJournal {
    fn permit<'a>(&'a self, provider: &'a str) -> BoxFuture<'a, Result<RequestPermit, JournalError>> {
        Box::pin(async move { Ok(self.guards.limits.permit(provider).await?) })
    }

    fn begin_step<'a>(&'a self, step: &'a StepRequest) -> BoxFuture<'a, Result<StepStart, JournalError>> {
        Box::pin(async move {
            if self.guards.budget.budget.needs_usage() {
                // The totals of the store must include the steps of this trial.
                self.pending.settle().await?;
            }
            self.guards.budget.check().await?;
            let begin = self.store.begin_step(&self.lease, step, self.recovery);
            let (settled, started) = futures_util::future::join(self.pending.settle(), begin).await;
            settled?;
            let started = started?;
            if matches!(started, StepStart::Execute(_)) {
                failpoint::hit(Failpoint::AfterIntent);
            }
            Ok(started)
        })
    }

    fn finish_step(&self, step: i64, result: StepResult) -> BoxFuture<'_, Result<(), JournalError>> {
        Box::pin(async move {
            failpoint::hit(Failpoint::BeforeResult);
            let commit = self.store.finish_step(&self.lease, step, result).await?;
            Ok(self.pending.push(commit).await?)
        })
    }

    fn finish_unit<'a>(&'a self, result: &'a UnitResult) -> BoxFuture<'a, Result<(), JournalError>> {
        Box::pin(async move {
            failpoint::hit(Failpoint::BeforeFinalize);
            let commit = self.store.finish_unit(&self.lease, result).await?;
            Ok(self.pending.push(commit).await?)
        })
    }

    fn flush(&self) -> BoxFuture<'_, Result<(), JournalError>> {
        Box::pin(async move { Ok(self.pending.settle().await?) })
    }
}
