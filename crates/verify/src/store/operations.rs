//! The operation of runs that workers share: who works, on what, how fast, and what is stuck.

use serde::Serialize;

use crate::ids::{QuestionId, RunId};

/// A process that works on runs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WorkerRecord {
    /// Id of the worker, unique among all processes.
    pub id: String,
    /// Name of its machine.
    pub host: String,
    /// Its process id.
    pub pid: u32,
    /// Its version of Wharf.
    pub version: String,
    /// Trials that it runs at the same time.
    pub slots: u32,
    /// The run that it works on.
    pub run: Option<RunId>,
}

/// Trials that a worker cannot run. An absent name matches all.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Lack {
    /// Label of the answering model.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// The question.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub question: Option<QuestionId>,
    /// Label of a judge.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub judge: Option<String>,
    /// What is missing, and how to fix it.
    pub reason: String,
}

/// A worker in the store.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct WorkerStatus {
    /// Id of the worker.
    pub id: String,
    /// Name of its machine.
    pub host: String,
    /// Its process id.
    pub pid: u32,
    /// Its version of Wharf.
    pub version: String,
    /// Trials that it runs at the same time.
    pub slots: u32,
    /// When it started, in seconds since 1970, by the store's clock.
    pub since: i64,
    /// Seconds since its last heartbeat, by the store's clock.
    pub seen_seconds_ago: u64,
    /// Whether it has not missed several heartbeats.
    pub is_alive: bool,
    /// The run that it works on.
    pub run: Option<RunId>,
    /// Trials that it holds under leases that have not expired.
    pub trials: u64,
    /// Why it leaves trials to others, each reason once.
    pub lacks: Vec<String>,
}

/// What happens in a run.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct RunActivity {
    /// The order among runs: the higher number goes first.
    pub priority: i64,
    /// Units that got a result in the last minutes.
    pub recent_units: u64,
    /// Units per minute, in the last minutes.
    pub units_per_minute: Option<f64>,
    /// Seconds until the last unit has a result, at this rate.
    pub eta_seconds: Option<u64>,
    /// Trials whose worker has not renewed its lease. Another worker claims them.
    pub expired_leases: u64,
    /// Open units that no living worker can run.
    pub stuck_units: u64,
    /// Why living workers leave units to others, each reason once.
    pub stuck_reasons: Vec<String>,
}
