//! Limits of a run.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use serde::{Deserialize, Serialize};

/// The limits of a run. [`Run`](crate::Run) enforces them; limits count from the start of the run, also after a resume.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Limits {
    /// Maximum number of model requests. The run ends before the next one.
    pub model_calls: u32,
    /// Maximum number of tool calls. Further calls return an error to the model; see `exit_behavior`.
    pub tool_calls: u32,
    /// What happens after the limit of tool calls is reached.
    pub exit_behavior: ExitBehavior,
    /// Maximum number of input and output tokens in total.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tokens: Option<u64>,
    /// Maximum cost in US dollars. Responses of unknown cost are not counted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cost_usd: Option<f64>,
    /// Maximum duration. Pending requests and calls are canceled.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub time: Option<Duration>,
    /// Maximum number of calls by tool name.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub per_tool: BTreeMap<String, u32>,
}

/// What happens after the limit of tool calls is reached.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ExitBehavior {
    /// The model gets one final request, in which it cannot call tools.
    #[default]
    End,
    /// The model continues. Its further calls return an error.
    Continue,
}

/// A limit that was reached.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Limit {
    /// The limit of model requests.
    ModelCalls {
        /// Maximum number of requests.
        #[serde(rename = "most")]
        max: u32,
    },
    /// The limit of tool calls.
    ToolCalls {
        /// Maximum number of calls.
        #[serde(rename = "most")]
        max: u32,
    },
    /// The limit of calls of one tool.
    PerTool {
        /// Name of the tool.
        name: String,
        /// Maximum number of calls.
        #[serde(rename = "most")]
        max: u32,
    },
    /// The limit of tokens.
    Tokens {
        /// Maximum number of tokens.
        #[serde(rename = "most")]
        max: u64,
    },
    /// The limit of cost.
    Cost {
        /// Maximum cost in US dollars.
        #[serde(rename = "most")]
        max: String,
    },
    /// The time limit.
    Time {
        /// Maximum duration in seconds.
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
        let plural = |max| if max == 1 { "" } else { "s" };
        match self {
            Self::ModelCalls { max } => write!(f, "the limit of {max} turn{}", plural(*max)),
            Self::ToolCalls { max } => write!(f, "the limit of {max} tool call{}", plural(*max)),
            Self::PerTool { name, max } => write!(f, "the limit of {max} call{} of {name}", plural(*max)),
            Self::Tokens { max } => write!(f, "the limit of {max} tokens"),
            Self::Cost { max } => write!(f, "the limit of ${max}"),
            Self::Time { seconds } => write!(f, "the limit of {seconds} s"),
        }
    }
}
