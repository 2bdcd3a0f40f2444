//! HTTP transports: Streamable HTTP, and the older one of a long GET and POSTs.
//!
//! A transport creates one HTTP client, with its connection pool and trust settings, and all its sessions share it: a new
//! session after a lost one reuses the open connections. After a session is closed, the next one gets a new client.

mod answer_stream;
mod exchange;
mod headers;
mod notification_stream;
mod post;
mod reconnect;
mod refusal;
mod session_loss;
mod sse;
mod streamable;

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use ::http::Uri;
use futures_util::future::BoxFuture;
use wharf_auth::TokenProvider;
use wharf_io::address::{self, HTTP_SCHEMES, InvalidAddress, WEBSOCKET_SCHEMES};
use wharf_io::{HttpClient, HttpSettings};

use super::{Link, OpenError, Transport};
use crate::remote::InvalidRemote;
pub use headers::HeaderCommand;
#[cfg(feature = "websocket")]
pub(in crate::transport) use headers::HeaderRetries;
use headers::Headers;
pub(crate) use reconnect::ReconnectBackoff;
#[cfg(feature = "websocket")]
pub(in crate::transport) use refusal::challenge;
pub use session_loss::session_loss;
pub use sse::HttpSse;

/// The capacity of the queue of frames for the reader.
const MAX_QUEUED_FRAMES: usize = 256;

/// Connects to a server over Streamable HTTP.
#[derive(Clone)]
pub struct Http {
    remote: Remote,
}

/// The settings of a remote server.
#[derive(Clone, Default)]
pub struct RemoteOptions {
    /// The connection settings.
    pub http: HttpSettings,
    /// Headers for every request, as names and values. The values are never displayed.
    pub headers: Vec<(String, String)>,
    /// A command that prints additional headers.
    pub header_command: Option<HeaderCommand>,
    /// Provides access tokens. A configured `Authorization` header takes precedence.
    pub token_provider: Option<Arc<dyn TokenProvider>>,
}

/// Omits the values of the headers, which are often secrets.
impl fmt::Debug for RemoteOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<&str> = self.headers.iter().map(|(name, _)| name.as_str()).collect();
        f.debug_struct("RemoteOptions")
            .field("http", &self.http)
            .field("headers", &names)
            .field("header_command", &self.header_command)
            .field("has_token_provider", &self.token_provider.is_some())
            .finish()
    }
}

impl Http {
    /// Creates a transport for the server at an `http` or `https` URL.
    pub fn new(url: &str, options: RemoteOptions) -> Result<Self, InvalidRemote> {
        Ok(Self { remote: Remote::new(url, HTTP_SCHEMES, options)? })
    }

    /// Returns how many HTTP clients were created: 0 before the first use, then 1, and one more for each use after a
    /// session was closed.
    pub fn clients_made(&self) -> u64 {
        self.remote.clients().made
    }

    /// Returns how many network connections were opened, by all HTTP clients.
    pub fn connections_opened(&self) -> u64 {
        let clients = self.remote.clients();
        clients.connections_before + clients.current.as_ref().map_or(0, HttpClient::connections_opened)
    }
}

impl Transport for Http {
    fn open(&self) -> BoxFuture<'_, Result<Link, OpenError>> {
        Box::pin(async { Ok(streamable::open(self.remote.endpoint()?)) })
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

    fn release(&self) {
        self.remote.release();
    }

    fn fallback(&self) -> Option<Arc<dyn Transport>> {
        Some(Arc::new(HttpSse::at(self.remote.clone())))
    }
}

/// A remote server: its URL, its headers, and the HTTP client, which is created on first use.
#[derive(Clone)]
pub(in crate::transport) struct Remote {
    url: Uri,
    settings: HttpSettings,
    headers: Headers,
    clients: Arc<Mutex<HttpClients>>,
}

/// The HTTP clients of a remote server, one after another.
#[derive(Default)]
struct HttpClients {
    /// The client of all connections; `None` before the first use and after closing.
    current: Option<HttpClient>,
    made: u64,
    /// The connections of earlier clients.
    connections_before: u64,
}

/// A remote server with its HTTP client.
#[derive(Clone)]
pub(in crate::transport) struct HttpEndpoint {
    pub(in crate::transport) url: Uri,
    pub(in crate::transport) client: HttpClient,
    pub(in crate::transport) headers: Headers,
}

impl Remote {
    pub(in crate::transport) fn new(
        url: &str,
        schemes: &[&str],
        options: RemoteOptions,
    ) -> Result<Self, InvalidRemote> {
        let invalid = |reason| InvalidRemote::Url { url: redact(url), reason };
        if url.trim() != url || url.chars().any(char::is_control) {
            return Err(invalid("it contains whitespace or control characters"));
        }
        let parsed = address::parse(url, schemes).map_err(|wrong| invalid(reason(&wrong, schemes)))?;
        options.http.check()?;
        let headers = Headers::new(&options.headers, options.header_command, options.token_provider)?;
        Ok(Self { url: parsed, settings: options.http, headers, clients: Arc::default() })
    }

    /// Returns the URL, which identifies the server.
    pub(in crate::transport) fn identity(&self) -> String {
        self.url.to_string()
    }

    /// Returns a string that identifies the user to the server.
    pub(in crate::transport) fn audience(&self) -> String {
        self.headers.fingerprint()
    }

    pub(in crate::transport) fn endpoint(&self) -> Result<HttpEndpoint, OpenError> {
        let mut clients = self.clients();
        let client = if let Some(client) = &clients.current {
            client.clone()
        } else {
            let made = HttpClient::new(self.settings.clone());
            let client = made.map_err(|error| OpenError::Unusable(error.to_string()))?;
            clients.made += 1;
            clients.current.insert(client).clone()
        };
        Ok(HttpEndpoint { url: self.url.clone(), client, headers: self.headers.clone() })
    }

    /// Lets the next endpoint have a new HTTP client.
    pub(in crate::transport) fn release(&self) {
        let mut clients = self.clients();
        if let Some(client) = clients.current.take() {
            clients.connections_before += client.connections_opened();
        }
    }

    fn clients(&self) -> MutexGuard<'_, HttpClients> {
        self.clients.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn reason(invalid: &InvalidAddress, schemes: &[&str]) -> &'static str {
    match invalid {
        InvalidAddress::NoScheme | InvalidAddress::Scheme(_) if schemes == WEBSOCKET_SCHEMES => {
            "expected ws:// or wss://"
        }
        InvalidAddress::NoScheme | InvalidAddress::Scheme(_) => "expected http:// or https://",
        InvalidAddress::Credentials => "it contains a user name; send an Authorization header instead",
        InvalidAddress::NoHost => "the host is missing",
        InvalidAddress::Port => "the port is invalid",
        InvalidAddress::Malformed | InvalidAddress::NumericHost | InvalidAddress::DotSegment => "it is malformed",
    }
}

/// Removes the credentials from a URL.
fn redact(url: &str) -> String {
    match (url.split_once("://"), url.rsplit_once('@')) {
        (Some((scheme, _)), Some((_, rest))) => format!("{scheme}://…@{rest}"),
        (None, Some((_, rest))) => format!("…@{rest}"),
        _ => url.to_owned(),
    }
}
