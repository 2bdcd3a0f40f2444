//! The older HTTP transport: one long GET delivers everything from the server, and each message to it is a POST to a URL
//! that the server names.
//!
//! Only the POSTs have a deadline: the server may be silent on the GET for as long as no request is in flight.

use std::io;
use std::sync::Arc;

use bytes::Bytes;
use futures_util::future::BoxFuture;
use futures_util::stream;
use http::header::ACCEPT;
use http::{HeaderMap, HeaderValue, Uri};
use tokio::sync::Notify;
use wharf_io::address::HTTP_SCHEMES;
use wharf_io::{HttpClient, SseError, SseReader, same_origin_reference};

use super::post::{DRAIN_TIMEOUT, EventStreamError, HttpPost, MAX_DRAINED_BYTES, PostOutcome, has_content_type};
use super::refusal::{Meaning, Refusal};
use super::{HttpEndpoint, Remote, RemoteOptions};
use crate::remote::InvalidRemote;
use crate::transport::bytes::text;
use crate::transport::{
    Frame, Link, MAX_MESSAGE_BYTES, OpenError, OutgoingRequest, Outward, PeerHandle, PostError, Reply,
    RequestTransport, Transport,
};

/// Connects to a server over HTTP with server-sent events, the transport of the 2024-11-05 revision.
#[derive(Clone)]
pub struct HttpSse {
    remote: Remote,
}

impl HttpSse {
    /// Creates a transport for the server whose event stream is at an `http` or `https` URL.
    pub fn new(url: &str, options: RemoteOptions) -> Result<Self, InvalidRemote> {
        Ok(Self { remote: Remote::new(url, HTTP_SCHEMES, options)? })
    }

    pub(super) fn at(remote: Remote) -> Self {
        Self { remote }
    }
}

impl Transport for HttpSse {
    fn open(&self) -> BoxFuture<'_, Result<Link, OpenError>> {
        Box::pin(async { open(self.remote.endpoint()?).await })
    }

    fn is_remote(&self) -> bool {
        true
    }

    fn identity(&self) -> Option<String> {
        Some(format!("sse+{}", self.remote.identity()))
    }

    fn audience(&self) -> Option<String> {
        Some(self.remote.audience())
    }

    fn release(&self) {
        self.remote.release();
    }
}

async fn open(endpoint: HttpEndpoint) -> Result<Link, OpenError> {
    let mut own = HeaderMap::new();
    own.insert(ACCEPT, HeaderValue::from_static("text/event-stream"));
    let response = endpoint.get_events(&own, false).await.map_err(|error| match error {
        EventStreamError::NotSent(error) => open_error(error),
        EventStreamError::Refused(Refusal { meaning: Meaning::Rpc(_), status }) => OpenError::Http(status),
        EventStreamError::Refused(refusal) => open_error(refusal.into_error(false)),
    })?;
    if !has_content_type(&response, "text/event-stream") {
        let mut body = response.into_body();
        let start = String::from_utf8_lossy(&body.read_head(200, DRAIN_TIMEOUT).await).into_owned();
        let start = start.split_whitespace().collect::<Vec<_>>().join(" ");
        return Err(OpenError::Other(format!("no event stream at {}: {start}", endpoint.url.path())));
    }
    let mut events = SseReader::new(response.into_body(), MAX_MESSAGE_BYTES);
    let post_to = loop {
        match events.next().await {
            Some(Ok(event)) if event.kind == "endpoint" => break String::from_utf8_lossy(&event.data).into_owned(),
            Some(Ok(_)) => {}
            Some(Err(error)) => return Err(OpenError::Other(error.to_string())),
            None => return Err(OpenError::Other("the event stream ended before its `endpoint` event".to_owned())),
        }
    };
    // Messages and secret headers must not be sent to another origin.
    let post_to = same_origin_reference(&endpoint.url, post_to.trim()).ok_or_else(|| {
        OpenError::Other(format!("the `endpoint` event names `{post_to}`, which is on another origin"))
    })?;
    let closed = Arc::new(Notify::new());
    let peer = Arc::new(SseHandle { client: endpoint.client.clone(), closed: Arc::clone(&closed) });
    let incoming = stream::unfold((events, closed), async |(mut events, closed)| {
        let frame = tokio::select! {
            frame = frame(&mut events) => frame?,
            () = closed.notified() => return None,
        };
        Some((frame, (events, closed)))
    });
    let requests = SseRequests { endpoint, post_to, own: HeaderMap::new() };
    Ok(Link { incoming: Box::pin(incoming), outward: Outward::Requests(Arc::new(requests)), peer })
}

