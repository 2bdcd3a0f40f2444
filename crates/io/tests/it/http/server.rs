//! A server that describes each request, over TCP or a Unix socket, with or without TLS, and counts its connections.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use bytes::Bytes;
use http::{Request, Response};
use http_body_util::combinators::BoxBody;
use http_body_util::{BodyExt as _, Full, StreamBody};
use hyper::body::{Frame, Incoming};
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo};
use hyper_util::server::conn::auto::Builder;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, UnixListener};
use tokio::task::JoinSet;
use tokio_rustls::TlsAcceptor;

type Answer = Response<BoxBody<Bytes, Infallible>>;

/// A server. Dropping it closes the port and all connections.
pub(super) struct Server {
    pub(super) address: SocketAddr,
    shared: Arc<Shared>,
    accepting: JoinSet<()>,
}

#[derive(Default)]
struct Shared {
    accepted: AtomicUsize,
    connections: Mutex<JoinSet<()>>,
    names: Mutex<Vec<String>>,
}

impl Server {
    pub(super) async fn start() -> Self {
        Self::at("127.0.0.1:0".parse().unwrap()).await
    }

    pub(super) async fn at(address: SocketAddr) -> Self {
        Self::listen(address, None).await
    }

    pub(super) async fn secure(tls: TlsAcceptor) -> Self {
        Self::listen("127.0.0.1:0".parse().unwrap(), Some(tls)).await
    }

    async fn listen(address: SocketAddr, tls: Option<TlsAcceptor>) -> Self {
        let listener = TcpListener::bind(address).await.unwrap();
        let address = listener.local_addr().unwrap();
        let shared = Arc::<Shared>::default();
        let mut accepting = JoinSet::new();
        let ours = Arc::clone(&shared);
        accepting.spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let tls = tls.clone();
                let shared = Arc::clone(&ours);
                ours.connected(async move {
                    let Some(tls) = tls else { return serve(stream).await };
                    // A client that does not trust the certificate disconnects.
                    let Ok(stream) = tls.accept(stream).await else { return };
                    let name = stream.get_ref().1.server_name().unwrap_or("none").to_owned();
                    shared.names.lock().unwrap().push(name);
                    serve(stream).await;
                });
            }
        });
        Self { address, shared, accepting }
    }

    pub(super) fn on_socket(path: &std::path::Path) -> Self {
        let listener = UnixListener::bind(path).unwrap();
        let shared = Arc::<Shared>::default();
        let mut accepting = JoinSet::new();
        let ours = Arc::clone(&shared);
        accepting.spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                ours.connected(serve(stream));
            }
        });
        Self { address: "0.0.0.0:0".parse().unwrap(), shared, accepting }
    }

    pub(super) fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.address)
    }

    /// Returns how many connections have been accepted.
    pub(super) fn accepted(&self) -> usize {
        self.shared.accepted.load(Ordering::SeqCst)
    }

    /// Returns how many connections are open.
    pub(super) fn open(&self) -> usize {
        let mut connections = self.shared.connections.lock().unwrap();
        while connections.try_join_next().is_some() {}
        connections.len()
    }

    /// Returns the server names that clients requested in TLS.
    pub(super) fn names(&self) -> Vec<String> {
        self.shared.names.lock().unwrap().clone()
    }

    /// Closes every connection, and waits until the clients can notice.
    pub(super) async fn hang_up(&self) {
        let mut connections = std::mem::take(&mut *self.shared.connections.lock().unwrap());
        connections.shutdown().await;
        tokio::time::sleep(std::time::Duration::from_millis(20)).await;
    }

    /// Closes the port and all connections.
    pub(super) async fn close(mut self) {
        self.accepting.shutdown().await;
        self.hang_up().await;
    }
}

impl Shared {
    fn connected(&self, connection: impl Future<Output = ()> + Send + 'static) {
        self.accepted.fetch_add(1, Ordering::SeqCst);
        self.connections.lock().unwrap().spawn(connection);
    }
}

async fn serve(stream: impl AsyncRead + AsyncWrite + Send + Unpin + 'static) {
    let service = service_fn(async |request| Ok::<_, Infallible>(respond(request).await));
    // The tests check the client, not errors of the server.
    let _ = Builder::new(TokioExecutor::new()).serve_connection(TokioIo::new(stream), service).await;
}

/// Describes the request; some paths have special responses.
async fn respond(request: Request<Incoming>) -> Answer {
    let (head, body) = request.into_parts();
    let body = body.collect().await.unwrap().to_bytes();
    let host = head.headers.get("host").map_or("no host", |host| host.to_str().unwrap());
    let authority = head.uri.authority().map_or(host, |authority| authority.as_str());
    let text = format!("{:?} {} {} at {authority}: {}", head.version, head.method, head.uri.path(), body.len());
    let path = head.uri.path().to_owned();
    let number = |name: &str| path.strip_prefix(name)?.parse::<usize>().ok();
    if let Some(length) = number("/long/") {
        return Response::new(full(vec![b'x'; length]));
    }
    if let Some(length) = number("/chunks/") {
        let chunk = || Ok(Frame::data(Bytes::from_static(&[b'x'; 100])));
        let chunks = futures_util::stream::iter((0..length / 100).map(move |_| chunk()));
        return Response::new(StreamBody::new(chunks).boxed());
    }
    if path.starts_with("/to/")
        && let Some(query) = head.uri.query()
    {
        let status: u16 = path[4..].parse().unwrap();
        return Response::builder().status(status).header("location", query).body(full("elsewhere")).unwrap();
    }
    Response::new(full(text))
}

fn full(content: impl Into<Bytes>) -> BoxBody<Bytes, Infallible> {
    Full::new(content.into()).boxed()
}
