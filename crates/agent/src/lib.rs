//! The agent loop: runs, model adapters, limits, middleware, recordings and results.
//!
//! [`Run`] is the loop without I/O. It returns the next [`Step`] and accepts its result, so it can be saved at any
//! point, resumed, and tested without a clock. [`Agent`] executes the steps of a run with any [`Model`] and any
//! [`Tools`](wharf_protocol::Tools). This crate knows nothing about connections or servers.
//!
//! [`models`] has the adapters for model APIs, [`middleware`] the layers around model requests and tool calls, and
//! [`cassette`] the recordings. [`AgentResult`] is the result of a run; [`AgentEvent`] reports its progress.

pub mod cassette;
mod compaction;
mod delta;
mod driver;
mod embedding;
mod error;
mod event;
mod instructions;
mod limits;
mod manual;
mod md5;
mod metrics;
pub mod middleware;
mod model;
pub mod models;
mod prepared;
mod result;
mod run;
mod run_end;
mod scripted;
mod stop_reason;
mod tokens;
mod tool_search;
mod trace;
pub mod yaml;

pub use compaction::{CompactedView, Compaction, CompactionReason};
pub use delta::Delta;
pub use driver::{Agent, AgentError, Checkpoint, CheckpointFile, NoTools, OnCheckpointFailure};
pub use embedding::{Embedder, Embeddings};
pub use error::{ModelError, ModelErrorKind};
pub use event::{AgentEvent, EventSink};
pub use instructions::{InstructionsTrace, instructions_section};
pub use limits::{ExitBehavior, Limit, Limits};
pub use manual::{Manual, question_hash};
pub use metrics::Metrics;
pub use model::{Cache, Capabilities, Model, ModelOptions, ModelRequest, ModelResponse, RequestPurpose};
pub use prepared::PreparedRun;
pub use result::{AgentResult, ServerSummary};
pub use run::{BlockedCall, InvalidRun, Run, Step};
pub use run_end::RunEnd;
pub use scripted::Scripted;
pub use stop_reason::StopReason;
pub use tokens::{TOKENIZER, estimate_tokens};
pub use tool_search::{Bm25, OfferedTools, ToolBudget};
pub use trace::{TraceCall, TraceMessage, TraceResult, TraceThinking, raw_trace, trace_messages};
