//! Plays steps into a channel of things said; how those look on the wire is decided by whoever listens.

use std::time::Duration;

use bytes::Bytes;
use serde_json::Value;
use tokio::sync::mpsc;
use tokio::task::JoinSet;

use super::{HttpScripted, ResponseFormat};
use crate::rules::message_of;
use crate::{Step, process};

/// One thing a server says, or a way to stop talking.
#[derive(Debug)]
pub(super) enum Said {
    /// A message.
    Message(Value),
    /// A line that may or may not be a message.
    Line(String),
    /// Bytes as they stand.
    Raw(Bytes),
    /// A whole HTTP response.
    Response { status: u16, headers: Vec<(String, String)>, body: String },
    /// The head of a response whose body never comes.
    Stall,
    /// The proper end of the stream.
    End,
    /// The end of the connection.
    HangUp,
    /// The end of the connection, as rude as can be.
    Reset,
}

/// A message of the client, with the steps of the rule that fits it.
pub(super) struct Heard {
    pub(super) message: Value,
    pub(super) steps: Option<Vec<Step>>,
}

/// Answers messages on one stream, for as long as somebody wants to hear it.
pub(super) async fn converse(
    server: HttpScripted,
    opening: Vec<Step>,
    mut inbox: mpsc::Receiver<Heard>,
    out: mpsc::Sender<Said>,
) {
    let mut tasks = JoinSet::new();
    play(server.clone(), server.shared.rules.script().at_start.clone(), Value::Null, out.clone()).await;
    tasks.spawn(play(server.clone(), opening, Value::Null, out.clone()));
    loop {
        let heard = tokio::select! {
            heard = inbox.recv() => heard,
            Some(_) = tasks.join_next() => continue,
        };
        match heard {
            // Requests with steps may take long; each is on its own.
            Some(Heard { message, steps: Some(steps) }) => {
                tasks.spawn(play(server.clone(), steps, message, out.clone()));
            }
            Some(Heard { message, steps: None }) => {
                play(server.clone(), vec![Step::Normally], message, out.clone()).await;
            }
            // Nobody will say anything more, but the stream stays open for whatever is pushed.
            None => std::future::pending().await,
        }
    }
}

/// Plays steps one after the other. That nobody listens any more does not stop them.
pub(super) async fn play(server: HttpScripted, steps: Vec<Step>, request: Value, out: mpsc::Sender<Said>) {
    let fill = |text: &str| text.replace("{id}", &request["id"].to_string());
    let mut told = Value::Null;
    for step in &steps {
        let said = match step {
            Step::Result(_)
            | Step::Text(_)
            | Step::Error(..)
            | Step::Normally
            | Step::Notify(..)
            | Step::Progress(..)
            | Step::EchoAnswer => message_of(server.shared.rules.script(), step, &request, &told).map(Said::Message),
            Step::Line(line) => Some(Said::Line(fill(line))),
            Step::Bytes(bytes) => Some(Said::Raw(Bytes::copy_from_slice(bytes))),
            Step::RawEvent(text) => Some(Said::Raw(fill(text).into())),
            Step::Flood(before, length, after) => {
                let line = format!("{}{}{}", fill(before), "x".repeat(*length), fill(after));
                Some(Said::Line(line.trim_end().to_owned()))
            }
            Step::Ask(method, params) => {
                told = server.ask(method, params, &out).await;
                None
            }
            Step::Wait(milliseconds) => {
                tokio::time::sleep(Duration::from_millis(*milliseconds)).await;
                None
            }
            Step::Hang => std::future::pending().await,
            Step::Touch(_) => {
                process::step(step).await;
                None
            }
            Step::Http { status, headers, body } => {
                Some(Said::Response { status: *status, headers: headers.clone(), body: fill(body) })
            }
            Step::Stall => Some(Said::Stall),
            Step::EndStream => Some(Said::End),
            Step::HangUp => Some(Said::HangUp),
            Step::Reset => Some(Said::Reset),
            Step::StopReading
            | Step::Stderr(_)
            | Step::StderrFlood(_)
            | Step::Exit(_)
            | Step::ExitOnce(..)
            | Step::ExitIfRunning(..)
            | Step::Grandchild(_)
            | Step::IgnoreShutdown => panic!("a server over HTTP cannot do this: {step:?}"),
        };
        if let Some(said) = said {
            let last = matches!(said, Said::HangUp | Said::Reset);
            let _ = out.send(said).await;
            if last {
                return;
            }
        }
    }
}

/// Whether the response is decided by the steps themselves, so that its head may not be sent before they are played.
pub(super) fn decide_the_response(steps: &[Step]) -> bool {
    let first = steps.iter().find(|step| !matches!(step, Step::Wait(_) | Step::Touch(_)));
    matches!(first, Some(Step::Http { .. } | Step::Stall | Step::Reset))
}

/// Whether these steps are answered with an event stream.
pub(super) fn need_a_stream(steps: &[Step], answers: ResponseFormat) -> bool {
    let first = steps.iter().find(|step| !matches!(step, Step::Wait(_) | Step::Touch(_)));
    if decide_the_response(steps) || matches!(first, Some(Step::HangUp)) {
        return false;
    }
    answers == ResponseFormat::Sse
        || steps.iter().any(|step| {
            matches!(step, Step::Notify(..) | Step::Progress(..) | Step::Ask(..) | Step::EndStream | Step::RawEvent(_))
        })
}
