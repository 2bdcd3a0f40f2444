//! Any request and any notification, for hosts that know more of the protocol than the session offers by name.

use std::sync::Arc;

use futures_util::FutureExt as _;
use serde::Serialize;
use wharf_protocol::Json;

use super::manner::{Object, Request, shared};
use super::rounds::{Budget, Round};
use super::{CallOptions, Live, Session};
use crate::wire::Asked;
use crate::{CallError, CallErrorKind, SchemaViolation};

impl Session {
    /// Asks whether the server is there.
    pub async fn ping(&self) -> Result<(), CallError> {
        let limits = self.inner.limits(&CallOptions::default());
        let work = |live: Arc<Live>| {
            async move {
                let answer = live.ping(limits).await;
                answer.map(drop).map_err(|kind| self.inner.call_error(&live, kind))
            }
            .boxed()
        };
        self.in_session(work).await
    }

    /// Sends any request and waits for its result.
    pub async fn request(&self, method: &'static str, params: &(impl Serialize + Sync)) -> Result<Json, CallError> {
        let limits = self.inner.limits(&CallOptions::default());
        let work = |live: Arc<Live>| {
            async move {
                let result = if live.speaker.is_modern() {
                    self.request_by_itself(&live, method, params).await
                } else {
                    live.wire.request(Asked::new(method, limits), |_| params).await
                };
                result.map_err(|kind| self.inner.call_error(&live, kind))
            }
            .boxed()
        };
        self.in_session(work).await
    }

    /// Sends any request where each says all that the server needs to know.
    async fn request_by_itself(
        &self,
        live: &Live,
        method: &'static str,
        params: &(impl Serialize + Sync),
    ) -> Result<Json, CallErrorKind> {
        let unusable = |reason| {
            let fault = SchemaViolation { path: String::new(), message: format!("the parameters {reason}") };
            CallErrorKind::Arguments { tool: method.to_owned(), fault }
        };
        let params = Json::of(params).map_err(|error| unusable(format!("cannot be written: {error}")))?;
        let mut params = Object::read(&params).map_err(unusable)?;
        let (meta, round) = (params.split_meta(), Round::taken_from(&mut params));
        let about = ["name", "uri", "taskId"].into_iter().find_map(|key| params.get(key)?.decode::<String>().ok());
        let named = matches!(method, "tools/call" | "prompts/get" | "resources/read") || method.starts_with("tasks/");
        let limits = self.inner.limits(&CallOptions::default());
        let mut request = Request::new(method, &params, limits);
        request.about = about.as_deref().filter(|_| named);
        request.meta = meta.as_ref();
        if let ("tools/call", Some(tool), Some(arguments)) = (method, request.about, params.get("arguments")) {
            request.headers = shared(live.headers_for(tool, arguments));
        }
        self.complete_from(live, &mut request, &Budget::new(live, limits), Some(Box::new(round))).await
    }

    /// Sends any notification; over HTTP, until the server has taken it.
    pub async fn notify(&self, method: &str, params: &Json) -> Result<(), CallError> {
        let work = |live: Arc<Live>| {
            async move {
                let told = live.wire.tell(method, Some(params)).await;
                told.map_err(|kind| self.inner.call_error(&live, kind))
            }
            .boxed()
        };
        self.in_session(work).await
    }
}
