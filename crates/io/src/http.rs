//! One HTTP client for one or many servers: it keeps its connections, ends every wait, and says whether a request may
//! have arrived.
//!
//! HTTP/1.1 connections have no task of their own: whoever waits for an answer drives the connection it comes on, so
//! nothing stands between the socket and the caller. HTTP/2 connections are shared and have one task each, which ends with
//! the client.

mod body;
mod dial;
mod events;
mod pool;
mod settings;
mod tls;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use bytes::Bytes;
use http::header::{HOST, LOCATION, PROXY_AUTHORIZATION};
use http::{HeaderValue, Method, Request, Response, StatusCode, Uri};

pub use body::{Body, BodyError};
pub use dial::{Dial, DialTo, Dialed, Resolve};
pub use events::{SseError, SseEvent, SseReader};
pub use settings::{DialTarget, HttpSettings, InvalidSettings, Proxies};

use dial::Route;
use pool::{Pool, Sender};

/// Redirects that are followed for one request.
const MOST_REDIRECTS: usize = 5;

/// A pooled HTTP client. Cloning gives another handle to the same pool.
#[derive(Clone, Debug)]
pub struct HttpClient {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    route: Route,
    pool: Pool,
    connect: Duration,
    opened: AtomicU64,
}

impl Drop for Inner {
    /// A shared connection lives as long as anybody could still use it; nobody can now.
    fn drop(&mut self) {
        self.pool.let_go();
    }
}

/// Why there is no answer.
#[derive(Clone, Debug, thiserror::Error)]
pub enum HttpError {
    /// No connection came about; nothing was sent.
    #[error("{0}")]
    Unreachable(String),
    /// The far end is not who it should be; nothing was sent.
    #[error("the connection is not secure: {0}")]
    Untrusted(String),
    /// The connection broke when the request had been sent, or part of it.
    #[error("the connection broke: {0}")]
    Broken(String),
    /// The server wants us to go elsewhere, and we do not.
    #[error("it redirects {0}")]
    Redirected(String),
}

impl HttpClient {
    /// A client; no connection is made yet.
    pub fn new(settings: HttpSettings) -> Result<Self, InvalidSettings> {
        settings.check()?;
        let connect = settings.connect;
        let route = Route::new(settings)?;
        let inner = Inner { route, pool: Pool::default(), connect, opened: AtomicU64::new(0) };
        Ok(Self { inner: Arc::new(inner) })
    }

    /// Whether requests to this `http` or `https` URL go through a proxy.
    pub fn uses_proxy(&self, url: &str) -> bool {
        let origin = url.parse::<Uri>().ok().and_then(|uri| Origin::of(&uri).ok());
        origin.is_some_and(|origin| self.inner.route.uses_proxy(&origin))
    }

    /// How many connections have been made since the beginning.
    pub fn connections_opened(&self) -> u64 {
        self.inner.opened.load(Ordering::Relaxed)
    }

    /// Lets go of connections that have been idle for long or were closed by the far end.
    pub fn sweep(&self) {
        self.inner.pool.sweep();
    }

    /// Lets go of every connection that is not in use.
    pub fn let_go(&self) {
        self.inner.pool.let_go();
    }

    /// Sends a request and waits for the head of its answer. Dropping the future closes its connection.
    ///
    /// Redirects are followed within the same origin only, and only where the method stays what it is.
    pub async fn send(&self, request: Request<Bytes>) -> Result<Response<Body>, HttpError> {
        let (head, content) = request.into_parts();
        let mut target = head.uri.clone();
        for _ in 0..=MOST_REDIRECTS {
            let mut request = Request::new(content.clone());
            *request.method_mut() = head.method.clone();
            *request.uri_mut() = target.clone();
            *request.headers_mut() = head.headers.clone();
            let response = self.send_once(request).await?;
            if !redirects(response.status(), &head.method) {
                return Ok(response);
            }
            let Some(location) = response.headers().get(LOCATION) else { return Ok(response) };
            target = same_origin(&target, location)?;
        }
        Err(HttpError::Redirected(format!("again and again, more than {MOST_REDIRECTS} times")))
    }

