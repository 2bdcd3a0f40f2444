//! Simulated list changes, and their subscribers.

use tokio::sync::broadcast;
use wharf::server::rmcp::service::SubscriptionContext;

/// How many changes a subscriber may lag behind.
const BEHIND: usize = 16;

#[derive(Clone, Copy)]
enum Change {
    Tools,
    Prompts,
}

#[derive(Clone)]
pub(super) struct Changes {
    all: broadcast::Sender<Change>,
}

impl Default for Changes {
    fn default() -> Self {
        Self { all: broadcast::channel(BEHIND).0 }
    }
}

impl Changes {
    /// Simulates the change of a tool, if it has one.
    pub(super) fn make(&self, tool: &str) -> bool {
        let change = match tool {
            "test_trigger_tool_change" => Change::Tools,
            "test_trigger_prompt_change" => Change::Prompts,
            _ => return false,
        };
        // Fails without subscribers, which does not matter.
        let _ = self.all.send(change);
        true
    }

    /// Notifies a subscriber of the changes that it subscribed to, until it cancels.
    pub(super) async fn notify(&self, listener: &SubscriptionContext) {
        let mut changes = self.all.subscribe();
        loop {
            let change = tokio::select! {
                () = listener.cancelled() => return,
                change = changes.recv() => change,
            };
            let sent = match change {
                Ok(Change::Tools) => listener.sink().notify_tool_list_changed().await,
                Ok(Change::Prompts) => listener.sink().notify_prompt_list_changed().await,
                Err(broadcast::error::RecvError::Lagged(_)) => continue,
                Err(broadcast::error::RecvError::Closed) => return,
            };
            // Changes that it did not subscribe to are not sent, which is not an error.
            drop(sent);
        }
    }
}
