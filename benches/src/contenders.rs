//! Those who are compared: Wharf's session, rmcp's client, and the floor, a client that does nothing but talk.

use std::collections::VecDeque;
use std::process::Stdio as Pipe;
use std::sync::Arc;

use rmcp::ServiceExt as _;
use rmcp::model::CallToolRequestParams;
use rmcp::service::{RoleClient, RunningService};
use rmcp::transport::TokioChildProcess;
use serde::Deserialize;
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::process::{Child, ChildStdin, ChildStdout, Command};
use tokio::task::JoinSet;
use wharf::{Environment, Json, NoHost, Session, SessionOptions, Stdio};

pub(crate) enum Contender {
    Wharf(Wharf),
    Rmcp(Rmcp),
    Floor(Box<Floor>),
}

impl Contender {
    /// Calls `tool` so many times, one call after the other.
    pub(crate) async fn sequential(&mut self, tool: &str, calls: usize) {
        for _ in 0..calls {
            match self {
                Self::Wharf(wharf) => wharf.call(tool).await,
                Self::Rmcp(rmcp) => rmcp.call(tool).await,
                Self::Floor(floor) => floor.call(tool).await,
            }
        }
    }

    /// Calls a small tool so many times, with so many calls under way.
    pub(crate) async fn crowd(&mut self, calls: usize, in_flight: usize) {
        let mut tasks = JoinSet::new();
        for _ in 0..in_flight {
            let each = calls / in_flight;
            match self {
                Self::Wharf(wharf) => {
                    let wharf = wharf.clone();
                    tasks.spawn(async move {
                        for _ in 0..each {
                            wharf.call("small").await;
                        }
                    });
                }
                Self::Rmcp(rmcp) => {
                    let rmcp = rmcp.clone();
                    tasks.spawn(async move {
                        for _ in 0..each {
                            rmcp.call("small").await;
                        }
                    });
                }
                Self::Floor(floor) => return floor.pipelined(calls, in_flight).await,
            }
        }
        while let Some(done) = tasks.join_next().await {
            done.expect("a caller");
        }
    }
}

fn program() -> std::path::PathBuf {
    std::env::current_exe().expect("a program knows its path")
}

#[derive(Clone)]
pub(crate) struct Wharf(Session);

impl Wharf {
    pub(crate) async fn connect() -> Self {
        let transport = Stdio::new(program(), ["serve"], Environment::default());
        let session = Session::new("bench".parse().expect("a name"), transport, NoHost, SessionOptions::default());
        session.connect().await.expect("a connection");
        Self(session)
    }

    async fn call(&self, tool: &str) {
        let arguments = Json::from(serde_json::json!({"text": "hello"}));
        let output = self.0.call(tool, &arguments).await.expect("an answer");
        assert!(!output.content[0].as_text().expect("text").is_empty());
    }

    /// A call of any tool, and what went wrong with it.
    pub(crate) async fn failure(&self, tool: &str) -> String {
        let result = self.0.call(tool, &Json::from(serde_json::json!({}))).await;
        result.map_or_else(|error| error.to_string(), |_| "an answer".to_owned())
    }
}

#[derive(Clone)]
pub(crate) struct Rmcp(Arc<RunningService<RoleClient, ()>>);

impl Rmcp {
    pub(crate) async fn connect() -> Self {
        let mut command = Command::new(program());
        command.arg("serve");
        let transport = TokioChildProcess::new(command).expect("a child");
        Self(Arc::new(().serve(transport).await.expect("a connection")))
    }

    async fn call(&self, tool: &str) {
        let arguments = serde_json::json!({"text": "hello"}).as_object().expect("an object").clone();
        let request = CallToolRequestParams::new(tool.to_owned()).with_arguments(arguments);
        let result = self.0.call_tool(request).await.expect("an answer");
        assert!(!result.content[0].as_text().expect("text").text.is_empty());
    }
}

/// Writes a line, reads a line, and looks inside only as far as the text.
pub(crate) struct Floor {
    _child: Child,
    stdin: ChildStdin,
    stdout: BufReader<ChildStdout>,
    line: String,
    next_id: u64,
}

#[derive(Deserialize)]
struct Reply {
    id: u64,
    result: ReplyResult,
}

#[derive(Deserialize)]
struct ReplyResult {
    content: Vec<Block>,
}

#[derive(Deserialize)]
struct Block {
    text: String,
}

impl Floor {
    pub(crate) fn connect() -> Self {
        let mut command = Command::new(program());
        command.arg("serve").stdin(Pipe::piped()).stdout(Pipe::piped()).kill_on_drop(true);
        let mut child = command.spawn().expect("a child");
        let stdin = child.stdin.take().expect("stdin");
        let stdout = BufReader::with_capacity(1 << 16, child.stdout.take().expect("stdout"));
        Self { _child: child, stdin, stdout, line: String::new(), next_id: 1 }
    }

    async fn call(&mut self, tool: &str) {
        let id = self.send(tool).await;
        assert_eq!(self.receive().await, id);
    }

    async fn pipelined(&mut self, calls: usize, in_flight: usize) {
        let mut waiting = VecDeque::new();
        for _ in 0..calls {
            if waiting.len() == in_flight {
                assert_eq!(Some(self.receive().await), waiting.pop_front());
            }
            waiting.push_back(self.send("small").await);
        }
        while let Some(id) = waiting.pop_front() {
            assert_eq!(self.receive().await, id);
        }
    }

    async fn send(&mut self, tool: &str) -> u64 {
        let id = self.next_id;
        self.next_id += 1;
        let params = format!(r#"{{"name":"{tool}","arguments":{{"text":"hello"}}}}"#);
        let line = format!("{{\"jsonrpc\":\"2.0\",\"id\":{id},\"method\":\"tools/call\",\"params\":{params}}}\n");
        self.stdin.write_all(line.as_bytes()).await.expect("a line");
        id
    }

    async fn receive(&mut self) -> u64 {
        self.line.clear();
        self.stdout.read_line(&mut self.line).await.expect("a line");
        let reply: Reply = serde_json::from_str(&self.line).expect("a reply");
        assert!(!reply.result.content[0].text.is_empty());
        reply.id
    }
}
