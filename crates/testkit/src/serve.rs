//! Plays a script over a pair of byte streams.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt as _, AsyncRead, AsyncWrite, AsyncWriteExt as _, BufReader};
use tokio::sync::{Notify, oneshot};
use tokio::task::JoinSet;

use crate::{Script, Step, WireLog, process};

/// What floods are made of.
static FILLING: [u8; 64 * 1024] = [b'x'; 64 * 1024];

/// A script with its log and with how often its rules have been used, shared by all its connections.
#[derive(Clone)]
pub struct Scripted {
    script: Arc<Script>,
    used: Arc<Mutex<HashMap<usize, u32>>>,
    log: WireLog,
    connections: Arc<AtomicU64>,
}

impl Scripted {
    /// Ready to be served.
    pub fn new(script: Script) -> Self {
        Self { script: Arc::new(script), used: Arc::default(), log: WireLog::default(), connections: Arc::default() }
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
            if !connection.play(&connection.server.script.at_start, &Value::Null).await {
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
            let (connection, steps) = (Arc::clone(self), self.steps(&message));
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

    /// The steps of the first rule that fits and is not used up.
    fn steps(&self, message: &Value) -> Option<Vec<Step>> {
        let mut used = self.server.used.lock().unwrap_or_else(PoisonError::into_inner);
        let name = message["params"]["name"].as_str();
        let (index, rule) = self.server.script.rules.iter().enumerate().find(|(index, rule)| {
            message["method"] == rule.method.as_str()
                && rule.name.as_deref().is_none_or(|wanted| Some(wanted) == name)
                && rule.times.is_none_or(|times| used.get(index).copied().unwrap_or(0) < times)
        })?;
        *used.entry(index).or_default() += 1;
        Some(rule.steps.clone())
    }

    /// Plays steps one after the other; `false` if the server is to do nothing more.
    async fn play(self: &Arc<Self>, steps: &[Step], request: &Value) -> bool {
        let id = &request["id"];
        let fill = |text: &str| text.replace("{id}", &id.to_string());
        let mut answer = Value::Null;
        for step in steps {
            match step {
                Step::Result(result) => self.send(&json!({"jsonrpc": "2.0", "id": id, "result": result})).await,
                Step::Text(text) => self.send(&text_result(id, text)).await,
                Step::Error(code, message) => {
                    let error = json!({"code": code, "message": message});
                    self.send(&json!({"jsonrpc": "2.0", "id": id, "error": error})).await;
                }
                Step::Normally => self.answer_well(request).await,
                Step::Line(line) => self.write(format!("{}\n", fill(line)).as_bytes()).await,
                Step::Bytes(bytes) => self.write(bytes).await,
                Step::Flood(before, length, after) => {
                    let (before, after) = (fill(before), fill(after));
                    let filling = std::iter::repeat_n(&FILLING[..], length / FILLING.len());
                    let rest = &FILLING[..length % FILLING.len()];
                    let pieces = std::iter::once(before.as_bytes()).chain(filling).chain([rest, after.as_bytes()]);
                    self.write_all(pieces).await;
                }
                Step::Notify(method, params) => {
                    self.send(&json!({"jsonrpc": "2.0", "method": method, "params": params})).await;
                }
                Step::Progress(progress, total, message) => {
                    let token = &request["params"]["_meta"]["progressToken"];
                    let params =
                        json!({"progressToken": token, "progress": progress, "total": total, "message": message});
                    self.send(&json!({"jsonrpc": "2.0", "method": "notifications/progress", "params": params})).await;
                }
                Step::Ask(method, params) => answer = self.ask(method, params).await,
                Step::TellAnswer => {
                    let told = answer.get("result").or(answer.get("error")).unwrap_or(&Value::Null);
                    self.send(&text_result(id, &told.to_string())).await;
                }
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
                | Step::Grandchild(_)
                | Step::IgnoreEnd => process::step(step).await,
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
        let id = &message["id"];
        if id.is_null() {
            return;
        }
        let script = &self.server.script;
        let params = &message["params"];
        let result = match message["method"].as_str().unwrap_or_default() {
            "initialize" => json!({
                "protocolVersion": script.revision.as_deref().map_or(params["protocolVersion"].clone(), Value::from),
                "capabilities": {"tools": {"listChanged": true}, "prompts": {}, "resources": {}, "logging": {}},
                "serverInfo": {"name": "scripted", "version": "1.0"},
            }),
            "ping" | "logging/setLevel" => json!({}),
            "tools/list" => page("tools", &script.tools, script.page_size, params),
            "prompts/list" => page("prompts", &script.prompts, script.page_size, params),
            "resources/list" => page("resources", &script.resources, script.page_size, params),
            "resources/templates/list" => page("resourceTemplates", &script.templates, script.page_size, params),
            "tools/call" => {
                let arguments = &params["arguments"];
                let text = match params["name"].as_str() {
                    Some("echo") => arguments["text"].as_str().unwrap_or_default().to_owned(),
                    Some("add") => {
                        (arguments["a"].as_i64().unwrap_or(0) + arguments["b"].as_i64().unwrap_or(0)).to_string()
                    }
                    _ => {
                        return self
                            .send(&json!({"jsonrpc": "2.0", "id": id, "result":
                        {"content": [{"type": "text", "text": "Unknown tool"}], "isError": true}}))
                            .await;
                    }
                };
                return self.send(&text_result(id, &text)).await;
            }
            method => {
                let error = json!({"code": -32601, "message": format!("no method {method}")});
                return self.send(&json!({"jsonrpc": "2.0", "id": id, "error": error})).await;
            }
        };
        self.send(&json!({"jsonrpc": "2.0", "id": id, "result": result})).await;
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

fn text_result(id: &Value, text: &str) -> Value {
    json!({"jsonrpc": "2.0", "id": id, "result": {"content": [{"type": "text", "text": text}]}})
}

/// One page of a list; the cursor is the number of the first item.
fn page(key: &str, items: &[Value], size: Option<usize>, params: &Value) -> Value {
    let start = params["cursor"].as_str().and_then(|cursor| cursor.parse().ok()).unwrap_or(0_usize).min(items.len());
    let end = size.map_or(items.len(), |size| (start + size).min(items.len()));
    let mut page = json!({ key: items[start..end] });
    if end < items.len() {
        page["nextCursor"] = end.to_string().into();
    }
    page
}
