//! Verification runs: from a benchmark and settings to a plan, and from a plan to results. `verify` and `demo` use it.

pub(crate) mod activity_table;
pub(crate) mod benchmark_file;
pub(crate) mod comparison_table;
mod display;
pub(crate) mod engine;
pub(crate) mod failures;
pub(crate) mod joining;
pub(crate) mod key_watch;
pub(crate) mod outputs;
pub(crate) mod participants;
pub(crate) mod planning;
pub(crate) mod quickstart;
pub(crate) mod shared_run;
pub(crate) mod statistics_table;
pub(crate) mod store;
pub(crate) mod table;
pub(crate) mod workbench;
pub(crate) mod worker_record;
