//! `wharf tools`: list tools as models see them, or show one in full.

mod example;
mod one_tool;
mod schema_tree;

use std::sync::Arc;

use clap_complete::ArgValueCandidates;
use serde::Serialize;
use wharf::config::TransportKind;
use wharf::fleet::catalog::{CatalogNote, CatalogNoteKind};
use wharf::fleet::{Catalog, Entry, Fleet, Scope, ServerStatus, StateReason};
use wharf::{Hints, Json, Listed, Quarantined, ServerName, Tool};

use super::listing::{description, print_list_problems};
use crate::config::ServerSelection;
use crate::exit::Exit;
use crate::globals::Globals;
use crate::one_shot::print_server_info;
use crate::{complete, lint, one_shot, signature, term};
pub(super) use one_tool::show as show_one;

#[derive(Debug, clap::Args)]
#[command(after_help = "With --verbose, also shows arguments, hints and the names that models see.\n\n\
        Examples:\n  wharf tools\n  wharf tools time\n  wharf tools time convert_time\n  wharf tools --mcp 'time=uvx mcp-server-time'\n  \
        wharf tools --mcp docs=https://example.com/mcp -H 'Authorization: Bearer …'")]
pub(crate) struct Tools {
    /// Only list this server's tools
    #[arg(add = ArgValueCandidates::new(complete::servers))]
    server: Option<String>,
    /// Show this tool in full: description, arguments, hints and an example call
    #[arg(add = ArgValueCandidates::new(complete::tools))]
    tool: Option<String>,
}

/// A server, and its tools if it is connected.
struct ServerTools {
    status: ServerStatus,
    listed: Option<Arc<Listed<Tool>>>,
}

pub(crate) async fn run(globals: &Globals, tools: Tools) -> Exit {
    let selection = tools.server.as_deref().map_or(ServerSelection::All, ServerSelection::One);
    if let (Some(server), Some(tool)) = (&tools.server, &tools.tool) {
        return one_shot::run_to_list(globals, selection, async |fleet| show_one(fleet, globals, server, tool).await)
            .await;
    }
    one_shot::run_to_list(globals, selection, async |fleet| list(fleet, globals).await).await
}

/// Lists the tools of a fleet.
pub(super) async fn list(fleet: &Fleet, globals: &Globals) -> Exit {
    let statuses = fleet.statuses();
    if globals.json {
        let listed = |status: &ServerStatus| ServerTools { status: status.clone(), listed: fleet.listed(&status.name) };
        let found: Vec<ServerTools> = statuses.iter().map(listed).collect();
        let catalog = fleet.catalog();
        let servers = found.iter().map(|found| JsonServer::new(found, &catalog)).collect();
        let written = term::redacted_json(&JsonTools { version: 1, servers }, &fleet.redactor()).await;
        return written.max(one_shot::exit_code(&statuses));
    }
    let written = show(fleet, &statuses, globals).await;
    one_shot::report_unconnected(&statuses, globals).max(written)
}

async fn show(fleet: &Fleet, statuses: &[ServerStatus], globals: &Globals) -> Exit {
    let catalog = fleet.catalog();
    let mut connected = false;
    for ServerStatus { name, .. } in statuses {
        let (Some(session), Some(listed)) = (fleet.session(name), fleet.listed(name)) else { continue };
        connected = true;
        if globals.is_verbose() {
            print_server_info(&session);
        }
        if !globals.quiet {
            print_notes(name, &listed, &catalog, globals.is_verbose());
        }
    }
    let rows: Vec<Vec<String>> = catalog.entries().iter().map(|entry| row(entry, globals)).collect();
    if rows.is_empty() {
        if connected && !globals.quiet {
            term::note("no tools");
        }
        return Exit::Done;
    }
    let head = ["server", "tool", "description", "arguments", "hints", "name for models"];
    term::out(term::table(&head[..if globals.is_verbose() { 6 } else { 3 }], rows)).await
}

fn row(entry: &Entry, globals: &Globals) -> Vec<String> {
    let server = entry.server.as_ref().map(ServerName::to_string).unwrap_or_default();
    // The default description of a tool without one says nothing.
    let description =
        if lint::is_undescribed(entry) { String::new() } else { description(entry.whole_description(), globals) };
    let mut row = vec![server, term::name(&entry.tool.name), description];
    if globals.is_verbose() {
        row.extend([term::name(&signature::arguments(entry)), hints(entry.hints), entry.name.to_string()]);
    }
    row
}