    async fn send_once(&self, mut request: Request<Bytes>) -> Result<Response<Body>, HttpError> {
        let origin = Origin::of(request.uri())?;
        self.inner.route.prepare(&mut request, &origin)?;
        let mut fresh = false;
        loop {
            let kept = if fresh { None } else { self.inner.pool.take(&origin) };
            let sender = if let Some(sender) = kept {
                sender
            } else {
                fresh = true;
                self.open(&origin).await?
            };
            match sender.send(request, &self.inner.pool, &origin).await {
                Ok(response) => return Ok(response),
                // A kept connection was closed by the far end before a byte of the request had left: a new one is
                // tried, once.
                Err(pool::Unsent { request: Some(unsent), .. }) if !fresh => {
                    request = *unsent;
                    fresh = true;
                }
                Err(pool::Unsent { request: Some(_), reason }) => return Err(HttpError::Unreachable(reason)),
                Err(pool::Unsent { request: None, reason }) => return Err(HttpError::Broken(reason)),
            }
        }
    }

    async fn open(&self, origin: &Origin) -> Result<Sender, HttpError> {
        let limit = self.inner.connect;
        let opening = async {
            let (stream, protocol) = self.inner.route.connect(origin, dial::Offer::Http).await?;
            self.inner.pool.open(origin, stream, protocol).await
        };
        let opened = tokio::time::timeout(limit, opening).await;
        let late = || HttpError::Unreachable(format!("no connection to {origin} within {} s", limit.as_secs_f64()));
        let sender = opened.unwrap_or_else(|_| Err(late()))?;
        self.inner.opened.fetch_add(1, Ordering::Relaxed);
        Ok(sender)
    }

    /// A bare connection to where `uri` points, through the proxy and inside TLS as for a request: for protocols that
    /// begin as HTTP and go on as something else.
    pub async fn connect(&self, uri: &Uri) -> Result<Dialed, HttpError> {
        let origin = Origin::of(uri)?;
        let limit = self.inner.connect;
        let connecting = self.inner.route.connect(&origin, dial::Offer::Bare);
        let late = || HttpError::Unreachable(format!("no connection to {origin} within {} s", limit.as_secs_f64()));
        let (stream, _) = tokio::time::timeout(limit, connecting).await.unwrap_or_else(|_| Err(late()))?;
        self.inner.opened.fetch_add(1, Ordering::Relaxed);
        Ok(stream)
    }
}

/// Where connections can be shared: a scheme, a host and a port.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Origin {
    secure: bool,
    host: String,
    port: u16,
}

impl Origin {
    fn of(uri: &Uri) -> Result<Self, HttpError> {
        let secure = match uri.scheme_str() {
            Some("http" | "ws") => false,
            Some("https" | "wss") => true,
            _ => return Err(HttpError::Unreachable(format!("`{uri}` is neither http nor https"))),
        };
        let host = uri.host().filter(|host| !host.is_empty());
        let host = host.ok_or_else(|| HttpError::Unreachable(format!("`{uri}` names no host")))?;
        let host = host.trim_start_matches('[').trim_end_matches(']').to_ascii_lowercase();
        let port = port(uri).ok_or_else(|| HttpError::Unreachable(format!("`{uri}` has a port that is none")))?;
        Ok(Self { secure, host, port: port.unwrap_or(if secure { 443 } else { 80 }) })
    }

    /// As it stands in a `Host` header: without the port everybody expects.
    fn authority(&self) -> String {
        let expected = if self.secure { 443 } else { 80 };
        let host = if self.host.contains(':') { format!("[{}]", self.host) } else { self.host.clone() };
        if self.port == expected { host } else { format!("{host}:{}", self.port) }
    }
}

impl std::fmt::Display for Origin {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}://{}", if self.secure { "https" } else { "http" }, self.authority())
    }
}

/// The port that an address names, if it names one; `None` if what stands there is no port. The library that reads
/// addresses passes over what it cannot read, and secrets would go to whoever listens at the usual port.
pub fn port(uri: &Uri) -> Option<Option<u16>> {
    let authority = uri.authority()?.as_str();
    let behind_user = authority.rsplit_once('@').map_or(authority, |(_, rest)| rest);
    match behind_user.rsplit_once(':') {
        // The colons of an IPv6 address stand in brackets.
        Some((_, port)) if !port.ends_with(']') => port.parse().ok().map(Some),
        _ => Some(None),
    }
}

/// 307 and 308 keep the method; the others only do for what is a GET anyway.
fn redirects(status: StatusCode, method: &Method) -> bool {
    match status.as_u16() {
        307 | 308 => true,
        301 | 302 => method == Method::GET,
        _ => false,
    }
}

