//! Model requests and tool calls through the journal: the intent before each one, its result after it, and the recorded
//! result instead of executing it again.
//!
//! ```text
//! agent ─ retries ─ limits ─ [journal] ─ timeout of an attempt ─ model
//! agent ─ loop guard ─ [journal] ─ retries ─ dispatcher
//! ```
//!
//! Every attempt of a model request is a step, because every attempt may be paid for. A tool call with its retries is one
//! step. Live results pass through their recorded form too, so that a replay cannot differ from the run it repeats.

mod calls;
mod clock;
mod denials;
mod embeddings;
mod requests;
mod steps;
mod stop;

pub(crate) use calls::{JournaledCalls, ServerLifetime};
pub(crate) use denials::Denials;
pub(crate) use embeddings::{EmbeddingError, TextPair, similarities};
pub(crate) use requests::{JournaledRequests, RequestContext, RequestOwner, RequestSender};
pub(crate) use steps::{Steps, Totals};
pub(crate) use stop::StopCause;

use wharf_agent::Agent;
use wharf_agent::middleware::{LoopGuardSettings, Middleware};
use wharf_agent::models::known_context_window;

use crate::model_under_test::ModelSettings;

/// Returns the middleware of a journaled run. The guard against loops stands outside of the journal, so it is not a part
/// of it. A replay does not retry: failures on record are final.
pub(crate) fn middleware(settings: &Middleware, is_replay: bool) -> Middleware {
    let mut middleware = settings.clone();
    middleware.repetition = LoopGuardSettings(None);
    if is_replay {
        middleware.model_retry.max_retries = 0;
        middleware.model_retry.policy = None;
    }
    middleware
}

/// Returns the context window of a model in tokens. It does not depend on what the provider reports, so that a replay
/// summarizes the same messages.
pub(crate) fn context_window(settings: &ModelSettings) -> u64 {
    known_context_window(&settings.interface, &settings.name).unwrap_or(Agent::DEFAULT_CONTEXT_WINDOW)
}
