//! Sends requests on one connection, in the form that its protocol era needs.
//!
//! In a legacy session the server already knows the client. In the modern era every request carries the client's
//! version, name and capabilities in its `_meta`.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use http::HeaderMap;
use serde::Serialize;
use wharf_protocol::Json;

use super::client_info::ClientInfo;
use super::object::Object;
use super::param_headers;
use super::preferences::Preferences;
use super::round::Round;
use crate::wire::{Limits, OnProgress, WireHandle, WireRequest};
use crate::{CallErrorKind, LogLevel, TraceContext};

/// The protocol era that a connection uses.
#[derive(Clone, Debug)]
pub(super) enum NegotiatedProtocol {
    /// A session that began with a handshake.
    Legacy,
    /// Self-contained requests.
    Modern(Arc<ClientInfo>),
}

/// Sends requests on one connection without keeping it alive.
#[derive(Clone)]
pub(super) struct RequestSender {
    pub(super) handle: WireHandle,
    pub(super) protocol: NegotiatedProtocol,
    pub(super) preferences: Arc<Preferences>,
}

/// One request of either era.
pub(super) struct Request<'a, P> {
    pub(super) method: &'static str,
    /// Must serialize as an object.
    pub(super) params: &'a P,
    /// The tool, prompt, resource or task it names, for methods that repeat the name in a header.
    pub(super) about: Option<&'a str>,
    pub(super) limits: Limits,
    /// Extra headers for this request.
    pub(super) headers: Option<Arc<HeaderMap>>,
    pub(super) progress: ProgressMode<'a>,
    pub(super) trace: Option<&'a TraceContext>,
    /// Additional `_meta` fields.
    pub(super) meta: Option<&'a Object>,
    /// Receives the id of each attempt to send the request.
    pub(super) id: Option<&'a AtomicU64>,
    /// Whether the server has started to work on it: it answered with a task or a request for input.
    pub(super) begun: bool,
    /// Whether the request asks for a task (2025-11-25).
    pub(super) expects_task: bool,
}

/// Whether a request asks for progress, and what happens with it.
pub(super) enum ProgressMode<'a> {
    Off,
    /// Progress only extends the idle deadline.
    KeepAlive,
    Report(OnProgress<'a>),
}

impl<'a, P> Request<'a, P> {
    pub(super) fn new(method: &'static str, params: &'a P, limits: Limits) -> Self {
        Self {
            method,
            params,
            about: None,
            limits,
            headers: None,
            progress: ProgressMode::Off,
            trace: None,
            meta: None,
            id: None,
            begun: false,
            expects_task: false,
        }
    }

    pub(super) fn about(mut self, name: &'a str) -> Self {
        self.about = Some(name);
        self
    }
}

#[derive(Serialize)]
struct Params<'a, P> {
    #[serde(flatten)]
    own: &'a P,
    #[serde(flatten)]
    round: Option<&'a Round>,
    #[serde(rename = "_meta", skip_serializing_if = "Meta::is_empty")]
    meta: Meta<'a>,
}

#[derive(Default, Serialize)]
struct Meta<'a> {
    #[serde(rename = "progressToken", skip_serializing_if = "Option::is_none")]
    progress_token: Option<u64>,
    #[serde(rename = "io.modelcontextprotocol/protocolVersion", skip_serializing_if = "Option::is_none")]
    revision: Option<&'static str>,
    #[serde(rename = "io.modelcontextprotocol/clientInfo", skip_serializing_if = "Option::is_none")]
    client: Option<&'a Json>,
    #[serde(rename = "io.modelcontextprotocol/clientCapabilities", skip_serializing_if = "Option::is_none")]
    capabilities: Option<&'a Json>,
    #[serde(rename = "io.modelcontextprotocol/logLevel", skip_serializing_if = "Option::is_none")]
    log_level: Option<LogLevel>,
    #[serde(flatten)]
    trace: Option<&'a TraceContext>,
    #[serde(flatten)]
    own: Option<&'a Object>,
}

impl Meta<'_> {
    fn is_empty(&self) -> bool {
        self.progress_token.is_none() && self.revision.is_none() && self.trace.is_none() && self.own.is_none()
    }
}

impl RequestSender {
    pub(super) fn is_modern(&self) -> bool {
        matches!(self.protocol, NegotiatedProtocol::Modern(_))
    }

    /// Sends a request and waits for its answer. The same request can be sent again, in another round or on another
    /// connection.
    ///
    /// The parameters are assembled before the future is created, so that the future stays small.
    pub(super) fn send<'a, P: Serialize>(
        &'a self,
        request: &'a mut Request<'_, P>,
        round: Option<&'a Round>,
    ) -> impl Future<Output = Result<Json, CallErrorKind>> {
        let tracked = !matches!(request.progress, ProgressMode::Off);
        let on_progress = match &mut request.progress {
            ProgressMode::Report(listener) => Some(&mut **listener as OnProgress<'_>),
            ProgressMode::Off | ProgressMode::KeepAlive => None,
        };
        let mut headers = request.headers.clone();
        if self.is_modern()
            && self.handle.supports_headers()
            && let Some(about) = request.about
        {
            Arc::make_mut(headers.get_or_insert_default()).insert(param_headers::NAME, param_headers::encode(about));
        }
        let wire_request = WireRequest { method: request.method, limits: request.limits, headers, on_progress };
        let own = request.params;
        let trace = request.trace;
        let own_meta = request.meta;
        let id_slot = request.id;
        let params = move |id| {
            if let Some(id_slot) = id_slot {
                id_slot.store(id, Ordering::Release);
            }
            Params { own, round, meta: self.meta(tracked.then_some(id), trace, own_meta) }
        };
        self.handle.request(wire_request, params)
    }

    fn meta<'a>(
        &'a self,
        progress_token: Option<u64>,
        trace: Option<&'a TraceContext>,
        own: Option<&'a Object>,
    ) -> Meta<'a> {
        match &self.protocol {
            NegotiatedProtocol::Legacy => Meta { progress_token, trace, own, ..Meta::default() },
            NegotiatedProtocol::Modern(client_info) => Meta {
                progress_token,
                revision: Some(client_info.revision),
                client: Some(&client_info.client),
                capabilities: Some(&client_info.capabilities),
                log_level: self.preferences.log_level(),
                trace,
                own,
            },
        }
    }
}

/// Wraps headers for [`Request::headers`]; most requests have none.
pub(super) fn shared_headers(headers: HeaderMap) -> Option<Arc<HeaderMap>> {
    (!headers.is_empty()).then(|| Arc::new(headers))
}
