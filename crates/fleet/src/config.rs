//! Where servers are configured, and what comes of it: six scopes become one list of [`Server`]s.

mod server;

pub use server::{Launch, Manage, Origin, Reach, Remote, Scope, Server, Settings, ToolChoice};
