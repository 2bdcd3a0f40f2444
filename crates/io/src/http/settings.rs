//! Settings of a client. Callers pass them; the client never reads the environment.

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use super::error::InvalidSettings;
use super::stream::{Dial, Resolve};
use super::tls::Tls;
use crate::address::explicit_port;

/// Settings of an HTTP client.
#[derive(Clone, Debug)]
pub struct HttpSettings {
    /// Timeout for a connection, including TLS and proxy.
    pub connect: Duration,
    /// The proxies to use.
    pub proxies: Proxies,
    /// Additional trusted certificates in PEM: the content of the file in `SSL_CERT_FILE`.
    pub extra_ca: Option<Vec<u8>>,
    /// How to open a stream.
    pub dial_target: DialTarget,
}

/// How to open a stream to a host.
#[derive(Clone)]
pub enum DialTarget {
    /// TCP, with the system's resolver or a custom one.
    Tcp(Option<Arc<dyn Resolve>>),
    /// A Unix socket, for every host.
    Unix(PathBuf),
    /// A custom dialer.
    Dial(Arc<dyn Dial>),
}

/// The proxies, like the environment variables of these names.
#[derive(Clone, Default)]
pub struct Proxies {
    /// `HTTP_PROXY`.
    pub http: Option<String>,
    /// `HTTPS_PROXY`.
    pub https: Option<String>,
    /// `ALL_PROXY`.
    pub all: Option<String>,
    /// `NO_PROXY`: hosts without a proxy. Loopback never uses one.
    pub no: Option<String>,
}

impl Proxies {
    /// Validates every proxy, so that an invalid one is not ignored silently.
    fn check(&self) -> Result<(), InvalidSettings> {
        let named = [("HTTP_PROXY", &self.http), ("HTTPS_PROXY", &self.https), ("ALL_PROXY", &self.all)];
        for (name, proxy) in named {
            let Some(text) = proxy.as_deref().map(str::trim).filter(|proxy| !proxy.is_empty()) else { continue };
            let url = if text.contains("://") { text.to_owned() } else { format!("http://{text}") };
            let valid = url.parse::<http::Uri>().is_ok_and(|uri| {
                let scheme = matches!(uri.scheme_str(), Some("http" | "https" | "socks5" | "socks5h"));
                scheme && uri.host().is_some_and(|host| !host.is_empty()) && explicit_port(&uri).is_ok()
            });
            if !valid {
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
            dial_target: DialTarget::Tcp(None),
        }
    }
}

impl HttpSettings {
    /// Validates the settings.
    pub fn check(&self) -> Result<(), InvalidSettings> {
        self.proxies.check()?;
        match &self.extra_ca {
            Some(extra_ca) => Tls::new(Some(extra_ca)).map(drop),
            None => Ok(()),
        }
    }

    /// Sets a custom resolver.
    #[must_use]
    pub fn resolving(mut self, resolve: impl Resolve) -> Self {
        self.dial_target = DialTarget::Tcp(Some(Arc::new(resolve)));
        self
    }

    /// Connects over a Unix socket.
    #[must_use]
    pub fn over_unix_socket(mut self, path: impl Into<PathBuf>) -> Self {
        self.dial_target = DialTarget::Unix(path.into());
        self
    }

    /// Sets a custom dialer, for example for in-memory or simulated streams.
    #[must_use]
    pub fn dialing(mut self, dial: impl Dial) -> Self {
        self.dial_target = DialTarget::Dial(Arc::new(dial));
        self
    }
}

/// Shows no URLs, because they may contain passwords.
impl fmt::Debug for Proxies {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let http = self.http.is_some();
        let https = self.https.is_some();
        let all = self.all.is_some();
        write!(f, "Proxies {{ http: {http}, https: {https}, all: {all}, no: {:?} }}", self.no)
    }
}

impl fmt::Debug for DialTarget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tcp(None) => f.write_str("Tcp"),
            Self::Tcp(Some(_)) => f.write_str("Tcp(custom resolver)"),
            Self::Unix(path) => write!(f, "Unix({})", path.display()),
            Self::Dial(_) => f.write_str("Dial"),
        }
    }
}
