//! The older HTTP transport: one long GET brings everything from the server, and a POST each takes what we have to say to
//! an address the server names.
//!
//! The GET has no deadline of its own, the POSTs have: a server may be silent for as long as nobody asks it anything.

use std::io;
use std::sync::Arc;

use bytes::Bytes;
use futures_util::future::BoxFuture;
use futures_util::stream;
use http::header::ACCEPT;
use http::{HeaderMap, HeaderValue, Uri};
use tokio::sync::Notify;
use wharf_io::{HttpClient, SseError, SseReader, same_origin_reference};

use super::poster::{Letter, MOST_IGNORED, Met, REST, Refused, is};
use super::refusal::{Meaning, Refusal};
use super::{InvalidRemote, Reached, Remote, RemoteOptions};
use crate::transport::bytes::text;
use crate::transport::{
    Frame, Link, MAX_MESSAGE_BYTES, OpenError, Outward, PeerHandle, PostError, Posted, Posts, Reply, Transport,
};

/// A server that speaks HTTP with server-sent events, as before 2025.
#[derive(Clone)]
pub struct HttpSse {
    remote: Remote,
}

impl HttpSse {
    /// The server whose stream of events is at `url`, which is `http` or `https`.
    pub fn new(url: &str, options: RemoteOptions) -> Result<Self, InvalidRemote> {
        Ok(Self { remote: Remote::new(url, ["http", "https"], options)? })
    }

    pub(super) fn at(remote: Remote) -> Self {
        Self { remote }
    }
}

impl Transport for HttpSse {
    fn open(&self) -> BoxFuture<'_, Result<Link, OpenError>> {
        Box::pin(async { open(self.remote.reach()?).await })
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
}

async fn open(reached: Reached) -> Result<Link, OpenError> {
    let mut own = HeaderMap::new();
    own.insert(ACCEPT, HeaderValue::from_static("text/event-stream"));
    let response = reached.get_events(&own, false).await.map_err(|refused| match refused {
        Refused::Unsent(error) => not_opened(error),
        Refused::Answered(Refusal { meaning: Meaning::Rpc(_), status }) => OpenError::Http(status),
        Refused::Answered(refusal) => not_opened(refusal.into_error(false)),
    })?;
    if !is(&response, "text/event-stream") {
        let mut body = response.into_body();
        let start = String::from_utf8_lossy(&body.read_head(200, REST).await).into_owned();
        let start = start.split_whitespace().collect::<Vec<_>>().join(" ");
        return Err(OpenError::Other(format!("there is no stream of events at {}: {start}", reached.url.path())));
    }
    let mut events = SseReader::new(response.into_body(), MAX_MESSAGE_BYTES);
    let endpoint = loop {
        match events.next().await {
            Some(Ok(event)) if event.kind == "endpoint" => break String::from_utf8_lossy(&event.data).into_owned(),
            Some(Ok(_)) => {}
            Some(Err(error)) => return Err(OpenError::Other(error.to_string())),
            None => return Err(OpenError::Other("the stream ended before it named an address to post to".to_owned())),
        }
    };
    // A server that sends our messages, and the headers with our secrets, elsewhere is not one we follow.
    let endpoint = same_origin_reference(&reached.url, endpoint.trim()).ok_or_else(|| {
        OpenError::Other(format!("the server wants messages posted to `{endpoint}`, which is another origin"))
    })?;
    let over = Arc::new(Notify::new());
    let keeper = Arc::new(LegacyKeeper { client: reached.client.clone(), over: Arc::clone(&over) });
    let incoming = stream::unfold((events, over), async |(mut events, over)| {
        let frame = tokio::select! {
            frame = frame(&mut events) => frame?,
            () = over.notified() => return None,
        };
        Some((frame, (events, over)))
    });
    let posts = LegacyPosts { reached, endpoint, own: HeaderMap::new() };
    Ok(Link { incoming: Box::pin(incoming), outward: Outward::Posts(Arc::new(posts)), keeper })
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

struct LegacyPosts {
    reached: Reached,
    endpoint: Uri,
    own: HeaderMap,
}

impl Posts for LegacyPosts {
    fn request(&self, posted: Posted) -> BoxFuture<'_, Result<Reply, PostError>> {
        Box::pin(async move {
            let greeting = posted.handshake || posted.method == "server/discover";
            let (content, extra, session) = (&posted.message, posted.headers.as_deref(), !greeting);
            let (to, own) = (&self.endpoint, &self.own);
            match self.reached.post(Letter { to, content, own, method: None, extra, session }).await? {
                Met::Success(response) => {
                    posted.heard.begin();
                    // What it says is of no interest; read, it frees its connection.
                    response.into_body().read_head(MOST_IGNORED, REST).await;
                    Ok(Reply::Elsewhere)
                }
                Met::Rpc(error) => Ok(Reply::Answer { answer: Err(error), well_addressed: true }),
            }
        })
    }

    fn tell<'a>(&'a self, _method: Option<&'a str>, message: Bytes) -> BoxFuture<'a, Result<(), PostError>> {
        Box::pin(async move {
            let (own, session) = (&self.own, true);
            let letter = Letter { to: &self.endpoint, content: &message, own, method: None, extra: None, session };
            self.reached.tell(letter).await
        })
    }

    fn tidy(&self) {
        self.reached.client.sweep();
    }

    fn greeted(&self, _revision: &str) {}

    fn resume(&self, _session: &str, _revision: &str) -> bool {
        // Its session is its stream of events.
        false
    }

    fn stand_alone(&self, _revision: Option<&str>) {}

    fn listen(&self) {}

    fn renews(&self) -> bool {
        false
    }

    fn has_session(&self) -> bool {
        true
    }
}

/// The GET ends with the stream that reads it; what is left are kept connections.
struct LegacyKeeper {
    client: HttpClient,
    over: Arc<Notify>,
}

impl PeerHandle for LegacyKeeper {
    fn close(&self) -> BoxFuture<'_, ()> {
        self.over.notify_one();
        self.client.let_go();
        Box::pin(std::future::ready(()))
    }
}

fn not_opened(error: PostError) -> OpenError {
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
