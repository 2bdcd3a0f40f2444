//! Where hosts keep their files.

use std::path::{Path, PathBuf};

use super::ImportHost;

/// The folders that those places are in.
#[derive(Clone, Copy, Debug)]
pub struct ImportDirs<'a> {
    /// The person's home.
    pub home: &'a Path,
    /// Where programs keep their configuration on Linux, usually `.config` in the home.
    pub config: &'a Path,
    /// The project that is worked in.
    pub project: Option<&'a Path>,
}

/// Where a host keeps its servers, on Linux and on macOS: the project's own file first. Not all of them need exist.
pub fn default_files(host: ImportHost, folders: &ImportDirs<'_>) -> Vec<PathBuf> {
    let ImportDirs { home, config, project } = *folders;
    let support = home.join("Library/Application Support");
    let in_project = |file: &str| project.map(|project| project.join(file));
    match host {
        ImportHost::ClaudeCode => in_project(".mcp.json").into_iter().chain([home.join(".claude.json")]).collect(),
        ImportHost::ClaudeDesktop => {
            [config, &support].map(|folder| folder.join("Claude/claude_desktop_config.json")).to_vec()
        }
        ImportHost::Cursor => {
            in_project(".cursor/mcp.json").into_iter().chain([home.join(".cursor/mcp.json")]).collect()
        }
        ImportHost::VsCode => {
            let users = [config, &support].map(|folder| folder.join("Code/User"));
            let users = users.iter().flat_map(|user| [user.join("mcp.json"), user.join("settings.json")]);
            in_project(".vscode/mcp.json").into_iter().chain(users).collect()
        }
        ImportHost::Codex => {
            in_project(".codex/config.toml").into_iter().chain([home.join(".codex/config.toml")]).collect()
        }
    }
}