async fn frame(events: &mut SseReader) -> Option<io::Result<Frame>> {
    loop {
        return match events.next().await? {
            Ok(event) if event.kind != "message" => continue,
            Ok(event) => Some(Ok(text(event.data))),
            Err(SseError::Broken(reason)) => Some(Err(io::Error::other(reason))),
            Err(error @ SseError::TooLong(_)) => Some(Err(io::Error::other(error.to_string()))),
        };
    }
}

struct SseRequests {
    endpoint: HttpEndpoint,
    /// Where messages are posted.
    post_to: Uri,
    /// The headers of the connection: none.
    own: HeaderMap,
}

impl SseRequests {
    fn post<'a>(&'a self, content: &'a Bytes, extra: Option<&'a HeaderMap>, session: bool) -> HttpPost<'a> {
        HttpPost { to: &self.post_to, content, own: &self.own, method: None, extra, session }
    }
}

impl RequestTransport for SseRequests {
    fn request(&self, request: OutgoingRequest) -> BoxFuture<'_, Result<Reply, PostError>> {
        Box::pin(async move {
            let is_handshake = request.is_initialize || request.method == "server/discover";
            let post = self.post(&request.message, request.headers.as_deref(), !is_handshake);
            match self.endpoint.post(post).await? {
                PostOutcome::Success(response) => {
                    request.activity.mark_answer_started();
                    // The body is irrelevant, but reading it frees the connection.
                    response.into_body().read_head(MAX_DRAINED_BYTES, DRAIN_TIMEOUT).await;
                    Ok(Reply::Elsewhere)
                }
                PostOutcome::Rpc(error) => Ok(Reply::Answer { answer: Err(error), well_addressed: true, text: None }),
            }
        })
    }

    fn notify<'a>(&'a self, _method: Option<&'a str>, message: Bytes) -> BoxFuture<'a, Result<(), PostError>> {
        Box::pin(async move { self.endpoint.notify(self.post(&message, None, true)).await })
    }

    fn sweep(&self) {
        self.endpoint.client.sweep();
    }

    fn set_revision(&self, _revision: &str) {}

    fn resume(&self, _session: &str, _revision: &str) -> bool {
        // The session is the event stream.
        false
    }

    fn set_stateless(&self, _revision: Option<&str>) {}

    fn start_listening(&self) {}

    fn supports_rehandshake(&self) -> bool {
        false
    }

    fn has_session(&self) -> bool {
        true
    }
}

/// The GET ends with its stream; only pooled connections are left to close.
struct SseHandle {
    client: HttpClient,
    closed: Arc<Notify>,
}

impl PeerHandle for SseHandle {
    fn close(&self) -> BoxFuture<'_, ()> {
        self.closed.notify_one();
        self.client.close_idle();
        Box::pin(std::future::ready(()))
    }
}

fn open_error(error: PostError) -> OpenError {
    match error {
        PostError::Auth(auth) => OpenError::Auth(auth),
        PostError::Status(status) => OpenError::Http(status),
        PostError::Unusable(reason) => OpenError::Unusable(reason),
        PostError::Untrusted(reason) => OpenError::Untrusted(reason),
        PostError::NotSent(reason) | PostError::Malformed(reason) => OpenError::Other(reason),
        PostError::Lost(reason) => OpenError::Other(format!("the server {reason}")),
        PostError::SessionLost { message, .. } => OpenError::Other(message),
    }
}
