//! Tests of the crate from outside.

mod kit;
mod sqlite;
mod store_contract;
