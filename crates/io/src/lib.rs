//! The plumbing of Wharf: child processes that never outlive us, lines that never outgrow their bound, and HTTP.
//!
//! This crate knows no MCP and no models. It reads no environment: what a child may see is handed in.

pub mod address;
mod backoff;
mod child;
mod digest;
mod environment;
mod files;
mod http;
mod lines;
mod managed;
pub mod percent;
mod time;

pub use backoff::{Backoff, Jitter, jittered};
pub use child::{Child, ChildSpec, Exit, Grace, GroupWatcher, LastLines, Pipes, SpawnError};
pub use digest::digest;
pub use environment::Environment;
pub use files::{Durability, FileMode, MissingFolder, ReplaceOptions, StagedFile, replace_file};
pub use http::{
    Body, BodyError, Dial, DialTarget, DialTo, Dialed, HttpClient, HttpError, HttpSettings, InvalidSettings, Proxies,
    Resolve, SseError, SseEvent, SseReader, same_origin_reference,
};
pub use lines::{LineEvent, LineReader};
pub use managed::{ManageError, Managed, ManagedSpec, stop_all};
pub use time::unix_now;
