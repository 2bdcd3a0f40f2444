//! The heartbeat: renews the leases of a worker from a thread of its own.
//!
//! It shares neither the executor nor the connections of the run: a run whose executor is blocked keeps its leases, and a
//! process that is stopped loses them.

use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use tokio::sync::{oneshot, watch};
use tokio::time::timeout;

use crate::ids::{RunId, TrialId};
use crate::store::{Claim, Lease, RunState, RunStore, StoreError, WorkerRecord};

/// How long the end of the thread is awaited.
const STOP_TIMEOUT: Duration = Duration::from_secs(15);

/// Whose leases are renewed, and how often.
#[derive(Clone, Debug)]
pub(super) struct HeartbeatSettings {
    pub(super) run: RunId,
    pub(super) worker: String,
    pub(super) lease: Duration,
    pub(super) interval: Duration,
    /// What is registered with each heartbeat.
    pub(super) record: Option<WorkerRecord>,
}

/// The leases that a worker held at some moment.
#[derive(Debug, Default)]
pub(super) struct Renewal {
    /// The number of the last claim before the renewal. It says nothing about later claims.
    claims: u64,
    held: HashSet<(TrialId, i64)>,
    /// The state of the run, if it is known.
    pub(super) state: Option<RunState>,
}

/// The running thread. Dropping it ends the thread soon.
pub(super) struct Heartbeat {
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
    claims: Arc<AtomicU64>,
    renewals: watch::Receiver<Arc<Renewal>>,
}

impl Renewal {
    /// Returns whether a lease is lost that was claimed with this number.
    pub(super) fn has_lost(&self, lease: &Lease, claim: u64) -> bool {
        self.claims >= claim && !self.held.contains(&(lease.trial.clone(), lease.fence))
    }
}

impl Heartbeat {
    /// Starts the thread.
    pub(super) fn start(store: Arc<dyn RunStore>, settings: HeartbeatSettings) -> Result<Self, StoreError> {
        let fail = |error: std::io::Error| StoreError::Failed(format!("cannot renew leases: {error}"));
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(fail)?;
        let (stop, stopped) = oneshot::channel();
        let (publish, renewals) = watch::channel(Arc::default());
        let claims = Arc::new(AtomicU64::new(0));
        let seen = Arc::clone(&claims);
        let beat = move || runtime.block_on(renew_until(stopped, store, settings, (seen, publish)));
        let thread = std::thread::Builder::new().name("wharf-heartbeat".to_owned()).spawn(beat).map_err(fail)?;
        Ok(Self { stop: Some(stop), thread: Some(thread), claims, renewals })
    }

    /// Counts a claim. Returns its number.
    pub(super) fn count_claim(&self) -> u64 {
        self.claims.fetch_add(1, Ordering::SeqCst) + 1
    }

    /// Waits for the next renewal. Never returns if the thread has ended.
    pub(super) async fn renewed(&mut self) -> Arc<Renewal> {
        if self.renewals.changed().await.is_err() {
            std::future::pending::<()>().await;
        }
        Arc::clone(&self.renewals.borrow_and_update())
    }

    /// Ends the thread, and waits for it.
    pub(super) async fn stop(mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            let _ = timeout(STOP_TIMEOUT, tokio::task::spawn_blocking(move || thread.join())).await;
        }
    }
}

/// Renews until the worker stops it. A store that fails is tried again: the leases decide what is lost.
async fn renew_until(
    mut stopped: oneshot::Receiver<()>,
    store: Arc<dyn RunStore>,
    settings: HeartbeatSettings,
    (claims, publish): (Arc<AtomicU64>, watch::Sender<Arc<Renewal>>),
) {
    let HeartbeatSettings { run, worker, lease, interval, record } = settings;
    let claim = Claim { run: &run, worker: &worker, limit: 0, lease };
    let mut own: Option<Arc<dyn RunStore>> = None;
    loop {
        // Before the first pause: the first renewal must not wait for the connection.
        if own.is_none() {
            own = store.reopen().await.inspect_err(|error| tracing::warn!(%error, "cannot renew leases")).ok();
        }
        tokio::select! {
            biased;
            _ = &mut stopped => break,
            () = tokio::time::sleep(interval) => {}
        }
        let Some(own) = &own else { continue };
        if let Some(record) = &record {
            register(&**own, record, lease).await;
        }
        let seen = claims.load(Ordering::SeqCst);
        match timeout(lease, own.renew(&claim)).await {
            Ok(Ok(leases)) => {
                let held = leases.into_iter().map(|lease| (lease.trial, lease.fence)).collect();
                let state = timeout(lease, own.state(&run)).await.ok().and_then(Result::ok);
                publish.send_replace(Arc::new(Renewal { claims: seen, held, state }));
            }
            Ok(Err(error)) => tracing::warn!(%error, "cannot renew leases"),
            Err(_) => tracing::warn!("cannot renew leases: the store does not respond"),
        }
    }
    if let Some(own) = own {
        let _ = timeout(STOP_TIMEOUT, own.close()).await;
    }
}

/// Shows that the worker is alive. Nothing depends on it but what people see.
async fn register(store: &dyn RunStore, record: &WorkerRecord, deadline: Duration) {
    if let Ok(Err(error)) = timeout(deadline, store.register(record)).await {
        tracing::warn!(%error, "cannot register the worker");
    }
}
