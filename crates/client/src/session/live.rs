//! A connection whose handshake has completed.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use serde_json::json;
use tokio::sync::Semaphore;
use tokio::task::JoinSet;
use tokio::time::Instant;
use wharf_protocol::Json;

use super::handshake::ServerInfo;
use super::sender::{Request, RequestSender};
use super::server_cache::ServerCache;
use crate::CallErrorKind;
use crate::transport::session_loss;
use crate::wire::{Limits, Wire};

/// A connection whose handshake has completed.
pub(super) struct Live {
    pub(super) epoch: u64,
    pub(super) wire: Wire,
    pub(super) sender: RequestSender,
    pub(super) info: Arc<ServerInfo>,
    /// Whether a legacy server accepts tool calls as tasks.
    pub(super) has_task_calls: bool,
    pub(super) cache: Arc<ServerCache>,
    pub(super) connected_at: Instant,
    /// The server no longer knows this session. New calls need another one.
    pub(super) lost: AtomicBool,
    /// An answer was due on the server's separate answer stream and did not arrive. The stream may be dead.
    pub(super) doubtful: AtomicBool,
    /// Serializes the pings that find out.
    pub(super) probing: Semaphore,
    /// Tasks that run for as long as the connection lives.
    pub(super) background: Mutex<JoinSet<()>>,
}

impl Live {
    pub(super) fn is_up(&self) -> bool {
        self.wire.ending().is_none() && !self.lost.load(Ordering::Acquire)
    }

    /// Marks the session as lost: new calls use another one.
    pub(super) fn lose(&self) {
        if !self.lost.swap(true, Ordering::AcqRel) {
            self.background().abort_all();
            self.wire.retire();
        }
    }

    pub(super) fn background(&self) -> MutexGuard<'_, JoinSet<()>> {
        self.background.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) async fn close(&self) {
        // First, because some servers wait for a client that still listens.
        let mut background = std::mem::take(&mut *self.background());
        background.shutdown().await;
        self.wire.close().await;
    }

    /// Checks that the server answers, with the method that its era has for that.
    pub(super) async fn ping(&self, limits: Limits) -> Result<Json, CallErrorKind> {
        let method = if self.sender.is_modern() { "server/discover" } else { "ping" };
        let answer = self.sender.send(&mut Request::new(method, &json!({}), limits), None).await;
        answer.map_err(|kind| match kind {
            CallErrorKind::Server { code, message, .. }
                if self.wire.supports_rehandshake() && session_loss(code, &message) =>
            {
                CallErrorKind::SessionLost { code, message }
            }
            other => other,
        })
    }
}
