//! Tests of the session through its public API: in memory with a paused clock, with real processes, and with
//! third-party servers.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on should stop")]

mod auth;
mod calls;
mod custom_transport;
mod evil;
mod faults;
mod header_command;
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
mod preferences;
mod remote;
mod resume;
mod session_loss;
mod seven;
mod simulated;
mod start;
mod stateless;
mod stdio;
mod suite;
mod tls;
mod websocket;

use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;
use wharf_client::{CallError, Host, InProcess, NoHost, ProtocolMode, Session, SessionOptions};
use wharf_protocol::{Json, ToolOutput};
use wharf_testkit::{Script, Scripted};

/// Options for tests that count messages: the legacy era, which sends no `server/discover`.
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

/// Returns a call's result as one line.
fn result_text(result: Result<ToolOutput, CallError>) -> String {
    match result {
        Ok(output) if output.is_error => format!("failed: {}", output.text()),
        Ok(output) => output.text(),
        Err(error) => error.to_string(),
    }
}

/// Runs every task that is ready, without advancing the clock.
async fn settle() {
    for _ in 0..100 {
        tokio::task::yield_now().await;
    }
}

const fn seconds(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}
