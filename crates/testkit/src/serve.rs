//! Plays a script over a pair of byte streams.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt as _, AsyncRead, AsyncWrite, AsyncWriteExt as _, BufReader};
use tokio::sync::{Notify, oneshot};
use tokio::task::JoinSet;

use crate::log::WireLog;
use crate::process;
use crate::rules::{Rules, correct_response, message_of};
use crate::script::{Script, Step};

/// A chunk of the data that [`Step::Flood`] sends.
static FLOOD_CHUNK: [u8; 64 * 1024] = [b'x'; 64 * 1024];

/// A script with its log and the state of its rules, shared by all its connections.
#[derive(Clone)]
pub struct Scripted {
    rules: Arc<Rules>,
    log: WireLog,
    connections: Arc<AtomicU64>,
}

impl Scripted {
    /// Creates a server that is ready to serve.
    pub fn new(script: Script) -> Self {
        Self { rules: Arc::new(Rules::new(script)), log: WireLog::default(), connections: Arc::default() }
    }

    /// Returns the log of received messages.
    pub fn log(&self) -> &WireLog {
        &self.log
    }

    /// Returns how many connections have been opened.
    pub fn connections(&self) -> u64 {
        self.connections.load(Ordering::Relaxed)
    }

    /// Serves one in-memory connection until it ends.
    pub async fn serve(self, stream: tokio::io::DuplexStream) {
        let (reader, writer) = tokio::io::split(stream);
        self.serve_streams(reader, writer).await;
    }

    /// Serves one connection until it ends.
    pub async fn serve_streams(
        self,
        reader: impl AsyncRead + Send + Unpin,
        writer: impl AsyncWrite + Send + Unpin + 'static,
    ) {
        self.connections.fetch_add(1, Ordering::Relaxed);
        let connection = Arc::new(Connection {
            server: self,
            out: tokio::sync::Mutex::new(Box::new(writer)),
            pending: Mutex::default(),
            next_request: AtomicU64::new(1),
            hung_up: Notify::new(),
            stopped_reading: Notify::new(),
        });
        let serving = async {
            if !connection.play(&connection.server.rules.script().at_start, &Value::Null).await {
                return;
            }
            connection.read(reader).await;
        };
        tokio::select! {
            () = serving => {}
            () = connection.hung_up.notified() => {}
        }
    }
}

struct Connection {
    server: Scripted,
    out: tokio::sync::Mutex<Box<dyn AsyncWrite + Send + Unpin>>,
    pending: Mutex<HashMap<String, oneshot::Sender<Value>>>,
    next_request: AtomicU64,
    hung_up: Notify,
    stopped_reading: Notify,
}

impl Connection {
    async fn read(self: &Arc<Self>, reader: impl AsyncRead + Send + Unpin) {
        let mut lines = BufReader::new(reader).lines();
        let mut tasks = JoinSet::new();
        loop {
            let line = tokio::select! {
                line = lines.next_line() => line,
                () = self.stopped_reading.notified() => std::future::pending().await,
            };
            let Ok(Some(line)) = line else { break };
            self.server.log.add(&line);
            process::log(&line);
            let Ok(message) = serde_json::from_str::<Value>(&line) else { continue };
            if message.get("method").is_none() {
                let pending = message["id"].as_str().and_then(|id| self.pending().remove(id));
                if let Some(sender) = pending {
                    let _ = sender.send(message);
                }
                continue;
            }
            let connection = Arc::clone(self);
            let steps = self.server.rules.steps(&message);
            match steps {
                // Requests with steps may take long, so each has its own task.
                Some(steps) => {
                    tasks.spawn(async move {
                        connection.play(&steps, &message).await;
                    });
                }
                None => self.respond_correctly(&message).await,
            }
        }
        process::at_end_of_input().await;
    }

    /// Plays steps in order; returns `false` if the server must stop.
    async fn play(self: &Arc<Self>, steps: &[Step], request: &Value) -> bool {
        let script = self.server.rules.script();
        let fill = |text: &str| text.replace("{id}", &request["id"].to_string());
        let mut response = Value::Null;
        for step in steps {
            match step {
                Step::Result(_)
                | Step::Text(_)
                | Step::Error(..)
                | Step::Normally
                | Step::Notify(..)
                | Step::Progress(..)
                | Step::EchoAnswer => {
                    if let Some(message) = message_of(script, step, request, &response) {
                        self.send(&message).await;
                    }
                }
                Step::Line(line) => self.write(format!("{}\n", fill(line)).as_bytes()).await,
                Step::Bytes(bytes) => self.write(bytes).await,
                Step::Flood(before, length, after) => {
                    let before = fill(before);
                    let after = fill(after);
                    let filler = std::iter::repeat_n(&FLOOD_CHUNK[..], length / FLOOD_CHUNK.len());
                    let rest = &FLOOD_CHUNK[..length % FLOOD_CHUNK.len()];
                    let chunks = std::iter::once(before.as_bytes()).chain(filler).chain([rest, after.as_bytes()]);
                    self.write_all(chunks).await;
                }
                Step::Ask(method, params) => response = self.request(method, params).await,
                Step::Wait(milliseconds) => tokio::time::sleep(Duration::from_millis(*milliseconds)).await,
                Step::Hang => std::future::pending().await,
                Step::StopReading => self.stopped_reading.notify_one(),
                Step::HangUp => {
                    self.hung_up.notify_one();
                    return false;
                }
                Step::Touch(_)
                | Step::AwaitFile(_)
                | Step::Stderr(_)
                | Step::StderrFlood(_)
                | Step::Exit(_)
                | Step::ExitOnce(..)
                | Step::ExitIfRunning(..)
                | Step::Grandchild(_)
                | Step::IgnoreShutdown => process::step(step).await,
                // Only for HTTP.
                Step::Http { .. } | Step::EndStream | Step::Reset | Step::Stall | Step::RawEvent(_) => {}
            }
        }
        true
    }

    async fn request(&self, method: &str, params: &Value) -> Value {
        let id = format!("question-{}", self.next_request.fetch_add(1, Ordering::Relaxed));
        let (sender, response) = oneshot::channel();
        self.pending().insert(id.clone(), sender);
        self.send(&json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params})).await;
        response.await.unwrap_or_default()
    }

    async fn respond_correctly(&self, message: &Value) {
        if let Some(response) = correct_response(self.server.rules.script(), message) {
            self.send(&response).await;
        }
    }

    async fn send(&self, message: &Value) {
        self.write(format!("{message}\n").as_bytes()).await;
    }

    async fn write(&self, bytes: &[u8]) {
        self.write_all(std::iter::once(bytes)).await;
    }

    /// Writes chunks without other messages in between.
    #[expect(clippy::await_holding_invalid_type, reason = "one message at a time is what this lock is for")]
    async fn write_all(&self, chunks: impl Iterator<Item = &[u8]>) {
        let mut out = self.out.lock().await;
        for chunk in chunks {
            // The reading side notices a disconnected client.
            if out.write_all(chunk).await.is_err() {
                return;
            }
        }
        let _ = out.flush().await;
    }

    fn pending(&self) -> std::sync::MutexGuard<'_, HashMap<String, oneshot::Sender<Value>>> {
        self.pending.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
