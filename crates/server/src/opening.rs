//! How a conversation over a pipe begins, whichever era of the protocol its client speaks.
//!
//! Rmcp takes `initialize`, `server/discover` and any request with the metadata of 2026-07-28 as a beginning. It hangs
//! up on everything else, and a client that probes for the era does send something else: it cancels a probe that took
//! too long, and goes on.

use std::borrow::Cow;
use std::time::Duration;

use rmcp::ServerHandler;
use rmcp::model::{ClientJsonRpcMessage, ClientRequest, GetMeta as _, ProtocolVersion, ServerJsonRpcMessage};
use rmcp::service::RoleServer;
use rmcp::transport::Transport;

/// A transport that passes over what a server cannot understand before the first request that settles the era.
pub(crate) struct Opening<T> {
    transport: T,
    /// How long the first message may take. A client that has spoken may think for as long as it likes: after
    /// `server/discover` there is no handshake to finish.
    first_within: Option<Duration>,
    versions: Cow<'static, [ProtocolVersion]>,
    settled: bool,
}

impl<T> Opening<T> {
    pub(crate) fn new(transport: T, handler: &impl ServerHandler) -> Self {
        let versions = handler.supported_protocol_versions();
        Self { transport, first_within: None, versions, settled: false }
    }

    pub(crate) fn first_within(self, limit: Duration) -> Self {
        Self { first_within: Some(limit), ..self }
    }

    /// Whether rmcp takes a request as the beginning of one era. After all others it goes on waiting for one.
    fn settles(&self, request: &ClientRequest) -> bool {
        match request {
            ClientRequest::InitializeRequest(_) => true,
            ClientRequest::PingRequest(_) | ClientRequest::DiscoverRequest(_) => false,
            request => {
                let meta = request.get_meta();
                meta.missing_required_keys(&ProtocolVersion::NO_INITIALIZE).is_empty()
                    && meta.protocol_version().is_some_and(|version| self.versions.contains(&version))
            }
        }
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
                self.settled = self.settles(&request.request);
                return Some(message);
            }
        }
    }

    async fn close(&mut self) -> Result<(), Self::Error> {
        self.transport.close().await
    }
}
