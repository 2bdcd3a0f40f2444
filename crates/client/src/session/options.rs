//! Session settings.

use std::sync::Arc;
use std::time::Duration;

use serde_json::{Map, Value};

use super::{ResultCache, SavedSession};
use crate::{EraCache, ProtocolMode, WireObserver};

/// The settings of a [`Session`](crate::Session), fixed when the session is created.
#[derive(Clone, Debug)]
pub struct SessionOptions {
    /// The client name sent to the server. Default: `wharf`.
    pub client_name: String,
    /// The client version sent to the server. Default: the version of this crate.
    pub client_version: String,
    /// The time limits.
    pub deadlines: Deadlines,
    /// The maximum number of pages read of one list. Default: 64.
    pub max_pages: usize,
    /// The length in characters at which tool descriptions are truncated. Default: no limit.
    ///
    /// Sessions that share a [`cache`](Self::cache) should use the same value.
    pub max_description_chars: Option<usize>,
    /// How often a request is sent again, on a new session, after the server lost the session. Default: 1.
    pub session_retries: u32,
    /// The protocol era. Default: [`ProtocolMode::Auto`].
    pub protocol: ProtocolMode,
    /// The cache of detected protocol eras. Sessions that share one detect each server's era only once.
    pub era_cache: Arc<EraCache>,
    /// The cache of results that servers mark as cacheable.
    pub cache: Arc<ResultCache>,
    /// A session to resume, from [`Session::detach`](crate::Session::detach). Ignored if it belongs to another server
    /// or no longer exists.
    pub resume: Option<Arc<SavedSession>>,
    /// The protocol extensions that the host supports, as a map from extension id to settings.
    pub extensions: Map<String, Value>,
    /// Receives every message on the wire. Default: none.
    pub observer: Option<Arc<dyn WireObserver>>,
}

/// The time limits of a session. Each one applies to its own kind of wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Deadlines {
    /// For connecting: from starting the server to the end of the handshake. Default: 30 seconds.
    pub connect: Duration,
    /// For the first byte of an answer over HTTP. A longer [`total`](Self::total) raises it. Default: 60 seconds.
    pub first_byte: Duration,
    /// For the time without an answer or progress. Default: 30 minutes for local servers, 5 minutes for remote ones.
    pub idle: Option<Duration>,
    /// For a whole call, unless the call sets its own. Default: no limit.
    pub total: Option<Duration>,
    /// For the server to read what the client writes. Default: 60 seconds.
    pub write: Duration,
    /// For the host to answer a request of the server, during which the other deadlines are paused. Default: 1 hour.
    pub answer: Duration,
}

impl Default for SessionOptions {
    fn default() -> Self {
        Self {
            client_name: "wharf".to_owned(),
            client_version: env!("CARGO_PKG_VERSION").to_owned(),
            deadlines: Deadlines::default(),
            max_pages: 64,
            max_description_chars: None,
            session_retries: 1,
            protocol: ProtocolMode::Auto,
            era_cache: Arc::default(),
            cache: Arc::default(),
            resume: None,
            extensions: Map::new(),
            observer: None,
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
