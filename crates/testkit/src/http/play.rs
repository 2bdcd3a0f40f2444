//! Plays steps into a channel of outputs; the receiver decides how they look on the wire.

use std::time::Duration;

use bytes::Bytes;
use serde_json::Value;
use tokio::sync::mpsc;
use tokio::task::JoinSet;

use super::output::{Incoming, Output};
use super::server::{HttpScripted, ResponseFormat};
use crate::process;
use crate::rules::message_of;
use crate::script::Step;

/// Responds to the messages of one stream until it is aborted.
pub(super) async fn play_stream(
    server: HttpScripted,
    opening: Vec<Step>,
    mut inbox: mpsc::Receiver<Incoming>,
    out: mpsc::Sender<Output>,
) {
    let mut tasks = JoinSet::new();
    play(server.clone(), server.shared.rules.script().at_start.clone(), Value::Null, out.clone()).await;
    tasks.spawn(play(server.clone(), opening, Value::Null, out.clone()));
    loop {
        let incoming = tokio::select! {
            incoming = inbox.recv() => incoming,
            Some(_) = tasks.join_next() => continue,
        };
        match incoming {
            // Requests with steps may take long, so each has its own task.
            Some(Incoming { message, steps: Some(steps) }) => {
                tasks.spawn(play(server.clone(), steps, message, out.clone()));
            }
            Some(Incoming { message, steps: None }) => {
                play(server.clone(), vec![Step::Normally], message, out.clone()).await;
            }
            // The client sends no more messages, but the stream stays open for pushed ones.
            None => std::future::pending().await,
        }
    }
}

/// Plays steps in order, even after the receiver is dropped.
pub(super) async fn play(server: HttpScripted, steps: Vec<Step>, request: Value, out: mpsc::Sender<Output>) {
    let fill = |text: &str| text.replace("{id}", &request["id"].to_string());
    let mut response = Value::Null;
    for step in &steps {
        let output = match step {
            Step::Result(_)
            | Step::Text(_)
            | Step::Error(..)
            | Step::Normally
            | Step::Notify(..)
            | Step::Progress(..)
            | Step::EchoAnswer => {
                message_of(server.shared.rules.script(), step, &request, &response).map(Output::Message)
            }
            Step::Line(line) => Some(Output::Line(fill(line))),
            Step::Bytes(bytes) => Some(Output::Raw(Bytes::copy_from_slice(bytes))),
            Step::RawEvent(text) => Some(Output::Raw(fill(text).into())),
            Step::Flood(before, length, after) => {
                let line = format!("{}{}{}", fill(before), "x".repeat(*length), fill(after));
                Some(Output::Line(line.trim_end().to_owned()))
            }
            Step::Ask(method, params) => {
                response = server.request(method, params, &out).await;
                None
            }
            Step::Wait(milliseconds) => {
                tokio::time::sleep(Duration::from_millis(*milliseconds)).await;
                None
            }
            Step::Hang => std::future::pending().await,
            Step::Touch(_) | Step::AwaitFile(_) => {
                process::step(step).await;
                None
            }
            Step::Http { status, headers, body } => {
                Some(Output::Response { status: *status, headers: headers.clone(), body: fill(body) })
            }
            Step::Stall => Some(Output::Stall),
            Step::EndStream => Some(Output::End),
            Step::HangUp => Some(Output::HangUp),
            Step::Reset => Some(Output::Reset),
            Step::StopReading
            | Step::Stderr(_)
            | Step::StderrFlood(_)
            | Step::Exit(_)
            | Step::ExitOnce(..)
            | Step::ExitIfRunning(..)
            | Step::Grandchild(_)
            | Step::IgnoreShutdown => panic!("not possible over HTTP: {step:?}"),
        };
        if let Some(output) = output {
            let last = matches!(output, Output::HangUp | Output::Reset);
            let _ = out.send(output).await;
            if last {
                return;
            }
        }
    }
}

/// Returns whether the steps define the response themselves, so that its head must not be sent before they are played.
pub(super) fn define_response(steps: &[Step]) -> bool {
    let first = steps.iter().find(|step| !matches!(step, Step::Wait(_) | Step::Touch(_)));
    matches!(first, Some(Step::Http { .. } | Step::Stall | Step::Reset))
}

/// Returns whether the response to these steps is an event stream.
pub(super) fn need_stream(steps: &[Step], format: ResponseFormat) -> bool {
    let first = steps.iter().find(|step| !matches!(step, Step::Wait(_) | Step::Touch(_)));
    if define_response(steps) || matches!(first, Some(Step::HangUp)) {
        return false;
    }
    format == ResponseFormat::Sse
        || steps.iter().any(|step| {
            matches!(step, Step::Notify(..) | Step::Progress(..) | Step::Ask(..) | Step::EndStream | Step::RawEvent(_))
        })
}
