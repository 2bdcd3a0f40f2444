//! The legacy handshake: `initialize` and `notifications/initialized`.

use std::sync::Arc;

use serde_json::{Value, json};
use wharf_protocol::{Fields, Json};

use super::{SessionOptions, client_info};
use crate::era::{
    HEADER_MISMATCH, LEGACY, METHOD_NOT_FOUND, MISSING_CAPABILITY, NEWEST_LEGACY, UNSUPPORTED_VERSION, era_of,
};
use crate::error::{RefusalCause, SessionRefusal};
use crate::wire::{Limits, WireHandle, WireRequest};
use crate::{CallErrorKind, ConnectErrorKind, Host};

/// What a server reported about itself when the connection was established.
#[derive(Clone, Debug)]
pub struct ServerInfo {
    /// The server's name; empty if it did not send one.
    pub name: String,
    /// The server's version; empty if it did not send one.
    pub version: String,
    /// The negotiated protocol revision, for example `2025-11-25`.
    pub revision: String,
    /// The server's instructions for models.
    pub instructions: Option<String>,
    /// The server's capabilities, as sent.
    pub capabilities: Json,
    /// The whole handshake result as sent, except for the instructions, which may be long and are stored once.
    pub raw: Json,
    /// The [epoch](crate::Session::epoch) of the connection that reported this.
    pub epoch: u64,
}

impl ServerInfo {
    /// Returns the protocol revision and its era, for example `2025-11-25 (legacy)`.
    pub fn protocol(&self) -> String {
        format!("{} ({})", self.revision, era_of(&self.revision))
    }

    /// Whether the server accepts tool calls as tasks (2025-11-25).
    pub(super) fn has_task_calls(&self) -> bool {
        let inner = |object: Json, key: &str| Fields::of(&object).ok()?.object(key).ok().flatten();
        let path = ["tasks", "requests", "tools", "call"];
        path.into_iter().try_fold(self.capabilities.clone(), inner).is_some()
    }

    /// Returns the settings of a protocol extension, if the server supports it.
    pub fn extension(&self, id: &str) -> Option<Json> {
        let extensions = Fields::of(&self.capabilities).ok()?.object("extensions").ok()??;
        Fields::of(&extensions).ok()?.json(id)
    }
}

/// Why a handshake failed.
pub(super) struct HandshakeError {
    pub(super) kind: ConnectErrorKind,
    /// The JSON-RPC code, if the server answered with an error.
    pub(super) code: Option<i64>,
}

impl HandshakeError {
    /// Whether the server may support only the modern era.
    pub(super) fn may_be_modern(&self) -> bool {
        matches!(self.code, Some(UNSUPPORTED_VERSION | HEADER_MISMATCH | MISSING_CAPABILITY | METHOD_NOT_FOUND))
    }
}

/// Performs the legacy handshake. The future owns its arguments, so that others can be polled beside it.
pub(super) async fn handshake(
    handle: WireHandle,
    host: Arc<dyn Host>,
    options: SessionOptions,
) -> Result<ServerInfo, HandshakeError> {
    let params = json!({
        "protocolVersion": NEWEST_LEGACY,
        "capabilities": client_info::capabilities(&*host, &options),
        "clientInfo": client_info::name_and_version(&options),
    });
    let limit = options.deadlines.connect;
    let limits = Limits { idle: limit, total: Some(limit), first_byte: limit };
    let mut can_retry = handle.supports_rehandshake();
    loop {
        let request = WireRequest::new("initialize", limits);
        let result = handle.request(request, |_| &params).await.map_err(|kind| handshake_error(&handle, kind))?;
        let info =
            read(&result).map_err(|refusal| HandshakeError { kind: ConnectErrorKind::Refused(refusal), code: None })?;
        handle.set_revision(&info.revision);
        match handle.notify("notifications/initialized", None).await {
            Ok(()) => return Ok(info),
            // The server restarted between the two messages. No other request used this session yet.
            Err(CallErrorKind::SessionLost { .. }) if can_retry => can_retry = false,
            Err(kind) => return Err(handshake_error(&handle, kind)),
        }
    }
}

fn handshake_error(handle: &WireHandle, kind: CallErrorKind) -> HandshakeError {
    let kind = as_lost(handle, kind);
    let code = match &kind {
        CallErrorKind::Server { code, .. } => Some(*code),
        _ => None,
    };
    HandshakeError { kind: connect_error_kind(kind), code }
}

/// Reports a connection that ended before a message could be sent like one that ended after it.
pub(super) fn as_lost(handle: &WireHandle, kind: CallErrorKind) -> CallErrorKind {
    match (kind, handle.ending()) {
        (CallErrorKind::Connect(ConnectErrorKind::Transport(_)), Some(ending)) => {
            CallErrorKind::Lost(ending.reason.clone())
        }
        (kind, _) => kind,
    }
}

pub(super) fn connect_error_kind(kind: CallErrorKind) -> ConnectErrorKind {
    match kind {
        CallErrorKind::Connect(kind) => kind,
        CallErrorKind::Lost(reason) => ConnectErrorKind::Ended(reason),
        CallErrorKind::SessionLost { message, .. } => ConnectErrorKind::Ended(format!("lost the session ({message})")),
        CallErrorKind::Closed => ConnectErrorKind::Closed,
        CallErrorKind::Http(status) => ConnectErrorKind::Http(status),
        CallErrorKind::Timeout { after, .. } => ConnectErrorKind::Timeout(after),
        CallErrorKind::Unanswered(reason) => {
            ConnectErrorKind::Refused(format!("it sent {reason} instead of a handshake result").into())
        }
        CallErrorKind::Server { code, message, .. } => {
            ConnectErrorKind::Refused(format!("error {code}: {message}").into())
        }
        other => ConnectErrorKind::Refused(other.to_string().into()),
    }
}

fn read(raw: &Json) -> Result<ServerInfo, SessionRefusal> {
    let malformed = |reason| format!("its handshake result {reason}");
    let fields = Fields::of(raw).map_err(malformed)?;
    let revision = fields.required_text("protocolVersion").map_err(malformed)?;
    if !LEGACY.contains(&revision.as_str()) {
        let reason = format!("unsupported protocol version {revision}: this client supports {}", LEGACY.join(", "));
        return Err(SessionRefusal::new(RefusalCause::UnknownRevision, reason));
    }
    Ok(server_info(raw, fields.object("serverInfo").ok().flatten().as_ref(), revision))
}

/// Reads the result of a handshake of either era. The epoch is set once the connection is chosen.
pub(super) fn server_info(raw: &Json, server: Option<&Json>, revision: String) -> ServerInfo {
    let text = |key: &str| server.and_then(|server| Fields::of(server).ok()?.text(key).ok().flatten());
    let instructions = Fields::of(raw).ok().and_then(|fields| fields.text("instructions").ok().flatten());
    let without_instructions = |name: &str, _: &str| (name == "instructions").then(|| Value::Null.into());
    // Detached, so that the rest of the message is freed.
    let raw =
        instructions.as_ref().and_then(|_| raw.with_values(without_instructions)).unwrap_or_else(|| raw.detached());
    let fields = Fields::of(&raw).ok();
    ServerInfo {
        name: text("name").unwrap_or_default(),
        version: text("version").unwrap_or_default(),
        revision,
        instructions,
        capabilities: fields
            .and_then(|fields| fields.object("capabilities").ok().flatten())
            .unwrap_or_else(|| json!({}).into()),
        raw,
        epoch: 0,
    }
}
