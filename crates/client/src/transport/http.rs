//! A server behind HTTP: Streamable HTTP, and the older pair of a long GET and POSTs.
//!
//! The HTTP client, with its kept connections and its trust, is made once for a transport and outlives every session on
//! it: a session that the server has lost is begun anew on the connections there are.

mod exchange;
mod follow;
mod governor;
mod headers;
mod legacy;
mod listen;
mod loss;
mod poster;
mod refusal;

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use ::http::{HeaderName, HeaderValue, Uri};
use futures_util::future::BoxFuture;
use wharf_io::{HttpClient, HttpSettings, InvalidSettings, port};

use super::{Link, OpenError, Transport};
use exchange::Exchange;
pub(crate) use governor::Governor;
pub use headers::HeaderCommand;
use headers::Headers;
#[cfg(feature = "websocket")]
pub(in crate::transport) use headers::Tried;
pub(crate) use headers::parse as parse_headers;
pub use legacy::HttpSse;
pub use loss::session_loss;
#[cfg(feature = "websocket")]
pub(in crate::transport) use refusal::challenge;
use wharf_auth::TokenProvider;

/// Messages from the server that may wait for the reader.
const FRAMES: usize = 256;

/// A server that speaks Streamable HTTP.
#[derive(Clone)]
pub struct Http {
    remote: Remote,
}

/// How a remote server is reached.
#[derive(Clone, Default)]
pub struct RemoteOptions {
    /// How connections are made.
    pub http: HttpSettings,
    /// Headers for every request. Their values are not shown anywhere.
    pub headers: Vec<(String, String)>,
    /// A command that tells further headers.
    pub helper: Option<HeaderCommand>,
    /// Who signs us in. Where the headers have an `Authorization`, that is sent instead.
    pub authority: Option<Arc<dyn TokenProvider>>,
}

/// Without the headers' values, which are often secrets.
impl fmt::Debug for RemoteOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<&str> = self.headers.iter().map(|(name, _)| name.as_str()).collect();
        f.debug_struct("RemoteOptions")
            .field("http", &self.http)
            .field("headers", &names)
            .field("helper", &self.helper)
            .field("signs_in", &self.authority.is_some())
            .finish()
    }
}

/// What is wrong with how a server is to be reached.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum InvalidRemote {
    /// The address cannot be used.
    #[error("`{url}` is no address of a server: {reason}")]
    Url {
        /// The address.
        url: String,
        /// Why not.
        reason: &'static str,
    },
    /// A header cannot be sent.
    #[error("the header `{name}` cannot be sent: {reason}")]
    Header {
        /// Its name.
        name: String,
        /// Why not.
        reason: &'static str,
    },
    /// The settings cannot be used.
    #[error(transparent)]
    Settings(#[from] InvalidSettings),
}

impl Http {
    /// The server at `url`, which is `http` or `https`.
    pub fn new(url: &str, options: RemoteOptions) -> Result<Self, InvalidRemote> {
        Ok(Self { remote: Remote::new(url, ["http", "https"], options)? })
    }

    /// How many HTTP clients have been made for this server: none before its first use, then one, whatever happens.
    pub fn clients_made(&self) -> u64 {
        self.remote.made.load(Ordering::Relaxed)
    }

    /// How many connections have been opened to it.
    pub fn connections_opened(&self) -> u64 {
        self.remote.client.get().and_then(|made| made.as_ref().ok()).map_or(0, HttpClient::connections_opened)
    }
}

impl Transport for Http {
    fn open(&self) -> BoxFuture<'_, Result<Link, OpenError>> {
        Box::pin(async { Ok(Exchange::open(self.remote.reach()?)) })
    }

    fn is_remote(&self) -> bool {
        true
    }

    fn identity(&self) -> Option<String> {
        Some(self.remote.identity())
    }

    fn audience(&self) -> Option<String> {
        Some(self.remote.audience())
    }

    fn older(&self) -> Option<Arc<dyn Transport>> {
        Some(Arc::new(HttpSse::at(self.remote.clone())))
    }
}

