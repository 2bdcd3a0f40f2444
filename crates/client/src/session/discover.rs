//! The greeting of the modern era, which is a question: what do you speak, and what can you do?

use std::sync::Arc;

use serde_json::json;
use wharf_protocol::{Fields, Json};

use super::manner::{Introduction, Manner, Request, Speaker, Wishes};
use super::{ServerInfo, SessionOptions, handshake};
use crate::era::{HEADER_MISMATCH, LEGACY, MISSING_CAPABILITY, MODERN, UNSUPPORTED_VERSION, revisions, supported};
use crate::error::{RefusalCause, SessionRefusal};
use crate::wire::{Limits, Line};
use crate::{CallErrorKind, ConnectErrorKind, Host};

/// What a server made of the question.
pub(super) enum Discovered {
    /// It answered it.
    Modern(ServerInfo, Manner),
    /// It does not know such questions, or knows them and speaks only what came before. Whether that is certain, and what
    /// it means for who will not speak the old way.
    Legacy { certain: bool, kind: ConnectErrorKind },
    /// It went away over it, as some old servers do.
    Gone(ConnectErrorKind),
    /// There is no speaking with it.
    Hopeless(ConnectErrorKind),
}

/// Asks. The future lives on its own, so that others can be asked meanwhile.
pub(super) async fn discover(
    line: Line,
    host: Arc<dyn Host>,
    options: SessionOptions,
    wishes: Arc<Wishes>,
) -> Discovered {
    let (mut revision, limit) = (MODERN[0], options.deadlines.connect);
    let limits = Limits { idle: limit, total: Some(limit), first_byte: limit };
    let mut again = true;
    loop {
        line.stand_alone(Some(revision));
        let manner = Manner::Modern(Arc::new(Introduction::new(revision, &*host, &options)));
        let (line, wishes) = (line.clone(), Arc::clone(&wishes));
        let speaker = Speaker { line, manner, wishes };
        let params = json!({});
        let answer = speaker.send(&mut Request::new("server/discover", &params, limits), None).await;
        let answer = answer.map_err(|kind| handshake::ended(&speaker.line, kind));
        let supported = match &answer {
            Ok(result) => revisions(result, "supportedVersions"),
            Err(CallErrorKind::Server { code: UNSUPPORTED_VERSION, data, .. }) => data.as_ref().and_then(supported),
            Err(_) => None,
        };
        let mutual =
            supported.as_ref().and_then(|given| MODERN.into_iter().find(|ours| given.iter().any(|it| it == ours)));
        match (answer, mutual) {
            (Ok(result), Some(chosen)) if chosen == revision => {
                // It may have been greeted the old way too, because it was slow.
                speaker.line.stand_alone(Some(revision));
                return Discovered::Modern(info(&result, revision), speaker.manner);
            }
            // It names one that we speak, though it may have refused that very one: once more.
            (Ok(_) | Err(CallErrorKind::Server { .. }), Some(chosen)) if again => {
                (revision, again) = (chosen, false);
            }
            (answer, _) => {
                speaker.line.stand_alone(None);
                return otherwise(answer, supported);
            }
        }
    }
}

/// What an answer means that does not begin anything.
fn otherwise(answer: Result<Json, CallErrorKind>, supported: Option<Vec<String>>) -> Discovered {
    let legacy = |reason: String| {
        let reason = format!("it does not speak the modern protocol ({reason})");
        let refusal = SessionRefusal::new(RefusalCause::ProtocolMode, reason);
        Discovered::Legacy { certain: true, kind: ConnectErrorKind::Refused(refusal) }
    };
    match (answer, supported) {
        (Ok(_) | Err(CallErrorKind::Server { code: UNSUPPORTED_VERSION, .. }), Some(given)) if !given.is_empty() => {
            if given.iter().any(|revision| LEGACY.contains(&revision.as_str())) {
                return legacy(format!("it speaks {}", given.join(", ")));
            }
            if given.iter().any(|revision| MODERN.contains(&revision.as_str())) {
                let reason = format!("it names {} and refuses it all the same", given.join(", "));
                return Discovered::Hopeless(ConnectErrorKind::Refused(reason.into()));
            }
            let ours = LEGACY.into_iter().chain(MODERN).collect::<Vec<_>>().join(", ");
            let reason = format!("it speaks the protocol of {}; this client speaks {ours}", given.join(", "));
            let refusal = SessionRefusal::new(RefusalCause::UnknownRevision, reason);
            Discovered::Hopeless(ConnectErrorKind::Refused(refusal))
        }
        (Ok(_), _) => legacy("its answer to `server/discover` names no revision".to_owned()),
        (Err(CallErrorKind::Server { code: code @ (HEADER_MISMATCH | MISSING_CAPABILITY), message, .. }), _) => {
            Discovered::Hopeless(ConnectErrorKind::Refused(format!("error {code}: {message}").into()))
        }
        (Err(CallErrorKind::Lost(reason)), _) => Discovered::Gone(ConnectErrorKind::Ended(reason)),
        // Whoever wants to be asked later, or less often, is not asked something else.
        (Err(CallErrorKind::Http(status)), _) if status.status == 429 || status.retry_after.is_some() => {
            Discovered::Hopeless(ConnectErrorKind::Http(status))
        }
        // A server in trouble says nothing about what it speaks.
        (Err(CallErrorKind::Http(status)), _) if status.status >= 500 => {
            Discovered::Legacy { certain: false, kind: ConnectErrorKind::Http(status) }
        }
        (Err(CallErrorKind::Http(status)), _) => legacy(status.to_string()),
        (Err(CallErrorKind::Server { code, message, .. } | CallErrorKind::SessionLost { code, message }), _) => {
            legacy(format!("error {code}: {message}"))
        }
        (Err(error @ (CallErrorKind::Malformed(_) | CallErrorKind::Unanswered(_))), _) => legacy(error.to_string()),
        (Err(other), _) => Discovered::Hopeless(handshake::not_ready(other)),
    }
}

fn info(raw: &Json, revision: &'static str) -> ServerInfo {
    let fields = Fields::of(raw).ok();
    let meta = fields.as_ref().and_then(|fields| fields.object("_meta").ok().flatten());
    let server =
        meta.as_ref().and_then(|meta| Fields::of(meta).ok()?.object("io.modelcontextprotocol/serverInfo").ok()?);
    // Some say it where it used to be.
    let server = server.or_else(|| fields.as_ref()?.object("serverInfo").ok().flatten());
    handshake::described(raw, server.as_ref(), revision.to_owned())
}
