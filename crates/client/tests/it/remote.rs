//! Scripted servers behind HTTP in memory, so that the clock can be paused.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use crate::legacy;
use tokio::io::DuplexStream;
use tokio::task::JoinSet;
use wharf_client::{Host, Http, HttpSse, NoHost, RemoteOptions, Session, SessionOptions, WebSocket};
use wharf_io::{DialTo, Dialed, HttpSettings};
use wharf_testkit::{HttpScripted, NetworkFault, ResponseFormat, Script, with_fault};

/// The buffer size of each direction of a connection.
const CAPACITY: usize = 256 * 1024;

/// Connections in memory to `server`; the far ends live as long as the settings.
pub(crate) fn in_memory(server: &HttpScripted) -> HttpSettings {
    harmed_in_memory(server, NetworkFault::None)
}

/// The same, with damage to every connection.
pub(crate) fn harmed_in_memory(server: &HttpScripted, harm: NetworkFault) -> HttpSettings {
    some_harmed_in_memory(server, move |_| harm.clone())
}

/// The same, with damage that depends on the number of the connection; the first is 1.
pub(crate) fn some_harmed_in_memory(
    server: &HttpScripted,
    harm: impl Fn(u64) -> NetworkFault + Send + Sync + 'static,
) -> HttpSettings {
    let server = server.clone();
    let tasks = Arc::new(Mutex::new(JoinSet::new()));
    let connections = AtomicU64::new(0);
    HttpSettings::default().dialing(move |_: DialTo| {
        let (ours, theirs) = tokio::io::duplex(CAPACITY);
        tasks.lock().unwrap().spawn(server.clone().serve_connection(theirs));
        let harm = harm(connections.fetch_add(1, Ordering::Relaxed) + 1);
        async move { Ok(harm_to(ours, harm)) }
    })
}

fn harm_to(stream: DuplexStream, harm: NetworkFault) -> Dialed {
    match harm {
        NetworkFault::None => Dialed::new(stream),
        harm => Dialed::new(with_fault(stream, harm)),
    }
}

pub(crate) fn options(http: HttpSettings) -> RemoteOptions {
    RemoteOptions { http, ..RemoteOptions::default() }
}

/// A session over Streamable HTTP, and its transport for inspection.
pub(crate) fn http(server: &HttpScripted) -> (Session, Http) {
    http_with(options(in_memory(server)), NoHost, legacy())
}

pub(crate) fn http_with(remote: RemoteOptions, host: impl Host, options: SessionOptions) -> (Session, Http) {
    let transport = Http::new("http://server.test/mcp", remote).unwrap();
    (Session::new("remote".parse().unwrap(), transport.clone(), host, options), transport)
}

pub(crate) fn sse(server: &HttpScripted) -> Session {
    let transport = HttpSse::new("http://server.test/sse", options(in_memory(server))).unwrap();
    Session::new("remote".parse().unwrap(), transport, NoHost, legacy())
}

/// The transports of a server behind HTTP.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Way {
    /// Streamable HTTP with answers in JSON.
    Json,
    /// Streamable HTTP with answers as event streams.
    Events,
    /// The older HTTP transport with one long event stream.
    HttpSse,
    WebSocket,
}

impl Way {
    pub(crate) const ALL: [Self; 4] = [Self::Json, Self::Events, Self::HttpSse, Self::WebSocket];

    pub(crate) fn server(self, script: Script) -> HttpScripted {
        HttpScripted::new(script).with_response_format(if self == Self::Events {
            ResponseFormat::Sse
        } else {
            ResponseFormat::Json
        })
    }

    /// A session with the server at this address, over TCP.
    pub(crate) fn over_tcp(self, address: SocketAddr, options: SessionOptions) -> Session {
        self.session(&address.to_string(), HttpSettings::default(), options)
    }

    /// A session over custom connections.
    pub(crate) fn over(self, http: HttpSettings, options: SessionOptions) -> Session {
        self.session("server.test", http, options)
    }

    fn session(self, authority: &str, http: HttpSettings, how: SessionOptions) -> Session {
        let name = "remote".parse().unwrap();
        let remote = options(http);
        match self {
            Self::Json | Self::Events => {
                let transport = Http::new(&format!("http://{authority}/mcp"), remote).unwrap();
                Session::new(name, transport, NoHost, how)
            }
            Self::HttpSse => {
                let transport = HttpSse::new(&format!("http://{authority}/sse"), remote).unwrap();
                Session::new(name, transport, NoHost, how)
            }
            Self::WebSocket => {
                let transport = WebSocket::new(&format!("ws://{authority}/ws"), remote).unwrap();
                Session::new(name, transport, NoHost, how)
            }
        }
    }
}
