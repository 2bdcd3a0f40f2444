//! State that a provider shares with its connections.

use std::sync::{Mutex, MutexGuard, PoisonError};

use super::config::ProviderConfig;
use super::grants::Grants;
use crate::seen_request::SeenRequest;

pub(super) struct Shared {
    pub(super) origin: String,
    pub(super) config: Mutex<ProviderConfig>,
    pub(super) grants: Mutex<Grants>,
    pub(super) requests: Mutex<Vec<SeenRequest>>,
}

impl Shared {
    pub(super) fn config(&self) -> ProviderConfig {
        self.config.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub(super) fn grants(&self) -> MutexGuard<'_, Grants> {
        self.grants.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Replaces `{origin}` in `text`.
    pub(super) fn with_origin(&self, text: &str) -> String {
        text.replace("{origin}", &self.origin)
    }
}
