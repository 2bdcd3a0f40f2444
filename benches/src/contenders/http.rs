//! Contenders over Streamable HTTP, on the loopback interface and without TLS.

use std::process::Stdio as Pipe;

use rmcp::transport::StreamableHttpClientTransport;
use rmcp::transport::streamable_http_client::StreamableHttpClientTransportConfig;
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::TcpStream;
use tokio::process::{Child, Command};
use tokio::task::JoinSet;
use wharf::{Http, RemoteOptions};

use super::{Reply, Rmcp, Wharf, floor_call, program};

pub(super) async fn wharf(url: &str) -> Wharf {
    Wharf::over(Http::new(url, RemoteOptions::default()).expect("an address")).await
}

/// rmcp's default HTTP client pools no connections and allows 16 requests in flight. A default reqwest client pools them,
/// and here it allows one request per caller.
pub(super) async fn rmcp(url: &str, in_flight: usize) -> Rmcp {
    let config = StreamableHttpClientTransportConfig::with_uri(url).max_concurrent_requests(in_flight);
    Rmcp::over(StreamableHttpClientTransport::with_client(reqwest::Client::new(), config)).await
}

/// A server in a child process, and a control connection that requests its connection count.
pub(crate) struct Server {
    port: u16,
    control: Connection,
    _child: Child,
}

impl Server {
    pub(crate) async fn start() -> Self {
        Self::with_tools(&[]).await
    }

    /// Starts a server with more tools. The arguments are their number and the length of their descriptions.
    pub(crate) async fn with_tools(arguments: &[&str]) -> Self {
        let mut command = Command::new(program());
        command.arg("serve-http").args(arguments).stdin(Pipe::piped()).stdout(Pipe::piped()).kill_on_drop(true);
        let mut child = command.spawn().expect("a child");
        let mut line = String::new();
        let mut stdout = BufReader::new(child.stdout.take().expect("stdout"));
        stdout.read_line(&mut line).await.expect("a line");
        let port = line.trim().parse().expect("a port");
        Self { port, control: Connection::open(port).await, _child: child }
    }

    pub(super) fn port(&self) -> u16 {
        self.port
    }

    pub(crate) fn url(&self) -> String {
        format!("http://127.0.0.1:{}/mcp", self.port)
    }

    /// Returns how many TCP connections it has accepted.
    pub(crate) async fn connections(&mut self) -> u64 {
        let count = self.control.exchange("COUNT", "").await;
        String::from_utf8_lossy(count).parse().expect("a number")
    }
}

/// Writes a POST, reads the response, and parses it up to the text. Every caller has its own connection.
pub(super) struct Floor {
    connections: Vec<Connection>,
}

impl Floor {
    pub(super) async fn connect(port: u16, in_flight: usize) -> Self {
        let mut connections = Vec::new();
        for _ in 0..in_flight {
            connections.push(Connection::open(port).await);
        }
        Self { connections }
    }

    pub(super) async fn call(&mut self, tool: &str) {
        self.connections[0].call(tool).await;
    }

    /// Makes `each` calls on every connection concurrently.
    pub(super) async fn concurrent(&mut self, each: usize) {
        let mut tasks = JoinSet::new();
        for mut connection in self.connections.drain(..) {
            tasks.spawn(async move {
                for _ in 0..each {
                    connection.call("small").await;
                }
                connection
            });
        }
        self.connections = tasks.join_all().await;
    }
}

struct Connection {
    stream: TcpStream,
    /// Unconsumed input.
    buffer: Vec<u8>,
    next_id: u64,
}

impl Connection {
    async fn open(port: u16) -> Self {
        let stream = TcpStream::connect(("127.0.0.1", port)).await.expect("a connection");
        stream.set_nodelay(true).expect("a connection");
        Self { stream, buffer: Vec::with_capacity(1 << 16), next_id: 1 }
    }

    async fn call(&mut self, tool: &str) {
        let id = self.next_id;
        self.next_id += 1;
        let answer = self.exchange("POST", &floor_call(id, tool)).await;
        assert_eq!(Reply::read(answer), id);
    }

    async fn exchange(&mut self, method: &str, content: &str) -> &[u8] {
        let length = content.len();
        let kinds = "application/json, text/event-stream";
        let request = format!(
            "{method} /mcp HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\nAccept: {kinds}\r\n\
             Content-Length: {length}\r\n\r\n{content}"
        );
        self.stream.write_all(request.as_bytes()).await.expect("a connection");
        self.buffer.clear();
        let begin = loop {
            self.read().await;
            if let Some(end) = self.buffer.windows(4).position(|four| four == b"\r\n\r\n") {
                break end + 4;
            }
        };
        let head = String::from_utf8_lossy(&self.buffer[..begin]);
        let length = head.lines().find_map(|line| line.strip_prefix("Content-Length: ")).expect("a length");
        let length: usize = length.parse().expect("a number");
        self.buffer.reserve((begin + length).saturating_sub(self.buffer.len()));
        while self.buffer.len() < begin + length {
            self.read().await;
        }
        &self.buffer[begin..]
    }

    async fn read(&mut self) {
        assert!(
            self.stream.read_buf(&mut self.buffer).await.expect("a connection") > 0,
            "the server closed the connection"
        );
    }
}