/// Lists the hints a tool sets.
fn hints(hints: Hints) -> String {
    let all = [
        (hints.read_only, "read-only", "writes"),
        (hints.destructive, "destructive", "not destructive"),
        (hints.idempotent, "idempotent", ""),
        (hints.open_world, "open-world", ""),
    ];
    let names = all.into_iter().filter_map(|(hint, yes, no)| hint.map(|hint| if hint { yes } else { no }));
    let names: Vec<&str> = names.filter(|name| !name.is_empty()).collect();
    names.join(", ")
}

/// Prints which tools were left out; if verbose, also how tools were changed for models, and what they lack.
fn print_notes(name: &ServerName, listed: &Listed<Tool>, catalog: &Catalog, verbose: bool) {
    print_list_problems(name, "tool", &listed.quarantined, &listed.notes);
    for note in notes(name, catalog) {
        match (&note.kind, &note.tool) {
            // These have just been printed.
            (CatalogNoteKind::List | CatalogNoteKind::Quarantined, _) => {}
            (CatalogNoteKind::LeftOut | CatalogNoteKind::TooLarge, Some(tool)) => {
                term::warning(&format!("{name}: tool `{tool}` left out: {}", note.text));
            }
            _ if verbose => term::note(&note.to_string()),
            _ => {}
        }
    }
    if verbose {
        for entry in offered(name, catalog) {
            for lacking in lint::lacks(entry) {
                term::note(&format!("{name}: `{}`: {lacking}", entry.tool.name));
            }
        }
    }
}

/// Returns a server's tools that models see.
fn offered<'a>(name: &'a ServerName, catalog: &'a Catalog) -> impl Iterator<Item = &'a Arc<Entry>> {
    catalog.entries().iter().filter(move |entry| entry.server.as_ref() == Some(name))
}

/// Returns the catalog's notes about a server.
fn notes<'a>(name: &'a ServerName, catalog: &'a Catalog) -> impl Iterator<Item = &'a CatalogNote> {
    catalog.notes().filter(move |note| note.server.as_ref() == Some(name))
}

/// The layout of `--json`.
#[derive(Serialize)]
struct JsonTools<'a> {
    version: u32,
    servers: Vec<JsonServer<'a>>,
}

#[derive(Serialize)]
struct JsonServer<'a> {
    name: &'a ServerName,
    scope: Scope,
    transport: TransportKind,
    state: &'static str,
    reason: Option<String>,
    /// The negotiated protocol revision.
    protocol: Option<String>,
    /// The server's list, as it sent it.
    tools: Vec<&'a Json>,
    /// The tools that models see.
    offered: Vec<JsonOffer<'a>>,
    quarantined: &'a [Quarantined],
    notes: Vec<String>,
    /// The last lines of a server that failed.
    stderr: &'a [String],
}

/// A tool as models see it.
#[derive(Serialize)]
struct JsonOffer<'a> {
    tool: &'a str,
    name: &'a str,
    description: &'a str,
}

impl<'a> JsonServer<'a> {
    fn new(server: &'a ServerTools, catalog: &'a Catalog) -> Self {
        let status = &server.status;
        let name = &status.name;
        let listed = server.listed.as_deref();
        let offer = |entry: &'a Arc<Entry>| {
            let Entry { tool, name, description, .. } = &**entry;
            JsonOffer { tool: &tool.name, name, description }
        };
        // `quarantined` has the malformed tools.
        let notes = notes(name, catalog).filter(|note| note.kind != CatalogNoteKind::Quarantined);
        let notes = notes.map(|note| match &note.tool {
            Some(tool) => format!("`{tool}`: {}", note.summary()),
            None => note.summary(),
        });
        Self {
            name,
            scope: status.scope,
            transport: status.transport,
            state: status.state.as_str(),
            reason: status.reason.as_ref().map(StateReason::to_string),
            protocol: status.info.as_ref().map(|info| info.revision.clone()),
            tools: listed.map_or_else(Vec::new, |listed| listed.items.iter().map(|tool| &tool.raw).collect()),
            offered: offered(name, catalog).map(offer).collect(),
            quarantined: listed.map_or(&[], |listed| &listed.quarantined),
            notes: notes.collect(),
            stderr: status.error().map_or(&[], |error| &error.evidence.stderr),
        }
    }
}
