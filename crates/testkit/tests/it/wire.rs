//! Handwritten HTTP, so that only the server is under test.

use std::fmt::Write as _;
use std::io;
use std::net::SocketAddr;

use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt as _, AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _, BufReader};
use tokio::net::TcpStream;

/// One connection to a server.
pub(crate) struct Wire<S> {
    stream: BufReader<S>,
    /// The session id to send with every request.
    pub(crate) session: Option<String>,
    /// Further headers to send with every request.
    pub(crate) headers: Vec<(&'static str, String)>,
}

/// The head of a response.
#[derive(Debug)]
pub(crate) struct Head {
    pub(crate) status: u16,
    headers: Vec<(String, String)>,
}

impl Head {
    pub(crate) fn get(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(key, _)| key == name).map(|(_, value)| value.as_str())
    }
}

impl Wire<TcpStream> {
    pub(crate) async fn to(address: SocketAddr) -> Self {
        Self::over(TcpStream::connect(address).await.unwrap())
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> Wire<S> {
    pub(crate) fn over(stream: S) -> Self {
        Self { stream: BufReader::new(stream), session: None, headers: Vec::new() }
    }

    pub(crate) async fn send(&mut self, request: &str, body: &str) {
        let mut head = format!("{request} HTTP/1.1\r\nhost: test\r\ncontent-length: {}\r\n", body.len());
        if let Some(session) = &self.session {
            let _ = write!(head, "mcp-session-id: {session}\r\n");
        }
        for (name, value) in &self.headers {
            let _ = write!(head, "{name}: {value}\r\n");
        }
        self.stream.write_all(format!("{head}\r\n{body}").as_bytes()).await.unwrap();
    }

    pub(crate) async fn head(&mut self) -> io::Result<Head> {
        let first = self.line().await?;
        let status = first.split(' ').nth(1).unwrap_or_default().parse().unwrap();
        let mut headers = Vec::new();
        loop {
            match self.line().await?.split_once(':') {
                Some((name, value)) => headers.push((name.to_lowercase(), value.trim().to_owned())),
                None => return Ok(Head { status, headers }),
            }
        }
    }

    /// Returns the next chunk of a stream; `None` at its clean end.
    pub(crate) async fn chunk(&mut self) -> io::Result<Option<String>> {
        let length = usize::from_str_radix(&self.line().await?, 16).unwrap();
        let chunk = self.exactly(length).await?;
        self.line().await?;
        Ok((length > 0).then_some(chunk))
    }

    pub(crate) async fn response(&mut self) -> io::Result<(Head, String)> {
        let head = self.head().await?;
        let mut body = String::new();
        if let Some(length) = head.get("content-length") {
            body = self.exactly(length.parse().unwrap()).await?;
        } else {
            while let Some(chunk) = self.chunk().await? {
                body.push_str(&chunk);
            }
        }
        Ok((head, body))
    }

    pub(crate) async fn request(&mut self, target: &str, body: &str) -> (Head, String) {
        self.send(target, body).await;
        self.response().await.unwrap()
    }

    pub(crate) async fn post(&mut self, message: &Value) -> (Head, String) {
        self.request("POST /mcp", &message.to_string()).await
    }

    /// Opens a session and uses it from now on.
    pub(crate) async fn initialize(&mut self) -> (Head, String) {
        let (head, body) = self.post(&initialize()).await;
        self.session = head.get("mcp-session-id").map(str::to_owned);
        (head, body)
    }

    pub(crate) async fn rest(&mut self) -> io::Result<Vec<u8>> {
        let mut rest = Vec::new();
        self.stream.read_to_end(&mut rest).await.map(|_| rest)
    }

    async fn line(&mut self) -> io::Result<String> {
        let mut line = String::new();
        match self.stream.read_line(&mut line).await? {
            0 => Err(io::ErrorKind::UnexpectedEof.into()),
            _ => Ok(line.trim_end().to_owned()),
        }
    }

    async fn exactly(&mut self, length: usize) -> io::Result<String> {
        let mut bytes = vec![0; length];
        self.stream.read_exact(&mut bytes).await?;
        Ok(String::from_utf8(bytes).unwrap())
    }
}

pub(crate) fn initialize() -> Value {
    json!({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {"protocolVersion": "2025-06-18"}})
}

pub(crate) fn echo(id: u32, text: &str) -> Value {
    json!({"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": {"name": "echo", "arguments": {"text": text}}})
}

pub(crate) fn echoed(id: u32, text: &str) -> Value {
    json!({"jsonrpc": "2.0", "id": id, "result": {"content": [{"type": "text", "text": text}]}})
}

/// Returns an event with this message.
pub(crate) fn event(message: &Value) -> String {
    format!("event: message\ndata: {message}\n\n")
}
