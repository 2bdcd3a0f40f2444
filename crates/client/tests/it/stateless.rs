//! The modern era with bad servers: unknown result types, tasks without results, streams that keep ending.

mod caching;
mod over_http;
mod results;
mod subscription;
mod tasks;

use std::sync::{Arc, Mutex};

use serde_json::Value;
use wharf_client::{
    BoxFuture, ClientCapabilities, Elicitation, ElicitationAnswer, Host, InProcess, NoHost, Notification, ProtocolMode,
    Session, SessionOptions,
};
use wharf_testkit::{HttpScripted, Script, Scripted, Step};

use crate::remote::{http_with, in_memory, options};

fn modern() -> SessionOptions {
    SessionOptions { protocol: ProtocolMode::Modern, ..SessionOptions::default() }
}

/// A modern session with a scripted server in memory.
fn piped(script: Script) -> (Session, Scripted) {
    piped_with(script, NoHost)
}

fn piped_with(script: Script, host: impl Host) -> (Session, Scripted) {
    let server = Scripted::new(script);
    let copy = server.clone();
    let transport = InProcess::new(move |stream| copy.clone().serve(stream));
    (Session::new("scripted".parse().unwrap(), transport, host, modern()), server)
}

/// The same over HTTP.
fn http(server: &HttpScripted) -> Session {
    http_with(options(in_memory(server)), NoHost, modern()).0
}

/// A server whose tool `tool` performs these steps.
fn server_with_steps(steps: impl Into<Vec<Step>>) -> Script {
    Script::modern().any_tool("tool").on_call("tool", steps)
}

/// The requests with this method, as received.
fn requests(server: &Scripted, method: &str) -> Vec<Value> {
    server.log().messages().into_iter().filter(|message| message["method"] == method).collect()
}

/// Accepts everything, and records notifications.
#[derive(Clone, Default)]
struct Obliging(Arc<Mutex<Vec<String>>>);

impl Obliging {
    fn received(&self) -> Vec<String> {
        self.0.lock().unwrap().clone()
    }

    fn write(&self, line: String) {
        self.0.lock().unwrap().push(line);
    }
}

impl Host for Obliging {
    fn capabilities(&self) -> ClientCapabilities {
        ClientCapabilities { elicitation: true, sampling: false, roots: false }
    }

    fn elicit(&self, request: Elicitation) -> BoxFuture<'_, ElicitationAnswer> {
        self.write(request.message);
        Box::pin(std::future::ready(ElicitationAnswer::Accept(None)))
    }

    fn notify(&self, notice: Notification) {
        self.write(match notice {
            Notification::ToolsChanged => "tools".to_owned(),
            Notification::ResourceUpdated { uri } => uri,
            other => format!("{other:?}"),
        });
    }
}
