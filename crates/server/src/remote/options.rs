//! Options for serving over the network.

use std::time::Duration;

use super::client_auth::ClientAuth;

/// The default maximum number of sessions.
const MAX_SESSIONS: usize = 1024;

/// Options for serving over the network.
#[derive(Clone, Debug)]
pub struct ListenOptions {
    /// Whether Streamable HTTP responds with `application/json` instead of an event stream when the response is the only
    /// message. In the modern era a response that takes longer than `keep_alive` is a stream anyway.
    pub json_responses: bool,
    /// Interval of comments on an idle event stream, and of pings on a WebSocket.
    pub keep_alive: Duration,
    /// Host names that `Host` and `Origin` may contain besides the loopback names, each with or without a port.
    pub allowed_hosts: Option<Vec<String>>,
    /// Maximum size of a client's message.
    pub max_message_bytes: usize,
    /// Which clients may send requests.
    pub client_auth: ClientAuth,
    /// Maximum number of sessions over all transports. Further clients get status 503 until one ends. Clients of
    /// 2026-07-28 over Streamable HTTP have no sessions.
    pub max_sessions: usize,
}

impl Default for ListenOptions {
    fn default() -> Self {
        Self {
            json_responses: false,
            keep_alive: Duration::from_secs(15),
            allowed_hosts: None,
            max_message_bytes: 4 * 1024 * 1024,
            client_auth: ClientAuth::default(),
            max_sessions: MAX_SESSIONS,
        }
    }
}
