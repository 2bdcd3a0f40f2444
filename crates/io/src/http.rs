//! An HTTP client with pooled connections and time limits, whose errors show whether a request may have arrived.
//!
//! HTTP/1.1 connections have no task: the caller that waits for a response drives its connection, so no task is between
//! the socket and the caller. HTTP/2 connections are shared and have one task each, which ends with the client.

mod body;
mod dial;
mod error;
mod events;
mod origin;
mod pool;
mod settings;
mod stream;
mod tls;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use bytes::Bytes;
use http::header::{HOST, LOCATION, PROXY_AUTHORIZATION};
use http::{HeaderValue, Method, Request, Response, StatusCode, Uri};
use tokio::time::Instant;

pub use body::{Body, BodyError};
pub use error::{HttpError, InvalidSettings};
pub use events::{SseError, SseEvent, SseReader};
pub use settings::{DialTarget, HttpSettings, Proxies};
pub use stream::{Dial, DialTo, Dialed, Resolve};

use dial::Route;
use origin::Origin;
use pool::{Pool, Received, Sender};

/// Maximum number of redirects per request.
const MAX_REDIRECTS: usize = 5;

/// A pooled HTTP client. Clones share the pool.
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
    /// Closes shared connections, which would otherwise stay open.
    fn drop(&mut self) {
        self.pool.close_idle();
    }
}

impl HttpClient {
    /// Creates a client without connecting.
    pub fn new(settings: HttpSettings) -> Result<Self, InvalidSettings> {
        settings.check()?;
        let connect = settings.connect;
        let route = Route::new(settings)?;
        let inner = Inner { route, pool: Pool::default(), connect, opened: AtomicU64::new(0) };
        Ok(Self { inner: Arc::new(inner) })
    }

    /// Returns whether requests to this `http` or `https` URL go through a proxy.
    pub fn uses_proxy(&self, url: &str) -> bool {
        let origin = url.parse::<Uri>().ok().and_then(|uri| Origin::of(&uri).ok());
        origin.is_some_and(|origin| self.inner.route.uses_proxy(&origin))
    }

    /// Returns how many connections have been opened.
    pub fn connections_opened(&self) -> u64 {
        self.inner.opened.load(Ordering::Relaxed)
    }

    /// Closes connections that have been idle for too long or were closed by the server.
    pub fn sweep(&self) {
        self.inner.pool.sweep();
    }

    /// Closes every connection that is not in use.
    pub fn close_idle(&self) {
        self.inner.pool.close_idle();
    }

