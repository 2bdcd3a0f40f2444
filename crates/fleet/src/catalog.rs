//! What the servers offer at one moment. A catalog never changes; a turn keeps the one it began with.

mod choice;
mod drift;
mod entry;
mod normalise;
mod own;
mod shelf;
mod suggest;

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, OnceLock};

use wharf_client::{BoxFuture, CallError, CallOptions};
use wharf_protocol::{Json, ServerName, Tool, ToolDefinition, ToolOutput};

pub(crate) use choice::LONGEST as LONGEST_DESCRIPTION;
use choice::{Chooser, capped};
pub use drift::{Drift, drift};
pub use entry::{Entry, Metadata};
pub use normalise::{NormalizedSchema, normalize};
pub use own::{InvalidOwnTool, OwnTool};
pub use shelf::{CatalogNote, CatalogNoteKind, ServerTools, ServerToolsParts};
pub(crate) use suggest::nearest;
use wharf_config::ToolChoice;

/// Whatever carries out the calls of a tool: a server's session, or code of the host. The dispatcher knows no other kind.
pub trait ToolExecutor: Send + Sync {
    /// Whether a tool is still what the catalog says, without asking anybody; `None` if that takes a moment.
    fn glance(&self, tool: &Arc<Tool>) -> Option<ToolFreshness>;

    /// The same, where it takes a moment.
    fn look<'a>(&'a self, tool: &'a Arc<Tool>) -> BoxFuture<'a, ToolFreshness>;

    /// Calls a tool by its own name, with arguments that have been checked.
    fn call<'a>(
        &'a self,
        tool: &'a Arc<Tool>,
        arguments: &'a Json,
        options: CallOptions<'a>,
    ) -> BoxFuture<'a, Result<ToolOutput, CallError>>;
}

/// How a tool is doing since it came into the catalog.
#[derive(Clone, Debug)]
pub enum ToolFreshness {
    /// It is the same.
    Same,
    /// It is described otherwise now.
    Changed(Arc<Tool>),
    /// It is gone.
    Gone,
    /// Its server cannot say at the moment; what was known of it is all there is.
    Unknown,
}

/// The tools of all connected servers, and the host's own.
#[derive(Default)]
pub struct Catalog {
    entries: Vec<Arc<Entry>>,
    by_name: HashMap<Arc<str>, usize>,
    shelves: Vec<Arc<ServerTools>>,
    /// What was done to the whole; what was done to one server's tools is on its shelf.
    notes: Vec<CatalogNote>,
    offered: OnceLock<Vec<ToolDefinition>>,
}

impl Catalog {
    /// A catalog of servers' tools and the host's own. Where two have one name, the first stays and a note tells.
    pub fn new(shelves: Vec<Arc<ServerTools>>, own: Vec<Arc<Entry>>) -> Self {
        let mut catalog = Self::default();
        let of_servers = shelves.iter().flat_map(|shelf| shelf.entries().iter().cloned());
        for entry in of_servers.chain(own) {
            catalog.add(entry);
        }
        catalog.shelves = shelves;
        catalog
    }

    fn add(&mut self, entry: Arc<Entry>) {
        if self.by_name.contains_key(&entry.name) {
            let reason = format!("another tool is called `{}` too", entry.name);
            self.notes.push(CatalogNote::left_out(entry.server.clone(), &entry.tool.name, reason));
            return;
        }
        self.by_name.insert(Arc::clone(&entry.name), self.entries.len());
        self.entries.push(entry);
    }

    /// All tools, by server and in the servers' order.
    pub fn entries(&self) -> &[Arc<Entry>] {
        &self.entries
    }

    /// The tool with this name, the whole of it. Names are never taken apart.
    pub fn get(&self, name: &str) -> Option<&Arc<Entry>> {
        self.by_name.get(name).map(|position| &self.entries[*position])
    }

    /// What a model may choose from.
    pub fn offered(&self) -> &[ToolDefinition] {
        self.offered.get_or_init(|| self.entries.iter().map(|entry| entry.offered()).collect())
    }

    /// What servers say about themselves as a whole.
    pub fn instructions(&self) -> impl Iterator<Item = (&ServerName, &Arc<str>)> {
        self.shelves.iter().filter_map(|shelf| Some((&shelf.server, shelf.instructions.as_ref()?)))
    }

    /// What was cut, overridden, changed and left out.
    pub fn notes(&self) -> impl Iterator<Item = &CatalogNote> {
        self.shelves.iter().flat_map(|shelf| shelf.notes()).chain(&self.notes)
    }

    /// The servers' tools that a run chooses, described as it says. The host's own tools are its own choice already.
    #[must_use]
    pub fn choose(&self, choice: &ToolChoice) -> Self {
        let mut chooser = Chooser::new(choice);
        let mut chosen = Self { shelves: self.shelves.clone(), notes: self.notes.clone(), ..Self::default() };
        for entry in &self.entries {
            let Some(server) = &entry.server else {
                chosen.add(Arc::clone(entry));
                continue;
            };
            let named = entry.named();
            if !chooser.takes(&named) {
                continue;
            }
            let Some(words) = chooser.description(&named) else {
                chosen.add(Arc::clone(entry));
                continue;
            };
            let mut note = |words| chosen.notes.push(CatalogNote::new(server, Some(&entry.tool.name), words));
            note("its description is overridden for this run".to_owned());
            let words = capped(words).inspect(|_| note(shelf::cut_note())).unwrap_or_else(|| words.into());
            chosen.add(Arc::new(entry.described(words)));
        }
        let names = self.entries.iter().map(|entry| &*entry.tool.name);
        let unused = chooser.unused(&names).into_iter();
        chosen.notes.extend(unused.map(|words| CatalogNote {
            server: None,
            tool: None,
            kind: CatalogNoteKind::Other,
            words,
        }));
        chosen
    }

    /// The tools that code of the host wants; what it is shown is what the model would be.
    #[must_use]
    pub fn keep(&self, wanted: impl Fn(&Entry) -> bool) -> Self {
        let mut kept = Self { shelves: self.shelves.clone(), notes: self.notes.clone(), ..Self::default() };
        for entry in self.entries.iter().filter(|entry| wanted(entry)) {
            kept.add(Arc::clone(entry));
        }
        kept
    }

    /// The names that may have been meant by one that is none: those of tools with just this name of their own, or the
    /// nearest one.
    pub fn nearest(&self, name: &str) -> Vec<&str> {
        const MOST: usize = 3;
        let same = self.entries.iter().filter(|entry| *entry.tool.name == *name).map(|entry| &*entry.name);
        let same: Vec<&str> = same.take(MOST).collect();
        if !same.is_empty() {
            return same;
        }
        if let Some(near) = nearest(name, self.entries.iter().map(|entry| &*entry.name)) {
            return vec![near];
        }
        let near = nearest(name, self.entries.iter().map(|entry| &*entry.tool.name));
        let is_near = |entry: &&Arc<Entry>| near == Some(&*entry.tool.name);
        self.entries.iter().filter(is_near).map(|entry| &*entry.name).take(MOST).collect()
    }
}

impl fmt::Debug for Catalog {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.entries.iter().map(|entry| &entry.name)).finish()
    }
}
