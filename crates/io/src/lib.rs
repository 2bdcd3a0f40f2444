//! The plumbing of Wharf: child processes that never outlive us, and lines that never outgrow their bound.
//!
//! This crate knows no MCP and no models. It reads no environment: what a child may see is handed in.

mod child;
mod environment;
mod lines;
mod managed;

pub use child::{Child, ChildSpec, Exit, Grace, GroupWatcher, LastLines, Pipes, SpawnError};
pub use environment::Environment;
pub use lines::{LineEvent, LineReader};
pub use managed::{ManageError, Managed, ManagedSpec, stop_all};
