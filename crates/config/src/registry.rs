//! The MCP registry: finds servers by name, and turns what the registry knows about one into an entry.
//!
//! Everything a registry returns was written by strangers. Only the runtimes of package registries run, names and versions
//! are checked before they become part of a command, and text is never expanded: `${` of a registry stays text. What is
//! larger than any real description is refused.

mod client;
mod inputs;
mod offer;
mod package;
mod runtime_arguments;
mod server_json;

pub use client::{FoundServers, Registry, RegistryError};
pub use inputs::{Input, InputRole};
pub use offer::{EntryPlan, NoEntry, Offer, RefusedOffer, offers};
pub use server_json::{InvalidServer, LifecycleStatus, RegistryServer, is_server_name};

/// The official registry.
pub const OFFICIAL_REGISTRY: &str = "https://registry.modelcontextprotocol.io";
