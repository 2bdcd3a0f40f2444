//! A session that outlives its process: who has its id goes on with it, without another handshake.
//!
//! Nothing is asked when a session is taken up. If the server has lost it meanwhile, the first request says so, and a
//! new one is begun as for every session that is lost.

use std::fmt;

use serde::{Deserialize, Serialize};
use wharf_protocol::{Fields, Json};

use super::handshake::described;
use super::{Inner, Live, ServerInfo, Session};
use crate::era::LEGACY;

/// What it takes to go on with a session of a remote server. It can be written down; whoever reads it can speak in the
/// session, so keep it as you keep a password.
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
    /// The address of the server whose session it is.
    pub fn endpoint(&self) -> &str {
        &self.endpoint
    }

    pub(super) fn id(&self) -> &str {
        &self.session_id
    }

    /// What the server said when the session began; `None` if that is nothing this client could go on with.
    pub(super) fn info(&self) -> Option<ServerInfo> {
        if !LEGACY.contains(&self.protocol_version.as_str()) {
            return None;
        }
        let server = Fields::of(&self.greeting).ok()?.object("serverInfo").ok().flatten();
        let info = described(&self.greeting, server.as_ref(), self.protocol_version.clone());
        Some(ServerInfo { instructions: self.instructions.clone(), ..info })
    }
}

impl fmt::Debug for SavedSession {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SavedSession").field("endpoint", &self.endpoint).finish_non_exhaustive()
    }
}

impl Session {
    /// Leaves the session with the server when the connection is [closed](Self::close), for another process to go on
    /// with: what is returned goes into [`SessionOptions::resume`](super::SessionOptions::resume) there. What the server
    /// says unasked is no longer heard. `None` if there is no connection, or the server keeps no session.
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
