//! The tools that a model was offered, and their digest.

use serde::{Deserialize, Serialize};
use wharf_protocol::{Json, ServerName};

use crate::digest::digest;

/// A tool that a model was offered.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct OfferedTool {
    /// The name that the model calls it by.
    pub name: String,
    /// Its server, if it has one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub server: Option<ServerName>,
    /// Its name on its server.
    pub tool: String,
    /// Its description for the model.
    pub description: String,
    /// The JSON Schema of its arguments.
    pub input_schema: Json,
}

/// The tools that the units of one model are offered.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct ToolSet {
    /// The tools, in the order in which they were offered.
    pub tools: Vec<OfferedTool>,
}

impl ToolSet {
    /// Returns the digest of what the model sees, whatever the order of the servers. It is part of a unit's id.
    pub fn digest(&self) -> String {
        let mut seen: Vec<_> =
            self.tools.iter().map(|tool| (&tool.name, &tool.description, &tool.input_schema)).collect();
        seen.sort_by_key(|(name, ..)| *name);
        digest(&seen)
    }

    /// Finds a tool by the name that the model calls it by.
    pub fn get(&self, name: &str) -> Option<&OfferedTool> {
        self.tools.iter().find(|tool| tool.name == name)
    }
}
