//! Scripted servers behind HTTP in memory, so that the clock can stand still.

use std::sync::{Arc, Mutex};

use tokio::io::DuplexStream;
use tokio::task::JoinSet;
use wharf_client::{Host, Http, LegacySse, NoHost, RemoteOptions, Session, SessionOptions, WebSocket};
use wharf_io::{DialTo, Dialed, HttpSettings};
use wharf_testkit::{Harm, HttpScripted, harmed};

/// How much each direction of a connection in memory holds.
const CAPACITY: usize = 256 * 1024;

/// Connections in memory to `server`; the far ends live as long as the settings.
pub(crate) fn in_memory(server: &HttpScripted) -> HttpSettings {
    harmed_in_memory(server, Harm::None)
}

/// The same, with harm done to every connection.
pub(crate) fn harmed_in_memory(server: &HttpScripted, harm: Harm) -> HttpSettings {
    let (server, tasks) = (server.clone(), Arc::new(Mutex::new(JoinSet::new())));
    HttpSettings::default().dialing(move |_: DialTo| {
        let (ours, theirs) = tokio::io::duplex(CAPACITY);
        tasks.lock().unwrap().spawn(server.clone().serve_connection(theirs));
        let harm = harm.clone();
        async move { Ok(harm_to(ours, harm)) }
    })
}

fn harm_to(stream: DuplexStream, harm: Harm) -> Dialed {
    match harm {
        Harm::None => Dialed::new(stream),
        harm => Dialed::new(harmed(stream, harm)),
    }
}

pub(crate) fn options(http: HttpSettings) -> RemoteOptions {
    RemoteOptions { http, ..RemoteOptions::default() }
}

/// A session over Streamable HTTP, and its transport to look at.
pub(crate) fn http(server: &HttpScripted) -> (Session, Http) {
    http_with(options(in_memory(server)), NoHost, SessionOptions::default())
}

pub(crate) fn http_with(remote: RemoteOptions, host: impl Host, options: SessionOptions) -> (Session, Http) {
    let transport = Http::new("http://server.test/mcp", remote).unwrap();
    (Session::new("remote".parse().unwrap(), transport.clone(), host, options), transport)
}

pub(crate) fn sse(server: &HttpScripted) -> Session {
    let transport = LegacySse::new("http://server.test/sse", options(in_memory(server))).unwrap();
    Session::new("remote".parse().unwrap(), transport, NoHost, SessionOptions::default())
}

pub(crate) fn websocket(server: &HttpScripted) -> Session {
    let transport = WebSocket::new("ws://server.test/ws", options(in_memory(server))).unwrap();
    Session::new("remote".parse().unwrap(), transport, NoHost, SessionOptions::default())
}
