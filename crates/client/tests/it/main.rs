//! The session as its users see it: over memory with a paused clock, over real children, over other people's servers.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on should stop")]

mod auth;
mod calls;
mod custom_transport;
mod evil;
mod faults;
mod helper;
mod host;
mod http;
mod legacy_sse;
mod lists;
mod matrix;
mod modern;
mod negotiation;
mod nginx;
mod peers;
mod peers_http;
mod remote;
mod resuming;
mod session_loss;
mod seven;
mod simulated;
mod start;
mod stateless;
mod stdio;
mod suite;
mod tls;
mod websocket;
mod wishes;

use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;
use wharf_client::{CallError, Host, InProcess, NoHost, ProtocolMode, Session, SessionOptions};
use wharf_protocol::{Json, ToolOutput};
use wharf_testkit::{Script, Scripted};

/// Sessions whose messages are counted: those of the era with a handshake.
fn legacy() -> SessionOptions {
    SessionOptions { protocol: ProtocolMode::Legacy, ..SessionOptions::default() }
}

/// A session with a scripted server in memory.
fn in_memory(script: Script) -> (Session, Scripted) {
    with_host(script, NoHost)
}

fn with_host(script: Script, host: impl Host) -> (Session, Scripted) {
    let server = Scripted::new(script);
    let copy = server.clone();
    let transport = InProcess::new(move |stream| copy.clone().serve(stream));
    (Session::new("scripted".parse().unwrap(), transport, host, legacy()), server)
}

/// A session whose host is shared with the test.
fn with_shared_host<H: Host>(script: Script, host: &Arc<H>) -> (Session, Scripted) {
    let server = Scripted::new(script);
    let copy = server.clone();
    let transport = Arc::new(InProcess::new(move |stream| copy.clone().serve(stream)));
    let options = legacy();
    let host: Arc<dyn Host> = Arc::<H>::clone(host);
    (Session::with_shared("scripted".parse().unwrap(), transport, host, options), server)
}

fn json(value: Value) -> Json {
    value.into()
}

fn none() -> Json {
    json(serde_json::json!({}))
}

/// What a call came to, in one line.
fn told(result: Result<ToolOutput, CallError>) -> String {
    match result {
        Ok(output) if output.is_error => format!("failed: {}", output.text()),
        Ok(output) => output.text(),
        Err(error) => error.to_string(),
    }
}

/// Lets everything that is ready run, without time passing.
async fn settle() {
    for _ in 0..100 {
        tokio::task::yield_now().await;
    }
}

const fn seconds(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}
