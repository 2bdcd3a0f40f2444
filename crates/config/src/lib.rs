//! Where servers are configured, and what comes of it: six scopes become one list of [`Server`]s.
//!
//! [`load`] reads the files of [`Sources`], takes each entry for itself (a bad one costs that server only), and lets
//! the scopes decide: [`Loaded`] says of every server whether it is [`Eligibility::Ready`] or what stands in its way.
//! A project's servers wait for an [`Approval`] of their exact content. [`Editor`] changes files and keeps comments.
//!
//! Paths, variables and texts are handed in: nothing here reads the environment or knows a home folder.

mod address;
mod approval;
pub mod cloud;
mod danger;
mod decide;
mod edit;
mod entry;
mod expand;
mod file;
mod hidden;
pub mod import;
mod load;
mod pattern;
mod problem;
mod project;
mod rules;
mod server;
mod signature;
pub mod simple;
mod store;
pub(crate) mod text;
mod watch;
mod written;

pub use address::check_url;
pub use approval::{Approval, Approvals, ApprovalsError};
pub use danger::looks_secret;
pub use edit::{EditError, Editor, OnExisting};
pub use expand::Variables;
pub use load::{
    CloudText, ConfiguredServer, DisabledBy, Eligibility, InvalidEntry, Loaded, RawSetting, ReadServer, Sources,
    cloud_allowed, load, read_server, read_server_to_keep,
};
pub use pattern::{InvalidPattern, Pattern, ToolNames};
pub use problem::{Problem, ProblemKind, Severity};
pub use project::{ProjectFile, find_project, project_root};
pub use rules::Rules;
pub use server::{
    HeadersHelper, ManagedConfig, OAuthSettings, RemoteConfig, Scope, Server, Settings, SourceLocation, StdioConfig,
    ToolChoice, TransportConfig, TransportKind,
};
pub use watch::WatchedFiles;
pub use written::{EntryChange, RawEntry};