fn same_origin(from: &Uri, location: &HeaderValue) -> Result<Uri, HttpError> {
    let written = String::from_utf8_lossy(location.as_bytes()).into_owned();
    let elsewhere = || HttpError::Redirected(format!("to `{written}`, which is another origin or no address"));
    let target = relative(from, &written).ok_or_else(elsewhere)?;
    if Origin::of(&target).ok() == Origin::of(from).ok() { Ok(target) } else { Err(elsewhere()) }
}

/// What a reference means on a page: whole, from the root, or beside it.
pub(crate) fn relative(base: &Uri, reference: &str) -> Option<Uri> {
    let reference = reference.split('#').next()?;
    if let Ok(whole) = reference.parse::<Uri>()
        && whole.scheme().is_some()
    {
        return Some(whole);
    }
    let (scheme, authority) = (base.scheme_str()?, base.authority()?);
    let path = match reference.chars().next() {
        None => base.path_and_query()?.to_string(),
        Some('/') if reference.starts_with("//") => return format!("{scheme}:{reference}").parse().ok(),
        Some('/') => reference.to_owned(),
        Some('?') => format!("{}{reference}", base.path()),
        // A scheme that is none of ours.
        Some(_) if reference.split(['/', '?']).next().is_some_and(|first| first.contains(':')) => return None,
        Some(_) => {
            let folder = base.path().rsplit_once('/').map_or("", |(folder, _)| folder);
            format!("{folder}/{reference}")
        }
    };
    format!("{scheme}://{authority}{path}").parse().ok()
}

/// The address `reference` means on the page `base`, if it is of the same origin.
pub fn same_origin_reference(base: &Uri, reference: &str) -> Option<Uri> {
    let target = relative(base, reference)?;
    (Origin::of(&target).ok()? == Origin::of(base).ok()?).then_some(target)
}

impl Route {
    /// Puts a request into the form its way asks for.
    fn prepare(&self, request: &mut Request<Bytes>, origin: &Origin) -> Result<(), HttpError> {
        let host = HeaderValue::try_from(origin.authority())
            .map_err(|_| HttpError::Unreachable(format!("`{origin}` is no host")))?;
        request.headers_mut().entry(HOST).or_insert(host);
        if let Some(proxy) = self.plain_proxy(origin) {
            // A proxy for plain HTTP is told the whole address.
            if let Some(authorization) = proxy.basic_auth() {
                request.headers_mut().insert(PROXY_AUTHORIZATION, authorization.clone());
            }
        } else {
            let path = request.uri().path_and_query().map_or("/", |path| path.as_str());
            *request.uri_mut() = path.parse().unwrap_or_default();
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_port_that_is_none_is_not_passed_over() {
        let port = |text: &str| port(&text.parse().unwrap());
        assert_eq!(port("http://a.test/x:1"), Some(None));
        assert_eq!(port("http://a.test:80"), Some(Some(80)));
        assert_eq!(port("http://[::1]/"), Some(None));
        assert_eq!(port("http://[::1]:8080/"), Some(Some(8080)));
        for wrong in ["http://a.test:99999/", "http://a.test:8o/", "http://user:s3/cret@a.test", "http://a.test:/"] {
            assert_eq!(port(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn a_reference_is_followed_within_its_origin_and_nowhere_else() {
        let base: Uri = "https://example.com:8443/mcp/sse?x=1".parse().unwrap();
        let told = |reference: &str| {
            same_origin_reference(&base, reference).map_or_else(|| "refused".to_owned(), |uri| uri.to_string())
        };
        let references = [
            "/messages?session=1",
            "messages",
            "?session=2",
            "https://EXAMPLE.com:8443/m",
            "http://example.com:8443/m",
            "https://example.com/m",
            "https://evil.example/m",
            "//evil.example/m",
            "/m#fragment",
            "javascript:alert(1)",
            "http://exa mple",
        ];
        assert_eq!(
            references.map(told),
            [
                "https://example.com:8443/messages?session=1",
                "https://example.com:8443/mcp/messages",
                "https://example.com:8443/mcp/sse?session=2",
                "https://EXAMPLE.com:8443/m",
                "refused",
                "refused",
                "refused",
                "refused",
                "https://example.com:8443/m",
                "refused",
                "refused",
            ]
        );
    }
}
