//! Tests of the crate's public behavior.

mod template;
