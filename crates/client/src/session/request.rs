//! Arbitrary requests and notifications, for hosts that need more of the protocol than the session has methods for.

use std::sync::Arc;

use futures_util::FutureExt as _;
use serde::Serialize;
use wharf_protocol::Json;

use super::budget::Budget;
use super::object::Object;
use super::round::Round;
use super::sender::{Request, shared_headers};
use super::{CallOptions, Live, Session};
use crate::wire::WireRequest;
use crate::{CallError, CallErrorKind, SchemaViolation};

impl Session {
    /// Checks that the server answers.
    pub async fn ping(&self) -> Result<(), CallError> {
        let limits = self.inner.limits(&CallOptions::default());
        let work = |live: Arc<Live>| {
            async move {
                let answer = live.ping(limits).await;
                answer.map(drop).map_err(|kind| self.inner.call_error(&live, kind))
            }
            .boxed()
        };
        self.with_session(work).await
    }

    /// Sends a request and returns its result as sent by the server.
    pub async fn request(&self, method: &'static str, params: &(impl Serialize + Sync)) -> Result<Json, CallError> {
        let limits = self.inner.limits(&CallOptions::default());
        let work = |live: Arc<Live>| {
            async move {
                let result = if live.sender.is_modern() {
                    self.modern_request(&live, method, params).await
                } else {
                    live.wire.request(WireRequest::new(method, limits), |_| params).await
                };
                result.map_err(|kind| self.inner.call_error(&live, kind))
            }
            .boxed()
        };
        self.with_session(work).await
    }

    /// Sends a self-contained request of the modern era.
    async fn modern_request(
        &self,
        live: &Live,
        method: &'static str,
        params: &(impl Serialize + Sync),
    ) -> Result<Json, CallErrorKind> {
        let invalid = |reason| {
            let fault = SchemaViolation::of_whole(format!("the parameters {reason}"));
            CallErrorKind::Arguments { tool: method.to_owned(), fault }
        };
        let params = Json::of(params).map_err(|error| invalid(format!("cannot be serialized: {error}")))?;
        let mut params = Object::read(&params).map_err(invalid)?;
        let meta = params.split_meta();
        let round = Round::take_from(&mut params);
        let name = ["name", "uri", "taskId"].into_iter().find_map(|key| params.get(key)?.decode::<String>().ok());
        let has_name_header =
            matches!(method, "tools/call" | "prompts/get" | "resources/read") || method.starts_with("tasks/");
        let limits = self.inner.limits(&CallOptions::default());
        let mut request = Request::new(method, &params, limits);
        request.about = if has_name_header { name.as_deref() } else { None };
        request.meta = meta.as_ref();
        if let ("tools/call", Some(tool), Some(arguments)) = (method, request.about, params.get("arguments")) {
            request.headers = shared_headers(live.headers_for(tool, arguments));
        }
        self.complete_from(live, &mut request, &Budget::new(live, limits), Some(Box::new(round))).await
    }

    /// Sends a notification. Over HTTP, returns when the server has accepted it.
    pub async fn notify(&self, method: &str, params: &Json) -> Result<(), CallError> {
        let work = |live: Arc<Live>| {
            async move {
                let sent = live.wire.notify(method, Some(params)).await;
                sent.map_err(|kind| self.inner.call_error(&live, kind))
            }
            .boxed()
        };
        self.with_session(work).await
    }
}
