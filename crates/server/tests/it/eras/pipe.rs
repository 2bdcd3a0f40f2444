//! One interface to all pipe-like transports: messages in, messages out, in both eras.

use serde_json::Value;
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader, DuplexStream};
use tokio::net::TcpStream;
use tokio::task::JoinSet;
use wharf_server::rmcp::ServerHandler;
use wharf_server::{ListenOptions, RemoteServer, Router, serve_stream};

use crate::raw::Http;
use crate::{soon, sse, websocket};

#[derive(Clone, Copy, Debug)]
pub(crate) enum Kind {
    Stream,
    Sse,
    WebSocket,
}

pub(crate) const KINDS: [Kind; 3] = [Kind::Stream, Kind::Sse, Kind::WebSocket];

/// A connection and its server.
pub(crate) struct Pipe {
    end: End,
    _server: Server,
}

enum End {
    Stream(BufReader<DuplexStream>),
    Sse { events: Http<TcpStream>, posts: Http<TcpStream>, path: String },
    WebSocket(websocket::Socket),
}

/// One of the two, which ends with the pipe.
struct Server {
    _task: JoinSet<()>,
    _remote: Option<RemoteServer>,
}

impl Pipe {
    pub(crate) async fn open<H: ServerHandler>(kind: Kind, make: impl Fn() -> H + Send + Sync + 'static) -> Self {
        if let Kind::Stream = kind {
            let (ours, theirs) = tokio::io::duplex(64 * 1024);
            let mut task = JoinSet::new();
            let handler = make();
            task.spawn(async move { drop(serve_stream(handler, theirs).await) });
            let server = Server { _task: task, _remote: None };
            return Self { end: End::Stream(BufReader::new(ours)), _server: server };
        }
        let router = Router::new(make, ListenOptions::default());
        let remote = RemoteServer::bind(([127, 0, 0, 1], 0).into(), router).await.unwrap();
        let end = if let Kind::Sse = kind {
            let (events, path) = sse::open(&remote).await;
            End::Sse { events, posts: Http::connect(&remote).await, path }
        } else {
            End::WebSocket(websocket::open(&remote).await)
        };
        Self { end, _server: Server { _task: JoinSet::new(), _remote: Some(remote) } }
    }

    pub(crate) async fn send(&mut self, message: &Value) {
        match &mut self.end {
            End::Stream(stream) => soon(stream.write_all(format!("{message}\n").as_bytes())).await.unwrap(),
            End::Sse { posts, path, .. } => {
                let head = posts.post(path, &[], message).await;
                assert_eq!((head.status, posts.body(&head).await.as_str()), (202, "Accepted"));
            }
            End::WebSocket(socket) => websocket::send(socket, message).await,
        }
    }

    pub(crate) async fn receive(&mut self) -> Value {
        match &mut self.end {
            End::Stream(stream) => {
                let mut line = String::new();
                soon(stream.read_line(&mut line)).await.unwrap();
                serde_json::from_str(&line).unwrap_or_else(|_| panic!("a message, not {line:?}"))
            }
            End::Sse { events, .. } => events.message().await.expect("a message"),
            End::WebSocket(socket) => websocket::receive(socket).await,
        }
    }

    pub(crate) async fn ask(&mut self, request: &Value) -> Value {
        self.send(request).await;
        let answer = self.receive().await;
        assert_eq!(answer["id"], request["id"], "{answer}");
        answer
    }
}
