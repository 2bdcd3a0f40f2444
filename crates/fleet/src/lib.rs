//! Many servers: where they are configured, how they are doing, what tools they have together, and how one is called.
//!
//! [`config`] turns files into [`Server`]s. A [`Fleet`] connects them and keeps them connected. A [`Catalog`] is what
//! they offer at one moment. A [`Dispatcher`] carries out calls: it checks, asks, calls, cuts and records.

pub mod catalog;
pub mod dispatch;
mod fleet;

pub use catalog::{Catalog, Entry, OwnTool, ServerTools, ServerToolsParts, ToolExecutor, ToolFreshness};
pub use dispatch::{Dispatcher, Policy, Turn};
pub use fleet::{
    DisabledReason, Fleet, FleetError, FleetOptions, HostEnvironment, HostFactory, LOCAL_GATE, ListingError,
    NetworkSettings, PromptCommand, REMOTE_GATE, Reconnection, ServerFilter, ServerListing, ServerSpec, ServerState,
    ServerStatus, SignInPrompt, SignInRequest, StateReason, TokenProviders,
};
pub use wharf_config::{Scope, Server, Settings, TransportConfig};
