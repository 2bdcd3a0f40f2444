//! The facade as its users have it, and the shape of the workspace behind it.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on should stop")]

mod adapters;
mod arrows;
mod factories;
mod gather;
mod server;
mod steps;
