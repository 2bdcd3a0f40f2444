//! How a conversation over a pipe begins, whichever era of the protocol its client speaks.
//!
//! Rmcp takes `initialize`, `server/discover` and any request with the metadata of 2026-07-28 as a beginning. It hangs
//! up on everything else, and a client that probes for the era does send something else: it cancels a probe that took
//! too long, and goes on.

use std::time::Duration;

use rmcp::model::{ClientJsonRpcMessage, ClientRequest, ServerJsonRpcMessage};
use rmcp::service::RoleServer;
use rmcp::transport::Transport;

/// A transport that passes over what a server cannot understand before the first request that settles the era.
pub(crate) struct Opening<T> {
    transport: T,
    /// How long the first message may take. A client that has spoken may think for as long as it likes: after
    /// `server/discover` there is no handshake to finish.
    first_within: Option<Duration>,
    settled: bool,
}

impl<T> Opening<T> {
    pub(crate) fn new(transport: T) -> Self {
        Self { transport, first_within: None, settled: false }
    }

    pub(crate) fn first_within(self, limit: Duration) -> Self {
        Self { first_within: Some(limit), ..self }
    }
}

impl<T: Transport<RoleServer>> Transport<RoleServer> for Opening<T> {
    type Error = T::Error;

    fn send(
        &mut self,
        message: ServerJsonRpcMessage,
    ) -> impl Future<Output = Result<(), Self::Error>> + Send + 'static {
        self.transport.send(message)
    }

    async fn receive(&mut self) -> Option<ClientJsonRpcMessage> {
        loop {
            let message = match self.first_within {
                Some(limit) => tokio::time::timeout(limit, self.transport.receive()).await.ok()??,
                None => self.transport.receive().await?,
            };
            self.first_within = None;
            if self.settled {
                return Some(message);
            }
            if let ClientJsonRpcMessage::Request(request) = &message {
                // After these two either era may follow.
                let open = matches!(request.request, ClientRequest::PingRequest(_) | ClientRequest::DiscoverRequest(_));
                self.settled = !open;
                return Some(message);
            }
        }
    }

    async fn close(&mut self) -> Result<(), Self::Error> {
        self.transport.close().await
    }
}
