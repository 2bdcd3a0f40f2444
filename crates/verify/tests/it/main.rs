//! Tests of the crate's public behavior.

mod agents;
mod crash;
mod judging;
mod kit;
mod pipeline_kit;
mod plan;
mod recording;
mod repetition;
mod runner;
mod sqlite;
mod stages;
mod store_contract;
mod template;
mod verdicts;
mod worker;
