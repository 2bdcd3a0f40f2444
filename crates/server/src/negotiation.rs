//! The start of a connection over a pipe, in either era of the protocol.
//!
//! Rmcp accepts `initialize`, `server/discover` and any request with the metadata of 2026-07-28 as the first message. It
//! disconnects on everything else, and a client that probes for the era does send something else: it cancels a probe
//! that timed out, and continues.

use std::borrow::Cow;
use std::time::Duration;

use rmcp::ServerHandler;
use rmcp::model::{ClientJsonRpcMessage, ClientRequest, GetMeta as _, ProtocolVersion, ServerJsonRpcMessage};
use rmcp::service::RoleServer;
use rmcp::transport::Transport;

/// A transport that drops notifications and responses until a request has settled the era.
pub(crate) struct NegotiatingTransport<T> {
    transport: T,
    /// Time limit for the first message only. Later messages have none: no handshake follows `server/discover`, so the
    /// client may be idle for any time.
    first_message_timeout: Option<Duration>,
    versions: Cow<'static, [ProtocolVersion]>,
    settled: bool,
}

impl<T> NegotiatingTransport<T> {
    pub(crate) fn new(transport: T, handler: &impl ServerHandler) -> Self {
        let versions = handler.supported_protocol_versions();
        Self { transport, first_message_timeout: None, versions, settled: false }
    }

    pub(crate) fn with_first_message_timeout(self, limit: Duration) -> Self {
        Self { first_message_timeout: Some(limit), ..self }
    }

    /// Returns whether rmcp settles on one era after this request. After all others it keeps waiting for such a request.
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

impl<T: Transport<RoleServer>> Transport<RoleServer> for NegotiatingTransport<T> {
    type Error = T::Error;

    fn send(
        &mut self,
        message: ServerJsonRpcMessage,
    ) -> impl Future<Output = Result<(), Self::Error>> + Send + 'static {
        self.transport.send(message)
    }

    async fn receive(&mut self) -> Option<ClientJsonRpcMessage> {
        loop {
            let message = match self.first_message_timeout {
                Some(limit) => tokio::time::timeout(limit, self.transport.receive()).await.ok()??,
                None => self.transport.receive().await?,
            };
            self.first_message_timeout = None;
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
