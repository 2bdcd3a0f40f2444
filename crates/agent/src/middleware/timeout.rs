//! Limits the duration of each attempt of a model request.

use std::time::Duration;

use wharf_protocol::BoxFuture;

use super::{ModelLayer, NextModel};
use crate::{ModelError, ModelErrorKind, ModelRequest, ModelResponse};

/// The timeout of one attempt, from the request to the end of the response.
#[derive(Clone, Copy, Debug)]
pub struct AttemptTimeout(pub Duration);

impl ModelLayer for AttemptTimeout {
    fn handle<'a>(
        &'a self,
        request: ModelRequest<'a>,
        next: NextModel<'a>,
    ) -> BoxFuture<'a, Result<ModelResponse, ModelError>> {
        Box::pin(async move {
            let message = || format!("no complete response within {} s", self.0.as_secs_f64());
            match tokio::time::timeout(self.0, next.complete(request)).await {
                Ok(result) => result,
                Err(_) => Err(ModelError::new(ModelErrorKind::Timeout, message())),
            }
        })
    }
}
