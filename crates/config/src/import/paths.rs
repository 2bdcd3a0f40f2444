//! The default paths of other hosts' configuration files.

use std::path::{Path, PathBuf};

use super::host::ImportHost;

/// The directories that contain other hosts' files.
#[derive(Clone, Copy, Debug)]
pub struct ImportDirs<'a> {
    /// The home directory.
    pub home: &'a Path,
    /// The configuration directory on Linux, usually `~/.config`.
    pub config: &'a Path,
    /// The current project.
    pub project: Option<&'a Path>,
}

/// Returns the files of a host on Linux and macOS, the project's own file first. They need not exist.
pub fn default_files(host: ImportHost, dirs: &ImportDirs<'_>) -> Vec<PathBuf> {
    let ImportDirs { home, config, project } = *dirs;
    let support = home.join("Library/Application Support");
    let in_project = |file: &str| project.map(|project| project.join(file));
    match host {
        ImportHost::ClaudeCode => in_project(".mcp.json").into_iter().chain([home.join(".claude.json")]).collect(),
        ImportHost::ClaudeDesktop => {
            [config, &support].map(|dir| dir.join("Claude/claude_desktop_config.json")).to_vec()
        }
        ImportHost::Cursor => {
            in_project(".cursor/mcp.json").into_iter().chain([home.join(".cursor/mcp.json")]).collect()
        }
        ImportHost::VsCode => {
            let users = [config, &support].map(|dir| dir.join("Code/User"));
            let users = users.iter().flat_map(|user| [user.join("mcp.json"), user.join("settings.json")]);
            in_project(".vscode/mcp.json").into_iter().chain(users).collect()
        }
        ImportHost::Codex => {
            in_project(".codex/config.toml").into_iter().chain([home.join(".codex/config.toml")]).collect()
        }
    }
}
