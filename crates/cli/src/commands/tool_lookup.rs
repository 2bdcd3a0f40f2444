//! Finds a server's tool by name, and says why it is not there.

use std::sync::Arc;

use wharf::fleet::catalog::CatalogNoteKind;
use wharf::fleet::{Catalog, Entry, Fleet};
use wharf::{ServerName, nearest};

use super::listing::left_out;
use crate::error::{UsageError, usage_error};

/// How many tools a hint lists.
const MAX_LISTED_NAMES: usize = 12;

/// Returns a tool of a connected server, by its own name or by the one that models use.
pub(super) fn find(
    fleet: &Fleet,
    catalog: &Catalog,
    server: &ServerName,
    tool: &str,
) -> Result<Arc<Entry>, UsageError> {
    let has_name = |entry: &&Arc<Entry>| *entry.tool.name == *tool;
    let found = catalog.entries().iter().find(has_name).or_else(|| catalog.get(tool)).cloned();
    found.ok_or_else(|| unknown(fleet, catalog, server, tool))
}

fn unknown(fleet: &Fleet, catalog: &Catalog, server: &ServerName, tool: &str) -> UsageError {
    let listed = fleet.listed(server).unwrap_or_default();
    if let Some(malformed) = listed.quarantined.iter().find(|item| item.name.as_deref() == Some(tool)) {
        return usage_error(format!("{server}: {}", left_out("tool", malformed)), None);
    }
    let reason = catalog.notes().find_map(|note| match &note.kind {
        CatalogNoteKind::LeftOut | CatalogNoteKind::TooLarge if note.tool.as_deref() == Some(tool) => Some(&note.text),
        _ => None,
    });
    if let Some(reason) = reason {
        return usage_error(format!("{server}: tool `{tool}` left out: {reason}"), None);
    }
    if listed.items.iter().any(|listed| *listed.name == *tool) {
        let message = format!("{server}: tool `{tool}` is excluded by the configuration");
        return usage_error(message, Some(&format!("see which tools are allowed: wharf get {server}")));
    }
    let names: Vec<&str> = catalog.entries().iter().map(|entry| &*entry.tool.name).collect();
    let hint = match nearest(tool, names.iter().copied()) {
        Some(name) => format!("did you mean `{name}`?"),
        None if names.is_empty() => "the server has no tools".to_owned(),
        None if names.len() > MAX_LISTED_NAMES => {
            format!("the server has {} tools; list them: wharf tools {server}", names.len())
        }
        None => format!("available: {}", names.join(", ")),
    };
    usage_error(format!("{server}: unknown tool `{tool}`"), Some(&hint))
}
