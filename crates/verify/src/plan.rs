//! Plans: questions × models × replicates are trials, and trials × judges are units.

use serde::{Deserialize, Serialize};

use crate::ids::{QuestionId, TrialId, UnitId};

/// Version of the result format. It is part of every id: results of another version are not reused.
pub const RESULT_FORMAT: u32 = 1;

/// All trials of a run, in order.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Plan {
    /// The trials, in the order in which they are claimed.
    pub trials: Vec<Trial>,
}

/// One answer of one model to one question.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Trial {
    /// A digest of everything that can change the answer.
    pub id: TrialId,
    /// The question.
    pub question: QuestionId,
    /// Label of the answering model.
    pub model: String,
    /// Number of the replicate, from 1.
    pub replicate: u32,
    /// The units of the trial: one for each judge.
    pub units: Vec<Unit>,
}

/// A trial under one judge.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Unit {
    /// A digest of everything that can change the result.
    pub id: UnitId,
    /// Label of the judge. `None` if the question needs no judge.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub judge: Option<String>,
}
