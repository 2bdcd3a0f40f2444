//! Opens a stream to a host: name resolution and TCP, a Unix socket or a custom dialer; then the proxy, then TLS.

use std::future::Ready;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;
use http::Uri;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::client::legacy::connect::dns::Name;
use hyper_util::client::legacy::connect::proxy::{SocksV5, Tunnel};
use hyper_util::client::proxy::matcher::{Intercept, Matcher};
use hyper_util::rt::TokioIo;
use tower_service::Service;

use super::error::{HttpError, InvalidSettings};
use super::origin::Origin;
use super::settings::{DialTarget, HttpSettings};
use super::stream::{DialTo, Dialed, Resolve};
use super::tls::Tls;
use crate::address::is_loopback_host;

/// TCP keep-alive, which detects a vanished server after about a minute.
const KEEP_ALIVE: Duration = Duration::from_secs(30);
const KEEP_ALIVE_INTERVAL: Duration = Duration::from_secs(10);
const KEEP_ALIVE_RETRIES: u32 = 3;

/// The protocols that a new connection offers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Offer {
    /// HTTP/1.1, or HTTP/2 if the server prefers it.
    Http,
    /// The caller's protocol; never HTTP/2.
    Bare,
}

/// The negotiated protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Protocol {
    Http1,
    Http2,
}

/// Opens connections to any host.
#[derive(Debug)]
pub(super) struct Route {
    target: DialTarget,
    tcp: HttpConnector<Resolver>,
    proxies: Matcher,
    tls: Tls,
}

impl Route {
    pub(super) fn new(settings: HttpSettings) -> Result<Self, InvalidSettings> {
        let resolver = match &settings.dial_target {
            DialTarget::Tcp(resolver) => Resolver(resolver.clone()),
            DialTarget::Unix(_) | DialTarget::Dial(_) => Resolver(None),
        };
        let mut tcp = HttpConnector::new_with_resolver(resolver);
        tcp.enforce_http(false);
        // Several addresses share this timeout, so that an unresponsive one leaves time for the next. For a sole address the
        // overall limit is shorter and applies.
        tcp.set_connect_timeout(Some(settings.connect.saturating_mul(5) / 4));
        tcp.set_nodelay(true);
        tcp.set_keepalive(Some(KEEP_ALIVE));
        tcp.set_keepalive_interval(Some(KEEP_ALIVE_INTERVAL));
        tcp.set_keepalive_retries(Some(KEEP_ALIVE_RETRIES));
        // Surrounding whitespace would make a proxy URL invalid, and the matcher ignores invalid ones silently.
        let trimmed = |proxy: Option<String>| proxy.unwrap_or_default().trim().to_owned();
        let proxies = settings.proxies;
        let proxies = Matcher::builder()
            .all(trimmed(proxies.all))
            .http(trimmed(proxies.http))
            .https(trimmed(proxies.https))
            .no(trimmed(proxies.no))
            .build();
        Ok(Self { target: settings.dial_target, tcp, proxies, tls: Tls::new(settings.extra_ca.as_deref())? })
    }

    /// Returns the proxy that forwards plain HTTP requests to this origin.
    pub(super) fn plain_proxy(&self, origin: &Origin) -> Option<Intercept> {
        self.proxy(origin).filter(|proxy| !origin.secure && !is_socks(proxy))
    }

    /// Whether connections to this origin go through a proxy.
    pub(super) fn uses_proxy(&self, origin: &Origin) -> bool {
        self.proxy(origin).is_some()
    }

    fn proxy(&self, origin: &Origin) -> Option<Intercept> {
        // Loopback hosts are never behind a proxy.
        if is_loopback_host(&origin.host) || !matches!(self.target, DialTarget::Tcp(_)) {
            return None;
        }
        self.proxies.intercept(&uri(origin.secure, origin)?)
    }

    pub(super) async fn connect(&self, origin: &Origin, offer: Offer) -> Result<(Dialed, Protocol), HttpError> {
        let stream = match self.proxy(origin) {
            Some(proxy) => self.through(&proxy, origin, offer).await?.with_peer(None),
            None => self.dial(origin).await?,
        };
        if !origin.secure {
            return Ok((stream, Protocol::Http1));
        }
        let peer = stream.peer();
        let stream = self.tls.secure(stream, origin, offer == Offer::Http).await?;
        let http2 = stream.get_ref().1.alpn_protocol() == Some(b"h2");
        Ok((Dialed::new(stream).with_peer(peer), if http2 { Protocol::Http2 } else { Protocol::Http1 }))
    }

