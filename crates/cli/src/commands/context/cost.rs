//! The tokens of each server and tool, counted over what models see, and the tokens that are saved.

use std::cmp::Reverse;
use std::collections::HashSet;
use std::sync::Arc;

use serde::Serialize;
use wharf::agent::{Bm25, OfferedTools, ToolBudget, estimate_tokens, instructions_section};
use wharf::fleet::catalog::{CatalogNote, CatalogNoteKind, Entry, NormalizedSchema, normalize};
use wharf::fleet::{Catalog, Fleet, FleetTools};
use wharf::visible_name;
use wharf::{Json, ServerName, Tool, ToolDefinition, ToolRef, ToolSource as _};

/// One server's share of a context.
#[derive(Debug)]
pub(super) struct ServerCost {
    pub(super) server: ServerName,
    /// A server that is not connected costs nothing.
    pub(super) is_connected: bool,
    /// Its tools, the most expensive first.
    pub(super) tools: Vec<ToolCost>,
    pub(super) instructions: u64,
    pub(super) saved: Saved,
}

/// One tool's share.
#[derive(Debug, Serialize)]
pub(super) struct ToolCost {
    /// Its own name.
    pub(super) tool: String,
    /// The name that models see.
    pub(super) name: String,
    /// The total.
    pub(super) tokens: u64,
    /// The description alone.
    pub(super) description: u64,
    /// The schema of its arguments alone.
    pub(super) arguments: u64,
    /// Whether a model has to search for it, so that it is not a part of the first request.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub(super) deferred: bool,
}

/// The shares of all servers.
#[derive(Debug, Default)]
pub(super) struct FleetCost {
    pub(super) servers: Vec<ServerCost>,
    /// The tool with which a model finds deferred tools.
    pub(super) search: u64,
}

/// What is left out of the context.
#[derive(Debug, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Saved {
    /// How many tools the configuration excludes.
    pub(super) left_out: usize,
    /// Their tokens.
    pub(super) by_leaving_out: u64,
    /// How many tools are left out because their definitions are too large.
    pub(super) too_large: usize,
    /// How many descriptions and instructions were cut.
    pub(super) cut: usize,
    /// The tokens of what was cut, estimated: the text is not stored.
    pub(super) by_cutting: u64,
}

impl ServerCost {
    pub(super) fn tokens(&self) -> u64 {
        self.instructions + self.offered().map(|tool| tool.tokens).sum::<u64>()
    }

    /// The tools of the first request.
    pub(super) fn offered(&self) -> impl Iterator<Item = &ToolCost> {
        self.tools.iter().filter(|tool| !tool.deferred)
    }

    /// The tools that a model has to search for.
    pub(super) fn deferred(&self) -> impl Iterator<Item = &ToolCost> {
        self.tools.iter().filter(|tool| tool.deferred)
    }
}

impl FleetCost {
    pub(super) fn tokens(&self) -> u64 {
        self.search + self.servers.iter().map(ServerCost::tokens).sum::<u64>()
    }
}

/// Counts all servers of a fleet, the most expensive first. Tools above the budget are deferred, as in a run.
pub(super) fn of(fleet: &Fleet, budget: ToolBudget) -> FleetCost {
    let catalog = fleet.catalog();
    let turn = FleetTools::new(fleet.clone(), Arc::default()).with_search(Arc::new(Bm25)).turn();
    let offered = match turn.search_tool() {
        Some(search_tool) => OfferedTools::new(turn.offered(), search_tool, &[], budget),
        None => OfferedTools::all(turn.offered(), None),
    };
    let names: HashSet<&str> = offered.tools.iter().map(|tool| &*tool.name).collect();
    let statuses = fleet.statuses();
    let mut servers: Vec<ServerCost> =
        statuses.iter().map(|status| of_server(fleet, &catalog, &status.name, &names)).collect();
    servers.sort_by_key(|cost| (Reverse(cost.tokens()), cost.server.clone()));
    let search = offered.tools.iter().filter(|tool| Some(&*tool.name) == turn.search_tool());
    let search = search.map(|tool| priced(&tool.name, tool).tokens).sum();
    FleetCost { servers, search }
}

