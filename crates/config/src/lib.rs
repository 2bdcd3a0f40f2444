//! Configuration of MCP servers: six scopes become one list of [`Server`]s.
//!
//! [`load`](load()) reads the files of [`Sources`]. An invalid entry affects only its own server. [`Loaded`] says for
//! every server whether it is [`Eligibility::Ready`] or why it is not used. A project's servers need an [`Approval`] of
//! their exact content. [`Editor`] edits files and preserves comments. [`import`] reads the files of other hosts.
//!
//! Callers pass in paths and variables: this crate reads neither the environment nor the home directory.

mod address;
mod approval;
pub mod cloud;
mod cursor;
mod danger;
mod edit;
mod entry;
mod entry_name;
mod expand;
pub mod export;
mod file;
mod folding;
mod hidden_chars;
pub mod import;
mod jsonc;
mod load;
mod loaded;
mod look_alike;
pub mod model_servers;
mod pattern;
mod problem;
mod project;
mod raw_entry;
mod read_server;
pub mod registry;
mod resolve;
mod rules;
mod secret_names;
mod secrets;
mod server;
mod signature;
pub mod simple;
mod sources;
mod store;
mod suggest;
mod watch;

pub use address::check_url;
pub use approval::{Approval, Approvals, ApprovalsError};
pub use danger::{imports_from_directory, looks_secret};
pub use edit::{EditError, Editor, OnExisting};
pub use entry_name::plain as import_name;
pub use expand::Variables;
pub use folding::folded;
pub use load::load;
pub use loaded::{ConfiguredServer, DisabledBy, Eligibility, InvalidEntry, Loaded, RawSetting};
pub use model_servers::{InvalidModelServers, ModelServers};
pub use pattern::{InvalidPattern, Pattern, ToolNames};
pub use problem::{Problem, ProblemKind, Severity};
pub use project::{ProjectFile, find_project, project_root};
pub use raw_entry::{EntryChange, RawEntry};
pub use read_server::{ReadServer, read_server, read_server_to_keep};
pub use rules::Rules;
pub use secret_names::{is_secret_message, is_secret_name, is_secret_text, names_secret};
pub use server::{
    AlwaysLoad, HeadersHelper, ManagedConfig, OAuthSettings, RemoteConfig, Scope, Server, Settings, SourceLocation,
    StdioConfig, ToolChoice, TransportConfig, TransportKind,
};
pub use sources::{CloudText, Sources, cloud_allowed};
pub use watch::WatchedFiles;
