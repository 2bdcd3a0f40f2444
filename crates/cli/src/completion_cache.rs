//! Names of tools as last listed, for shell completion. Losing the file costs nothing.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use wharf::fleet::Fleet;

use crate::config::Paths;

/// A larger file was not written by us.
const MAX_FILE_BYTES: u64 = 16 * 1024 * 1024;

type ToolNames = BTreeMap<String, Vec<String>>;

/// Stores the tools of every connected server.
pub(crate) fn store(paths: &Paths, fleet: &Fleet) {
    let Some(file) = file(paths) else { return };
    let before = read(&file);
    let mut names = before.clone();
    for status in fleet.statuses() {
        if let Some(listed) = fleet.listed(&status.name) {
            names.insert(status.name.to_string(), listed.items.iter().map(|tool| tool.name.to_string()).collect());
        }
    }
    if names != before
        && let Ok(text) = serde_json::to_string(&names)
    {
        // A shell may be reading the file: write another one and rename it.
        let new = file.with_extension(format!("{}.new", std::process::id()));
        let _ = file.parent().map(std::fs::create_dir_all);
        let _ = std::fs::write(&new, text).and_then(|()| std::fs::rename(&new, &file));
    }
}

/// Returns the tools that a server had when it was last listed.
pub(crate) fn tools(paths: &Paths, server: &str) -> Vec<String> {
    file(paths).map(|file| read(&file)).and_then(|mut names| names.remove(server)).unwrap_or_default()
}

fn file(paths: &Paths) -> Option<PathBuf> {
    Some(paths.cache.as_ref()?.join("tools.json"))
}

fn read(file: &Path) -> ToolNames {
    let is_ours = file.metadata().is_ok_and(|found| found.is_file() && found.len() <= MAX_FILE_BYTES);
    let text = is_ours.then(|| std::fs::read_to_string(file).ok()).flatten();
    text.and_then(|text| serde_json::from_str(&text).ok()).unwrap_or_default()
}
