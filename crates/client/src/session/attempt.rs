//! One attempt to connect: negotiate, retry while a remote server starts, and build the live connection.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::sync::Semaphore;
use tokio::task::JoinSet;
use tokio::time::Instant;
use wharf_io::jittered;

use super::connect_context::{Candidate, ConnectContext, Negotiated};
use super::negotiate::Negotiation;
use super::sender::{NegotiatedProtocol, RequestSender};
use super::{Live, ServerInfo};
use crate::ConnectError;

/// The delays between the tries of one attempt.
const RETRY_DELAYS: [Duration; 2] = [Duration::from_millis(500), Duration::from_secs(1)];

/// Connects. A remote server that is unreachable or reports an internal error may still be starting, so it is tried a
/// few times within the connect deadline.
pub(super) async fn connect(context: ConnectContext) -> Result<Live, ConnectError> {
    let limit = context.options.deadlines.connect;
    let started_at = Instant::now();
    let deadline = started_at.checked_add(limit).unwrap_or(started_at + Duration::from_secs(365 * 24 * 60 * 60));
    let mut delays = RETRY_DELAYS.into_iter();
    loop {
        let negotiation = Negotiation { context: &context, deadline };
        let error = match negotiation.run().await {
            Ok(negotiated) => return Ok(live(&context, negotiated)),
            Err(error) => error,
        };
        if !context.transport.is_remote() || !error.kind.is_transient() {
            return Err(error);
        }
        match delays.next().map(jittered) {
            Some(delay) if started_at.elapsed() + delay < limit => tokio::time::sleep(delay).await,
            _ => return Err(error),
        }
    }
}

fn live(context: &ConnectContext, negotiated: Negotiated) -> Live {
    let Negotiated { candidate: Candidate { epoch, wire, cache }, info, protocol } = negotiated;
    // A restarted process may be another version, and notifications of changes were missed meanwhile.
    if context.counters.connections.fetch_add(1, Ordering::Relaxed) > 0 {
        cache.on_reconnect();
    } else if !context.transport.is_remote() {
        cache.clear();
    }
    match &protocol {
        NegotiatedProtocol::Legacy => wire.start_listening(),
        // A legacy handshake may have been sent too, before the server answered.
        NegotiatedProtocol::Modern(client_info) => wire.set_stateless(Some(client_info.revision)),
    }
    let sender = RequestSender { handle: wire.handle(), protocol, preferences: Arc::clone(&context.preferences) };
    let has_task_calls = matches!(sender.protocol, NegotiatedProtocol::Legacy) && info.has_task_calls();
    let live = Live {
        has_task_calls,
        epoch,
        wire,
        sender,
        info: Arc::new(ServerInfo { epoch, ..info }),
        cache,
        connected_at: Instant::now(),
        lost: AtomicBool::new(false),
        doubtful: AtomicBool::new(false),
        probing: Semaphore::new(1),
        background: Mutex::new(JoinSet::new()),
    };
    live.spawn_background_tasks(&context.options);
    live
}
