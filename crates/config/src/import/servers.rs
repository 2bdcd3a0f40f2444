//! Where the servers are in a file, and what becomes of all of them.

use std::path::Path;

use serde_json::{Map, Value};

use super::entry::convert;
use super::names::Names;
use super::words::Words;
use super::{ImportError, ImportedFile, ImportedServer, secrets};

/// The servers of a file before they are ours.
#[derive(Default)]
pub(super) struct Found {
    pub(super) servers: Vec<(String, Value)>,
    pub(super) skipped: Vec<(String, String)>,
    pub(super) notes: Vec<String>,
}

/// The servers under one of some keys.
pub(super) fn under(file: &Map<String, Value>, keys: &[&str]) -> Result<Found, ImportError> {
    let mut found = Found::default();
    if let Some((key, servers)) = keys.iter().find_map(|key| Some((*key, file.get(*key)?))) {
        found.servers = table(servers, key)?;
    } else {
        let other = ["mcpServers", "servers", "mcp_servers"].into_iter().find(|key| file.contains_key(*key));
        let other = other.map(|other| format!(", but `{other}`, as other hosts have it")).unwrap_or_default();
        found.notes.push(format!("the file has no `{}`{other}", keys[0]));
    }
    Ok(found)
}

/// Claude Code keeps a person's servers and those of every project in one file.
pub(super) fn of_claude_code(file: &Map<String, Value>, project: Option<&Path>) -> Result<Found, ImportError> {
    let projects = file.get("projects").and_then(Value::as_object);
    let here = project.and_then(|project| projects?.get(&*project.to_string_lossy()));
    let local = here.and_then(|here| here.get("mcpServers"));
    let mut found = Found::default();
    if let Some(servers) = local {
        found.servers = table(servers, "projects.mcpServers")?;
    }
    match file.get("mcpServers") {
        Some(servers) => {
            for (name, server) in table(servers, "mcpServers")? {
                if found.servers.iter().any(|(local, _)| *local == name) {
                    found.skipped.push((name, "is there for this project too, and that one was taken".to_owned()));
                } else {
                    found.servers.push((name, server));
                }
            }
        }
        None if projects.is_none() => return under(file, &["mcpServers"]),
        None => {}
    }
    let off = here.and_then(|here| here.get("disabledMcpServers")).and_then(Value::as_array);
    for (name, server) in &mut found.servers {
        if let Value::Object(server) = server
            && off.is_some_and(|off| off.iter().any(|one| one.as_str() == Some(name)))
        {
            server.insert("enabled".to_owned(), false.into());
        }
    }
    let has_servers =
        |place: &Value| place.get("mcpServers").and_then(Value::as_object).is_some_and(|it| !it.is_empty());
    let others = projects.into_iter().flatten().filter(|(_, place)| !here.is_some_and(|here| here == *place));
    match others.filter(|(_, place)| has_servers(place)).count() {
        0 => {}
        1 => found.notes.push("another project has servers of its own; import them from there".to_owned()),
        many => found.notes.push(format!("{many} other projects have servers of their own; import them from there")),
    }
    Ok(found)
}

/// VS Code keeps them in a file of their own, or among its settings, with what it asks a person for.
pub(super) fn of_vscode(file: &Map<String, Value>) -> Result<(Found, Vec<Value>), ImportError> {
    let inside = file.get("mcp").and_then(Value::as_object);
    let (place, keys) = match inside {
        Some(inside) => (inside, ["servers", "mcpServers"]),
        None if file.contains_key("mcp.servers") => (file, ["mcp.servers", "servers"]),
        None => (file, ["servers", "mcpServers"]),
    };
    let inputs = ["inputs", "mcp.inputs"].iter().find_map(|key| place.get(*key)?.as_array());
    Ok((under(place, &keys)?, inputs.cloned().unwrap_or_default()))
}

fn table(servers: &Value, key: &str) -> Result<Vec<(String, Value)>, ImportError> {
    let table = servers.as_object().ok_or_else(|| ImportError::Shape(format!("`{key}` is no table of servers")))?;
    Ok(table.iter().map(|(name, server)| (name.clone(), server.clone())).collect())
}

/// Turns all servers into ours by the same words.
pub(super) fn imported(found: Found, words: &Words<'_>) -> ImportedFile {
    all(found, |server| convert(server, words))
}

/// Turns all servers into ours, each for itself.
pub(super) fn all(
    found: Found,
    convert: impl Fn(&Map<String, Value>) -> Result<(Map<String, Value>, Vec<String>), String>,
) -> ImportedFile {
    let mut imported = ImportedFile { servers: Vec::new(), skipped: found.skipped, notes: found.notes };
    let mut names = Names::reserve(found.servers.iter().map(|(name, _)| name.as_str()));
    for (original, server) in found.servers {
        let entry = match server.as_object() {
            Some(server) => convert(server),
            None => Err("is no table of settings".to_owned()),
        };
        // A server that is skipped takes no name from others.
        let both = entry.and_then(|entry| Ok((entry, names.name(&original)?)));
        match both {
            Ok(((entry, mut notes), (name, renamed))) => {
                notes.extend(secrets::notes(&entry));
                notes.splice(0..0, renamed);
                dedup(&mut notes);
                imported.servers.push(ImportedServer { name, original, entry, notes });
            }
            Err(reason) => imported.skipped.push((original, reason)),
        }
    }
    if imported.servers.is_empty() && imported.skipped.is_empty() && imported.notes.is_empty() {
        imported.notes.push("there are no servers in the file".to_owned());
    }
    imported
}

/// Says everything once, however many texts it is true of.
fn dedup(notes: &mut Vec<String>) {
    let mut seen = std::collections::HashSet::new();
    notes.retain(|note| seen.insert(note.clone()));
}