    /// Sends a request and waits for the head of the response. Dropping the future closes its connection.
    ///
    /// Follows redirects within the same origin only, and only if the method does not change.
    pub async fn send(&self, request: Request<Bytes>) -> Result<Response<Body>, HttpError> {
        let (head, content) = request.into_parts();
        let mut target = head.uri.clone();
        for _ in 0..=MAX_REDIRECTS {
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
        Err(HttpError::Redirected(format!("more than {MAX_REDIRECTS} times")))
    }

    async fn send_once(&self, mut request: Request<Bytes>) -> Result<Response<Body>, HttpError> {
        let origin = Origin::of(request.uri())?;
        self.inner.route.prepare(&mut request, &origin)?;
        let mut fresh = false;
        loop {
            let pooled = if fresh { None } else { self.inner.pool.take(&origin) };
            let sender = if let Some(sender) = pooled {
                sender
            } else {
                fresh = true;
                self.open(&origin).await?
            };
            match sender.send(request, &origin).await {
                Ok(Received { response, connection: Some(connection), .. }) => {
                    let pool = self.inner.pool.clone();
                    return Ok(response.map(|body| Body::own(body, connection, pool, origin)));
                }
                Ok(Received { response, connection: None, peer }) => {
                    return Ok(response.map(|body| Body::shared(body, peer)));
                }
                // The server closed a pooled connection before a byte of the request was sent: retry once with a new
                // connection.
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
        let sender = within(limit, origin, opening).await?;
        self.inner.opened.fetch_add(1, Ordering::Relaxed);
        Ok(sender)
    }

    /// Opens a bare connection to the host of `uri`, through the proxy and with TLS like a request: for protocols that
    /// start with HTTP and upgrade to something else.
    pub async fn connect(&self, uri: &Uri) -> Result<Dialed, HttpError> {
        let origin = Origin::of(uri)?;
        let limit = self.inner.connect;
        let connecting = self.inner.route.connect(&origin, dial::Offer::Bare);
        let (stream, _) = within(limit, &origin, connecting).await?;
        self.inner.opened.fetch_add(1, Ordering::Relaxed);
        Ok(stream)
    }
}

/// Limits the time to open a connection.
async fn within<T>(
    limit: Duration,
    origin: &Origin,
    opening: impl Future<Output = Result<T, HttpError>>,
) -> Result<T, HttpError> {
    let started = Instant::now();
    match tokio::time::timeout(limit, opening).await {
        // On a slow machine, the time of the last address may end in the same moment.
        Ok(Err(HttpError::Unreachable(_))) if started.elapsed() >= limit => Err(too_slow(limit, origin)),
        Ok(result) => result,
        Err(_) => Err(too_slow(limit, origin)),
    }
}

fn too_slow(limit: Duration, origin: &Origin) -> HttpError {
    HttpError::Unreachable(format!("no connection to {origin} within {} s", limit.as_secs_f64()))
}

/// Returns whether to follow a redirect. 307 and 308 keep the method; 301 and 302 only keep GET.
fn redirects(status: StatusCode, method: &Method) -> bool {
    match status.as_u16() {
        307 | 308 => true,
        301 | 302 => method == Method::GET,
        _ => false,
    }
}

fn same_origin(from: &Uri, header: &HeaderValue) -> Result<Uri, HttpError> {
    let location = String::from_utf8_lossy(header.as_bytes()).into_owned();
    let elsewhere = || HttpError::Redirected(format!("to `{location}`, which is another origin or an invalid URL"));
    let target = relative(from, &location).ok_or_else(elsewhere)?;
    if Origin::of(&target).ok() == Origin::of(from).ok() { Ok(target) } else { Err(elsewhere()) }
}

/// Resolves a reference against a base: absolute, from the root, or relative.
pub(crate) fn relative(base: &Uri, reference: &str) -> Option<Uri> {
    let reference = reference.split('#').next()?;
    if let Ok(whole) = reference.parse::<Uri>()
        && whole.scheme().is_some()
    {
        return Some(whole);
    }
    let scheme = base.scheme_str()?;
    let authority = base.authority()?;
    let path = match reference.chars().next() {
        None => base.path_and_query()?.to_string(),
        Some('/') if reference.starts_with("//") => return format!("{scheme}:{reference}").parse().ok(),
        Some('/') => reference.to_owned(),
        Some('?') => format!("{}{reference}", base.path()),
        // An unsupported scheme.
        Some(_) if reference.split(['/', '?']).next().is_some_and(|first| first.contains(':')) => return None,
        Some(_) => {
            let folder = base.path().rsplit_once('/').map_or("", |(folder, _)| folder);
            format!("{folder}/{reference}")
        }
    };
    format!("{scheme}://{authority}{path}").parse().ok()
}

/// Resolves `reference` against `base`, if it has the same origin.
pub fn same_origin_reference(base: &Uri, reference: &str) -> Option<Uri> {
    let target = relative(base, reference)?;
    (Origin::of(&target).ok()? == Origin::of(base).ok()?).then_some(target)
}

impl Route {
    /// Sets the host and the form of the URI for the connection.
    fn prepare(&self, request: &mut Request<Bytes>, origin: &Origin) -> Result<(), HttpError> {
        let host = HeaderValue::try_from(origin.authority())
            .map_err(|_| HttpError::Unreachable(format!("invalid host in `{origin}`")))?;
        request.headers_mut().entry(HOST).or_insert(host);
        if let Some(proxy) = self.plain_proxy(origin) {
            // A proxy for plain HTTP needs the absolute URI.
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
    fn a_reference_is_resolved_within_its_origin_only() {
        let base: Uri = "https://example.com:8443/mcp/sse?x=1".parse().unwrap();
        let resolved = |reference: &str| {
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
            references.map(resolved),
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
