//! Receives the redirect of an authorization on the loopback interface.
//!
//! A minimal HTTP server for one redirect. Any process on this machine and any page in the browser can send requests to it,
//! so only a request with the `state` of this authorization ends the wait.

mod gate;
mod page;
#[cfg(test)]
mod tests;

use std::collections::VecDeque;
use std::io;
use std::net::Ipv4Addr;
use std::sync::Arc;
use std::time::Duration;

use tokio::io::AsyncReadExt as _;
use tokio::net::{TcpListener, TcpStream};
use tokio::task::{AbortHandle, JoinSet};
use tokio::time::{Instant, sleep, sleep_until, timeout};

use self::gate::{CALLBACK_PATH, Decision, Gate};
use self::page::Page;

/// Maximum size of a request head.
const MAX_HEAD_BYTES: usize = 16 * 1024;
/// Timeout of receiving a request head.
const HEAD_TIMEOUT: Duration = Duration::from_secs(5);
/// Timeout of sending a response, and of draining the connection afterwards.
const RESPONSE_TIMEOUT: Duration = Duration::from_secs(1);
/// Maximum number of open connections.
const MAX_CONNECTIONS: usize = 8;
/// Minimum time before a connection is closed for a newer one. A browser sends its request immediately.
const MIN_CONNECTION_TIME: Duration = Duration::from_millis(100);
/// Pause after a failed accept, for example if no file descriptors are left.
const ACCEPT_RETRY_DELAY: Duration = Duration::from_millis(100);

/// A listener for the redirect of an authorization. Reachable from this machine only.
#[derive(Debug)]
pub struct Callback {
    listener: TcpListener,
    redirect_uri: String,
}

/// Why no redirect was received.
#[derive(Debug, thiserror::Error)]
pub enum CallbackError {
    /// The timeout elapsed.
    #[error("no redirect from the browser within {0:?}")]
    Late(Duration),
}

/// An open connection.
struct OpenConnection {
    since: Instant,
    task: AbortHandle,
}

/// The expected redirect, and its response.
struct Redirect {
    stream: TcpStream,
    url: String,
    page: Page,
}

impl Callback {
    /// Listens on 127.0.0.1, on this port or on a free one.
    ///
    /// # Errors
    /// If the port is in use.
    pub async fn listen(port: Option<u16>) -> io::Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, port.unwrap_or(0))).await?;
        let redirect_uri = format!("http://{}{CALLBACK_PATH}", listener.local_addr()?);
        Ok(Self { listener, redirect_uri })
    }

    /// Returns the redirect URI.
    pub fn redirect_uri(&self) -> &str {
        &self.redirect_uri
    }

    /// Waits for the redirect, and returns its complete URL.
    ///
    /// Requests with another `state`, or without one, are rejected and do not end the wait, because a page in another tab
    /// can send them. A denied authorization has the right `state` and ends it: the URL then contains the error. The
    /// listener is closed when this returns.
    ///
    /// # Errors
    /// Returns [`CallbackError::Late`] if no redirect arrives in time.
    pub async fn came_back(self, state: &str, limit: Duration) -> Result<String, CallbackError> {
        let Self { listener, redirect_uri } = self;
        let gate = Arc::new(Gate::new(redirect_uri, state));
        let mut connections = JoinSet::new();
        let mut open = VecDeque::new();
        let deadline = sleep(limit);
        tokio::pin!(deadline);
        loop {
            tokio::select! {
                biased;
                Some(connection) = connections.join_next() => {
                    // An error is a connection that was closed for a newer one.
                    if let Ok(Some(Redirect { mut stream, url, page })) = connection {
                        // Sending the page is best effort: the redirect has arrived.
                        let _ = timeout(RESPONSE_TIMEOUT, page.send(&mut stream)).await;
                        return Ok(url);
                    }
                }
                () = &mut deadline => return Err(CallbackError::Late(limit)),
                accepted = accept(&listener, &mut open) => match accepted {
                    Ok(stream) => {
                        let task = connections.spawn(serve(stream, gate.clone()));
                        open.push_back(OpenConnection { since: Instant::now(), task });
                    }
                    Err(error) => {
                        tracing::debug!(%error, "cannot accept a connection to the redirect listener");
                        sleep(ACCEPT_RETRY_DELAY).await;
                    }
                },
            }
        }
    }
}

/// Accepts a connection, and closes the oldest one if there are too many. Browsers open connections in advance without using
/// them; the redirect must not wait for those.
async fn accept(listener: &TcpListener, open: &mut VecDeque<OpenConnection>) -> io::Result<TcpStream> {
    open.retain(|connection| !connection.task.is_finished());
    if open.len() >= MAX_CONNECTIONS
        && let Some(oldest) = open.front()
    {
        sleep_until(oldest.since + MIN_CONNECTION_TIME).await;
        oldest.task.abort();
        open.pop_front();
    }
    Ok(listener.accept().await?.0)
}

/// Serves one request. The redirect is returned without an await after it is recognized, so that its connection cannot be
/// closed in between. All other requests are answered here.
async fn serve(mut stream: TcpStream, gate: Arc<Gate>) -> Option<Redirect> {
    let decision = match timeout(HEAD_TIMEOUT, read_head(&mut stream)).await.ok()?.ok()? {
        Some(head) => gate.decide(&head),
        None => Decision::Rejected(Page::TOO_LONG),
    };
    let page = match decision {
        Decision::Redirect { url, page } => return Some(Redirect { stream, url, page }),
        Decision::Rejected(page) => page,
    };
    let sent = timeout(RESPONSE_TIMEOUT, page.send(&mut stream)).await;
    if let Ok(Ok(())) = sent {
        // Closing with unread input, such as a form body, would reset the connection before the response is read.
        let _ = timeout(RESPONSE_TIMEOUT, tokio::io::copy(&mut stream, &mut tokio::io::sink())).await;
    }
    None
}

/// Reads a request head up to the empty line; `None` if it is too long.
async fn read_head(stream: &mut TcpStream) -> io::Result<Option<Vec<u8>>> {
    let mut head = Vec::new();
    while head.len() < MAX_HEAD_BYTES {
        let seen = head.len();
        let room = MAX_HEAD_BYTES - seen;
        if (&mut *stream).take(room as u64).read_buf(&mut head).await? == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        // Another protocol, such as TLS, may never send an empty line; it is answered at once.
        let is_foreign = !head.first().is_some_and(u8::is_ascii_uppercase);
        let end = memchr::memmem::find(&head[seen.saturating_sub(3)..], b"\r\n\r\n");
        if is_foreign || end.is_some() {
            return Ok(Some(head));
        }
    }
    Ok(None)
}
