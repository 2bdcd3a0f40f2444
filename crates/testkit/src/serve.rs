//! Plays a script over a pair of byte streams.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt as _, AsyncRead, AsyncWrite, AsyncWriteExt as _, BufReader};
use tokio::sync::{Notify, oneshot};
use tokio::task::JoinSet;

use crate::rules::{Rules, answer_well, message_of};
use crate::{Script, Step, WireLog, process};

/// What floods are made of.
static FILLING: [u8; 64 * 1024] = [b'x'; 64 * 1024];

/// A script with its log and with how often its rules have been used, shared by all its connections.
#[derive(Clone)]
pub struct Scripted {
    rules: Arc<Rules>,
    log: WireLog,
    connections: Arc<AtomicU64>,
}

impl Scripted {
    /// Ready to be served.
    pub fn new(script: Script) -> Self {
        Self { rules: Arc::new(Rules::new(script)), log: WireLog::default(), connections: Arc::default() }
    }

    /// What has been received so far.
    pub fn log(&self) -> &WireLog {
        &self.log
    }

    /// How many connections there have been.
    pub fn connections(&self) -> u64 {
        self.connections.load(Ordering::Relaxed)
    }

    /// Serves one connection in memory until its end.
    pub async fn serve(self, stream: tokio::io::DuplexStream) {
        let (reader, writer) = tokio::io::split(stream);
        self.serve_streams(reader, writer).await;
    }

    /// Serves one connection until its end.
    pub async fn serve_streams(
        self,
        reader: impl AsyncRead + Send + Unpin,
        writer: impl AsyncWrite + Send + Unpin + 'static,
    ) {
        self.connections.fetch_add(1, Ordering::Relaxed);
        let connection = Arc::new(Connection {
            server: self,
            out: tokio::sync::Mutex::new(Box::new(writer)),
            asked: Mutex::default(),
            next_question: AtomicU64::new(1),
            hung_up: Notify::new(),
            deaf: Notify::new(),
        });
        let talk = async {
            if !connection.play(&connection.server.rules.script().at_start, &Value::Null).await {
                return;
            }
            connection.read(reader).await;
        };
        tokio::select! {
            () = talk => {}
            () = connection.hung_up.notified() => {}
        }
    }
}

struct Connection {
    server: Scripted,
    out: tokio::sync::Mutex<Box<dyn AsyncWrite + Send + Unpin>>,
    asked: Mutex<HashMap<String, oneshot::Sender<Value>>>,
    next_question: AtomicU64,
    hung_up: Notify,
    deaf: Notify,
}

impl Connection {
    async fn read(self: &Arc<Self>, reader: impl AsyncRead + Send + Unpin) {
        let mut lines = BufReader::new(reader).lines();
        let mut tasks = JoinSet::new();
        loop {
            let line = tokio::select! {
                line = lines.next_line() => line,
                () = self.deaf.notified() => std::future::pending().await,
            };
            let Ok(Some(line)) = line else { break };
            self.server.log.add(&line);
            process::log(&line);
            let Ok(message) = serde_json::from_str::<Value>(&line) else { continue };
            if message.get("method").is_none() {
                let asked = message["id"].as_str().and_then(|id| self.asked().remove(id));
                if let Some(asked) = asked {
                    let _ = asked.send(message);
                }
                continue;
            }
            let (connection, steps) = (Arc::clone(self), self.server.rules.steps(&message));
            match steps {
                // Requests with steps may take long; each is on its own.
                Some(steps) => {
                    tasks.spawn(async move {
                        connection.play(&steps, &message).await;
                    });
                }
                None => self.answer_well(&message).await,
            }
        }
        process::at_end_of_input().await;
    }

    /// Plays steps one after the other; `false` if the server is to do nothing more.
    async fn play(self: &Arc<Self>, steps: &[Step], request: &Value) -> bool {
        let script = self.server.rules.script();
        let fill = |text: &str| text.replace("{id}", &request["id"].to_string());
        let mut answer = Value::Null;
        for step in steps {
            match step {
                Step::Result(_)
                | Step::Text(_)
                | Step::Error(..)
                | Step::Normally
                | Step::Notify(..)
                | Step::Progress(..)
                | Step::EchoAnswer => {
                    if let Some(message) = message_of(script, step, request, &answer) {
                        self.send(&message).await;
                    }
                }
                Step::Line(line) => self.write(format!("{}\n", fill(line)).as_bytes()).await,
                Step::Bytes(bytes) => self.write(bytes).await,
                Step::Flood(before, length, after) => {
                    let (before, after) = (fill(before), fill(after));
                    let filling = std::iter::repeat_n(&FILLING[..], length / FILLING.len());
                    let rest = &FILLING[..length % FILLING.len()];
                    let pieces = std::iter::once(before.as_bytes()).chain(filling).chain([rest, after.as_bytes()]);
                    self.write_all(pieces).await;
                }
                Step::Ask(method, params) => answer = self.ask(method, params).await,
                Step::Wait(milliseconds) => tokio::time::sleep(Duration::from_millis(*milliseconds)).await,
                Step::Hang => std::future::pending().await,
                Step::StopReading => self.deaf.notify_one(),
                Step::HangUp => {
                    self.hung_up.notify_one();
                    return false;
                }
                Step::Touch(_)
                | Step::Stderr(_)
                | Step::StderrFlood(_)
                | Step::Exit(_)
                | Step::ExitOnce(..)
                | Step::ExitIfRunning(..)
                | Step::Grandchild(_)
                | Step::IgnoreShutdown => process::step(step).await,
                // There is no response here to spoil.
                Step::Http { .. } | Step::EndStream | Step::Reset | Step::Stall | Step::RawEvent(_) => {}
            }
        }
        true
    }

    async fn ask(&self, method: &str, params: &Value) -> Value {
        let id = format!("question-{}", self.next_question.fetch_add(1, Ordering::Relaxed));
        let (asked, answered) = oneshot::channel();
        self.asked().insert(id.clone(), asked);
        self.send(&json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params})).await;
        answered.await.unwrap_or_default()
    }

    /// What a good server would do.
    async fn answer_well(&self, message: &Value) {
        if let Some(answer) = answer_well(self.server.rules.script(), message) {
            self.send(&answer).await;
        }
    }

    async fn send(&self, message: &Value) {
        self.write(format!("{message}\n").as_bytes()).await;
    }

    async fn write(&self, bytes: &[u8]) {
        self.write_all(std::iter::once(bytes)).await;
    }

    /// Writes pieces in one go: nothing else gets in between.
    #[expect(clippy::await_holding_invalid_type, reason = "one message at a time is what this lock is for")]
    async fn write_all(&self, pieces: impl Iterator<Item = &[u8]>) {
        let mut out = self.out.lock().await;
        for piece in pieces {
            // A client that is gone ends the connection by itself.
            if out.write_all(piece).await.is_err() {
                return;
            }
        }
        let _ = out.flush().await;
    }

    fn asked(&self) -> std::sync::MutexGuard<'_, HashMap<String, oneshot::Sender<Value>>> {
        self.asked.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
