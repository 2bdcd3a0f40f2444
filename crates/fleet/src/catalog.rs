//! What the servers offer at one moment. A catalog never changes; a turn keeps the one it began with.

use std::sync::Arc;

use wharf_client::{BoxFuture, CallError, CallOptions};
use wharf_protocol::{Hints, Json, ServerName, Tool, ToolOutput};

/// Whatever carries out the calls of a tool: a server's session, or code of the host. The dispatcher knows no other kind.
pub trait Callee: Send + Sync {
    /// Whether a tool is still what the catalog says, without asking anybody; `None` if that takes a moment.
    fn glance(&self, tool: &Arc<Tool>) -> Option<Standing>;

    /// The same, where it takes a moment.
    fn look<'a>(&'a self, tool: &'a Arc<Tool>) -> BoxFuture<'a, Standing>;

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
pub enum Standing {
    /// It is the same.
    Same,
    /// It is described otherwise now.
    Changed(Arc<Tool>),
    /// It is gone.
    Gone,
    /// Its server cannot say at the moment; what was known of it is all there is.
    Unknown,
}

/// One tool in a catalog.
pub struct Entry {
    /// The name the model sees.
    pub name: Arc<str>,
    /// The server it lives on; the host's own tools have none.
    pub server: Option<ServerName>,
    /// What the model is told about it: overridden where somebody said so, and capped.
    pub description: Arc<str>,
    /// The tool as its server describes it.
    pub tool: Arc<Tool>,
    /// What it says about itself.
    pub hints: Hints,
    /// Who carries it out.
    pub callee: Arc<dyn Callee>,
}

/// The tools of all connected servers, and the host's own.
pub struct Catalog {
    entries: Vec<Arc<Entry>>,
}

impl Catalog {
    /// All tools, by server and in the servers' order.
    pub fn entries(&self) -> &[Arc<Entry>] {
        &self.entries
    }
}

// STUB
/// stub
pub const LONGEST_DESCRIPTION: usize = 2048;
/// stub
pub struct Shelf(Vec<Arc<Entry>>);
/// stub
pub struct ShelfParts<'a> {
    /// s
    pub server: ServerName,
    /// s
    pub scope: crate::config::Scope,
    /// s
    pub transport: &'static str,
    /// s
    pub settings: Arc<crate::config::Settings>,
    /// s
    pub instructions: Option<&'a str>,
    /// s
    pub tools: &'a wharf_protocol::Listed<Tool>,
    /// s
    pub callee: Arc<dyn Callee>,
}
impl Shelf {
    /// s
    pub fn new(parts: ShelfParts<'_>) -> Self {
        Self(
            parts
                .tools
                .items
                .iter()
                .map(|tool| {
                    Arc::new(Entry {
                        name: format!("mcp__{}__{}", parts.server, tool.name).into(),
                        server: Some(parts.server.clone()),
                        description: "".into(),
                        tool: Arc::clone(tool),
                        hints: tool.hints,
                        callee: Arc::clone(&parts.callee),
                    })
                })
                .collect(),
        )
    }
    /// s
    pub fn entries(&self) -> &[Arc<Entry>] {
        &self.0
    }
}
/// s
pub fn visible_name(r: &wharf_protocol::ToolRef) -> Arc<str> {
    format!("mcp__{}__{}", r.server, r.tool).into()
}
impl Catalog {
    /// s
    pub fn new(shelves: Vec<Arc<Shelf>>, own: Vec<Arc<Entry>>) -> Self {
        Self { entries: shelves.iter().flat_map(|s| s.0.clone()).chain(own).collect() }
    }
}
