//! Which era is spoken with a server: what its first answer is taken for, what is done about none, and what is remembered.

mod answers;
mod memory;
mod modes;
mod over_http;
mod processes;
mod silence;

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use serde_json::{Value, json};
use wharf_client::{BoxFuture, InProcess, Link, NoHost, OpenError, ProtocolMode, Session, SessionOptions, Transport};
use wharf_testkit::{Script, Scripted, Step, eventually};

use crate::{json, told};

fn protocol(protocol: ProtocolMode) -> SessionOptions {
    SessionOptions { protocol, ..SessionOptions::default() }
}

/// A session that finds out what a scripted server in memory speaks.
fn auto(script: Script) -> (Session, Scripted) {
    speaking(script, ProtocolMode::Auto)
}

fn speaking(script: Script, spoken: ProtocolMode) -> (Session, Scripted) {
    let server = Scripted::new(script);
    let copy = server.clone();
    let transport = InProcess::new(move |stream| copy.clone().serve(stream));
    (Session::new("scripted".parse().unwrap(), transport, NoHost, protocol(spoken)), server)
}

/// An error as it stands on the wire, with what belongs to it.
fn error_with(code: i64, data: &Value) -> Step {
    Step::Line(format!(r#"{{"jsonrpc":"2.0","id":{{id}},"error":{{"code":{code},"message":"no","data":{data}}}}}"#))
}

fn unsupported(supported: &[&str]) -> Step {
    error_with(-32022, &json!({"supported": supported, "requested": "2026-07-28"}))
}

/// Uses the session, and tells which revision is spoken.
async fn spoken(session: &Session) -> String {
    assert_eq!(told(eventually(session.call("add", &json(json!({"a": 1, "b": 1})))).await), "2");
    eventually(session.connect()).await.unwrap().revision.clone()
}

const MODERN: &str = "2026-07-28";
const LEGACY: &str = "2025-11-25";

/// Scripted servers in memory that are known by a name, and that know how many of them there are at once.
#[derive(Clone)]
struct Named {
    identity: Option<&'static str>,
    server: Scripted,
    there: Arc<AtomicUsize>,
    alone: bool,
}

impl Named {
    fn new(identity: &'static str, script: Script) -> Self {
        Self { identity: Some(identity), server: Scripted::new(script), there: Arc::default(), alone: false }
    }

    /// One that leaves at once while another one is there.
    fn alone(script: Script) -> Self {
        Self { identity: None, alone: true, ..Self::new("", script) }
    }

    fn session(&self, options: SessionOptions) -> Session {
        Session::new("named".parse().unwrap(), self.clone(), NoHost, options)
    }
}

impl Transport for Named {
    fn open(&self) -> BoxFuture<'_, Result<Link, OpenError>> {
        let Self { server, there, alone, .. } = self.clone();
        Box::pin(async move {
            let transport = InProcess::new(move |stream| {
                let (server, counted) = (server.clone(), Counted::new(&there));
                async move {
                    if !alone || counted.0.load(Ordering::Relaxed) == 1 {
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
    fn new(there: &Arc<AtomicUsize>) -> Self {
        there.fetch_add(1, Ordering::Relaxed);
        Self(Arc::clone(there))
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}
