//! One run of an agent: the loop that decides, the driver that does, the models, the limits, and all that happened.
//!
//! [`Run`] never awaits. It says what is to be done next and is told what came of it, so it can be saved at any moment,
//! read again, and tested without a clock. [`Agent`] does what it says, with any [`Model`] and any
//! [`Tools`](wharf_protocol::Tools): a connection is nothing this crate has ever heard of.

pub mod cassette;
mod chance;
mod driver;
mod error;
mod event;
mod limits;
mod manual;
mod md5;
mod metrics;
pub mod middleware;
mod model;
pub mod models;
mod result;
mod run;
mod scripted;
mod trace;
mod yaml;

pub use driver::{Agent, AgentError, Checkpoint, CheckpointFile, NoTools, ToolSource};
pub use error::{ModelError, ModelErrorKind};
pub use event::{AgentEvent, Delta, EventSink};
pub use limits::{ExitBehavior, Limit, Limits};
pub use manual::{Manual, question_hash};
pub use metrics::Metrics;
pub use model::{Cache, Capabilities, Model, ModelOptions, ModelRequest, ModelResponse, StopReason};
pub use result::{AgentResult, RunEnd, ServerSummary};
pub use run::{InvalidRun, Run, Step};
pub use scripted::Scripted;
pub use trace::{TraceCall, TraceMessage, TraceResult, TraceThinking, raw_trace, trace_messages};
