//! One HTTP connection, and what Streamable HTTP makes of its requests.

use std::convert::Infallible;
use std::pin::pin;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, PoisonError};

use http::{HeaderMap, HeaderValue, Method, Request};
use http_body_util::BodyExt as _;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use serde_json::{Value, json};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::mpsc;
use tokio::task::{AbortHandle, JoinSet};

use super::play::{Said, need_a_stream, play};
use super::response::{self, Ending, EventStream, Framing, Response};
use super::{Answers, HttpScripted, OpenStream, Push, SAID_AHEAD, SeenRequest};
use crate::Step;

const SESSION: &str = "mcp-session-id";

/// Serves one connection until its end; everything that is still being played ends with it.
pub(super) async fn serve(
    server: HttpScripted,
    stream: impl AsyncRead + AsyncWrite + Send + Unpin + 'static,
    ending: Arc<Ending>,
) {
    let number = server.shared.connections.fetch_add(1, Ordering::Relaxed) + 1;
    let connection = Arc::new(Connection { server, number, ending, tasks: Mutex::default() });
    let service = service_fn(|request| {
        let connection = Arc::clone(&connection);
        async move { Ok::<_, Infallible>(connection.answer(request).await) }
    });
    let mut talk = pin!(http1::Builder::new().serve_connection(TokioIo::new(stream), service));
    loop {
        tokio::select! {
            _ = talk.as_mut() => break,
            () = connection.ending.cut.notified() => return,
            () = connection.ending.after_this.notified() => talk.as_mut().graceful_shutdown(),
        }
    }
}

pub(super) struct Connection {
    pub(super) server: HttpScripted,
    number: u64,
    pub(super) ending: Arc<Ending>,
    tasks: Mutex<JoinSet<()>>,
}

impl Connection {
    async fn answer(&self, request: Request<Incoming>) -> Response {
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
        match head.method {
            Method::POST => self.post(&seen).await,
            Method::GET => self.get(&seen).await,
            Method::DELETE => self.delete(&seen).await,
            _ => response::not_allowed("GET, POST, DELETE"),
        }
    }

    async fn post(&self, seen: &SeenRequest) -> Response {
        self.server.shared.log.add(&seen.body);
        let Ok(message) = serde_json::from_str::<Value>(&seen.body) else { return response::empty(400) };
        if message["method"] != "initialize"
            && let Some(stale) = self.stale(&seen.headers, &message["id"], Session::Needed)
        {
            return stale;
        }
        if message.get("method").is_none() {
            self.server.hear_answer(message);
            return response::empty(202);
        }
        let steps = self.server.shared.rules.steps(&message).unwrap_or_else(|| vec![Step::Normally]);
        if message["id"].is_null() || !need_a_stream(&steps, self.server.answers) {
            let (_, said) = self.play(steps, message.clone());
            return self.first_of(said, &message).await;
        }
        let (_, said) = self.play(steps, message.clone());
        self.in_session(self.events(said, Framing::Messages), &message)
    }

    async fn get(&self, seen: &SeenRequest) -> Response {
        if let Some(stale) = self.stale(&seen.headers, &Value::Null, Session::Optional) {
            return stale;
        }
        let request = json!({"method": "GET"});
        let steps = match self.server.shared.rules.steps(&request) {
            Some(steps) => steps,
            None if self.server.push == Push::No => return response::not_allowed("POST, DELETE"),
            None => match self.stale(&seen.headers, &Value::Null, Session::Needed) {
                Some(stale) => return stale,
                None => vec![Step::Hang],
            },
        };
        // Hanging up at once is still a stream here, if a short one.
        if !need_a_stream(&steps, Answers::Sse) && !matches!(steps[..], [Step::HangUp, ..]) {
            let (_, said) = self.play(steps, request.clone());
            return self.first_of(said, &request).await;
        }
        let session = session_of(&seen.headers).map(str::to_owned);
        let (stream, said) = self.play(steps, request);
        self.server.open_stream(OpenStream { session, ..stream });
        self.events(said, Framing::Lines)
    }

    async fn delete(&self, seen: &SeenRequest) -> Response {
        if let Some(stale) = self.stale(&seen.headers, &Value::Null, Session::Optional) {
            return stale;
        }
        let request = json!({"method": "DELETE"});
        if let Some(steps) = self.server.shared.rules.steps(&request) {
            let (_, said) = self.play(steps, request.clone());
            return self.first_of(said, &request).await;
        }
        if !self.server.sessions {
            return response::not_allowed("POST");
        }
        match session_of(&seen.headers) {
            Some(session) if self.server.forget_session(session) => response::empty(200),
            _ => response::stale(&self.server.stale, &Value::Null),
        }
    }

    /// Waits for what the steps say first and makes it the whole response.
    async fn first_of(&self, mut said: mpsc::Receiver<Said>, request: &Value) -> Response {
        loop {
            let answer = match said.recv().await {
                // A notification has no answer to ride on.
                Some(Said::Message(message)) if request["id"].is_null() => {
                    self.server.push(message).await;
                    continue;
                }
                Some(Said::Message(message)) => {
                    let answer = response::json(200, message.to_string());
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

    /// The stale answer, if this request deserves it.
    fn stale(&self, headers: &HeaderMap, id: &Value, session: Session) -> Option<Response> {
        let fine = match session_of(headers) {
            Some(id) => self.server.knows_session(id),
            None => session == Session::Optional,
        };
        (self.server.sessions && !fine).then(|| response::stale(&self.server.stale, id))
    }

    /// Opens a session with this response, if that is what the request was for.
    fn in_session(&self, mut response: Response, request: &Value) -> Response {
        if self.server.sessions && request["method"] == "initialize" {
            let id = HeaderValue::try_from(self.server.new_session()).expect("ours are plain");
            response.headers_mut().insert(SESSION, id);
        }
        response
    }

    fn events(&self, said: mpsc::Receiver<Said>, framing: Framing) -> Response {
        let stream = EventStream::new(self.server.clone(), said, framing, Arc::clone(&self.ending));
        response::events(stream)
    }

    fn play(&self, steps: Vec<Step>, request: Value) -> (OpenStream, mpsc::Receiver<Said>) {
        let (out, said) = mpsc::channel(SAID_AHEAD);
        let weak = out.downgrade();
        let task = self.spawn(play(self.server.clone(), steps, request, out));
        (OpenStream { session: None, out: weak, task }, said)
    }

    fn spawn(&self, task: impl Future<Output = ()> + Send + 'static) -> AbortHandle {
        let mut tasks = self.tasks.lock().unwrap_or_else(PoisonError::into_inner);
        while tasks.try_join_next().is_some() {}
        tasks.spawn(task)
    }
}

/// Whether a request may come without a session.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Session {
    Needed,
    Optional,
}

fn session_of(headers: &HeaderMap) -> Option<&str> {
    headers.get(SESSION)?.to_str().ok()
}
