//! Tests of the crate from outside.

mod crash;
mod kit;
mod recording;
mod runner;
mod sqlite;
mod store_contract;
mod worker;
