//! Many servers: their connections and states, their tools, and calls to them.
//!
//! A [`Fleet`] connects [`Server`]s and keeps them connected. A [`Catalog`] holds the tools that they offer at one moment.
//! A [`Dispatcher`] executes calls: it checks, permits, calls, caps and traces. [`FleetTools`] gives both to an agent.

pub mod catalog;
pub mod dispatch;
mod fleet;
mod search_tools;
mod tool_source;

pub use catalog::{
    Catalog, Entry, ExecutionError, OwnTool, ServerTools, ServerToolsParts, ToolExecutor, ToolFreshness,
};
pub use dispatch::{Dispatcher, Policy, Turn};
pub use fleet::{
    DisabledReason, Fleet, FleetError, FleetOptions, HostEnvironment, HostFactory, LOCAL_GATE, ListingError,
    NetworkSettings, PromptCommand, REMOTE_GATE, Reconnection, ServerFilter, ServerListing, ServerLog, ServerSpec,
    ServerState, ServerStatus, SignInPrompt, SignInRequest, StateReason, TokenProviders,
};
pub use search_tools::SEARCH_TOOLS;
pub use tool_source::FleetTools;
pub use wharf_config::{Scope, Server, Settings, TransportConfig};
