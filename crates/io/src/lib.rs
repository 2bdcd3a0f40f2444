//! Child processes that never outlive their parent, bounded line reading, HTTP and files.
//!
//! This crate knows neither MCP nor models. It does not read the environment: callers pass the environment of a child.

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
pub use child::{
    Child, ChildSpec, Exit, Grace, GroupWatcher, LastLines, LineObserver, Pipes, SpawnError, close_descriptors_on_exec,
};
pub use digest::digest;
pub use environment::{Environment, search_folders};
pub use files::{
    Durability, FileMode, MissingFolder, ReplaceOptions, StagedFile, create_private_file, create_private_folder,
    replace_file,
};
pub use http::{
    Body, BodyError, Dial, DialTarget, DialTo, Dialed, HttpClient, HttpError, HttpSettings, InvalidSettings, Proxies,
    Resolve, SseError, SseEvent, SseReader, same_origin_reference,
};
pub use lines::{LineEvent, LineReader};
pub use managed::{ManageError, Managed, ManagedSpec, stop_all};
pub use time::unix_now;
