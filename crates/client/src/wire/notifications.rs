//! Delivers notifications to the host, one after the other. Repeated list changes are throttled.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{mpsc, oneshot};
use tokio::time::Instant;

use crate::{Host, Notification};

/// The minimum time between two notifications of the same list change.
const MIN_INTERVAL: Duration = Duration::from_millis(250);

/// Throttles the notifications of each list.
#[derive(Default)]
struct ChangeThrottle([Change; 3]);

#[derive(Default)]
struct Change {
    /// When it was last delivered.
    delivered_at: Option<Instant>,
    /// When it is delivered again, if it occurred since.
    due_at: Option<Instant>,
}

/// Delivers notifications until the queue is closed, then signals `all_delivered`.
pub(super) async fn deliver(
    mut notifications: mpsc::Receiver<Notification>,
    host: Arc<dyn Host>,
    all_delivered: oneshot::Sender<()>,
) {
    let mut throttle = ChangeThrottle::default();
    loop {
        let received = match throttle.next_due() {
            None => Ok(notifications.recv().await),
            Some(due_at) => tokio::time::timeout_at(due_at, notifications.recv()).await,
        };
        let Ok(received) = received else {
            throttle.deliver_due(Instant::now(), &*host);
            continue;
        };
        let Some(notification) = received else { break };
        if throttle.allows(&notification) {
            host.notify(notification);
        }
    }
    throttle.deliver_due(Instant::now() + MIN_INTERVAL, &*host);
    let _ = all_delivered.send(());
}

impl ChangeThrottle {
    /// Returns whether to deliver a notification now. If not, it is delivered when it is due.
    fn allows(&mut self, notification: &Notification) -> bool {
        let change = match notification {
            Notification::ToolsChanged => &mut self.0[0],
            Notification::PromptsChanged => &mut self.0[1],
            Notification::ResourcesChanged => &mut self.0[2],
            _ => return true,
        };
        let now = Instant::now();
        match change.delivered_at {
            Some(delivered_at) if now < delivered_at + MIN_INTERVAL => {
                change.due_at = Some(delivered_at + MIN_INTERVAL);
                false
            }
            _ => {
                *change = Change { delivered_at: Some(now), due_at: None };
                true
            }
        }
    }

    fn next_due(&self) -> Option<Instant> {
        self.0.iter().filter_map(|change| change.due_at).min()
    }

    fn deliver_due(&mut self, now: Instant, host: &dyn Host) {
        let kinds = [Notification::ToolsChanged, Notification::PromptsChanged, Notification::ResourcesChanged];
        for (change, notification) in self.0.iter_mut().zip(kinds) {
            if change.due_at.is_some_and(|due_at| due_at <= now) {
                *change = Change { delivered_at: Some(now), due_at: None };
                host.notify(notification);
            }
        }
    }
}
