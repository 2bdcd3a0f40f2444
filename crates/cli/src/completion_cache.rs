//! Names of tools and of their arguments as last listed, for shell completion. Losing the file costs nothing.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use wharf::fleet::Fleet;
use wharf::{Durability, FileMode, MissingFolder, ReplaceOptions, Tool, replace_file};

use crate::config::Paths;

/// A larger file was not written by us.
const MAX_FILE_BYTES: u64 = 16 * 1024 * 1024;

/// How the file is written: as a whole, because a shell may be reading it.
const CACHE_FILE: ReplaceOptions = ReplaceOptions {
    mode: FileMode::Private,
    durability: Durability::Unsynced,
    folder: MissingFolder::CreatePrivate,
    follow_symlinks: false,
};

/// The arguments of each tool of each server.
type ListedNames = BTreeMap<String, BTreeMap<String, Vec<String>>>;

/// Stores the tools of every connected server.
pub(crate) fn store(paths: &Paths, fleet: &Fleet) {
    let Some(file) = file(paths) else { return };
    let before = read(&file);
    let mut names = before.clone();
    for status in fleet.statuses() {
        if let Some(listed) = fleet.listed(&status.name) {
            let tools = listed.items.iter().map(|tool| (tool.name.to_string(), argument_names(tool))).collect();
            names.insert(status.name.to_string(), tools);
        }
    }
    if names != before
        && let Ok(text) = serde_json::to_string(&names)
    {
        let _ = replace_file(&file, text.as_bytes(), CACHE_FILE);
    }
}

/// Returns the tools that a server had when it was last listed, with their arguments.
pub(crate) fn tools(paths: &Paths, server: &str) -> BTreeMap<String, Vec<String>> {
    file(paths).map(|file| read(&file)).and_then(|mut names| names.remove(server)).unwrap_or_default()
}

fn argument_names(tool: &Tool) -> Vec<String> {
    let schema = tool.input_schema.to_value().unwrap_or_default();
    schema["properties"].as_object().into_iter().flat_map(|properties| properties.keys().cloned()).collect()
}

fn file(paths: &Paths) -> Option<PathBuf> {
    Some(paths.cache.as_ref()?.join("tools.json"))
}

fn read(file: &Path) -> ListedNames {
    let is_ours = file.metadata().is_ok_and(|found| found.is_file() && found.len() <= MAX_FILE_BYTES);
    let text = is_ours.then(|| std::fs::read_to_string(file).ok()).flatten();
    text.and_then(|text| serde_json::from_str(&text).ok()).unwrap_or_default()
}
