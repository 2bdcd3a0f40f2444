//! Tests of the crate's public behavior.

#![expect(clippy::unwrap_used, reason = "a test that cannot continue should stop")]

mod agentic;
mod agents;
mod assertion;
mod benchmark;
mod comparison;
mod corpus;
mod crash;
mod deep_judgment;
mod embedding;
mod inspect;
mod judge_check;
mod judging;
mod karenina;
mod karenina_scenario;
mod logged;
mod panel;
mod pipeline_kit;
mod plan;
mod postgres;
mod rate_limits;
mod recording;
mod repetition;
mod report;
mod report_html;
mod report_text;
mod rubric;
mod runner;
mod scale;
mod scenario;
mod schema;
mod sqlite;
mod stages;
mod store_contract;
mod store_kit;
mod template;
mod time_limit;
mod verdicts;
mod whole_run;
mod worker;
