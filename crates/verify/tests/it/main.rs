//! Tests of the crate's public behavior.

#![expect(clippy::unwrap_used, reason = "a test that cannot continue should stop")]

mod assertion;
mod crash;
mod recording;
mod report;
mod runner;
mod sqlite;
mod store_contract;
mod store_kit;
mod template;
mod worker;
