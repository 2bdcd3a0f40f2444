//! The modern handshake: `server/discover` returns the supported revisions and the server's capabilities.

use std::sync::Arc;

use serde_json::json;
use wharf_protocol::{Fields, Json};

use super::client_info::ClientInfo;
use super::preferences::Preferences;
use super::sender::{NegotiatedProtocol, Request, RequestSender};
use super::{ServerInfo, SessionOptions, handshake};
use crate::era::{HEADER_MISMATCH, LEGACY, MISSING_CAPABILITY, MODERN, UNSUPPORTED_VERSION, revisions, supported};
use crate::error::{RefusalCause, SessionRefusal};
use crate::wire::{Limits, WireHandle};
use crate::{CallErrorKind, ConnectErrorKind, Host};

/// How a server answered `server/discover`.
pub(super) enum Discovered {
    Modern(ServerInfo, NegotiatedProtocol),
    /// It does not know the method, or supports only legacy revisions.
    Legacy {
        /// Whether the answer proves that.
        certain: bool,
        /// The error of a client that requires the modern era.
        kind: ConnectErrorKind,
    },
    /// The connection ended, as it does with some legacy servers.
    Disconnected(ConnectErrorKind),
    /// Neither era can work.
    Fatal(ConnectErrorKind),
}

/// Sends `server/discover`. The future owns its arguments, so that others can be polled beside it.
pub(super) async fn discover(
    handle: WireHandle,
    host: Arc<dyn Host>,
    options: SessionOptions,
    preferences: Arc<Preferences>,
) -> Discovered {
    let limit = options.deadlines.connect;
    let limits = Limits { idle: limit, total: Some(limit), first_byte: limit };
    let mut revision = MODERN[0];
    let mut can_retry = true;
    loop {
        handle.set_stateless(Some(revision));
        let protocol = NegotiatedProtocol::Modern(Arc::new(ClientInfo::new(revision, &*host, &options)));
        let sender = RequestSender { handle: handle.clone(), protocol, preferences: Arc::clone(&preferences) };
        let params = json!({});
        let answer = sender.send(&mut Request::new("server/discover", &params, limits), None).await;
        let answer = answer.map_err(|kind| handshake::as_lost(&sender.handle, kind));
        let supported = match &answer {
            Ok(result) => revisions(result, "supportedVersions"),
            Err(CallErrorKind::Server { code: UNSUPPORTED_VERSION, data, .. }) => data.as_ref().and_then(supported),
            Err(_) => None,
        };
        let mutual =
            supported.as_ref().and_then(|given| MODERN.into_iter().find(|ours| given.iter().any(|it| it == ours)));
        match (answer, mutual) {
            (Ok(result), Some(chosen)) if chosen == revision => {
                // A legacy handshake may have reset this while the server was slow to answer.
                sender.handle.set_stateless(Some(revision));
                return Discovered::Modern(info(&result, revision), sender.protocol);
            }
            // It lists a revision that this client supports, even if it refused this very one: try again.
            (Ok(_) | Err(CallErrorKind::Server { .. }), Some(chosen)) if can_retry => {
                revision = chosen;
                can_retry = false;
            }
            (answer, _) => {
                sender.handle.set_stateless(None);
                return classify(answer, supported);
            }
        }
    }
}

/// Classifies an answer that did not establish the modern era.
fn classify(answer: Result<Json, CallErrorKind>, supported: Option<Vec<String>>) -> Discovered {
    let legacy = |reason: String| {
        let reason = format!("it does not support the modern protocol ({reason})");
        let refusal = SessionRefusal::new(RefusalCause::ProtocolMode, reason);
        Discovered::Legacy { certain: true, kind: ConnectErrorKind::Refused(refusal) }
    };
    match (answer, supported) {
        (Ok(_) | Err(CallErrorKind::Server { code: UNSUPPORTED_VERSION, .. }), Some(given)) if !given.is_empty() => {
            if given.iter().any(|revision| LEGACY.contains(&revision.as_str())) {
                return legacy(format!("it supports {}", given.join(", ")));
            }
            if given.iter().any(|revision| MODERN.contains(&revision.as_str())) {
                let reason = format!("it lists {} as supported and refuses it", given.join(", "));
                return Discovered::Fatal(ConnectErrorKind::Refused(reason.into()));
            }
            let ours = LEGACY.into_iter().chain(MODERN).collect::<Vec<_>>().join(", ");
            let given = given.join(", ");
            let reason = format!("unsupported protocol version {given}: this client supports {ours}");
            let refusal = SessionRefusal::new(RefusalCause::UnknownRevision, reason);
            Discovered::Fatal(ConnectErrorKind::Refused(refusal))
        }
        (Ok(_), _) => legacy("its `server/discover` result has no `supportedVersions`".to_owned()),
        (Err(CallErrorKind::Server { code: code @ (HEADER_MISMATCH | MISSING_CAPABILITY), message, .. }), _) => {
            Discovered::Fatal(ConnectErrorKind::Refused(format!("error {code}: {message}").into()))
        }
        (Err(CallErrorKind::Lost(reason)), _) => Discovered::Disconnected(ConnectErrorKind::Ended(reason)),
        // A server that asks the client to slow down must not get another request right away.
        (Err(CallErrorKind::Http(status)), _) if status.status == 429 || status.retry_after.is_some() => {
            Discovered::Fatal(ConnectErrorKind::Http(status))
        }
        // An internal error says nothing about the era.
        (Err(CallErrorKind::Http(status)), _) if status.status >= 500 => {
            Discovered::Legacy { certain: false, kind: ConnectErrorKind::Http(status) }
        }
        (Err(CallErrorKind::Http(status)), _) => legacy(status.to_string()),
        (Err(CallErrorKind::Server { code, message, .. } | CallErrorKind::SessionLost { code, message }), _) => {
            legacy(format!("error {code}: {message}"))
        }
        (Err(error @ (CallErrorKind::Malformed(_) | CallErrorKind::Unanswered(_))), _) => legacy(error.to_string()),
        (Err(other), _) => Discovered::Fatal(handshake::connect_error_kind(other)),
    }
}

fn info(raw: &Json, revision: &'static str) -> ServerInfo {
    let fields = Fields::of(raw).ok();
    let meta = fields.as_ref().and_then(|fields| fields.object("_meta").ok().flatten());
    let server =
        meta.as_ref().and_then(|meta| Fields::of(meta).ok()?.object("io.modelcontextprotocol/serverInfo").ok()?);
    // Some servers send it at the legacy place.
    let server = server.or_else(|| fields.as_ref()?.object("serverInfo").ok().flatten());
    handshake::server_info(raw, server.as_ref(), revision.to_owned())
}
