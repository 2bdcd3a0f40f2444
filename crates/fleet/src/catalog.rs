//! The tools of all servers at one moment. A catalog never changes; a turn uses one from beginning to end.

mod drift;
mod entry;
mod executor;
mod normalize;
mod note;
mod own_tool;
mod server_tools;
mod strictest_hints;
mod tool_filter;

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, OnceLock};

use wharf_protocol::{ServerInstructions, ToolDefinition, nearest};

pub use drift::{Drift, drift};
pub(crate) use entry::NotAdmitted;
pub use entry::{Entry, Metadata};
pub use executor::{ExecutionError, ToolExecutor, ToolFreshness};
pub use normalize::{NormalizedSchema, normalize};
pub use note::{CatalogNote, CatalogNoteKind};
pub use own_tool::{InvalidOwnTool, OwnTool};
pub use server_tools::{ServerTools, ServerToolsParts};
pub use strictest_hints::StrictestHints;
pub(crate) use tool_filter::MAX_DESCRIPTION_CHARS;
use tool_filter::{ToolFilter, capped};
use wharf_config::ToolChoice;

/// The number of names suggested for an unknown one.
const MAX_SUGGESTIONS: usize = 3;

/// The tools of all connected servers, and the host's own.
#[derive(Default)]
pub struct Catalog {
    entries: Vec<Arc<Entry>>,
    by_name: HashMap<Arc<str>, usize>,
    servers: Vec<Arc<ServerTools>>,
    /// Notes on the whole catalog; those on one server's tools are in its [`ServerTools`].
    notes: Vec<CatalogNote>,
    definitions: OnceLock<Vec<ToolDefinition>>,
    instructions: OnceLock<Vec<ServerInstructions>>,
}

impl Catalog {
    /// Builds a catalog of the servers' tools and the host's own. Of two tools with one name the first stays, and a note
    /// records the other.
    pub fn new(servers: Vec<Arc<ServerTools>>, own: Vec<Arc<Entry>>) -> Self {
        let mut catalog = Self::default();
        let of_servers = servers.iter().flat_map(|server| server.entries().iter().cloned());
        for entry in of_servers.chain(own) {
            catalog.add(entry);
        }
        catalog.servers = servers;
        catalog
    }

    fn add(&mut self, entry: Arc<Entry>) {
        if self.by_name.contains_key(&entry.name) {
            self.notes.push(CatalogNote {
                server: entry.server.clone(),
                tool: Some(entry.tool.name.to_string()),
                kind: CatalogNoteKind::LeftOut,
                text: format!("another tool has the name `{}` too", entry.name),
            });
            return;
        }
        self.by_name.insert(Arc::clone(&entry.name), self.entries.len());
        self.entries.push(entry);
    }

    /// All tools, by server and in the servers' order.
    pub fn entries(&self) -> &[Arc<Entry>] {
        &self.entries
    }

    /// Returns the tool with this full name. Names are looked up, never parsed.
    pub fn get(&self, name: &str) -> Option<&Arc<Entry>> {
        self.by_name.get(name).map(|position| &self.entries[*position])
    }

    /// The tools as a model sees them.
    pub fn offered(&self) -> &[ToolDefinition] {
        self.definitions.get_or_init(|| self.entries.iter().map(|entry| entry.offered()).collect())
    }

    /// The instructions of each server that has any, and at least one tool here: they are about the use of its tools.
    pub fn instructions(&self) -> &[ServerInstructions] {
        self.instructions.get_or_init(|| {
            let has_tools = |server| self.entries.iter().any(|entry| entry.server.as_ref() == Some(server));
            let servers = self.servers.iter().filter(|server| has_tools(&server.server));
            let instructions = servers.filter_map(|server| {
                let text = server.instructions.clone()?;
                Some(ServerInstructions { server: server.server.clone(), text })
            });
            instructions.collect()
        })
    }

    /// Everything that was cut, overridden, adjusted or left out.
    pub fn notes(&self) -> impl Iterator<Item = &CatalogNote> {
        self.servers.iter().flat_map(|server| server.notes()).chain(&self.notes)
    }

    /// Returns a catalog with the servers' tools that `choice` selects, described as it says. The host's own tools stay.
    #[must_use]
    pub fn choose(&self, choice: &ToolChoice) -> Self {
        let mut filter = ToolFilter::new(choice);
        let mut chosen = Self { servers: self.servers.clone(), notes: self.notes.clone(), ..Self::default() };
        for entry in &self.entries {
            let Some(server) = &entry.server else {
                chosen.add(Arc::clone(entry));
                continue;
            };
            let names = entry.named();
            if !filter.selects(&names) {
                continue;
            }
            let Some(description) = filter.description(&names) else {
                chosen.add(Arc::clone(entry));
                continue;
            };
            let mut note = |kind, text| chosen.notes.push(CatalogNote::new(server, Some(&entry.tool.name), kind, text));
            note(CatalogNoteKind::Description, "description overridden for this run".to_owned());
            let description = match capped(description) {
                Some(cut) => {
                    note(CatalogNoteKind::Description, note::description_cut());
                    cut
                }
                None => description.into(),
            };
            chosen.add(Arc::new(entry.with_description(description)));
        }
        let names = self.entries.iter().map(|entry| &*entry.tool.name);
        for text in filter.unused(&names) {
            chosen.notes.push(CatalogNote { server: None, tool: None, kind: CatalogNoteKind::UnknownTool, text });
        }
        chosen
    }

    /// Returns a catalog with the tools that `predicate` accepts.
    #[must_use]
    pub fn filter(&self, predicate: impl Fn(&Entry) -> bool) -> Self {
        let mut filtered = Self { servers: self.servers.clone(), notes: self.notes.clone(), ..Self::default() };
        for entry in self.entries.iter().filter(|entry| predicate(entry)) {
            filtered.add(Arc::clone(entry));
        }
        filtered
    }

    /// Returns the full names that an unknown name may stand for: the tools with this bare name, or else the most
    /// similar ones.
    pub fn nearest(&self, name: &str) -> Vec<&str> {
        let with_bare_name = |bare: &str| -> Vec<&str> {
            let same = self.entries.iter().filter(|entry| *entry.tool.name == *bare);
            same.map(|entry| &*entry.name).take(MAX_SUGGESTIONS).collect()
        };
        let same = with_bare_name(name);
        if !same.is_empty() {
            return same;
        }
        if let Some(near) = nearest(name, self.entries.iter().map(|entry| &*entry.name)) {
            return vec![near];
        }
        nearest(name, self.entries.iter().map(|entry| &*entry.tool.name)).map(with_bare_name).unwrap_or_default()
    }
}

impl fmt::Debug for Catalog {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.entries.iter().map(|entry| &entry.name)).finish()
    }
}
