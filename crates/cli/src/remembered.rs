//! The names of tools as they were last listed, for shells that complete them. Losing them costs nothing.

use std::collections::BTreeMap;
use std::path::PathBuf;

use wharf::fleet::Fleet;

use crate::places::Places;

/// A longer file is none of ours.
const LONGEST: u64 = 16 * 1024 * 1024;

type Names = BTreeMap<String, Vec<String>>;

/// Keeps the names of the tools of every server that is connected.
pub(crate) fn keep(places: &Places, fleet: &Fleet) {
    let Some(file) = file(places) else { return };
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
        // Under a name of our own first: a shell may be reading.
        let aside = file.with_extension(format!("{}.new", std::process::id()));
        let _ = file.parent().map(std::fs::create_dir_all);
        let _ = std::fs::write(&aside, text).and_then(|()| std::fs::rename(&aside, &file));
    }
}

/// The tools a server had when it was last listed.
pub(crate) fn tools(places: &Places, server: &str) -> Vec<String> {
    file(places).map(|file| read(&file)).and_then(|mut names| names.remove(server)).unwrap_or_default()
}

fn file(places: &Places) -> Option<PathBuf> {
    Some(places.cache.as_ref()?.join("tools.json"))
}

fn read(file: &PathBuf) -> Names {
    let short = file.metadata().is_ok_and(|found| found.is_file() && found.len() <= LONGEST);
    let text = short.then(|| std::fs::read_to_string(file).ok()).flatten();
    text.and_then(|text| serde_json::from_str(&text).ok()).unwrap_or_default()
}
