//! Scenarios of a checkpoint: graphs of questions, read into Wharf's notation, and written from a scenario.
//!
//! The turns and branches of a scenario are taken over as a whole or not at all: without one of them, its conversations
//! would take another path. Criteria and updates of the state that have no equivalent are listed, and the other criteria
//! decide. Functions there are the source text of Python code, which is never executed.

mod condition;
mod read;
mod write;

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::checkpoint::Question;

pub(super) use read::{ScenarioRead, read};
pub(super) use write::write;

/// The target that ends a scenario there.
const END: &str = "__end__";
/// The reference answer of a turn without one. There, it must not be empty.
const NO_ANSWER: &str = "-";

/// A scenario.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct ScenarioPart {
    #[serde(rename = "@type", default)]
    kind: Option<String>,
    #[serde(default)]
    name: String,
    #[serde(default)]
    description: String,
    entry_node: String,
    nodes: BTreeMap<String, Node>,
    edges: Vec<Edge>,
    #[serde(default)]
    outcome_criteria: Vec<Criterion>,
    #[serde(default)]
    metadata: Map<String, Value>,
}

/// A turn.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Node {
    #[serde(rename = "@type", default)]
    kind: Option<String>,
    #[serde(rename = "nodeId")]
    id: String,
    question: Question,
    #[serde(default)]
    model_override: Option<Value>,
    #[serde(default)]
    tool_filter: Option<Value>,
    #[serde(default)]
    state_update_source: Option<String>,
    /// The question with all its keys.
    #[serde(default)]
    question_data: Option<Map<String, Value>>,
    #[serde(default)]
    agent_identity: Option<String>,
    #[serde(default)]
    metadata: Map<String, Value>,
}

/// What follows a turn.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Edge {
    source: String,
    target: String,
    #[serde(default)]
    condition: Option<Value>,
    #[serde(default)]
    condition_source: Option<String>,
    #[serde(default)]
    handover: Option<String>,
}

/// A criterion.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Criterion {
    name: String,
    #[serde(default)]
    description: String,
    #[serde(default)]
    check: Option<Value>,
    #[serde(default)]
    evaluate_source: Option<String>,
}
