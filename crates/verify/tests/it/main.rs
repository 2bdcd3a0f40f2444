//! Tests of the crate's public behavior.

mod assertion;
mod kit;
mod sqlite;
mod store_contract;
mod template;
