//! Integration tests of the agent.

#![expect(clippy::unwrap_used, reason = "a failed precondition should stop the test")]

mod cassettes;
mod checkpoints;
mod compaction;
mod driver;
mod kit;
mod layers;
mod manual;
mod models;
mod run;
mod tool_search;
mod trace;
