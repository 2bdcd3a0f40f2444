//! Hands notices to the host, one after the other. Word that a list has changed is not passed on a thousand times a second.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{mpsc, oneshot};
use tokio::time::Instant;

use crate::{Host, Notification};

/// The least time between two words of the same change.
const QUIET: Duration = Duration::from_millis(250);

/// The changes that are told, each with when it was last told and whether it is to be told again.
#[derive(Default)]
struct Changes([Change; 3]);

#[derive(Default)]
struct Change {
    told: Option<Instant>,
    due: Option<Instant>,
}

/// Tells the host until there is nothing more to tell, and says so.
pub(super) async fn tell(
    mut notices: mpsc::Receiver<Notification>,
    host: Arc<dyn Host>,
    all_told: oneshot::Sender<()>,
) {
    let mut changes = Changes::default();
    loop {
        let notice = match changes.next_due() {
            None => Ok(notices.recv().await),
            Some(due) => tokio::time::timeout_at(due, notices.recv()).await,
        };
        let Ok(notice) = notice else {
            changes.tell_due(Instant::now(), &*host);
            continue;
        };
        let Some(notice) = notice else { break };
        if changes.admit(&notice) {
            host.notice(notice);
        }
    }
    changes.tell_due(Instant::now() + QUIET, &*host);
    let _ = all_told.send(());
}

impl Changes {
    /// Whether a notice is to be passed on now. If it is not, it will be told of when it is due.
    fn admit(&mut self, notice: &Notification) -> bool {
        let change = match notice {
            Notification::ToolsChanged => &mut self.0[0],
            Notification::PromptsChanged => &mut self.0[1],
            Notification::ResourcesChanged => &mut self.0[2],
            _ => return true,
        };
        let now = Instant::now();
        match change.told {
            Some(told) if now < told + QUIET => {
                change.due = Some(told + QUIET);
                false
            }
            _ => {
                *change = Change { told: Some(now), due: None };
                true
            }
        }
    }

    fn next_due(&self) -> Option<Instant> {
        self.0.iter().filter_map(|change| change.due).min()
    }

    fn tell_due(&mut self, now: Instant, host: &dyn Host) {
        let kinds = [Notification::ToolsChanged, Notification::PromptsChanged, Notification::ResourcesChanged];
        for (change, notice) in self.0.iter_mut().zip(kinds) {
            if change.due.is_some_and(|due| due <= now) {
                *change = Change { told: Some(now), due: None };
                host.notice(notice);
            }
        }
    }
}
