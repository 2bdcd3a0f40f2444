//! Tests of the crate's public behavior.

mod assertion;
mod kit;
mod report;
mod sqlite;
mod store_contract;
mod template;
