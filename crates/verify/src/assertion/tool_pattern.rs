//! Names of tools in assertions.

use std::fmt;

use serde::{Deserialize, Serialize};
use wharf_config::{Pattern, ToolNames};

use crate::tool_set::OfferedTool;

/// The name of a tool in an assertion: its name on its server, `server/tool`, or the name that the model uses. `*` stands
/// for any text.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(from = "String", into = "String")]
pub struct ToolPattern(Pattern);

impl ToolPattern {
    /// Creates a pattern. Every text is valid.
    pub fn new(text: &str) -> Self {
        Self(Pattern::new(text))
    }

    /// Returns the pattern for all tools.
    pub fn all() -> Self {
        Self::new("*")
    }

    /// Returns whether it names a single tool.
    pub fn is_exact(&self) -> bool {
        self.0.is_exact()
    }

    /// Returns whether it matches a tool that the model was offered.
    pub fn fits(&self, tool: &OfferedTool) -> bool {
        let names = ToolNames { visible: &tool.name, server: tool.server.as_ref(), tool: &tool.tool };
        if self.0.fits_tool(&names) {
            return true;
        }
        // A server name contains no slash, so a rendered identity is unambiguous.
        tool.server.as_ref().is_some_and(|server| self.0.fits(&format!("{server}/{}", tool.tool)))
    }

    /// Returns whether it matches the name of a call to a tool that was not offered.
    pub fn fits_name(&self, name: &str) -> bool {
        self.0.fits(name)
    }

    /// Returns whether it matches the name of a call in a trace whose tools are not on record.
    ///
    /// The name is all there is of the tool. Many clients write `mcp__SERVER__TOOL`, so the parts count too.
    pub fn fits_recorded_name(&self, name: &str) -> bool {
        let parts = name.strip_prefix("mcp__").and_then(|rest| rest.split_once("__"));
        self.0.fits(name)
            || parts.is_some_and(|(server, tool)| self.0.fits(tool) || self.0.fits(&format!("{server}/{tool}")))
    }
}

impl fmt::Display for ToolPattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0.as_str())
    }
}

impl From<String> for ToolPattern {
    fn from(text: String) -> Self {
        Self::new(&text)
    }
}

impl From<ToolPattern> for String {
    fn from(pattern: ToolPattern) -> Self {
        pattern.0.as_str().to_owned()
    }
}
