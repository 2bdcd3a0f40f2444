//! A session's host that notices changes of the tool list, and passes everything on to the real host.

use std::sync::Arc;

use wharf_client::{BoxFuture, ClientCapabilities, Elicitation, ElicitationAnswer, Host, Notification, Refusal, Root};
use wharf_protocol::Json;

use super::list_invalidation::ListInvalidation;

pub(super) struct NotifyingHost {
    pub(super) host: Arc<dyn Host>,
    pub(super) invalidation: Arc<ListInvalidation>,
}

impl Host for NotifyingHost {
    fn capabilities(&self) -> ClientCapabilities {
        self.host.capabilities()
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

    fn tools_changed(&self) {
        self.invalidation.invalidate();
        self.host.tools_changed();
    }

    fn notify(&self, notice: Notification) {
        self.host.notify(notice);
    }
}
