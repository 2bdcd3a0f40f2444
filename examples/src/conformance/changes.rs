//! Changes that never happen, and those who listen for them.

use tokio::sync::broadcast;
use wharf::server::rmcp::service::SubscriptionContext;

/// How many changes a listener may be behind.
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
    /// Makes the change that a tool stands for, if it stands for one.
    pub(super) fn make(&self, tool: &str) -> bool {
        let change = match tool {
            "test_trigger_tool_change" => Change::Tools,
            "test_trigger_prompt_change" => Change::Prompts,
            _ => return false,
        };
        // It does not matter whether somebody listens.
        let _ = self.all.send(change);
        true
    }

    /// Tells a listener of all changes it has asked for, until it no longer listens.
    pub(super) async fn tell(&self, listener: &SubscriptionContext) {
        let mut changes = self.all.subscribe();
        loop {
            let change = tokio::select! {
                () = listener.cancelled() => return,
                change = changes.recv() => change,
            };
            let told = match change {
                Ok(Change::Tools) => listener.sink().notify_tool_list_changed().await,
                Ok(Change::Prompts) => listener.sink().notify_prompt_list_changed().await,
                Err(broadcast::error::RecvError::Lagged(_)) => continue,
                Err(broadcast::error::RecvError::Closed) => return,
            };
            // What it has not asked for is not sent, and that is no mistake.
            drop(told);
        }
    }
}
