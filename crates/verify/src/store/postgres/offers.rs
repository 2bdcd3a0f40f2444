//! Notifications for workers without trials: another one has handed trials back, or a plan was set.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use sqlx::postgres::{PgListener, PgPoolOptions};
use tokio::sync::watch;
use tokio::task::JoinSet;

use super::connect::Server;

/// The channel. Its payload is the schema of the store.
const CHANNEL: &str = "wharf_trials";
/// The pause after a failure. Workers poll meanwhile.
const PAUSE: Duration = Duration::from_secs(5);

/// The signal, and the task that listens for it.
pub(super) struct Offers {
    server: Arc<Server>,
    signal: watch::Sender<u64>,
    /// Empty until a worker subscribes: a store without workers needs no connection for this.
    task: Mutex<JoinSet<()>>,
}

impl Offers {
    pub(super) fn new(server: Arc<Server>) -> Self {
        Self { server, signal: watch::Sender::new(0), task: Mutex::default() }
    }

    /// Returns the signal, and listens from now on.
    pub(super) fn subscribe(&self) -> watch::Receiver<u64> {
        let mut task = self.task.lock().unwrap_or_else(PoisonError::into_inner);
        if task.is_empty() {
            task.spawn(listen(Arc::clone(&self.server), self.signal.clone()));
        }
        self.signal.subscribe()
    }

    /// Ends the task.
    pub(super) fn stop(&self) {
        self.task.lock().unwrap_or_else(PoisonError::into_inner).abort_all();
    }
}

async fn listen(server: Arc<Server>, signal: watch::Sender<u64>) {
    let pool = PgPoolOptions::new().max_connections(1).connect_lazy_with(server.options.clone());
    loop {
        let ended = forward(&pool, &server.schema, &signal).await;
        tracing::debug!(error = ended.err().map(|error| error.to_string()), "not listening for trials");
        tokio::time::sleep(PAUSE).await;
    }
}

async fn forward(pool: &sqlx::PgPool, schema: &str, signal: &watch::Sender<u64>) -> Result<(), sqlx::Error> {
    let mut listener = PgListener::connect_with(pool).await?;
    listener.listen(CHANNEL).await?;
    // What was sent before is lost, so the first signal is ours.
    signal.send_modify(|count| *count += 1);
    loop {
        if listener.recv().await?.payload() == schema {
            signal.send_modify(|count| *count += 1);
        }
    }
}
