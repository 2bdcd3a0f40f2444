//! The hosts whose configuration files can be imported.

use std::fmt;
use std::str::FromStr;

/// A host whose configuration files can be imported.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ImportHost {
    /// Claude Code: `~/.claude.json` and `.mcp.json`.
    ClaudeCode,
    /// Claude Desktop: `claude_desktop_config.json`.
    ClaudeDesktop,
    /// Cursor: `.cursor/mcp.json`.
    Cursor,
    /// VS Code: `.vscode/mcp.json`, the user's `mcp.json`, and `settings.json`.
    VsCode,
    /// Codex: `config.toml`.
    Codex,
}

impl ImportHost {
    /// All hosts.
    pub const ALL: [Self; 5] = [Self::ClaudeCode, Self::ClaudeDesktop, Self::Cursor, Self::VsCode, Self::Codex];

    /// Returns the name, as on the command line.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::ClaudeCode => "claude-code",
            Self::ClaudeDesktop => "claude-desktop",
            Self::Cursor => "cursor",
            Self::VsCode => "vscode",
            Self::Codex => "codex",
        }
    }
}

impl fmt::Display for ImportHost {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

impl FromStr for ImportHost {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let known = Self::ALL.map(Self::as_str).join(", ");
        let found = Self::ALL.into_iter().find(|host| host.as_str() == text);
        found.ok_or_else(|| format!("unknown host `{text}`: expected one of {known}"))
    }
}
