//! Tests of the crate's public behavior.

mod assertion;
mod template;
