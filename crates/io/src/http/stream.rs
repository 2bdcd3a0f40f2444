//! Custom dialers, resolvers and streams.

use std::io;
use std::net::IpAddr;
use std::pin::Pin;
use std::task::{Context, Poll};

use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// Opens custom streams.
pub trait Dial: Send + Sync + 'static {
    /// Opens a stream to the target.
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

/// The target of a connection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DialTo {
    /// The host, as in the URL.
    pub host: String,
    /// The port.
    pub port: u16,
}

/// Resolves host names.
pub trait Resolve: Send + Sync + 'static {
    /// Returns the addresses of a name.
    fn resolve(&self, name: &str) -> BoxFuture<'static, io::Result<Vec<IpAddr>>>;
}

/// An open byte stream of any type.
pub struct Dialed {
    stream: Pin<Box<dyn Duplex>>,
    peer: Option<IpAddr>,
}

trait Duplex: AsyncRead + AsyncWrite + Send {}
impl<S: AsyncRead + AsyncWrite + Send> Duplex for S {}

impl Dialed {
    /// Wraps a stream.
    pub fn new(stream: impl AsyncRead + AsyncWrite + Send + 'static) -> Self {
        Self { stream: Box::pin(stream), peer: None }
    }

    /// Sets the address of the host at the other end. A proxy is not that host.
    pub(super) fn with_peer(self, peer: Option<IpAddr>) -> Self {
        Self { peer, ..self }
    }

    /// Returns the address of the host at the other end; `None` behind a proxy, and for sockets and custom dialers.
    pub fn peer(&self) -> Option<IpAddr> {
        self.peer
    }
}

impl AsyncRead for Dialed {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        self.stream.as_mut().poll_read(cx, buffer)
    }
}

impl AsyncWrite for Dialed {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        self.stream.as_mut().poll_write(cx, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.stream.as_mut().poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.stream.as_mut().poll_shutdown(cx)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.stream.as_mut().poll_write_vectored(cx, slices)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }
}
