//! From a host to a stream: names, TCP, a unix socket or whatever was handed in; then the proxy, then TLS.

use std::future::Ready;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::pin::Pin;
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
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tower_service::Service;

use super::settings::{DialTarget, HttpSettings};
use super::tls::Tls;
use super::{HttpError, InvalidSettings, Origin};

/// A far end that has vanished without a word is noticed by the system after about a minute.
const KEEP_ALIVE: Duration = Duration::from_secs(30);
const KEEP_ALIVE_INTERVAL: Duration = Duration::from_secs(10);
const KEEP_ALIVE_RETRIES: u32 = 3;

/// Makes streams of its own.
pub trait Dial: Send + Sync + 'static {
    /// A stream to the far end.
    fn dial(&self, to: DialTo) -> BoxFuture<'static, io::Result<Dialed>>;
}

impl<F, O> Dial for F
where
    F: Fn(DialTo) -> O + Send + Sync + 'static,
    O: Future<Output = io::Result<Dialed>> + Send + 'static,
{
    fn dial(&self, to: DialTo) -> BoxFuture<'static, io::Result<Dialed>> {
        self(to).boxed()
    }
}

/// Whom to dial.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DialTo {
    /// The host, as it was written.
    pub host: String,
    /// The port.
    pub port: u16,
}

/// Looks names up.
pub trait Resolve: Send + Sync + 'static {
    /// The addresses of a name.
    fn resolve(&self, name: &str) -> BoxFuture<'static, io::Result<Vec<IpAddr>>>;
}

/// A stream of bytes to a far end, of whatever make.
pub struct Dialed(Pin<Box<dyn Duplex>>);

trait Duplex: AsyncRead + AsyncWrite + Send {}
impl<S: AsyncRead + AsyncWrite + Send> Duplex for S {}

impl Dialed {
    /// Any stream.
    pub fn new(stream: impl AsyncRead + AsyncWrite + Send + 'static) -> Self {
        Self(Box::pin(stream))
    }
}

impl AsyncRead for Dialed {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        self.0.as_mut().poll_read(cx, buffer)
    }
}

impl AsyncWrite for Dialed {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        self.0.as_mut().poll_write(cx, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.0.as_mut().poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.0.as_mut().poll_shutdown(cx)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.0.as_mut().poll_write_vectored(cx, slices)
    }

    fn is_write_vectored(&self) -> bool {
        self.0.is_write_vectored()
    }
}

/// What may be spoken on a new connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Offer {
    /// HTTP/1.1, or HTTP/2 if the server prefers it.
    Http,
    /// What the caller knows; never HTTP/2.
    Bare,
}

/// What is spoken on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Protocol {
    Http1,
    Http2,
}

/// The whole way to any host.
#[derive(Debug)]
pub(super) struct Route {
    way: DialTarget,
    tcp: HttpConnector<Names>,
    proxies: Matcher,
    tls: Tls,
}

impl Route {
    pub(super) fn new(settings: HttpSettings) -> Result<Self, InvalidSettings> {
        let names = match &settings.way {
            DialTarget::Tcp(names) => Names(names.clone()),
            DialTarget::Unix(_) | DialTarget::Dial(_) => Names(None),
        };
        let mut tcp = HttpConnector::new_with_resolver(names);
        tcp.enforce_http(false);
        // Several addresses share this, so that one which swallows everything leaves time for the next; a sole one has
        // the whole limit, which is then what ends it.
        tcp.set_connect_timeout(Some(settings.connect.saturating_mul(5) / 4));
        tcp.set_nodelay(true);
        tcp.set_keepalive(Some(KEEP_ALIVE));
        tcp.set_keepalive_interval(Some(KEEP_ALIVE_INTERVAL));
        tcp.set_keepalive_retries(Some(KEEP_ALIVE_RETRIES));
        // What stands around an address would make it none, and none is passed over in silence.
        let trimmed = |proxy: Option<String>| proxy.unwrap_or_default().trim().to_owned();
        let proxies = settings.proxies;
        let proxies = Matcher::builder()
            .all(trimmed(proxies.all))
            .http(trimmed(proxies.http))
            .https(trimmed(proxies.https))
            .no(trimmed(proxies.no))
            .build();
        Ok(Self { way: settings.way, tcp, proxies, tls: Tls::new(settings.extra_ca.as_deref())? })
    }

    /// The proxy that plain HTTP to this origin goes through, which sees every request.
    pub(super) fn plain_proxy(&self, origin: &Origin) -> Option<Intercept> {
        self.proxy(origin).filter(|proxy| !origin.secure && !is_socks(proxy))
    }

    /// Whether connections to this origin go through a proxy.
    pub(super) fn uses_proxy(&self, origin: &Origin) -> bool {
        self.proxy(origin).is_some()
    }

    fn proxy(&self, origin: &Origin) -> Option<Intercept> {
        // What runs on this machine is not behind a proxy, whatever the variables say.
        let loopback =
            origin.host == "localhost" || origin.host.parse::<IpAddr>().is_ok_and(|address| address.is_loopback());
        if loopback || !matches!(self.way, DialTarget::Tcp(_)) {
            return None;
        }
        self.proxies.intercept(&uri(origin.secure, origin)?)
    }

    pub(super) async fn connect(&self, origin: &Origin, offer: Offer) -> Result<(Dialed, Protocol), HttpError> {
        let stream = match self.proxy(origin) {
            Some(proxy) => self.through(&proxy, origin, offer).await?,
            None => self.dial(origin).await?,
        };
        if !origin.secure {
            return Ok((stream, Protocol::Http1));
        }
        let stream = self.tls.secure(stream, origin, offer == Offer::Http).await?;
        let http2 = stream.get_ref().1.alpn_protocol() == Some(b"h2");
        Ok((Dialed::new(stream), if http2 { Protocol::Http2 } else { Protocol::Http1 }))
    }

    async fn dial(&self, origin: &Origin) -> Result<Dialed, HttpError> {
        let failed = |error: String| HttpError::Unreachable(format!("{origin} cannot be reached: {error}"));
        match &self.way {
            DialTarget::Tcp(_) => {
                let uri = uri(false, origin).ok_or_else(|| failed("it is no host".to_owned()))?;
                let stream = self.tcp.clone().call(uri).await.map_err(|error| failed(causes(&error)))?;
                Ok(Dialed::new(stream.into_inner()))
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
        let target = uri(origin.secure, origin).ok_or_else(|| failed("it is no host".to_owned()))?;
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

/// The proxy's own address, as something that can be dialed.
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

/// An error with everything behind it; libraries tend to say only the outermost part.
pub(super) fn causes(error: &dyn std::error::Error) -> String {
    let (mut text, mut source) = (error.to_string(), error.source());
    while let Some(cause) = source {
        let cause_text = cause.to_string();
        if !text.contains(&cause_text) {
            text = format!("{text}: {cause_text}");
        }
        source = cause.source();
    }
    text
}

/// A connection to a proxy that exists already, in the shape in which the tunnels want to make it.
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

/// The names of the system, or of whoever was handed in.
#[derive(Clone)]
struct Names(Option<Arc<dyn Resolve>>);

impl std::fmt::Debug for Names {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Names")
    }
}

impl Service<Name> for Names {
    type Response = std::vec::IntoIter<SocketAddr>;
    type Error = io::Error;
    type Future = BoxFuture<'static, io::Result<Self::Response>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, name: Name) -> Self::Future {
        let names = self.0.clone();
        async move {
            let addresses: Vec<SocketAddr> = match names {
                Some(names) => {
                    let found = names.resolve(name.as_str()).await?;
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
