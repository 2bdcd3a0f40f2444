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
mod denials;
mod requests;
mod steps;
mod stop;

pub(crate) use calls::JournaledCalls;
pub(crate) use denials::Denials;
pub(crate) use requests::{JournaledRequests, RequestContext, RequestOwner};
pub(crate) use steps::{Steps, Totals};
pub(crate) use stop::{Stop, StopCause};