fn of_server(fleet: &Fleet, catalog: &Catalog, server: &ServerName, names: &HashSet<&str>) -> ServerCost {
    let offered = catalog.entries().iter().zip(catalog.offered());
    let offered: Vec<_> = offered.filter(|(entry, _)| entry.server.as_ref() == Some(server)).collect();
    let cost = |(entry, offered): &(&Arc<Entry>, &ToolDefinition)| ToolCost {
        deferred: !names.contains(&*offered.name),
        ..priced(&entry.tool.name, offered)
    };
    let mut tools: Vec<ToolCost> = offered.iter().map(cost).collect();
    tools.sort_by_key(|tool| Reverse(tool.tokens));
    let mut saved = Saved::default();
    for (entry, _) in &offered {
        saved.cut_description(entry);
    }
    let sent = catalog.instructions().iter().find(|own| own.server == *server);
    let instructions_text = sent.map_or("", |own| &*own.text);
    // With the text that marks them as the server's.
    let instructions = sent.map_or(0, |own| estimate_tokens(&instructions_section(own)));
    let whole = fleet.status(server).and_then(|status| status.info?.instructions.clone());
    if let Some(whole) = whole.filter(|whole| whole.trim().chars().count() > instructions_text.chars().count()) {
        saved.cut += 1;
        saved.by_cutting += estimate_tokens(&whole).saturating_sub(estimate_tokens(instructions_text));
    }
    for tool in fleet.listed(server).iter().flat_map(|listed| &listed.items) {
        if !offered.iter().any(|(entry, _)| entry.tool.name == tool.name) {
            let is_too_large = too_large(catalog, server).any(|note| note.tool.as_deref() == Some(&*tool.name));
            saved.leave_out(server, tool, is_too_large);
        }
    }
    let is_connected = fleet.session(server).is_some();
    ServerCost { server: server.clone(), is_connected, tools, instructions, saved }
}

/// Returns the notes on a server's tools that are too large.
fn too_large<'a>(catalog: &'a Catalog, server: &'a ServerName) -> impl Iterator<Item = &'a CatalogNote> {
    let is_meant = move |note: &&CatalogNote| note.server.as_ref() == Some(server);
    catalog.notes().filter(|note| note.kind == CatalogNoteKind::TooLarge).filter(is_meant)
}

impl Saved {
    /// Estimates the tokens of a cut description by the ratio of tokens to characters in the rest.
    fn cut_description(&mut self, entry: &Entry) {
        let Some(length) = entry.tool.cut_from else { return };
        // A replaced description is not shown.
        if entry.tool.description.as_ref() != Some(&entry.description) {
            return;
        }
        let kept = entry.description.chars().count().max(1) as u64;
        let rest = (length as u64).saturating_sub(kept);
        self.cut += 1;
        self.by_cutting += estimate_tokens(&entry.description) * rest / kept;
    }

    /// Adds a usable tool that the configuration excludes, or that is too large.
    fn leave_out(&mut self, server: &ServerName, tool: &Tool, is_too_large: bool) {
        if is_too_large {
            self.too_large += 1;
            return;
        }
        let schema = match normalize(&tool.input_schema) {
            NormalizedSchema::Same => tool.input_schema.clone(),
            NormalizedSchema::Changed(schema, _) => schema,
            NormalizedSchema::Unusable(_) => return,
        };
        let name = visible_name(&ToolRef { server: server.clone(), tool: Arc::clone(&tool.name) });
        self.left_out += 1;
        let definition =
            RequestTool { name: &name, description: &tool.description_or_default(), input_schema: &schema };
        self.by_leaving_out += definition.tokens();
    }
}

/// A tool as a request to a model contains it.
#[derive(Serialize)]
struct RequestTool<'a> {
    name: &'a str,
    description: &'a str,
    input_schema: &'a Json,
}

impl RequestTool<'_> {
    fn tokens(&self) -> u64 {
        estimate_tokens(&serde_json::to_string(self).unwrap_or_default())
    }
}

fn priced(tool: &str, definition: &ToolDefinition) -> ToolCost {
    let ToolDefinition { name, description, input_schema, .. } = definition;
    ToolCost {
        tool: tool.to_owned(),
        name: name.to_string(),
        tokens: RequestTool { name, description, input_schema }.tokens(),
        description: estimate_tokens(description),
        arguments: estimate_tokens(input_schema.as_str()),
        deferred: false,
    }
}
