//! The shared data types of Wharf: names, tools, content, results, messages and traces.
//!
//! Data from servers is stored exactly as received ([`Json`]) and parsed leniently. An item that cannot be parsed is
//! quarantined with the reason ([`Quarantined`]) and does not affect the other items. This crate does no I/O.

mod content;
mod cut;
mod fields;
mod json;
mod listed;
mod message;
mod name;
pub mod naming;
mod nearest;
mod output;
mod redactor;
mod scan;
mod schema;
mod secret;
mod tool;
mod tool_result;
mod tool_search;
mod tools;
mod trace;
mod unambiguous;

pub use content::{Content, ContentKind, ResourceBody};
pub use cut::cut;
pub use fields::{Fields, Items};
pub use json::Json;
pub use listed::{Item, Listed, Prompt, Quarantined, Resource, ResourceTemplate};
pub use message::{Block, BlockKind, Message, Origin, Role, ToolReturn, Usage};
pub use name::{InvalidName, ServerName, ToolRef};
pub use naming::{command_name, visible_name};
pub use nearest::nearest;
pub use output::ToolOutput;
pub use redactor::{REDACTED, Redactor};
pub use schema::schema_accepts;
pub use secret::Secret;
pub use tool::{Hints, Tool};
pub use tool_result::{ImageFormat, ImageSource, ResultContent, ResultStatus, ToolResult};
pub use tool_search::{SearchableTool, ToolIndex, ToolRanking};
pub use tools::{
    BoxFuture, CallFailed, Outcome, RetrySafety, ServerInstructions, ServerNotice, ToolCall, ToolDefinition,
    ToolLoading, ToolSource, Tools,
};
pub use trace::{ToolTrace, TraceEvent, TraceFailure, TraceSink, TraceStep};
