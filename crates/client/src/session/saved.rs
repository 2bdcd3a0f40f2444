//! Sessions that outlive their process: a process that knows the session id continues without a handshake.
//!
//! Resuming sends nothing. If the server has dropped the session meanwhile, the first request fails, and the client
//! starts a new session as it does for every lost session.

use std::fmt;

use serde::{Deserialize, Serialize};
use wharf_protocol::{Fields, Json};

use super::handshake::server_info;
use super::{Inner, Live, ServerInfo, Session};
use crate::era::LEGACY;

/// A session of a remote server that another process can resume.
///
/// It can be serialized. It holds the session id, which grants access to the session: store it like a password.
#[derive(Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SavedSession {
    endpoint: String,
    session_id: String,
    protocol_version: String,
    greeting: Json,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    instructions: Option<String>,
}

impl SavedSession {
    /// Returns the URL of the server.
    pub fn endpoint(&self) -> &str {
        &self.endpoint
    }

    pub(super) fn id(&self) -> &str {
        &self.session_id
    }

    /// Returns the handshake result of the session, or `None` if this client does not support its revision.
    pub(super) fn info(&self) -> Option<ServerInfo> {
        if !LEGACY.contains(&self.protocol_version.as_str()) {
            return None;
        }
        let server = Fields::of(&self.greeting).ok()?.object("serverInfo").ok().flatten();
        let info = server_info(&self.greeting, server.as_ref(), self.protocol_version.clone());
        Some(ServerInfo { instructions: self.instructions.clone(), ..info })
    }
}

impl fmt::Debug for SavedSession {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SavedSession").field("endpoint", &self.endpoint).finish_non_exhaustive()
    }
}

impl Session {
    /// Detaches the session, so that [`close`](Self::close) leaves it open on the server.
    ///
    /// Another process continues it by passing the returned value as
    /// [`SessionOptions::resume`](super::SessionOptions::resume). This session no longer receives notifications.
    ///
    /// Returns `None` if the session is not connected, or if the server has no session id.
    pub fn detach(&self) -> Option<SavedSession> {
        let live = self.inner.up()?;
        let saved = self.inner.saved(&live)?;
        live.wire.retire();
        Some(saved)
    }
}

impl Inner {
    fn saved(&self, live: &Live) -> Option<SavedSession> {
        Some(SavedSession {
            endpoint: self.transport.identity()?,
            session_id: live.wire.session_id()?,
            protocol_version: live.info.revision.clone(),
            greeting: live.info.raw.clone(),
            instructions: live.info.instructions.clone(),
        })
    }
}
