//! The handshake: who we are, who they are, and a revision of the protocol that both speak.

use serde_json::json;
use wharf_protocol::{Fields, Json};

use super::SessionOptions;
use crate::wire::{Asked, Limits, Wire};
use crate::{CallErrorKind, ConnectErrorKind, Host};

/// The newest revision with a handshake; what we ask for.
const ASKED: &str = "2025-11-25";
/// The revisions we speak.
const SPOKEN: [&str; 4] = ["2024-11-05", "2025-03-26", "2025-06-18", ASKED];

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
    /// All it said, as it was sent.
    pub raw: Json,
}

pub(super) async fn shake_hands(
    wire: &Wire,
    host: &dyn Host,
    options: &SessionOptions,
) -> Result<ServerInfo, ConnectErrorKind> {
    let mut capabilities = serde_json::Map::new();
    let abilities = host.abilities();
    if abilities.elicitation {
        capabilities.insert("elicitation".into(), json!({ "form": {}, "url": {} }));
    }
    if abilities.sampling {
        capabilities.insert("sampling".into(), json!({}));
    }
    if abilities.roots {
        capabilities.insert("roots".into(), json!({}));
    }
    let params = json!({
        "protocolVersion": ASKED,
        "capabilities": capabilities,
        "clientInfo": { "name": options.client_name, "version": options.client_version },
    });
    let limit = options.deadlines.connect;
    let limits = Limits { idle: limit, total: Some(limit), first_byte: limit };
    let mut again = wire.renews();
    loop {
        let asked = Asked::new("initialize", limits);
        let result = wire.request(asked, |_| &params).await.map_err(not_ready)?;
        let info = read(&result).map_err(ConnectErrorKind::Refused)?;
        wire.greeted(&info.revision);
        match wire.tell("notifications/initialized", None).await {
            Ok(()) => return Ok(info),
            // The server was started anew between the two messages. Nobody but us knew this session.
            Err(CallErrorKind::SessionLost { .. }) if again => again = false,
            Err(kind) => return Err(not_ready(kind)),
        }
    }
}

fn not_ready(kind: CallErrorKind) -> ConnectErrorKind {
    match kind {
        CallErrorKind::Connect(kind) => kind,
        CallErrorKind::Lost(reason) => ConnectErrorKind::Ended(reason),
        CallErrorKind::SessionLost { message, .. } => ConnectErrorKind::Ended(format!("lost the session ({message})")),
        CallErrorKind::Closed => ConnectErrorKind::Closed,
        CallErrorKind::Http(status) => ConnectErrorKind::Http(status),
        CallErrorKind::Timeout { after, .. } => ConnectErrorKind::Timeout(after),
        CallErrorKind::Unanswered(reason) => {
            ConnectErrorKind::Refused(format!("it sent {reason} instead of a greeting"))
        }
        CallErrorKind::Server { code, message, .. } => ConnectErrorKind::Refused(format!("error {code}: {message}")),
        other => ConnectErrorKind::Refused(other.to_string()),
    }
}

fn read(raw: &Json) -> Result<ServerInfo, String> {
    let fields = Fields::of(raw).map_err(|reason| format!("its greeting {reason}"))?;
    let revision = fields.required_text("protocolVersion").map_err(|reason| format!("its greeting {reason}"))?;
    if !SPOKEN.contains(&revision.as_str()) {
        return Err(format!("it speaks the protocol of {revision}; this client speaks {}", SPOKEN.join(", ")));
    }
    let server = fields.object("serverInfo").ok().flatten();
    let said = |key: &str| server.as_ref().and_then(|server| Fields::of(server).ok()?.text(key).ok().flatten());
    let info = ServerInfo {
        name: said("name").unwrap_or_default(),
        version: said("version").unwrap_or_default(),
        revision,
        instructions: fields.text("instructions").ok().flatten(),
        capabilities: fields.object("capabilities").ok().flatten().unwrap_or_else(|| json!({}).into()),
        raw: raw.clone(),
    };
    Ok(info)
}
