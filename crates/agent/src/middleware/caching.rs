//! Asks for caching of what stays the same, where the model has such a thing.

use std::sync::atomic::{AtomicBool, Ordering};

use wharf_protocol::BoxFuture;

use super::{ModelLayer, NextModel, OnUnsupported, PromptCaching};
use crate::{AgentEvent, ModelError, ModelErrorKind, ModelOptions, ModelRequest, ModelResponse};

/// Asks for caching.
#[derive(Debug)]
pub struct Caching {
    settings: PromptCaching,
    warned: AtomicBool,
}

impl Caching {
    /// Asks for it as set.
    pub fn new(settings: PromptCaching) -> Self {
        Self { settings, warned: AtomicBool::new(false) }
    }
}

impl ModelLayer for Caching {
    fn handle<'a>(
        &'a self,
        ask: ModelRequest<'a>,
        next: NextModel<'a>,
    ) -> BoxFuture<'a, Result<ModelResponse, ModelError>> {
        if !self.settings.enabled || ask.messages.len() < self.settings.min_messages_to_cache {
            return next.ask(ask);
        }
        let model = next.model();
        if model.capabilities().prompt_caching {
            return Box::pin(async move {
                let options = ModelOptions { cache: Some(self.settings.ttl), ..ask.options.clone() };
                next.ask(ModelRequest { options: &options, ..ask }).await
            });
        }
        let words = format!("{}:{} caches nothing that is asked for", model.interface(), model.name());
        match self.settings.unsupported_model_behavior {
            OnUnsupported::Raise => {
                return Box::pin(std::future::ready(Err(ModelError::new(ModelErrorKind::Invalid, words))));
            }
            OnUnsupported::Warn if !self.warned.swap(true, Ordering::Relaxed) => {
                next.tell(AgentEvent::Warning { words })
            }
            OnUnsupported::Warn | OnUnsupported::Ignore => {}
        }
        next.ask(ask)
    }
}
