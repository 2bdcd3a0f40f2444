//! What can be chosen about a session.

use std::sync::Arc;
use std::time::Duration;

use serde_json::{Map, Value};

use super::{ResultCache, SavedSession};
use crate::{EraCache, ProtocolMode};

/// How a session behaves. It cannot be changed once the session is made.
#[derive(Clone, Debug)]
pub struct SessionOptions {
    /// How we introduce ourselves.
    pub client_name: String,
    /// Our version.
    pub client_version: String,
    /// The deadlines.
    pub deadlines: Deadlines,
    /// The most pages that are read of one list.
    pub most_pages: usize,
    /// The most characters that are kept of a tool's description. Sessions that share a cache should have the same.
    pub longest_description: Option<usize>,
    /// How often a request is sent again, on a new session, because the server has lost the one it was sent on.
    pub session_retries: u32,
    /// Which era of the protocol is spoken.
    pub protocol: ProtocolMode,
    /// What is remembered of servers: one that several sessions share saves each of them finding out.
    pub memory: Arc<EraCache>,
    /// What servers let us keep for a while.
    pub cache: Arc<ResultCache>,
    /// A session to go on with, which another process has left with the server. One of another server, or one that is
    /// lost, is as good as none.
    pub resume: Option<Arc<SavedSession>>,
    /// Extensions of the protocol that the host knows, by their ids, with its settings for them.
    pub extensions: Map<String, Value>,
}

/// How long is waited for what. Every wait has its own limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Deadlines {
    /// From the start of a server to the end of its handshake.
    pub connect: Duration,
    /// Until an answer begins, over HTTP. A limit for the whole call raises it.
    pub first_byte: Duration,
    /// Without an answer or progress; half an hour for local servers and five minutes for remote ones if absent.
    pub idle: Option<Duration>,
    /// For a whole call, if there is a limit; a call may have its own.
    pub total: Option<Duration>,
    /// For a server to read what we write.
    pub write: Duration,
    /// For the host to answer what the server asks. Calls do not age meanwhile.
    pub answer: Duration,
}

impl Default for SessionOptions {
    fn default() -> Self {
        Self {
            client_name: "wharf".to_owned(),
            client_version: env!("CARGO_PKG_VERSION").to_owned(),
            deadlines: Deadlines::default(),
            most_pages: 64,
            longest_description: None,
            session_retries: 1,
            protocol: ProtocolMode::Auto,
            memory: Arc::default(),
            cache: Arc::default(),
            resume: None,
            extensions: Map::new(),
        }
    }
}

impl Default for Deadlines {
    fn default() -> Self {
        Self {
            connect: Duration::from_secs(30),
            first_byte: Duration::from_secs(60),
            idle: None,
            total: None,
            write: Duration::from_secs(60),
            answer: Duration::from_secs(60 * 60),
        }
    }
}
