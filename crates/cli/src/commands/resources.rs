//! `wharf resources`: list resources and resource templates.

use clap_complete::ArgValueCandidates;
use serde::Serialize;
use wharf::fleet::{Fleet, ServerListing, ServerStatus};
use wharf::{CallError, CallErrorKind, Json, Quarantined, Resource, ResourceTemplate, ServerName};

use super::listing::{JsonServerState, description, exit_code, print_list_problems, report_failure};
use crate::completion_cache::{self, ListedKind, ServerNames};
use crate::config::{Paths, ServerSelection};
use crate::exit::Exit;
use crate::globals::Globals;
use crate::term::{self, StatusLine};
use crate::{complete, one_shot};

/// The JSON-RPC code for an unknown method.
const METHOD_NOT_FOUND: i64 = -32601;

#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  wharf resources\n  wharf resources docs --json")]
pub(crate) struct Resources {
    /// Only list this server's resources
    #[arg(add = ArgValueCandidates::new(complete::servers))]
    server: Option<String>,
}

pub(crate) async fn run(globals: &Globals, resources: Resources) -> Exit {
    let selection = resources.server.as_deref().map_or(ServerSelection::All, ServerSelection::One);
    one_shot::run(globals, selection, async |fleet| list(fleet, globals).await).await
}

/// Lists the resources and templates of a fleet.
pub(super) async fn list(fleet: &Fleet, globals: &Globals) -> Exit {
    let statuses = fleet.statuses();
    let progress = StatusLine::new(globals.quiet);
    progress.show("listing resources");
    let (resources, templates) = tokio::join!(fleet.resources(), fleet.resource_templates());
    drop(progress);
    if let Ok(paths) = Paths::find(globals) {
        completion_cache::store(&paths, ListedKind::Resources, resources.iter().filter_map(uris));
    }
    let found: Vec<ServerResources> =
        statuses.iter().map(|status| ServerResources::new(status, &resources, &templates)).collect();
    if globals.json {
        let failed = found.iter().filter_map(|found| Some(exit_code(found.status, found.error?))).max();
        let servers = found.iter().map(JsonServer::new).collect();
        let written = term::json(&JsonResources { version: 1, servers }).await;
        return written.max(one_shot::exit_code(&statuses)).max(failed.unwrap_or(Exit::Done));
    }
    let shown = show(&found, globals).await;
    one_shot::report_unconnected(&statuses, globals).max(shown)
}

/// Returns the URIs of a server's resources.
fn uris((server, listing): &ServerListing<Resource>) -> Option<(&ServerName, ServerNames)> {
    let listed = listing.as_ref().ok()?;
    Some((server, listed.items.iter().map(|resource| (resource.uri.clone(), Vec::new())).collect()))
}

/// The lists of one server. A server that does not know templates has none.
struct ServerResources<'a> {
    status: &'a ServerStatus,
    resources: Option<&'a wharf::Listed<Resource>>,
    templates: Option<&'a wharf::Listed<ResourceTemplate>>,
    error: Option<&'a CallError>,
}

impl<'a> ServerResources<'a> {
    fn new(
        status: &'a ServerStatus,
        resources: &'a [ServerListing<Resource>],
        templates: &'a [ServerListing<ResourceTemplate>],
    ) -> Self {
        let resources = resources.iter().find(|(name, _)| *name == status.name).map(|(_, listing)| listing.as_ref());
        let templates = templates.iter().find(|(name, _)| *name == status.name).map(|(_, listing)| listing.as_ref());
        let unknown = |error: &&CallError| matches!(error.kind, CallErrorKind::Server { code: METHOD_NOT_FOUND, .. });
        let refused = templates.and_then(Result::err).filter(|error| !unknown(error));
        Self {
            status,
            resources: resources.and_then(Result::ok),
            templates: templates.and_then(Result::ok),
            error: resources.and_then(Result::err).or(refused),
        }
    }
}

async fn show(found: &[ServerResources<'_>], globals: &Globals) -> Exit {
    let mut rows = Vec::new();
    let mut failed = Exit::Done;
    for ServerResources { status, resources, templates, error } in found {
        let name = &status.name;
        let mut row = |uri: &str, title: &str, raw: &Json| {
            let text = |key: &str| text_of(raw, key);
            let title = if title == uri { String::new() } else { term::name(title) };
            let mime_type = term::name(&text("mimeType"));
            let description = description(&text("description"), globals);
            rows.push(vec![name.to_string(), term::name(uri), title, mime_type, description]);
        };
        for resource in resources.iter().flat_map(|listed| &listed.items) {
            row(&resource.uri, &resource.name, &resource.raw);
        }
        for template in templates.iter().flat_map(|listed| &listed.items) {
            row(&template.uri_template, &template.name, &template.raw);
        }
        if !globals.quiet {
            if let Some(listed) = resources {
                print_list_problems(name, "resource", &listed.quarantined, &listed.notes);
            }
            if let Some(listed) = templates {
                print_list_problems(name, "template", &listed.quarantined, &listed.notes);
            }
        }
        if let Some(error) = error {
            failed = failed.max(report_failure(status, error, globals));
        }
    }
    if rows.is_empty() {
        if failed == Exit::Done && !globals.quiet {
            term::note("no resources");
        }
        return failed;
    }
    term::out(term::table(&["server", "uri", "name", "type", "description"], rows)).await.max(failed)
}

/// Returns a text field of a server's answer, or an empty text.
fn text_of(raw: &Json, key: &str) -> String {
    let value = raw.to_value().unwrap_or_default();
    value[key].as_str().unwrap_or_default().to_owned()
}

/// The layout of `--json`.
#[derive(Serialize)]
struct JsonResources<'a> {
    version: u32,
    servers: Vec<JsonServer<'a>>,
}

#[derive(Serialize)]
struct JsonServer<'a> {
    #[serde(flatten)]
    state: JsonServerState<'a>,
    resources: Vec<&'a Json>,
    templates: Vec<&'a Json>,
    quarantined: Vec<&'a Quarantined>,
    notes: Vec<&'a String>,
}

impl<'a> JsonServer<'a> {
    fn new(found: &ServerResources<'a>) -> Self {
        let ServerResources { status, resources, templates, error } = *found;
        let quarantined = resources.iter().flat_map(|listed| &listed.quarantined);
        let notes = resources.iter().flat_map(|listed| &listed.notes);
        Self {
            state: JsonServerState::new(status, error),
            resources: resources.iter().flat_map(|listed| &listed.items).map(|resource| &resource.raw).collect(),
            templates: templates.iter().flat_map(|listed| &listed.items).map(|template| &template.raw).collect(),
            quarantined: quarantined.chain(templates.iter().flat_map(|listed| &listed.quarantined)).collect(),
            notes: notes.chain(templates.iter().flat_map(|listed| &listed.notes)).collect(),
        }
    }
}
