//! Options for serving over the network.

use std::time::Duration;

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
}

impl Default for ListenOptions {
    fn default() -> Self {
        Self {
            json_responses: false,
            keep_alive: Duration::from_secs(15),
            allowed_hosts: None,
            max_message_bytes: 4 * 1024 * 1024,
        }
    }
}
