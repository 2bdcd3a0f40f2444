//! The tools of all servers at one moment. A catalog never changes; a turn uses one from beginning to end.

mod absent;
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

use wharf_protocol::naming::PREFIX;
use wharf_protocol::{ServerInstructions, ServerName, ToolDefinition, nearest};

use absent::prefix_length;
pub use absent::{AbsentServer, Prospect};
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
    absent: Vec<AbsentServer>,
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

    /// Adds the servers that are not connected, for calls of their tools.
    #[must_use]
    pub fn with_absent(mut self, absent: Vec<AbsentServer>) -> Self {
        self.absent = absent;
        self
    }

    /// The servers that are not connected.
    pub fn absent(&self) -> &[AbsentServer] {
        &self.absent
    }

    /// The names of the servers whose tools are in the catalog.
    pub(crate) fn connected(&self) -> impl Iterator<Item = &ServerName> {
        self.servers.iter().map(|server| &server.server)
    }

    /// Returns the server of a tool that is not offered because its server is not connected: one that offered the tool
    /// before, or one whose tools have names that begin like this one.
    pub fn absent_server(&self, name: &str) -> Option<&AbsentServer> {
        if let Some(server) = self.absent.iter().find(|server| server.offered(name)) {
            return Some(server);
        }
        let connected = self.connected().filter_map(|server| prefix_length(server, name)).max();
        let absent = self.absent.iter().filter_map(|server| Some((server.prefix_length(name)?, server)));
        let (length, server) = absent.max_by_key(|(length, _)| *length)?;
        // The longest prefix is that of the tool's server.
        (connected < Some(length)).then_some(server)
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
                Some(ServerInstructions::of_server(server.server.clone(), text))
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
        let mut chosen = self.without_tools();
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

    /// Returns a catalog with another tool of the host.
    #[must_use]
    pub fn with_own(&self, own: Arc<Entry>) -> Self {
        let mut catalog = self.filter(|_| true);
        catalog.add(own);
        catalog
    }

    /// Returns a catalog with the tools that `predicate` accepts.
    #[must_use]
    pub fn filter(&self, predicate: impl Fn(&Entry) -> bool) -> Self {
        let mut filtered = self.without_tools();
        for entry in self.entries.iter().filter(|entry| predicate(entry)) {
            filtered.add(Arc::clone(entry));
        }
        filtered
    }

    fn without_tools(&self) -> Self {
        let Self { servers, absent, notes, .. } = self;
        Self { servers: servers.clone(), absent: absent.clone(), notes: notes.clone(), ..Self::default() }
    }

    /// Returns the full names that an unknown name may stand for: the tools with this bare name, or else the most
    /// similar one. A name that begins like those of a server stands for a tool of that server only: a tool of another
    /// server is not a substitute.
    pub fn nearest(&self, name: &str) -> Vec<&str> {
        if name.starts_with(PREFIX) {
            let servers = self.entries.iter().filter_map(|entry| entry.server.as_ref());
            let longest = servers.chain(self.connected()).filter_map(|server| prefix_length(server, name)).max();
            let is_same = |entry: &&Arc<Entry>| {
                let server = entry.server.as_ref();
                longest.is_some() && server.and_then(|server| prefix_length(server, name)) == longest
            };
            let names = self.entries.iter().filter(is_same).map(|entry| &*entry.name);
            return nearest(name, names).into_iter().collect();
        }
        let with_bare_name = |bare: &str| -> Vec<&str> {
            let same = self.entries.iter().filter(|entry| *entry.tool.name == *bare);
            same.map(|entry| &*entry.name).take(MAX_SUGGESTIONS).collect()
        };
        let same = with_bare_name(name);
        if !same.is_empty() {
            return same;
        }
        // Perhaps only the separators of a full name are misspelled. Any other name could be one of another server.
        let plain = |name: &str| name.to_lowercase().replace(['_', '-'], "");
        let wanted = plain(name);
        if let Some(entry) = self.entries.iter().find(|entry| plain(&entry.name) == wanted) {
            return vec![&entry.name];
        }
        nearest(name, self.entries.iter().map(|entry| &*entry.tool.name)).map(with_bare_name).unwrap_or_default()
    }
}

impl fmt::Debug for Catalog {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.entries.iter().map(|entry| &entry.name)).finish()
    }
}
