//! Tests of the crate's public behavior.

mod agents;
mod judging;
mod kit;
mod plan;
mod repetition;
mod stages;
mod template;
mod verdicts;
