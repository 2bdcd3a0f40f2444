//! The agent, from its decisions to what becomes of them.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on should stop")]

mod cassettes;
mod driving;
mod going_on;
mod kit;
mod models;
mod run;
mod trace;
