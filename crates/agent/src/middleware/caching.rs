//! Requests prompt caching from models that support it.

use std::sync::atomic::{AtomicBool, Ordering};

use wharf_protocol::BoxFuture;

use super::{ModelLayer, NextModel, OnUnsupported, PromptCaching};
use crate::{AgentEvent, ModelError, ModelErrorKind, ModelOptions, ModelRequest, ModelResponse};

/// Requests caching of the prompt prefix, according to the settings.
#[derive(Debug)]
pub struct Caching {
    settings: PromptCaching,
    warned: AtomicBool,
}

impl Caching {
    /// Creates the layer.
    pub fn new(settings: PromptCaching) -> Self {
        Self { settings, warned: AtomicBool::new(false) }
    }
}

impl ModelLayer for Caching {
    fn handle<'a>(
        &'a self,
        request: ModelRequest<'a>,
        next: NextModel<'a>,
    ) -> BoxFuture<'a, Result<ModelResponse, ModelError>> {
        if !self.settings.enabled || request.messages.len() < self.settings.min_messages_to_cache {
            return next.complete(request);
        }
        let model = next.model();
        if model.capabilities().prompt_caching {
            return Box::pin(async move {
                let options = ModelOptions { cache: Some(self.settings.ttl), ..request.options.clone() };
                next.complete(ModelRequest { options: &options, ..request }).await
            });
        }
        let is_default = !self.settings.is_explicit && self.settings.unsupported_model_behavior == OnUnsupported::Warn;
        if model.capabilities().automatic_caching && is_default {
            // Nothing is lost.
            return next.complete(request);
        }
        let message = format!("{}:{} does not support prompt caching", model.interface(), model.name());
        match self.settings.unsupported_model_behavior {
            OnUnsupported::Raise => {
                return Box::pin(std::future::ready(Err(ModelError::new(ModelErrorKind::Invalid, message))));
            }
            OnUnsupported::Warn if !self.warned.swap(true, Ordering::Relaxed) => {
                next.emit(AgentEvent::Warning { message });
            }
            OnUnsupported::Warn | OnUnsupported::Ignore => {}
        }
        next.complete(request)
    }
}
