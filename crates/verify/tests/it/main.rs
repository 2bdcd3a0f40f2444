//! Tests of the crate's public behavior.

#![expect(clippy::unwrap_used, reason = "a failed precondition should stop the test")]

mod assertion;
mod benchmark;
mod corpus;
mod schema;
mod template;
