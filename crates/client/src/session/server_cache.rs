//! What one connection caches about its server: tools, cacheable results, and the state of its notifications.

use std::sync::Arc;

use super::cache::{CachePartition, ResultCache};
use super::subscription::Subscription;
use super::tools::KnownTools;
use crate::Notification;

/// Everything cached about a server. Notifications of the server invalidate it.
#[derive(Debug)]
pub(super) struct ServerCache {
    pub(super) tools: KnownTools,
    pub(super) partition: CachePartition,
    pub(super) subscription: Subscription,
}

impl ServerCache {
    pub(super) fn new(cache: Arc<ResultCache>, endpoint: &str) -> Self {
        Self {
            tools: KnownTools::default(),
            partition: CachePartition::new(cache, endpoint),
            subscription: Subscription::default(),
        }
    }

    /// Processes a notification before the host does: invalidates what it concerns, and returns the notifications for
    /// the host. `request` is the id of the `subscriptions/listen` request that it belongs to, if it names one.
    pub(super) fn on_notification(&self, notification: Notification, request: Option<u64>) -> Vec<Notification> {
        let notification = match notification {
            Notification::Other { method, params } if method == "notifications/subscriptions/acknowledged" => {
                // Changes while no stream was open were missed.
                let missed = self.subscription.on_acknowledged(request, params.as_ref());
                for notification in &missed {
                    self.invalidate(notification);
                }
                return missed;
            }
            notification => notification,
        };
        self.invalidate(&notification);
        let is_stale = request.is_some_and(|request| self.subscription.is_stale(request));
        if is_stale { Vec::new() } else { vec![notification] }
    }

    fn invalidate(&self, notification: &Notification) {
        match notification {
            Notification::ToolsChanged => self.forget_tools(),
            Notification::PromptsChanged => self.partition.remove("prompts/list"),
            Notification::ResourcesChanged => {
                self.partition.remove("resources/list");
                self.partition.remove("resources/templates/list");
            }
            // Contents of a sub-resource may have changed too, so all contents are dropped.
            Notification::ResourceUpdated { .. } => self.partition.remove("resources/read"),
            _ => {}
        }
    }

    /// Drops everything on a connection that is not the first: changes since the last one were missed.
    pub(super) fn on_reconnect(&self) {
        self.clear();
        self.subscription.mark_gap();
    }

    pub(super) fn forget_tools(&self) {
        self.tools.forget();
        self.partition.remove("tools/list");
    }

    pub(super) fn clear(&self) {
        self.tools.forget();
        self.partition.clear();
    }
}
