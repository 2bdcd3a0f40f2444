//! What is believed of a server until it says otherwise: its tools, what it let us keep, and what it will tell us of.

use std::sync::Arc;

use super::cache::{ResultCache, Shelf};
use super::following::Followed;
use super::tools::KnownTools;
use crate::Notification;

#[derive(Debug)]
pub(super) struct Beliefs {
    pub(super) tools: KnownTools,
    pub(super) shelf: Shelf,
    pub(super) followed: Followed,
}

impl Beliefs {
    pub(super) fn new(cache: Arc<ResultCache>, endpoint: &str) -> Self {
        Self { tools: KnownTools::default(), shelf: Shelf::new(cache, endpoint), followed: Followed::default() }
    }

    /// Hears a notice before the host does: what it makes untrue is no longer believed, and what is only meant for us is
    /// not passed on. `request` is what was listened with, where that is said.
    pub(super) fn on_notice(&self, notice: Notification, request: Option<u64>) -> Vec<Notification> {
        let notice = match notice {
            Notification::Other { method, params } if method == "notifications/subscriptions/acknowledged" => {
                // Whatever changed while nobody was listening was missed.
                let missed = self.followed.acknowledged(request, params.as_ref());
                for notice in &missed {
                    self.doubt(notice);
                }
                return missed;
            }
            notice => notice,
        };
        self.doubt(&notice);
        if request.is_some_and(|request| self.followed.is_over(request)) { Vec::new() } else { vec![notice] }
    }

    fn doubt(&self, notice: &Notification) {
        match notice {
            Notification::ToolsChanged => self.forget_tools(),
            Notification::PromptsChanged => self.shelf.forget("prompts/list"),
            Notification::ResourcesChanged => {
                self.shelf.forget("resources/list");
                self.shelf.forget("resources/templates/list");
            }
            // What was read of a part of it may have changed too.
            Notification::ResourceUpdated { .. } => self.shelf.forget("resources/read"),
            _ => {}
        }
    }

    /// This is not the first connection, and nobody was listening before it: whatever was kept may have changed.
    pub(super) fn begin_again(&self) {
        self.forget();
        self.followed.missed_something();
    }

    pub(super) fn forget_tools(&self) {
        self.tools.forget();
        self.shelf.forget("tools/list");
    }

    /// Forgets everything.
    pub(super) fn forget(&self) {
        self.tools.forget();
        self.shelf.clear();
    }
}
