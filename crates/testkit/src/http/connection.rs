//! One HTTP connection: who answers a request, and what becomes of the things said about it.

use std::convert::Infallible;
use std::pin::pin;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, PoisonError};

use http::{Method, Request};
use http_body_util::BodyExt as _;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::upgrade::OnUpgrade;
use hyper_util::rt::TokioIo;
use serde_json::Value;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::mpsc;
use tokio::task::{AbortHandle, JoinSet};

use super::play::{Heard, Said, converse, play};
use super::response::{self, Ending, EventStream, Framing, Response};
use super::{HEARD_AHEAD, HttpScripted, OpenStream, SAID_AHEAD, SeenRequest, websocket};
use crate::{Step, modern};

/// Serves one connection until its end; everything that is still being played ends with it.
pub(super) async fn serve(
    server: HttpScripted,
    stream: impl AsyncRead + AsyncWrite + Send + Unpin + 'static,
    ending: Arc<Ending>,
) {
    let number = server.shared.connections.fetch_add(1, Ordering::Relaxed) + 1;
    let _open = Open::new(&server);
    let connection =
        Arc::new(Connection { server, number, ending, tasks: Mutex::default(), upgrade: Mutex::default() });
    let service = service_fn(|request| {
        let connection = Arc::clone(&connection);
        async move { Ok::<_, Infallible>(connection.answer(request).await) }
    });
    let mut talk = pin!(http1::Builder::new().serve_connection(TokioIo::new(stream), service).with_upgrades());
    loop {
        tokio::select! {
            _ = talk.as_mut() => break,
            () = connection.ending.cut.notified() => return,
            () = connection.ending.after_this.notified() => talk.as_mut().graceful_shutdown(),
        }
    }
    let upgrade = connection.upgrade.lock().unwrap_or_else(PoisonError::into_inner).take();
    if let Some((opening, upgrade)) = upgrade
        && let Ok(stream) = upgrade.await
    {
        websocket::serve(&connection, opening, stream).await;
    }
}

pub(super) struct Connection {
    pub(super) server: HttpScripted,
    number: u64,
    pub(super) ending: Arc<Ending>,
    tasks: Mutex<JoinSet<()>>,
    /// The stream under this connection, once HTTP has promised it away, and how the conversation on it opens.
    upgrade: Mutex<Option<(Vec<Step>, OnUpgrade)>>,
}

/// Counts a connection for as long as it is open.
struct Open(HttpScripted);

impl Open {
    fn new(server: &HttpScripted) -> Self {
        server.shared.open_connections.fetch_add(1, Ordering::Relaxed);
        Self(server.clone())
    }
}

impl Drop for Open {
    fn drop(&mut self) {
        self.0.shared.open_connections.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Connection {
    async fn answer(&self, mut request: Request<Incoming>) -> Response {
        let upgrade = hyper::upgrade::on(&mut request);
        let (head, body) = request.into_parts();
        // A body that breaks off is no request at all; the connection ends by itself.
        let Ok(body) = body.collect().await else { return response::empty(400) };
        let seen = SeenRequest {
            method: head.method.to_string(),
            path: head.uri.to_string(),
            headers: head.headers,
            body: String::from_utf8_lossy(&body.to_bytes()).into_owned(),
            connection: self.number,
        };
        self.server.state().requests.push(seen.clone());
        match (head.method, head.uri.path()) {
            (Method::GET, "/sse") => self.legacy_stream().await,
            (method, "/sse") => self.not_for_messages(method.as_str()).await,
            (Method::POST, "/messages") => self.legacy_post(&seen).await,
            (Method::GET, "/ws") => self.websocket(&seen.headers, upgrade).await,
            (Method::POST, _) => self.post(&seen).await,
            (Method::GET, _) => self.get(&seen).await,
            (Method::DELETE, _) => self.delete(&seen).await,
            _ => response::not_allowed("GET, POST, DELETE"),
        }
    }

    /// Waits for what the steps say first and makes it the whole response.
    pub(super) async fn first_of(&self, mut said: mpsc::Receiver<Said>, request: &Value) -> Response {
        loop {
            let answer = match said.recv().await {
                // A notification has no answer to ride on.
                Some(Said::Message(message)) if request["id"].is_null() => {
                    self.server.push(message).await;
                    continue;
                }
                Some(Said::Message(message)) => {
                    let status = modern::status(self.server.shared.rules.script(), request, &message);
                    let answer = response::json(status, message.to_string());
                    if message.get("error").is_some() { answer } else { self.in_session(answer, request) }
                }
                Some(Said::Line(line)) => self.in_session(response::json(200, line), request),
                Some(Said::Raw(bytes)) => self.in_session(response::json(200, bytes), request),
                Some(Said::Response { status, headers, body }) => {
                    let headers: Vec<_> = headers.iter().map(|(name, value)| (&**name, &**value)).collect();
                    response::whole(status, &headers, body)
                }
                Some(Said::Stall) => response::stalled(),
                Some(Said::HangUp) => self.cut(false).await,
                Some(Said::Reset) => self.cut(true).await,
                Some(Said::End) | None => response::empty(202),
            };
            self.hear_out(said);
            return answer;
        }
    }

    /// Lets the steps after an answer be played; if they end the connection, then only after the answer is out.
    fn hear_out(&self, mut said: mpsc::Receiver<Said>) {
        let ending = Arc::clone(&self.ending);
        self.spawn(async move {
            while let Some(said) = said.recv().await {
                if matches!(said, Said::HangUp | Said::Reset) {
                    ending.after_this.notify_one();
                }
            }
        });
    }

    /// Never returns: the connection is dropped, and this with it.
    async fn cut(&self, reset: bool) -> Response {
        self.ending.cut(reset);
        std::future::pending().await
    }

    pub(super) fn event_stream(&self, said: mpsc::Receiver<Said>, framing: Framing) -> EventStream {
        EventStream::new(self.server.clone(), said, framing, Arc::clone(&self.ending))
    }

    pub(super) fn play(&self, steps: Vec<Step>, request: Value) -> (OpenStream, mpsc::Receiver<Said>) {
        let (out, said) = mpsc::channel(SAID_AHEAD);
        let weak = out.downgrade();
        let task = self.spawn(play(self.server.clone(), steps, request, out));
        (OpenStream { session: None, out: weak, task }, said)
    }

    /// A conversation of its own, which starts with these steps.
    pub(super) fn converse(&self, opening: Vec<Step>) -> (mpsc::Sender<Heard>, mpsc::Receiver<Said>) {
        let (heard, inbox) = mpsc::channel(HEARD_AHEAD);
        let (out, said) = mpsc::channel(SAID_AHEAD);
        let weak = out.downgrade();
        let task = self.spawn(converse(self.server.clone(), opening, inbox, out));
        self.server.open_stream(OpenStream { session: None, out: weak, task });
        (heard, said)
    }

    /// Hands the stream over as soon as the response that says so is out.
    pub(super) fn promise(&self, opening: Vec<Step>, upgrade: OnUpgrade) {
        *self.upgrade.lock().unwrap_or_else(PoisonError::into_inner) = Some((opening, upgrade));
    }

    fn spawn(&self, task: impl Future<Output = ()> + Send + 'static) -> AbortHandle {
        let mut tasks = self.tasks.lock().unwrap_or_else(PoisonError::into_inner);
        while tasks.try_join_next().is_some() {}
        tasks.spawn(task)
    }
}
