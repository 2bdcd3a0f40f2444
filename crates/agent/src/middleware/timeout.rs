//! Gives every attempt its own time.

use std::time::Duration;

use wharf_protocol::BoxFuture;

use super::{ModelLayer, NextModel};
use crate::{ModelError, ModelErrorKind, ModelRequest, ModelResponse};

/// The time of one attempt, from the question to the end of the answer.
#[derive(Clone, Copy, Debug)]
pub struct AttemptTimeout(pub Duration);

impl ModelLayer for AttemptTimeout {
    fn handle<'a>(
        &'a self,
        ask: ModelRequest<'a>,
        next: NextModel<'a>,
    ) -> BoxFuture<'a, Result<ModelResponse, ModelError>> {
        Box::pin(async move {
            let late = || format!("the model did not answer within {} s", self.0.as_secs_f64());
            match tokio::time::timeout(self.0, next.ask(ask)).await {
                Ok(result) => result,
                Err(_) => Err(ModelError::new(ModelErrorKind::Timeout, late())),
            }
        })
    }
}
