//! Waits on the loopback interface for the browser to come back from a sign-in.
//!
//! This is as much of an HTTP server as one redirect needs. Anybody on this machine and any page in the browser can
//! send something here, so only a request that knows the `state` of this sign-in ends the wait.

mod answer;
mod gate;
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

use answer::Answer;
use gate::{Gate, Judgement};

/// Where the browser is sent back to.
const PATH: &str = "/callback";
/// The longest head of a request that is read.
const LONGEST_HEAD: usize = 16 * 1024;
/// How long a connection may take to send it.
const HEAD_LIMIT: Duration = Duration::from_secs(5);
/// How long an answer may take to be sent, and again to be fetched.
const ANSWER_LIMIT: Duration = Duration::from_secs(1);
/// The most connections at a time.
const MOST_OPEN: usize = 8;
/// How long a connection is safe from those that come after it. A browser that has something to say says it at once.
const TURN: Duration = Duration::from_millis(100);
/// The pause after a connection that could not be accepted, for example for want of file descriptors.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// A listener to which the browser comes back after a sign-in. It hears nobody from outside this machine.
#[derive(Debug)]
pub struct Callback {
    listener: TcpListener,
    redirect_uri: String,
}

/// Why nobody came back.
#[derive(Debug, thiserror::Error)]
pub enum CallbackError {
    /// The time was over.
    #[error("the browser did not come back from the sign-in within {0:?}")]
    Late(Duration),
}

/// A connection that is being heard or answered.
struct Open {
    since: Instant,
    task: AbortHandle,
}

/// The request that was waited for, and what it is answered.
struct Arrival {
    stream: TcpStream,
    url: String,
    answer: Answer,
}

impl Callback {
    /// Listens on 127.0.0.1, on this port or on a free one.
    pub async fn listen(port: Option<u16>) -> io::Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, port.unwrap_or(0))).await?;
        let redirect_uri = format!("http://{}{PATH}", listener.local_addr()?);
        Ok(Self { listener, redirect_uri })
    }

    /// Where the browser has to be sent back to.
    pub fn redirect_uri(&self) -> &str {
        &self.redirect_uri
    }

    /// Waits until the browser comes back, and returns the whole URL it came to.
    ///
    /// `state` is the one that was sent along. Requests with another one, or without, are refused and do not end the
    /// wait, because a page in another tab can send them. A sign-in that was denied has the right one and ends it: the
    /// URL then says why. Nobody listens any more once this has returned.
    pub async fn came_back(self, state: &str, limit: Duration) -> Result<String, CallbackError> {
        let Self { listener, redirect_uri } = self;
        let gate = Arc::new(Gate::new(redirect_uri, state));
        let (mut visits, mut open) = (JoinSet::new(), VecDeque::new());
        let late = sleep(limit);
        tokio::pin!(late);
        loop {
            tokio::select! {
                biased;
                Some(visit) = visits.join_next() => {
                    // An error is a visit that had to make room.
                    if let Ok(Some(Arrival { mut stream, url, answer })) = visit {
                        // Whether or not the person gets to see the page, they have come back.
                        let _ = timeout(ANSWER_LIMIT, answer.send(&mut stream)).await;
                        return Ok(url);
                    }
                }
                () = &mut late => return Err(CallbackError::Late(limit)),
                accepted = accept(&listener, &mut open) => match accepted {
                    Ok(stream) => {
                        let task = visits.spawn(visit(stream, gate.clone()));
                        open.push_back(Open { since: Instant::now(), task });
                    }
                    Err(error) => {
                        tracing::debug!(%error, "a connection to the sign-in listener could not be accepted");
                        sleep(ACCEPT_PAUSE).await;
                    }
                },
            }
        }
    }
}

/// Accepts a connection once there is a place for it. Browsers open connections in advance on which they say nothing,
/// so the oldest one has to leave: the one we wait for must not stand in line behind them.
async fn accept(listener: &TcpListener, open: &mut VecDeque<Open>) -> io::Result<TcpStream> {
    open.retain(|visit| !visit.task.is_finished());
    if open.len() >= MOST_OPEN
        && let Some(oldest) = open.front()
    {
        sleep_until(oldest.since + TURN).await;
        oldest.task.abort();
        open.pop_front();
    }
    Ok(listener.accept().await?.0)
}

/// Hears one request. All but the one that is waited for are answered here; that one is handed over in the same breath
/// in which it was understood, so that it cannot be made to leave in between.
async fn visit(mut stream: TcpStream, gate: Arc<Gate>) -> Option<Arrival> {
    let judgement = match timeout(HEAD_LIMIT, head(&mut stream)).await.ok()?.ok()? {
        Some(head) => gate.judge(&head),
        None => Judgement::Refused(Answer::TOO_LONG),
    };
    let answer = match judgement {
        Judgement::CameBack { url, answer } => return Some(Arrival { stream, url, answer }),
        Judgement::Refused(answer) => answer,
    };
    let sent = timeout(ANSWER_LIMIT, answer.send(&mut stream)).await;
    if let Ok(Ok(())) = sent {
        // Closing while something is unread, such as the body of a form, would take the answer away again.
        let _ = timeout(ANSWER_LIMIT, tokio::io::copy(&mut stream, &mut tokio::io::sink())).await;
    }
    None
}

/// Reads up to the empty line behind the headers; `None` if that is too far away.
async fn head(stream: &mut TcpStream) -> io::Result<Option<Vec<u8>>> {
    let mut head = Vec::new();
    while head.len() < LONGEST_HEAD {
        let seen = head.len();
        let room = LONGEST_HEAD - seen;
        if (&mut *stream).take(room as u64).read_buf(&mut head).await? == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        // Something else than HTTP, such as TLS, may never send an empty line; it should not have to wait.
        let foreign = !head.first().is_some_and(u8::is_ascii_uppercase);
        let end = memchr::memmem::find(&head[seen.saturating_sub(3)..], b"\r\n\r\n");
        if foreign || end.is_some() {
            return Ok(Some(head));
        }
    }
    Ok(None)
}
