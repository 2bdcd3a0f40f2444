//! The fleet's ear at a session: what concerns the fleet is noted, and everything goes on to the host.

use std::sync::Arc;

use wharf_client::{BoxFuture, ClientCapabilities, Elicitation, ElicitationAnswer, Host, Notification, Refusal, Root};
use wharf_protocol::Json;

use super::member::Bell;

pub(super) struct Clerk {
    pub(super) host: Arc<dyn Host>,
    pub(super) bell: Arc<Bell>,
}

impl Host for Clerk {
    fn abilities(&self) -> ClientCapabilities {
        self.host.abilities()
    }

    fn elicit(&self, request: Elicitation) -> BoxFuture<'_, ElicitationAnswer> {
        self.host.elicit(request)
    }

    fn sample(&self, request: Json) -> BoxFuture<'_, Result<Json, Refusal>> {
        self.host.sample(request)
    }

    fn roots(&self) -> BoxFuture<'_, Vec<Root>> {
        self.host.roots()
    }

    fn notice(&self, notice: Notification) {
        // Among what was dropped may have been that the tools have changed.
        if matches!(notice, Notification::ToolsChanged | Notification::Lagged(_)) {
            self.bell.ring();
        }
        self.host.notice(notice);
    }
}
