//! Imports servers that are configured for other hosts.
//!
//! A file of another host becomes entries in the format of `.mcp.json`. Nothing is dropped silently: a note names every
//! key that has no meaning here, and a server that cannot be imported is listed with the reason. Importing only converts
//! text: it reads no file and runs nothing.

mod codex;
mod draft;
mod entry;
mod host;
mod imported;
mod json;
mod link;
mod names;
mod paths;
mod placeholders;
mod secrets;
mod servers;

use std::path::Path;

pub use self::host::ImportHost;
pub use self::imported::{ImportError, ImportedFile, ImportedServer};
pub(crate) use self::json::parse as parse_json;
pub use self::link::{InvalidLink, LinkedServer, is_link, read_link};
pub use self::paths::{ImportDirs, default_files};
pub(crate) use self::secrets::variable_name;

use self::placeholders::{Placeholders, Syntax};

/// Reads the text of a host's file. `project` is the current project directory: Claude Code stores servers by project,
/// and editors have a placeholder for it.
///
/// # Errors
/// If the text cannot be parsed, or does not have the structure of the host's configuration.
pub fn read(host: ImportHost, text: &str, project: Option<&Path>) -> Result<ImportedFile, ImportError> {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    if text.trim().is_empty() {
        return Ok(ImportedFile { notes: vec!["the file is empty".to_owned()], ..ImportedFile::default() });
    }
    match host {
        ImportHost::ClaudeCode => {
            let found = servers::of_claude_code(&json::parse(text)?, project)?;
            Ok(servers::import(&found, &Placeholders::new(Syntax::Native, project)))
        }
        ImportHost::ClaudeDesktop => {
            let found = servers::under(&json::parse(text)?, &["mcpServers"])?;
            Ok(servers::import(&found, &Placeholders::new(Syntax::Literal, project)))
        }
        ImportHost::Cursor => {
            let found = servers::under(&json::parse(text)?, &["mcpServers"])?;
            Ok(servers::import(&found, &Placeholders::new(Syntax::Editor, project)))
        }
        ImportHost::VsCode => {
            let file = json::parse(text)?;
            let inputs = servers::vscode_inputs(&file);
            let found = servers::of_vscode(&file)?;
            Ok(servers::import(&found, &Placeholders::new(Syntax::Editor, project).with_inputs(&inputs)))
        }
        ImportHost::Codex => codex::read(text),
    }
}

#[cfg(test)]
mod tests;
