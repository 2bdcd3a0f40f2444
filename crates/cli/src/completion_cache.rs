//! Names of tools, prompts and resources as last listed, for shell completion. Losing the files costs nothing.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use wharf::fleet::Fleet;
use wharf::{Durability, FileMode, MissingFolder, ReplaceOptions, ServerName, Tool, replace_file};

use crate::config::Paths;

/// A larger file was not written by us.
const MAX_FILE_BYTES: u64 = 16 * 1024 * 1024;

/// How the files are written: as a whole, because a shell may be reading them.
const CACHE_FILE: ReplaceOptions = ReplaceOptions {
    mode: FileMode::Private,
    durability: Durability::Unsynced,
    folder: MissingFolder::CreatePrivate,
    follow_symlinks: false,
};

/// What servers list. Each has its own file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ListedKind {
    Tools,
    Prompts,
    Resources,
}

impl ListedKind {
    fn file_name(self) -> &'static str {
        match self {
            Self::Tools => "tools.json",
            Self::Prompts => "prompts.json",
            Self::Resources => "resources.json",
        }
    }
}

/// The names that one server lists, each with its arguments.
pub(crate) type ServerNames = BTreeMap<String, Vec<String>>;

/// Stores the tools of every connected server.
pub(crate) fn store_tools(paths: &Paths, fleet: &Fleet) {
    let statuses = fleet.statuses();
    let tools = statuses.iter().filter_map(|status| {
        let listed = fleet.listed(&status.name)?;
        let tools = listed.items.iter().map(|tool| (tool.name.to_string(), argument_names(tool))).collect();
        Some((&status.name, tools))
    });
    store(paths, ListedKind::Tools, tools);
}

/// Stores what servers listed. The others keep what they had.
pub(crate) fn store<'a>(
    paths: &Paths,
    kind: ListedKind,
    listed: impl IntoIterator<Item = (&'a ServerName, ServerNames)>,
) {
    let Some(file) = file(paths, kind) else { return };
    let before = read(&file);
    let mut names = before.clone();
    names.extend(listed.into_iter().map(|(server, listed)| (server.to_string(), listed)));
    if names != before
        && let Ok(text) = serde_json::to_string(&names)
    {
        let _ = replace_file(&file, text.as_bytes(), CACHE_FILE);
    }
}

/// Returns what a server had when it was last listed.
pub(crate) fn names(paths: &Paths, kind: ListedKind, server: &str) -> ServerNames {
    file(paths, kind).map(|file| read(&file)).and_then(|mut names| names.remove(server)).unwrap_or_default()
}

fn argument_names(tool: &Tool) -> Vec<String> {
    let schema = tool.input_schema.to_value().unwrap_or_default();
    schema["properties"].as_object().into_iter().flat_map(|properties| properties.keys().cloned()).collect()
}

fn file(paths: &Paths, kind: ListedKind) -> Option<PathBuf> {
    Some(paths.cache.as_ref()?.join(kind.file_name()))
}

fn read(file: &Path) -> BTreeMap<String, ServerNames> {
    let is_ours = file.metadata().is_ok_and(|found| found.is_file() && found.len() <= MAX_FILE_BYTES);
    let text = is_ours.then(|| std::fs::read_to_string(file).ok()).flatten();
    text.and_then(|text| serde_json::from_str(&text).ok()).unwrap_or_default()
}