/// Where a server is, and the client that reaches it.
#[derive(Clone)]
pub(in crate::transport) struct Remote {
    url: Uri,
    settings: HttpSettings,
    headers: Headers,
    client: Arc<OnceLock<Result<HttpClient, InvalidSettings>>>,
    /// How many clients have been made.
    made: Arc<AtomicU64>,
}

/// A remote that has been used.
#[derive(Clone)]
pub(in crate::transport) struct Reached {
    pub(in crate::transport) url: Uri,
    pub(in crate::transport) client: HttpClient,
    pub(in crate::transport) headers: Headers,
}

impl Remote {
    pub(in crate::transport) fn new(
        url: &str,
        schemes: [&str; 2],
        options: RemoteOptions,
    ) -> Result<Self, InvalidRemote> {
        let invalid = |reason| InvalidRemote::Url { url: shown(url), reason };
        if url.trim() != url || url.chars().any(char::is_control) {
            return Err(invalid("it has space or unprintable characters in it"));
        }
        let parsed: Uri = url.parse().map_err(|_| invalid("it cannot be read"))?;
        if !parsed.scheme_str().is_some_and(|scheme| schemes.contains(&scheme)) {
            return Err(invalid(if schemes[0] == "ws" {
                "it does not begin with ws:// or wss://"
            } else {
                "it does not begin with http:// or https://"
            }));
        }
        if parsed.host().is_none_or(str::is_empty) {
            return Err(invalid("it names no host"));
        }
        if parsed.authority().is_some_and(|authority| authority.as_str().contains('@')) {
            return Err(invalid("it has a user in it; send an Authorization header instead"));
        }
        if port(&parsed).is_none() {
            return Err(invalid("its port is none"));
        }
        options.http.check()?;
        let headers = Headers::new(&options.headers, options.helper, options.authority)?;
        Ok(Self { url: parsed, settings: options.http, headers, client: Arc::default(), made: Arc::default() })
    }

    /// What tells this server from others.
    pub(in crate::transport) fn identity(&self) -> String {
        self.url.to_string()
    }

    /// Who we are to it.
    pub(in crate::transport) fn audience(&self) -> String {
        self.headers.fingerprint()
    }

    pub(in crate::transport) fn reach(&self) -> Result<Reached, OpenError> {
        let made = self.client.get_or_init(|| {
            self.made.fetch_add(1, Ordering::Relaxed);
            HttpClient::new(self.settings.clone())
        });
        let client = made.clone().map_err(|error| OpenError::Unusable(error.to_string()))?;
        Ok(Reached { url: self.url.clone(), client, headers: self.headers.clone() })
    }
}

/// An address without what may be secret in it.
fn shown(url: &str) -> String {
    match (url.split_once("://"), url.rsplit_once('@')) {
        (Some((scheme, _)), Some((_, rest))) => format!("{scheme}://…@{rest}"),
        (None, Some((_, rest))) => format!("…@{rest}"),
        _ => url.to_owned(),
    }
}

/// Whether only the client itself sets a header, so that nobody else may.
pub fn is_reserved_header(name: &str) -> bool {
    let name = name.trim().to_ascii_lowercase();
    headers::OURS.contains(&name.as_str()) || name.starts_with("mcp-param-")
}

/// A header's name and value from text.
fn header(name: &str, value: &str) -> Result<(HeaderName, HeaderValue), InvalidRemote> {
    let invalid = |reason| InvalidRemote::Header { name: name.to_owned(), reason };
    let parsed: HeaderName = name.trim().parse().map_err(|_| invalid("its name is none"))?;
    if is_reserved_header(parsed.as_str()) {
        return Err(invalid("it is set by the client itself"));
    }
    let mut value =
        HeaderValue::from_str(value.trim()).map_err(|_| invalid("its value has unprintable characters in it"))?;
    value.set_sensitive(true);
    Ok((parsed, value))
}
