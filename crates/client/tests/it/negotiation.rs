//! Negotiation of the protocol era: the first answer, silence, and the cache.

mod answers;
mod era_cache;
mod modes;
mod over_http;
mod processes;
mod silence;

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use serde_json::{Value, json};
use wharf_client::{BoxFuture, InProcess, Link, NoHost, OpenError, ProtocolMode, Session, SessionOptions, Transport};
use wharf_testkit::{Script, Scripted, Step, eventually};

use crate::{json, result_text};

fn protocol(protocol: ProtocolMode) -> SessionOptions {
    SessionOptions { protocol, ..SessionOptions::default() }
}

/// A session that detects the era of a scripted server in memory.
fn auto(script: Script) -> (Session, Scripted) {
    with_mode(script, ProtocolMode::Auto)
}

fn with_mode(script: Script, mode: ProtocolMode) -> (Session, Scripted) {
    let server = Scripted::new(script);
    let copy = server.clone();
    let transport = InProcess::new(move |stream| copy.clone().serve(stream));
    (Session::new("scripted".parse().unwrap(), transport, NoHost, protocol(mode)), server)
}

/// An error message as sent, with data.
fn error_with(code: i64, data: &Value) -> Step {
    Step::Line(format!(r#"{{"jsonrpc":"2.0","id":{{id}},"error":{{"code":{code},"message":"no","data":{data}}}}}"#))
}

fn unsupported(supported: &[&str]) -> Step {
    error_with(-32022, &json!({"supported": supported, "requested": "2026-07-28"}))
}

/// Uses the session and returns the negotiated revision.
async fn negotiated_revision(session: &Session) -> String {
    assert_eq!(result_text(eventually(session.call("add", &json(json!({"a": 1, "b": 1})))).await), "2");
    eventually(session.connect()).await.unwrap().revision.clone()
}

const MODERN: &str = "2026-07-28";
const LEGACY: &str = "2025-11-25";

/// Scripted servers in memory with an identity, which count their concurrent instances.
#[derive(Clone)]
struct Named {
    identity: Option<&'static str>,
    server: Scripted,
    running: Arc<AtomicUsize>,
    exclusive: bool,
}

impl Named {
    fn new(identity: &'static str, script: Script) -> Self {
        Self { identity: Some(identity), server: Scripted::new(script), running: Arc::default(), exclusive: false }
    }

    /// A server that exits immediately while another instance runs.
    fn exclusive(script: Script) -> Self {
        Self { identity: None, exclusive: true, ..Self::new("", script) }
    }

    fn session(&self, options: SessionOptions) -> Session {
        Session::new("named".parse().unwrap(), self.clone(), NoHost, options)
    }
}

impl Transport for Named {
    fn open(&self) -> BoxFuture<'_, Result<Link, OpenError>> {
        let Self { server, running, exclusive, .. } = self.clone();
        Box::pin(async move {
            let transport = InProcess::new(move |stream| {
                let server = server.clone();
                let counted = Counted::new(&running);
                async move {
                    if !exclusive || counted.0.load(Ordering::Relaxed) == 1 {
                        server.serve(stream).await;
                    }
                    drop(counted);
                }
            });
            transport.open().await
        })
    }

    fn identity(&self) -> Option<String> {
        self.identity.map(str::to_owned)
    }
}

struct Counted(Arc<AtomicUsize>);

impl Counted {
    fn new(running: &Arc<AtomicUsize>) -> Self {
        running.fetch_add(1, Ordering::Relaxed);
        Self(Arc::clone(running))
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}
