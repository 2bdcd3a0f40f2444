//! Tests of the crate's public behavior.

#![expect(clippy::unwrap_used, reason = "a test that cannot continue should stop")]

mod crash;
mod recording;
mod runner;
mod sqlite;
mod store_contract;
mod store_kit;
mod worker;