    async fn dial(&self, origin: &Origin) -> Result<Dialed, HttpError> {
        let failed = |error: String| HttpError::Unreachable(format!("{origin} cannot be reached: {error}"));
        match &self.target {
            DialTarget::Tcp(_) => {
                let uri = uri(false, origin).ok_or_else(|| failed("invalid host".to_owned()))?;
                let stream = self.tcp.clone().call(uri).await.map_err(|error| failed(causes(&error)))?;
                let stream = stream.into_inner();
                let peer = stream.peer_addr().ok().map(|address| address.ip());
                Ok(Dialed::new(stream).with_peer(peer))
            }
            DialTarget::Unix(path) => {
                let stream = tokio::net::UnixStream::connect(path).await;
                stream.map(Dialed::new).map_err(|error| failed(format!("{}: {error}", path.display())))
            }
            DialTarget::Dial(dial) => {
                let to = DialTo { host: origin.host.clone(), port: origin.port };
                dial.dial(to).await.map_err(|error| failed(error.to_string()))
            }
        }
    }

    async fn through(&self, proxy: &Intercept, origin: &Origin, offer: Offer) -> Result<Dialed, HttpError> {
        let failed = |reason: String| HttpError::Unreachable(format!("{origin} cannot be reached by proxy: {reason}"));
        let address = Origin::of(&proxy_address(proxy)).map_err(|error| failed(error.to_string()))?;
        let mut stream = self.dial(&address).await.map_err(|error| failed(error.to_string()))?;
        if address.secure {
            stream = Dialed::new(self.tls.secure(stream, &address, false).await?);
        }
        if !origin.secure && !is_socks(proxy) && offer == Offer::Http {
            return Ok(stream);
        }
        let connected = Connected(Some(TokioIo::new(stream)));
        let target = uri(origin.secure, origin).ok_or_else(|| failed("invalid host".to_owned()))?;
        let stream = if is_socks(proxy) {
            let mut socks = SocksV5::new(proxy.uri().clone(), connected).local_dns(false);
            if let Some((user, password)) = proxy.raw_auth() {
                socks = socks.with_auth(user.to_owned(), password.to_owned());
            }
            socks.call(target).await.map_err(|error| failed(error.to_string()))?
        } else {
            let mut tunnel = Tunnel::new(proxy.uri().clone(), connected);
            if let Some(authorization) = proxy.basic_auth() {
                tunnel = tunnel.with_auth(authorization.clone());
            }
            tunnel.call(target).await.map_err(|error| failed(causes(&error)))?
        };
        Ok(stream.into_inner())
    }
}

fn is_socks(proxy: &Intercept) -> bool {
    proxy.uri().scheme_str().is_some_and(|scheme| scheme.starts_with("socks"))
}

/// Returns the proxy's own URI in a form that can be dialed.
fn proxy_address(proxy: &Intercept) -> Uri {
    let uri = proxy.uri();
    if !is_socks(proxy) {
        return uri.clone();
    }
    let port = uri.port_u16().unwrap_or(1080);
    let address = format!("http://{}:{port}", uri.host().unwrap_or_default());
    address.parse().unwrap_or_default()
}

fn uri(secure: bool, origin: &Origin) -> Option<Uri> {
    let host = if origin.host.contains(':') { format!("[{}]", origin.host) } else { origin.host.clone() };
    let scheme = if secure { "https" } else { "http" };
    format!("{scheme}://{host}:{}/", origin.port).parse().ok()
}

/// Returns an error with all its sources; libraries tend to show only the outermost one.
pub(super) fn causes(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        let cause_text = cause.to_string();
        if !text.contains(&cause_text) {
            text = format!("{text}: {cause_text}");
        }
        source = cause.source();
    }
    text
}

/// An open connection to a proxy, as the connector service that tunnels expect.
struct Connected(Option<TokioIo<Dialed>>);

impl Service<Uri> for Connected {
    type Response = TokioIo<Dialed>;
    type Error = io::Error;
    type Future = Ready<io::Result<TokioIo<Dialed>>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, _: Uri) -> Self::Future {
        std::future::ready(self.0.take().ok_or_else(|| io::ErrorKind::NotConnected.into()))
    }
}

/// The system's resolver, or a custom one.
#[derive(Clone)]
struct Resolver(Option<Arc<dyn Resolve>>);

impl std::fmt::Debug for Resolver {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Resolver")
    }
}

impl Service<Name> for Resolver {
    type Response = std::vec::IntoIter<SocketAddr>;
    type Error = io::Error;
    type Future = BoxFuture<'static, io::Result<Self::Response>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, name: Name) -> Self::Future {
        let resolver = self.0.clone();
        async move {
            let addresses: Vec<SocketAddr> = match resolver {
                Some(resolver) => {
                    let found = resolver.resolve(name.as_str()).await?;
                    found.into_iter().map(|address| SocketAddr::new(address, 0)).collect()
                }
                None => tokio::net::lookup_host((name.as_str(), 0)).await?.collect(),
            };
            if addresses.is_empty() {
                return Err(io::Error::new(io::ErrorKind::NotFound, format!("`{name}` has no address")));
            }
            Ok(addresses.into_iter())
        }
        .boxed()
    }
}
