//! Many servers: where they are configured, how they are doing, what tools they have together, and how one is called.
//!
//! [`config`] turns files into [`Server`]s. A [`Fleet`] connects them and keeps them connected. A [`Catalog`] is what
//! they offer at one moment. A [`Dispatcher`] carries out calls: it checks, asks, calls, cuts and records.

pub mod catalog;
pub mod dispatch;
mod fleet;

pub use catalog::{Callee, Catalog, Entry, OwnTool, Shelf, ShelfParts, Standing};
pub use dispatch::{Dispatcher, Policy, Turn};
pub use fleet::{
    Command, Enlisted, Fleet, FleetError, FleetOptions, Hold, Hosts, LOCAL_GATE, Network, Offer, OfferError, Outfit,
    Permits, REMOTE_GATE, Reason, Reconnection, SignInWanted, SignIns, SignsIn, State, Status,
};
pub use wharf_config::{Scope, Server, Settings, TransportConfig};
