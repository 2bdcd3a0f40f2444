//! How far a run may go.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use serde::{Deserialize, Serialize};

/// The limits of a run. A limit that nothing runs into is as good as none.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Limits {
    /// How often the model may be asked; one more always ends the run.
    pub model_calls: u32,
    /// How many calls of tools there may be.
    pub tool_calls: u32,
    /// What happens when there would be more.
    pub exit_behavior: ExitBehavior,
    /// How many tokens may go in and come out, all together.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tokens: Option<u64>,
    /// What may be spent, in US dollars.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cost_usd: Option<f64>,
    /// How long it may take.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub time: Option<Duration>,
    /// How often single tools may be called.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub per_tool: BTreeMap<String, u32>,
}

/// What happens when more tools would be called than may be.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ExitBehavior {
    /// The model is told, and asked for its answer once more, without tools.
    #[default]
    End,
    /// The model is told, and goes on.
    Continue,
}

/// A limit that something ran into.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Limit {
    /// The model would have been asked once more.
    ModelCalls {
        /// How often it may be.
        most: u32,
    },
    /// One more tool would have been called.
    ToolCalls {
        /// How many may be.
        most: u32,
    },
    /// A tool would have been called once more.
    PerTool {
        /// The tool.
        name: String,
        /// How often it may be.
        most: u32,
    },
    /// So many tokens are spent.
    Tokens {
        /// How many may be.
        most: u64,
    },
    /// So much is spent.
    Cost {
        /// How much may be, in US dollars.
        most: String,
    },
    /// The time is over.
    Time {
        /// How much there was, in seconds.
        seconds: u64,
    },
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            model_calls: 25,
            tool_calls: 50,
            exit_behavior: ExitBehavior::End,
            tokens: None,
            cost_usd: None,
            time: None,
            per_tool: BTreeMap::new(),
        }
    }
}

impl fmt::Display for Limit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::ModelCalls { most } => write!(f, "the limit of {most} turns"),
            Self::ToolCalls { most } => write!(f, "the limit of {most} tool calls"),
            Self::PerTool { name, most } => write!(f, "the limit of {most} calls of {name}"),
            Self::Tokens { most } => write!(f, "the limit of {most} tokens"),
            Self::Cost { most } => write!(f, "the limit of ${most}"),
            Self::Time { seconds } => write!(f, "the limit of {seconds} s"),
        }
    }
}
