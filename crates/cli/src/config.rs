//! From the command line, the environment and the configuration files to a fleet.
//!
//! [`Setup`] reads every scope. `fleet` opens a [`wharf::fleet::Fleet`] of it, `follow` reloads changed files, and
//! `writing` changes them. Commands that only inspect or edit the configuration use [`Setup::read`], which sends no
//! request.

mod cloud;
pub(crate) mod describe;
pub(crate) mod dispatcher;
mod fleet;
mod follow;
#[cfg(feature = "keychain")]
mod keychain;
mod limits;
pub(crate) mod network;
mod paths;
pub(crate) mod registry;
mod resolve;
pub(crate) mod servers;
mod setup;
mod sign_in;
pub(crate) mod sign_ins;
pub(crate) mod writing;

pub(crate) use fleet::FleetLifetime;
pub(crate) use paths::{Paths, no_home};
pub(crate) use resolve::can_be_enabled;
pub(crate) use setup::{ServerSelection, Setup};
