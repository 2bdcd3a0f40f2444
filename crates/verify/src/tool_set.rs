//! The tools that a model was offered, and their digest.

use serde::{Deserialize, Serialize};
use wharf_fleet::Catalog;
use wharf_protocol::{Hints, Json, ServerInstructions, ServerName, ToolDefinition, ToolLoading};

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
    /// Its behavior hints. The model does not see them; they order calls and decide which ones may be repeated.
    #[serde(default)]
    pub hints: Hints,
}

/// The tools that the units of one model are offered, and what their servers say about them.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ToolSet {
    /// The tools, in the order in which they were offered.
    pub tools: Vec<OfferedTool>,
    /// The instructions of their servers, which are a part of the system prompt.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub instructions: Vec<ServerInstructions>,
}

/// The tools of a plan with their digest, which is taken once.
#[derive(Debug)]
pub(crate) struct PlannedTools {
    pub(crate) tools: ToolSet,
    pub(crate) digest: String,
}

impl From<ToolSet> for PlannedTools {
    fn from(tools: ToolSet) -> Self {
        Self { digest: tools.digest(), tools }
    }
}

impl ToolSet {
    /// Returns the tools of a catalog.
    pub fn of_catalog(catalog: &Catalog) -> Self {
        let tools = catalog.entries().iter().map(|entry| OfferedTool {
            name: entry.name.to_string(),
            server: entry.server.clone(),
            tool: entry.tool.name.to_string(),
            description: entry.description.to_string(),
            input_schema: entry.input_schema.detached(),
            hints: entry.hints,
        });
        Self { tools: tools.collect(), instructions: catalog.instructions().to_vec() }
    }

    /// Returns the digest of what the model sees, whatever the order of the servers. It is part of a unit's id.
    pub fn digest(&self) -> String {
        let tools = self.tools.iter().map(|tool| (tool.name.as_str(), tool.description.as_str(), &tool.input_schema));
        digest_of(tools.collect(), &self.instructions)
    }

    /// Returns the digest of the tools of one turn. It equals [`ToolSet::digest`] if the model sees the same.
    pub(crate) fn digest_of_turn(tools: &[ToolDefinition], instructions: &[ServerInstructions]) -> String {
        let tools = tools.iter().map(|tool| (&*tool.name, &*tool.description, &tool.input_schema));
        digest_of(tools.collect(), instructions)
    }

    /// Finds a tool by the name that the model calls it by.
    pub fn get(&self, name: &str) -> Option<&OfferedTool> {
        self.tools.iter().find(|tool| tool.name == name)
    }

    /// Returns whether every tool declares that it changes nothing.
    pub fn is_read_only(&self) -> bool {
        self.tools.iter().all(|tool| tool.hints.read_only == Some(true))
    }

    /// Returns the tools as an agent offers them.
    pub(crate) fn definitions(&self) -> Vec<ToolDefinition> {
        let definition = |tool: &OfferedTool| ToolDefinition {
            name: tool.name.as_str().into(),
            description: tool.description.as_str().into(),
            input_schema: tool.input_schema.clone(),
            hints: tool.hints,
            // Verification offers all planned tools at once.
            loading: ToolLoading::Always,
        };
        self.tools.iter().map(definition).collect()
    }
}

fn digest_of(mut tools: Vec<(&str, &str, &Json)>, instructions: &[ServerInstructions]) -> String {
    tools.sort_by_key(|(name, ..)| *name);
    let mut instructions: Vec<_> = instructions.iter().map(|of| (of.server.as_str(), &*of.text)).collect();
    instructions.sort_unstable();
    digest(&(tools, instructions))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn tool(name: &str) -> OfferedTool {
        OfferedTool {
            name: name.to_owned(),
            server: None,
            tool: name.to_owned(),
            description: "d".to_owned(),
            input_schema: json!({"type": "object"}).into(),
            hints: Hints::default(),
        }
    }

    #[test]
    fn the_digest_changes_with_what_the_model_sees_and_with_nothing_else() {
        let set = |tools: Vec<OfferedTool>| ToolSet { tools, instructions: Vec::new() };
        let one = set(vec![tool("a"), tool("b")]);
        assert_eq!(one.digest(), set(vec![tool("b"), tool("a")]).digest(), "the order of servers");
        let hinted = Hints { read_only: Some(true), ..Hints::default() };
        assert_eq!(one.digest(), set(vec![OfferedTool { hints: hinted, ..tool("a") }, tool("b")]).digest());
        assert_eq!(one.digest(), ToolSet::digest_of_turn(&one.definitions(), &[]));
        let instructions = vec![ServerInstructions::of_server("s".parse().unwrap(), "Read first.".into())];
        for other in [
            set(vec![tool("a")]),
            set(vec![tool("a"), OfferedTool { description: "e".to_owned(), ..tool("b") }]),
            set(vec![tool("a"), OfferedTool { input_schema: json!({"type": "object", "x": 1}).into(), ..tool("b") }]),
            set(vec![tool("a"), tool("c")]),
            ToolSet { instructions, ..one.clone() },
        ] {
            assert_ne!(one.digest(), other.digest());
        }
    }
}
