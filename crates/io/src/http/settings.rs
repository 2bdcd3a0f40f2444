//! What a client needs to know before it can connect: handed in, never looked up.

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use super::dial::{Dial, Resolve};
use crate::address::explicit_port;

/// How a client connects.
#[derive(Clone, Debug)]
pub struct HttpSettings {
    /// How long a connection may take, TLS and proxy included.
    pub connect: Duration,
    /// The proxies.
    pub proxies: Proxies,
    /// More certificates to trust, in PEM: the content of the file that `SSL_CERT_FILE` names.
    pub extra_ca: Option<Vec<u8>>,
    /// How a stream is made.
    pub way: DialTarget,
}

/// How a stream to a host is made.
#[derive(Clone)]
pub enum DialTarget {
    /// TCP, with names looked up by the system or by this.
    Tcp(Option<Arc<dyn Resolve>>),
    /// A socket in the file system, whatever the host.
    Unix(PathBuf),
    /// Whatever this makes.
    Dial(Arc<dyn Dial>),
}

/// The proxies, as the variables of these names have them.
#[derive(Clone, Default)]
pub struct Proxies {
    /// `HTTP_PROXY`.
    pub http: Option<String>,
    /// `HTTPS_PROXY`.
    pub https: Option<String>,
    /// `ALL_PROXY`.
    pub all: Option<String>,
    /// `NO_PROXY`: hosts that are reached without one. Loopback always is.
    pub no: Option<String>,
}

/// What is wrong with the settings.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum InvalidSettings {
    /// The certificates cannot be used.
    #[error("the extra certificates cannot be used: {0}")]
    Certificates(String),
    /// A proxy cannot be used. Its address is not shown: it may have a password in it.
    #[error("the proxy of {0} is no address of an http, https or socks5 proxy")]
    Proxy(&'static str),
}

impl Proxies {
    /// Whether every proxy is one that can be used: one that cannot is not passed over in silence.
    fn check(&self) -> Result<(), InvalidSettings> {
        let named = [("HTTP_PROXY", &self.http), ("HTTPS_PROXY", &self.https), ("ALL_PROXY", &self.all)];
        for (name, proxy) in named {
            let Some(written) = proxy.as_deref().map(str::trim).filter(|proxy| !proxy.is_empty()) else { continue };
            let whole = if written.contains("://") { written.to_owned() } else { format!("http://{written}") };
            let usable = whole.parse::<http::Uri>().is_ok_and(|uri| {
                let scheme = matches!(uri.scheme_str(), Some("http" | "https" | "socks5" | "socks5h"));
                scheme && uri.host().is_some_and(|host| !host.is_empty()) && explicit_port(&uri).is_ok()
            });
            if !usable {
                return Err(InvalidSettings::Proxy(name));
            }
        }
        Ok(())
    }
}

impl Default for HttpSettings {
    fn default() -> Self {
        Self {
            connect: Duration::from_secs(30),
            proxies: Proxies::default(),
            extra_ca: None,
            way: DialTarget::Tcp(None),
        }
    }
}

impl HttpSettings {
    /// Whether a client can be made of them.
    pub fn check(&self) -> Result<(), InvalidSettings> {
        self.proxies.check()?;
        match &self.extra_ca {
            Some(extra_ca) => super::tls::Tls::new(Some(extra_ca)).map(drop),
            None => Ok(()),
        }
    }

    /// With another way to look names up.
    #[must_use]
    pub fn resolving(mut self, resolve: impl Resolve) -> Self {
        self.way = DialTarget::Tcp(Some(Arc::new(resolve)));
        self
    }

    /// Over a socket in the file system.
    #[must_use]
    pub fn over_unix_socket(mut self, path: impl Into<PathBuf>) -> Self {
        self.way = DialTarget::Unix(path.into());
        self
    }

    /// Over streams of one's own making: in memory, simulated, or anything else.
    #[must_use]
    pub fn dialing(mut self, dial: impl Dial) -> Self {
        self.way = DialTarget::Dial(Arc::new(dial));
        self
    }
}

/// Without the addresses, which may have passwords in them.
impl fmt::Debug for Proxies {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let there = |proxy: &Option<String>| proxy.is_some();
        let (http, https, all) = (there(&self.http), there(&self.https), there(&self.all));
        write!(f, "Proxies {{ http: {http}, https: {https}, all: {all}, no: {:?} }}", self.no)
    }
}

impl fmt::Debug for DialTarget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tcp(None) => f.write_str("Tcp"),
            Self::Tcp(Some(_)) => f.write_str("Tcp(own names)"),
            Self::Unix(path) => write!(f, "Unix({})", path.display()),
            Self::Dial(_) => f.write_str("Dial"),
        }
    }
}
