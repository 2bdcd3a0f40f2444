//! The public API of the facade, and the structure of the workspace.

#![expect(clippy::unwrap_used, reason = "a failed step ends the test")]

mod adapters;
mod arrows;
mod factories;
mod gather;
mod server;
mod steps;
