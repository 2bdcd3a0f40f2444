//! A fake MCP registry: `GET /v0.1/servers` with search and pages, and `GET /v0.1/servers/{name}/versions/{version}`.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;
use http::{Request, Response};
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio::task::JoinSet;

/// The contents of a registry.
#[derive(Clone, Debug, Default)]
pub struct RegistryContents {
    /// All versions of all servers, as `server.json` documents; of each server, the last is the latest.
    pub servers: Vec<Value>,
    /// The metadata of some versions: name, version, and the registry's own object.
    pub meta: Vec<(String, String, Value)>,
    /// The maximum number of servers on a page; the requested number if absent.
    pub page_size: Option<usize>,
    /// Responds to everything with this status and body.
    pub fault: Option<(u16, String)>,
    /// Repeats the first page forever, each time with another cursor.
    pub endless: bool,
}

/// A running registry. Dropping it closes the port and all connections.
pub struct FakeRegistry {
    address: SocketAddr,
    paths: Arc<Mutex<Vec<String>>>,
    _accepting: JoinSet<()>,
}

impl FakeRegistry {
    /// Starts a registry on a free local port.
    ///
    /// # Panics
    /// If no port is free.
    pub async fn start(contents: RegistryContents) -> Self {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.expect("a port is free");
        let address = listener.local_addr().expect("a listener has an address");
        let paths = Arc::<Mutex<Vec<String>>>::default();
        let mut accepting = JoinSet::new();
        accepting.spawn(accept(listener, Arc::new(contents), Arc::clone(&paths)));
        Self { address, paths, _accepting: accepting }
    }

    /// Returns the base URL.
    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Returns the paths and queries of all requests.
    pub fn requests(&self) -> Vec<String> {
        self.paths.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

async fn accept(listener: TcpListener, contents: Arc<RegistryContents>, paths: Arc<Mutex<Vec<String>>>) {
    let mut connections = JoinSet::new();
    loop {
        tokio::select! {
            accepted = listener.accept() => {
                let Ok((stream, _)) = accepted else { continue };
                let (contents, paths) = (Arc::clone(&contents), Arc::clone(&paths));
                let service = service_fn(move |request: Request<Incoming>| {
                    let path = request.uri().to_string();
                    paths.lock().unwrap_or_else(PoisonError::into_inner).push(path.clone());
                    let response = contents.respond(&path);
                    async move { Ok::<_, std::convert::Infallible>(response) }
                });
                connections.spawn(async move {
                    let _ = http1::Builder::new().serve_connection(TokioIo::new(stream), service).await;
                });
            }
            Some(_) = connections.join_next() => {}
        }
    }
}

impl RegistryContents {
    fn respond(&self, path: &str) -> Response<Full<Bytes>> {
        if let Some((status, body)) = &self.fault {
            return response(*status, body.clone());
        }
        let (path, query) = path.split_once('?').unwrap_or((path, ""));
        let answer = match path.strip_prefix("/v0.1/servers") {
            Some("") => Some(self.list(query)),
            Some(rest) => self.version(rest),
            None => None,
        };
        match answer {
            Some(answer) => response(200, answer.to_string()),
            None => {
                response(404, json!({"title": "Not Found", "status": 404, "detail": "Server not found"}).to_string())
            }
        }
    }

    fn list(&self, query: &str) -> Value {
        let parameter = |name: &str| {
            let pair = query.split('&').find_map(|pair| pair.strip_prefix(name)?.strip_prefix('='));
            pair.map(decoded)
        };
        let search = parameter("search").unwrap_or_default().to_lowercase();
        let only_latest = parameter("version").as_deref() == Some("latest");
        let matches = |server: &&Value| {
            let name = server["name"].as_str().unwrap_or_default();
            name.to_lowercase().contains(&search) && (!only_latest || self.is_latest(server))
        };
        let found: Vec<&Value> = self.servers.iter().filter(matches).collect();
        let limit = parameter("limit").and_then(|limit| limit.parse().ok()).unwrap_or(30);
        let limit = self.page_size.unwrap_or(limit).min(limit);
        let number = parameter("cursor").and_then(|cursor| cursor.strip_prefix("after:")?.parse().ok()).unwrap_or(0);
        let start = if self.endless { 0 } else { number };
        let page: Vec<Value> = found.iter().skip(start).take(limit).map(|server| self.wrapped(server)).collect();
        let has_more = self.endless || start + page.len() < found.len();
        let next = has_more.then(|| format!("after:{}", number + page.len().max(1)));
        json!({"servers": page, "metadata": {"count": page.len(), "nextCursor": next.unwrap_or_default()}})
    }

    /// Responds to `/{name}/versions/{version}`.
    fn version(&self, rest: &str) -> Option<Value> {
        let (name, version) = rest.strip_prefix('/')?.split_once("/versions/")?;
        let (name, version) = (decoded(name), decoded(version));
        let is_wanted = |server: &&Value| {
            server["name"] == *name
                && (server["version"] == *version || (version == "latest" && self.is_latest(server)))
        };
        self.servers.iter().find(is_wanted).map(|server| self.wrapped(server))
    }

    fn is_latest(&self, server: &Value) -> bool {
        self.servers.iter().rfind(|other| other["name"] == server["name"]) == Some(server)
    }

    fn wrapped(&self, server: &Value) -> Value {
        let own =
            self.meta.iter().find(|(name, version, _)| server["name"] == **name && server["version"] == **version);
        let mut official =
            json!({"status": "active", "publishedAt": "2026-01-01T00:00:00Z", "isLatest": self.is_latest(server)});
        for (key, value) in own.and_then(|(_, _, meta)| meta.as_object()).into_iter().flatten() {
            official[key] = value.clone();
        }
        json!({"server": server, "_meta": {"io.modelcontextprotocol.registry/official": official}})
    }
}

fn response(status: u16, body: String) -> Response<Full<Bytes>> {
    let builder = Response::builder().status(status).header("content-type", "application/json");
    builder.body(Full::new(Bytes::from(body))).unwrap_or_default()
}

/// Decodes the escapes of a URL.
fn decoded(text: &str) -> String {
    let mut bytes = Vec::new();
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        let digits = (byte == b'%').then(|| [rest.next(), rest.next()]);
        match digits {
            Some([Some(high), Some(low)]) => {
                let pair = [high, low];
                let pair = std::str::from_utf8(&pair).ok().and_then(|pair| u8::from_str_radix(pair, 16).ok());
                bytes.extend(pair);
            }
            _ => bytes.push(byte),
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}
