//! Finds the servers in a file, and imports all of them.

use std::path::Path;

use serde_json::{Map, Value};

use super::draft::ConvertedEntry;
use super::entry::convert;
use super::imported::{ImportError, ImportedFile, ImportedServer};
use super::names::Names;
use super::placeholders::Placeholders;
use super::secrets;

/// The servers of a file before conversion.
#[derive(Default)]
pub(super) struct FoundServers {
    pub(super) servers: Vec<(String, Value)>,
    pub(super) skipped: Vec<(String, String)>,
    pub(super) notes: Vec<String>,
}

/// Finds the servers under the first of some keys that exists.
pub(super) fn under(file: &Map<String, Value>, keys: &[&str]) -> Result<FoundServers, ImportError> {
    let mut found = FoundServers::default();
    if let Some((key, servers)) = keys.iter().find_map(|key| Some((*key, file.get(*key)?))) {
        found.servers = table(servers, key)?;
    } else {
        let other = ["mcpServers", "servers", "mcp_servers"].into_iter().find(|key| file.contains_key(*key));
        let other = other.map(|other| format!(", but `{other}`, as in files of other hosts")).unwrap_or_default();
        found.notes.push(format!("the file has no `{}`{other}", keys[0]));
    }
    Ok(found)
}

/// Finds the servers of Claude Code, which stores those of the user and of every project in one file.
pub(super) fn of_claude_code(file: &Map<String, Value>, project: Option<&Path>) -> Result<FoundServers, ImportError> {
    let projects = file.get("projects").and_then(Value::as_object);
    let here = project.and_then(|project| projects?.get(&*project.to_string_lossy()));
    let local = here.and_then(|here| here.get("mcpServers"));
    let mut found = FoundServers::default();
    if let Some(servers) = local {
        found.servers = table(servers, "projects.mcpServers")?;
    }
    match file.get("mcpServers") {
        Some(servers) => {
            for (name, server) in table(servers, "mcpServers")? {
                if found.servers.iter().any(|(local, _)| *local == name) {
                    found.skipped.push((
                        name,
                        "the project has a server with the same name, which was imported instead".to_owned(),
                    ));
                } else {
                    found.servers.push((name, server));
                }
            }
        }
        None if projects.is_none() => return under(file, &["mcpServers"]),
        None => {}
    }
    let disabled = here.and_then(|here| here.get("disabledMcpServers")).and_then(Value::as_array);
    for (name, server) in &mut found.servers {
        if let Value::Object(server) = server
            && disabled.is_some_and(|disabled| disabled.iter().any(|other| other.as_str() == Some(name)))
        {
            server.insert("enabled".to_owned(), false.into());
        }
    }
    let has_servers = |project: &Value| {
        project.get("mcpServers").and_then(Value::as_object).is_some_and(|servers| !servers.is_empty())
    };
    let others = projects.into_iter().flatten().filter(|(_, project)| !here.is_some_and(|here| here == *project));
    match others.filter(|(_, project)| has_servers(project)).count() {
        0 => {}
        1 => found.notes.push("another project has servers too; import them from there".to_owned()),
        many => found.notes.push(format!("{many} other projects have servers too; import them from there")),
    }
    Ok(found)
}

/// Finds the servers of VS Code, which stores them in a separate file or in its settings.
pub(super) fn of_vscode(file: &Map<String, Value>) -> Result<FoundServers, ImportError> {
    let section = vscode_section(file);
    let keys = if section.contains_key("mcp.servers") { ["mcp.servers", "servers"] } else { ["servers", "mcpServers"] };
    under(section, &keys)
}

/// Returns the inputs that VS Code prompts for.
pub(super) fn vscode_inputs(file: &Map<String, Value>) -> Vec<Value> {
    let section = vscode_section(file);
    let inputs = ["inputs", "mcp.inputs"].iter().find_map(|key| section.get(*key)?.as_array());
    inputs.cloned().unwrap_or_default()
}

/// Returns the `mcp` object of the settings, or the file itself.
fn vscode_section(file: &Map<String, Value>) -> &Map<String, Value> {
    file.get("mcp").and_then(Value::as_object).unwrap_or(file)
}

fn table(servers: &Value, key: &str) -> Result<Vec<(String, Value)>, ImportError> {
    let table =
        servers.as_object().ok_or_else(|| ImportError::Shape(format!("`{key}` is not an object of servers")))?;
    Ok(table.iter().map(|(name, server)| (name.clone(), server.clone())).collect())
}

/// Imports all servers of a host that uses JSON.
pub(super) fn import(found: &FoundServers, placeholders: &Placeholders<'_>) -> ImportedFile {
    let elsewhere = placeholders.without_project();
    import_with(found, |server| {
        let converted = convert(server, placeholders)?;
        // What would be different without the project contains its directory.
        let is_for_project = convert(server, &elsewhere)?.entry != converted.entry;
        Ok(ConvertedEntry { is_for_project, ..converted })
    })
}

/// Imports all servers, each converted on its own.
pub(super) fn import_with(
    found: &FoundServers,
    convert: impl Fn(&Map<String, Value>) -> Result<ConvertedEntry, String>,
) -> ImportedFile {
    let mut imported = ImportedFile { servers: Vec::new(), skipped: found.skipped.clone(), notes: found.notes.clone() };
    let mut names = Names::reserve(found.servers.iter().map(|(name, _)| name.as_str()));
    for (original, server) in &found.servers {
        let original = original.clone();
        let entry = match server.as_object() {
            Some(server) => convert(server),
            None => Err("its entry is not an object".to_owned()),
        };
        // A server that is skipped does not use up a name.
        let assigned = entry.and_then(|entry| Ok((entry, names.assign(&original)?)));
        match assigned {
            Ok((ConvertedEntry { entry, mut notes, is_for_project }, (name, renamed))) => {
                notes.extend(secrets::notes(&entry));
                notes.splice(0..0, renamed);
                dedup(&mut notes);
                imported.servers.push(ImportedServer { name, original, entry, notes, is_for_project });
            }
            Err(reason) => imported.skipped.push((original, reason)),
        }
    }
    if imported.servers.is_empty() && imported.skipped.is_empty() && imported.notes.is_empty() {
        imported.notes.push("the file has no servers".to_owned());
    }
    imported
}

/// Removes repeated notes.
fn dedup(notes: &mut Vec<String>) {
    let mut seen = std::collections::HashSet::new();
    notes.retain(|note| seen.insert(note.clone()));
}
