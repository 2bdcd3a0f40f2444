//! `wharf tools`: what the servers offer, as a model is offered it.

use std::sync::Arc;

use serde::Serialize;
use wharf::fleet::catalog::{CatalogNote, CatalogNoteKind};
use wharf::fleet::{Catalog, Entry, Fleet, Scope, ServerStatus, StateReason};
use wharf::{Hints, Json, Listed, Quarantined, ServerName, Tool};

use crate::args::{Globals, Tools};
use crate::exit::Exit;
use crate::setup::Which;
use crate::visit::{exit, tell_absent, visit};
use crate::{lint, render, usage};

/// How much of a description a table shows.
const DESCRIPTION: usize = 100;

/// A server, and the tools it lists if it is connected.
type Found = (ServerStatus, Option<Arc<Listed<Tool>>>);

pub(crate) async fn run(globals: &Globals, tools: Tools) -> Exit {
    let which = tools.server.as_deref().map_or(Which::All, Which::One);
    visit(globals, which, async |fleet| {
        let statuses = fleet.statuses();
        if globals.json {
            let listed = |status: ServerStatus| (status.clone(), fleet.listed(&status.name));
            let found: Vec<Found> = statuses.iter().cloned().map(listed).collect();
            let catalog = fleet.catalog();
            let servers = found.iter().map(|found| ShownServer::new(found, &catalog)).collect();
            return render::json(&Shown { version: 1, servers }).await.max(exit(&statuses));
        }
        let written = show(fleet, &statuses, globals).await;
        tell_absent(&statuses, globals).max(written)
    })
    .await
}

async fn show(fleet: &Fleet, statuses: &[ServerStatus], globals: &Globals) -> Exit {
    let (catalog, mut connected) = (fleet.catalog(), false);
    for ServerStatus { name, .. } in statuses {
        let (Some(session), Some(listed)) = (fleet.session(name), fleet.listed(name)) else { continue };
        connected = true;
        if globals.verbose {
            render::spoken(&session);
        }
        if !globals.quiet {
            tell(name, &listed, &catalog, globals.verbose);
        }
    }
    let rows: Vec<Vec<String>> = catalog.entries().iter().map(|entry| row(entry, globals.verbose)).collect();
    if rows.is_empty() {
        if connected && !globals.quiet {
            render::note("there are no tools");
        }
        return Exit::Done;
    }
    let head = ["server", "tool", "description", "arguments", "hints", "name for models"];
    render::out(render::table(&head[..if globals.verbose { 6 } else { 3 }], rows)).await
}

fn row(entry: &Entry, verbose: bool) -> Vec<String> {
    let server = entry.server.as_ref().map(ServerName::to_string).unwrap_or_default();
    // Where nobody says anything, the words that stand in for it say nothing either.
    let silent = lint::is_undescribed(entry);
    let description = if silent { String::new() } else { render::brief(&entry.description, DESCRIPTION) };
    let mut row = vec![server, render::plain(&entry.tool.name), description];
    if verbose {
        row.extend([render::plain(&usage::offered(entry)), hints(entry.hints), entry.name.to_string()]);
    }
    row
}

/// What a tool says about itself; what it does not say is not shown.
fn hints(hints: Hints) -> String {
    let said = [
        (hints.read_only, "read-only", "writes"),
        (hints.destructive, "destructive", "not destructive"),
        (hints.idempotent, "idempotent", ""),
        (hints.open_world, "open-world", ""),
    ];
    let words = said.into_iter().filter_map(|(hint, yes, no)| hint.map(|hint| if hint { yes } else { no }));
    let words: Vec<&str> = words.filter(|word| !word.is_empty()).collect();
    words.join(", ")
}

/// Tells what was left out, and those who want to know it everything that was done to what is offered.
fn tell(name: &ServerName, listed: &Listed<Tool>, catalog: &Catalog, verbose: bool) {
    for odd in &listed.quarantined {
        let tool =
            odd.name.as_ref().map_or_else(|| format!("tool {}", odd.position + 1), |name| format!("tool `{name}`"));
        render::warning(&format!("{name}: the {tool} was left out: {}", render::about(&odd.reason)));
    }
    for note in &listed.notes {
        render::warning(&format!("{name}: {note}"));
    }
    for note in notes(name, catalog) {
        // What stands on the list itself has just been told.
        if matches!(note.kind, CatalogNoteKind::List | CatalogNoteKind::Quarantined) {
            continue;
        }
        match (&note.tool, note.kind) {
            (Some(tool), CatalogNoteKind::LeftOut) => {
                render::warning(&format!("{name}: the tool `{tool}` was left out: {}", note.text));
            }
            _ if verbose => render::note(&note.to_string()),
            _ => {}
        }
    }
    for entry in offered(name, catalog).filter(|_| verbose) {
        for lacking in lint::lacks(entry) {
            render::note(&format!("{name}: `{}`: {lacking}", entry.tool.name));
        }
    }
}

/// What is offered of one server.
fn offered<'a>(name: &'a ServerName, catalog: &'a Catalog) -> impl Iterator<Item = &'a Arc<Entry>> {
    catalog.entries().iter().filter(move |entry| entry.server.as_ref() == Some(name))
}

/// What the catalog tells of one server.
fn notes<'a>(name: &'a ServerName, catalog: &'a Catalog) -> impl Iterator<Item = &'a CatalogNote> {
    catalog.notes().filter(move |note| note.server.as_ref() == Some(name))
}

/// Whether a note is about a tool that could not even be read.
fn is_quarantine(note: &CatalogNote) -> bool {
    note.kind == CatalogNoteKind::Quarantined
}

/// What `--json` shows.
#[derive(Serialize)]
struct Shown<'a> {
    version: u32,
    servers: Vec<ShownServer<'a>>,
}

#[derive(Serialize)]
struct ShownServer<'a> {
    name: &'a ServerName,
    scope: Scope,
    transport: &'static str,
    state: &'static str,
    reason: Option<String>,
    /// The revision of the protocol that is spoken.
    protocol: Option<String>,
    /// Everything the server lists, as it sent it.
    tools: Vec<&'a Json>,
    /// What a model is offered of it.
    offered: Vec<ShownOffer<'a>>,
    quarantined: &'a [Quarantined],
    notes: Vec<String>,
    /// The last lines of a server that failed.
    stderr: &'a [String],
}

/// A tool as a model sees it.
#[derive(Serialize)]
struct ShownOffer<'a> {
    tool: &'a str,
    name: &'a str,
    description: &'a str,
}

impl<'a> ShownServer<'a> {
    fn new((status, listed): &'a Found, catalog: &'a Catalog) -> Self {
        let (name, listed) = (&status.name, listed.as_deref());
        let offer = |entry: &'a Arc<Entry>| {
            let Entry { tool, name, description, .. } = &**entry;
            ShownOffer { tool: &tool.name, name, description }
        };
        let told =
            notes(name, catalog).filter(|note| listed.is_none() || !is_quarantine(note)).map(|note| match &note.tool {
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
            notes: told.collect(),
            stderr: status.error().map_or(&[], |error| &error.evidence.stderr),
        }
    }
}
