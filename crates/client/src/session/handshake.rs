//! The handshake: who we are, who they are, and a revision of the protocol that both speak.

use std::sync::Arc;

use serde_json::{Value, json};
use wharf_protocol::{Fields, Json};

use super::{SessionOptions, manner};
use crate::era::{
    HEADER_MISMATCH, LEGACY, METHOD_NOT_FOUND, MISSING_CAPABILITY, NEWEST_LEGACY, UNSUPPORTED_VERSION, era_of,
};
use crate::error::{RefusalCause, SessionRefusal};
use crate::wire::{Asked, Limits, Line};
use crate::{CallErrorKind, ConnectErrorKind, Host};

/// What a server says of itself.
#[derive(Clone, Debug)]
pub struct ServerInfo {
    /// Its name.
    pub name: String,
    /// Its version.
    pub version: String,
    /// The revision of the protocol that is spoken with it.
    pub revision: String,
    /// What it says about how to use it.
    pub instructions: Option<String>,
    /// What it can do, as it was sent.
    pub capabilities: Json,
    /// All it said, as it was sent, but for the instructions: they may be long, and are kept once.
    pub raw: Json,
    /// Which [generation](crate::Session::generation) of its session it was said on.
    pub generation: u64,
}

impl ServerInfo {
    /// The revision that is spoken, and its era in a word.
    pub fn protocol(&self) -> String {
        format!("{} ({})", self.revision, era_of(&self.revision))
    }

    /// The settings of an extension that the server offers.
    pub fn extension(&self, id: &str) -> Option<Json> {
        let extensions = Fields::of(&self.capabilities).ok()?.object("extensions").ok()??;
        Fields::of(&extensions).ok()?.json(id)
    }
}

/// Why there was no handshake.
pub(super) struct NoHandshake {
    pub(super) kind: ConnectErrorKind,
    /// The server's code, if it said no.
    pub(super) code: Option<i64>,
}

impl NoHandshake {
    /// Whether the server may have outgrown handshakes.
    pub(super) fn outgrown(&self) -> bool {
        matches!(self.code, Some(UNSUPPORTED_VERSION | HEADER_MISMATCH | MISSING_CAPABILITY | METHOD_NOT_FOUND))
    }
}

/// Shakes hands. The future lives on its own, so that others can be asked meanwhile.
pub(super) async fn shake_hands(
    line: Line,
    host: Arc<dyn Host>,
    options: SessionOptions,
) -> Result<ServerInfo, NoHandshake> {
    let params = json!({
        "protocolVersion": NEWEST_LEGACY,
        "capabilities": manner::capabilities(&*host, &options),
        "clientInfo": manner::client(&options),
    });
    let limit = options.deadlines.connect;
    let limits = Limits { idle: limit, total: Some(limit), first_byte: limit };
    let mut again = line.renews();
    loop {
        let asked = Asked::new("initialize", limits);
        let result = line.request(asked, |_| &params).await.map_err(|kind| no_handshake(ended(&line, kind)))?;
        let info =
            read(&result).map_err(|refusal| NoHandshake { kind: ConnectErrorKind::Refused(refusal), code: None })?;
        line.greeted(&info.revision);
        match line.tell("notifications/initialized", None).await {
            Ok(()) => return Ok(info),
            // The server was started anew between the two messages. Nobody but us knew this session.
            Err(CallErrorKind::SessionLost { .. }) if again => again = false,
            Err(kind) => return Err(no_handshake(ended(&line, kind))),
        }
    }
}

fn no_handshake(kind: CallErrorKind) -> NoHandshake {
    let code = match &kind {
        CallErrorKind::Server { code, .. } => Some(*code),
        _ => None,
    };
    NoHandshake { kind: not_ready(kind), code }
}

/// A connection that ended before a message could be sent on it has ended like any other.
pub(super) fn ended(line: &Line, kind: CallErrorKind) -> CallErrorKind {
    match (kind, line.ending()) {
        (CallErrorKind::Connect(ConnectErrorKind::Transport(_)), Some(ending)) => {
            CallErrorKind::Lost(ending.reason.clone())
        }
        (kind, _) => kind,
    }
}

pub(super) fn not_ready(kind: CallErrorKind) -> ConnectErrorKind {
    match kind {
        CallErrorKind::Connect(kind) => kind,
        CallErrorKind::Lost(reason) => ConnectErrorKind::Ended(reason),
        CallErrorKind::SessionLost { message, .. } => ConnectErrorKind::Ended(format!("lost the session ({message})")),
        CallErrorKind::Closed => ConnectErrorKind::Closed,
        CallErrorKind::Http(status) => ConnectErrorKind::Http(status),
        CallErrorKind::Timeout { after, .. } => ConnectErrorKind::Timeout(after),
        CallErrorKind::Unanswered(reason) => {
            ConnectErrorKind::Refused(format!("it sent {reason} instead of a greeting").into())
        }
        CallErrorKind::Server { code, message, .. } => {
            ConnectErrorKind::Refused(format!("error {code}: {message}").into())
        }
        other => ConnectErrorKind::Refused(other.to_string().into()),
    }
}

fn read(raw: &Json) -> Result<ServerInfo, SessionRefusal> {
    let fields = Fields::of(raw).map_err(|reason| format!("its greeting {reason}"))?;
    let revision = fields.required_text("protocolVersion").map_err(|reason| format!("its greeting {reason}"))?;
    if !LEGACY.contains(&revision.as_str()) {
        let reason = format!("it speaks the protocol of {revision}; this client speaks {}", LEGACY.join(", "));
        return Err(SessionRefusal::new(RefusalCause::UnknownRevision, reason));
    }
    Ok(described(raw, fields.object("serverInfo").ok().flatten().as_ref(), revision))
}

/// What a greeting says, whichever it was.
pub(super) fn described(raw: &Json, server: Option<&Json>, revision: String) -> ServerInfo {
    let said = |key: &str| server.and_then(|server| Fields::of(server).ok()?.text(key).ok().flatten());
    let instructions = Fields::of(raw).ok().and_then(|fields| fields.text("instructions").ok().flatten());
    let known = |name: &str, _: &str| (name == "instructions").then(|| Value::Null.into());
    // The message they came in is not kept for the rest of what it says.
    let raw = instructions.as_ref().and_then(|_| raw.with_values(known)).unwrap_or_else(|| raw.detached());
    let fields = Fields::of(&raw).ok();
    ServerInfo {
        name: said("name").unwrap_or_default(),
        version: said("version").unwrap_or_default(),
        revision,
        instructions,
        capabilities: fields
            .and_then(|fields| fields.object("capabilities").ok().flatten())
            .unwrap_or_else(|| json!({}).into()),
        raw,
        generation: 0,
    }
}
