//! An HTTP/1.1 client that exposes the raw responses.

use serde_json::Value;
use tokio::io::{AsyncBufReadExt as _, AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _, BufReader};
use tokio::net::TcpStream;
use wharf_server::RemoteServer;

use crate::soon;

/// One connection.
pub(crate) struct Http<S> {
    stream: BufReader<S>,
    /// Chunks of the body that are read but not yet returned.
    read: String,
}

/// The head of a response.
#[derive(Debug)]
pub(crate) struct Head {
    pub(crate) status: u16,
    headers: Vec<(String, String)>,
}

impl Head {
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(header, _)| header == name).map(|(_, value)| value.as_str())
    }
}

impl Http<TcpStream> {
    pub(crate) async fn connect(remote: &RemoteServer) -> Self {
        Self::over(TcpStream::connect(remote.address()).await.unwrap())
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> Http<S> {
    pub(crate) fn over(stream: S) -> Self {
        Self { stream: BufReader::new(stream), read: String::new() }
    }

    /// Sends a request to `target` (method and path); `headers` are whole lines. Adds a `Host` if none is given.
    pub(crate) async fn send(&mut self, target: &str, headers: &[&str], body: &str) -> Head {
        let host = if headers.iter().any(|line| line.starts_with("Host:")) { "" } else { "Host: localhost\r\n" };
        let lines = [headers, &[""]].concat().join("\r\n");
        let length = body.len();
        let request = format!("{target} HTTP/1.1\r\n{host}{lines}Content-Length: {length}\r\n\r\n{body}");
        soon(self.stream.write_all(request.as_bytes())).await.unwrap();
        self.head().await
    }

    /// Posts a message with the headers of a Streamable HTTP client.
    pub(crate) async fn post(&mut self, path: &str, headers: &[&str], message: &Value) -> Head {
        let defaults = ["Content-Type: application/json", "Accept: application/json, text/event-stream"];
        self.send(&format!("POST {path}"), &[&defaults, headers].concat(), &message.to_string()).await
    }

    async fn head(&mut self) -> Head {
        let status_line = self.line().await;
        let status = status_line.split(' ').nth(1).and_then(|status| status.parse().ok());
        let mut headers = Vec::new();
        loop {
            let line = self.line().await;
            let Some((name, value)) = line.split_once(':') else { break };
            headers.push((name.to_ascii_lowercase(), value.trim().to_owned()));
        }
        Head { status: status.unwrap_or_else(|| panic!("a status line: {status_line:?}")), headers }
    }

    /// Returns the body of a response with a length.
    pub(crate) async fn body(&mut self, head: &Head) -> String {
        let length = head.header("content-length").expect("a length").parse().unwrap();
        let mut body = vec![0; length];
        soon(self.stream.read_exact(&mut body)).await.unwrap();
        String::from_utf8(body).unwrap()
    }

    /// Returns the next event of an event stream, without its blank line; `None` at the end.
    pub(crate) async fn event(&mut self) -> Option<String> {
        loop {
            if let Some((event, rest)) = self.read.split_once("\n\n") {
                let event = event.to_owned();
                let rest = rest.to_owned();
                self.read = rest;
                return Some(event);
            }
            let size = self.line().await;
            // A closed connection also ends the stream, without the last chunk.
            let size = usize::from_str_radix(&size, 16).unwrap_or(0);
            let mut chunk = vec![0; size + 2];
            soon(self.stream.read_exact(&mut chunk)).await.ok()?;
            if size == 0 {
                return None;
            }
            self.read += std::str::from_utf8(&chunk[..size]).unwrap();
        }
    }

    /// Returns the next message of an event stream, skipping comments and events without one.
    pub(crate) async fn message(&mut self) -> Option<Value> {
        loop {
            let event = self.event().await?;
            let data = event.lines().find_map(|line| line.strip_prefix("data:")).unwrap_or_default().trim();
            if data.starts_with('{') {
                return Some(serde_json::from_str(data).unwrap());
            }
        }
    }

    async fn line(&mut self) -> String {
        let mut line = String::new();
        // A reset counts as the end.
        let _ = soon(self.stream.read_line(&mut line)).await;
        line.trim_end().to_owned()
    }
}
