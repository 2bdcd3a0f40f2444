//! What is on record about a conversation and its turns.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::assertion::AssertionResult;
use crate::template::TemplateResult;

/// The result of a scenario under one judge.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ScenarioResult {
    /// How the conversation ended.
    pub end: ScenarioEnd,
    /// The turns, in the order of the conversation.
    pub turns: Vec<TurnResult>,
    /// The variables at the end.
    #[serde(default, skip_serializing_if = "Map::is_empty")]
    pub state: Map<String, Value>,
    /// The results of the criteria.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub outcome: Vec<CriterionResult>,
    /// Label of the judge whose reading decided which turns followed. `None` if no reading was needed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub steering_judge: Option<String>,
}

/// How a conversation ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ScenarioEnd {
    /// No turn followed.
    Completed,
    /// Another turn would have followed, and the maximum number was reached.
    TurnLimit,
    /// A turn has no answer, or it is unknown which turn follows.
    Stopped,
}

/// The result of one turn.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TurnResult {
    /// Name of the turn.
    pub turn: String,
    /// The message to the model.
    pub prompt: String,
    /// The model's answer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub response: Option<String>,
    /// How many messages of the trace belong to the turn.
    pub messages: usize,
    /// Whether the checks of the turn passed. `None` if it has none, or if they could not be made.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub passed: Option<bool>,
    /// The template's result.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub template: Option<TemplateResult>,
    /// The results of the assertions.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub assertions: Vec<AssertionResult>,
}

/// The result of a criterion.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CriterionResult {
    /// Name of the criterion.
    pub name: String,
    /// Whether it holds. `None` if it could not be decided.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub passed: Option<bool>,
    /// Why it does not hold, or could not be decided.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

impl ScenarioResult {
    /// Returns the names of the turns, in order.
    pub fn path(&self) -> Vec<&str> {
        self.turns.iter().map(|turn| turn.turn.as_str()).collect()
    }
}
