//! One HTTP connection and the tasks that play its steps.

use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, PoisonError};

use hyper::upgrade::OnUpgrade;
use serde_json::Value;
use tokio::sync::mpsc;
use tokio::task::{AbortHandle, JoinSet};

use super::output::{Incoming, Output};
use super::play::{play, play_stream};
use super::response::{self, Ending, EventStream, Framing, Response};
use super::server::{HttpScripted, OpenStream};
use crate::modern;
use crate::script::Step;

/// Capacity of the queue of outputs on one response.
const OUTPUT_CAPACITY: usize = 64;
/// Capacity of the queue of messages on one stream.
const INBOX_CAPACITY: usize = 64;

pub(super) struct Connection {
    pub(super) server: HttpScripted,
    pub(super) number: u64,
    pub(super) ending: Arc<Ending>,
    tasks: Mutex<JoinSet<()>>,
    _open: OpenConnection,
    /// The pending upgrade of this connection, and the steps that start the WebSocket.
    upgrade: Mutex<Option<(Vec<Step>, OnUpgrade)>>,
}

/// Counts a connection while it is open.
struct OpenConnection(HttpScripted);

impl OpenConnection {
    fn new(server: &HttpScripted) -> Self {
        server.shared.open_connections.fetch_add(1, Ordering::Relaxed);
        Self(server.clone())
    }
}

impl Drop for OpenConnection {
    fn drop(&mut self) {
        self.0.shared.open_connections.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Connection {
    pub(super) fn new(server: HttpScripted, ending: Arc<Ending>) -> Self {
        let number = server.shared.connections.fetch_add(1, Ordering::Relaxed) + 1;
        let open = OpenConnection::new(&server);
        Self { server, number, ending, tasks: Mutex::default(), _open: open, upgrade: Mutex::default() }
    }

    /// Makes the first output of the steps the whole response.
    pub(super) async fn first_of(&self, mut outputs: mpsc::Receiver<Output>, request: &Value) -> Response {
        loop {
            let response = match outputs.recv().await {
                // A notification has no response to carry the message.
                Some(Output::Message(message)) if request["id"].is_null() => {
                    self.server.push(message).await;
                    continue;
                }
                Some(Output::Message(message)) => {
                    let status = modern::status(self.server.shared.rules.script(), request, &message);
                    let response = response::json(status, message.to_string());
                    if message.get("error").is_some() { response } else { self.in_session(response, request) }
                }
                Some(Output::Line(line)) => self.in_session(response::json(200, line), request),
                Some(Output::Raw(bytes)) => self.in_session(response::json(200, bytes), request),
                Some(Output::Response { status, headers, body }) => {
                    let headers: Vec<_> = headers.iter().map(|(name, value)| (&**name, &**value)).collect();
                    response::whole(status, &headers, body)
                }
                Some(Output::Stall) => response::stalled(),
                Some(Output::HangUp) => self.cut(false).await,
                Some(Output::Reset) => self.cut(true).await,
                Some(Output::End) | None => response::empty(202),
            };
            self.drain(outputs);
            return response;
        }
    }

    /// Plays the steps after a response. If they end the connection, it ends after the response is sent.
    fn drain(&self, mut outputs: mpsc::Receiver<Output>) {
        let ending = Arc::clone(&self.ending);
        self.spawn(async move {
            while let Some(output) = outputs.recv().await {
                if matches!(output, Output::HangUp | Output::Reset) {
                    ending.after_this.notify_one();
                }
            }
        });
    }

    /// Never returns: this future is dropped with the connection.
    async fn cut(&self, reset: bool) -> Response {
        self.ending.cut(reset);
        std::future::pending().await
    }

    pub(super) fn event_stream(&self, outputs: mpsc::Receiver<Output>, framing: Framing) -> EventStream {
        EventStream::new(self.server.clone(), outputs, framing, Arc::clone(&self.ending))
    }

    pub(super) fn play(&self, steps: Vec<Step>, request: Value) -> (OpenStream, mpsc::Receiver<Output>) {
        let (out, outputs) = mpsc::channel(OUTPUT_CAPACITY);
        let weak = out.downgrade();
        let task = self.spawn(play(self.server.clone(), steps, request, out));
        (OpenStream { session: None, out: weak, task }, outputs)
    }

    /// Starts a stream of messages with these steps.
    pub(super) fn open_messages(&self, opening: Vec<Step>) -> (mpsc::Sender<Incoming>, mpsc::Receiver<Output>) {
        let (sender, inbox) = mpsc::channel(INBOX_CAPACITY);
        let (out, outputs) = mpsc::channel(OUTPUT_CAPACITY);
        let weak = out.downgrade();
        let task = self.spawn(play_stream(self.server.clone(), opening, inbox, out));
        self.server.open_stream(OpenStream { session: None, out: weak, task });
        (sender, outputs)
    }

    /// Upgrades the connection once the response that announces it is sent.
    pub(super) fn set_upgrade(&self, opening: Vec<Step>, upgrade: OnUpgrade) {
        *self.upgrade.lock().unwrap_or_else(PoisonError::into_inner) = Some((opening, upgrade));
    }

    pub(super) fn take_upgrade(&self) -> Option<(Vec<Step>, OnUpgrade)> {
        self.upgrade.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    fn spawn(&self, task: impl Future<Output = ()> + Send + 'static) -> AbortHandle {
        let mut tasks = self.tasks.lock().unwrap_or_else(PoisonError::into_inner);
        while tasks.try_join_next().is_some() {}
        tasks.spawn(task)
    }
}
