//! `wharf resources`: what can be read on the servers, and the patterns of what can.

use clap_complete::ArgValueCandidates;
use serde::Serialize;
use wharf::fleet::{ServerListing, ServerStatus};
use wharf::{CallError, CallErrorKind, Json, Quarantined, Resource, ResourceTemplate};

use super::offers::{ShownStanding, failure, tell_failure, tell_odd};
use crate::args::Globals;
use crate::complete;
use crate::exit::Exit;
use crate::render::{self, Transient};
use crate::setup::Which;
use crate::visit::{exit, tell_absent, visit};

/// How much of a description a table shows.
const DESCRIPTION: usize = 100;
/// The code of a server that has never heard of the question.
const UNKNOWN_METHOD: i64 = -32601;

#[derive(Debug, clap::Args)]
pub(crate) struct Resources {
    /// Only this server
    #[arg(add = ArgValueCandidates::new(complete::servers))]
    pub(crate) server: Option<String>,
}

pub(crate) async fn run(globals: &Globals, resources: Resources) -> Exit {
    let which = resources.server.as_deref().map_or(Which::All, Which::One);
    visit(globals, which, async |fleet| {
        let (statuses, mut doing) = (fleet.statuses(), Transient::new(globals.quiet));
        doing.show("asking for the resources");
        let (resources, templates) = tokio::join!(fleet.resources(), fleet.resource_templates());
        drop(doing);
        let found: Vec<Found> = statuses.iter().map(|status| Found::new(status, &resources, &templates)).collect();
        if globals.json {
            let failed = found.iter().filter_map(|found| Some(failure(found.status, found.error?))).max();
            let servers = found.iter().map(ShownServer::new).collect();
            let written = render::json(&Shown { version: 1, servers }).await;
            return written.max(exit(&statuses)).max(failed.unwrap_or(Exit::Done));
        }
        let shown = show(&found, globals).await;
        tell_absent(&statuses, globals).max(shown)
    })
    .await
}

/// What one server has. A server that does not know templates has none.
struct Found<'a> {
    status: &'a ServerStatus,
    resources: Option<&'a wharf::Listed<Resource>>,
    templates: Option<&'a wharf::Listed<ResourceTemplate>>,
    error: Option<&'a CallError>,
}

impl<'a> Found<'a> {
    fn new(
        status: &'a ServerStatus,
        resources: &'a [ServerListing<Resource>],
        templates: &'a [ServerListing<ResourceTemplate>],
    ) -> Self {
        let resources = resources.iter().find(|(name, _)| *name == status.name).map(|(_, offer)| offer.as_ref());
        let templates = templates.iter().find(|(name, _)| *name == status.name).map(|(_, offer)| offer.as_ref());
        let unknown = |error: &&CallError| matches!(error.kind, CallErrorKind::Server { code: UNKNOWN_METHOD, .. });
        let refused = templates.and_then(Result::err).filter(|error| !unknown(error));
        Self {
            status,
            resources: resources.and_then(Result::ok),
            templates: templates.and_then(Result::ok),
            error: resources.and_then(Result::err).or(refused),
        }
    }
}

async fn show(found: &[Found<'_>], globals: &Globals) -> Exit {
    let (mut rows, mut failed) = (Vec::new(), Exit::Done);
    for Found { status, resources, templates, error } in found {
        let name = &status.name;
        let mut row = |uri: &str, called: &str, raw: &Json| {
            let text = |key: &str| text_of(raw, key);
            let called = if called == uri { String::new() } else { render::plain(called) };
            let (mime, description) =
                (render::plain(&text("mimeType")), render::brief(&text("description"), DESCRIPTION));
            rows.push(vec![name.to_string(), render::plain(uri), called, mime, description]);
        };
        for resource in resources.iter().flat_map(|listed| &listed.items) {
            row(&resource.uri, &resource.name, &resource.raw);
        }
        for template in templates.iter().flat_map(|listed| &listed.items) {
            row(&template.uri_template, &template.name, &template.raw);
        }
        if let Some(listed) = resources.filter(|_| !globals.quiet) {
            tell_odd(name, "resource", &listed.quarantined, &listed.notes);
        }
        if let Some(listed) = templates.filter(|_| !globals.quiet) {
            tell_odd(name, "template", &listed.quarantined, &listed.notes);
        }
        if let Some(error) = error {
            failed = failed.max(tell_failure(status, error, globals));
        }
    }
    if rows.is_empty() {
        if failed == Exit::Done && !globals.quiet {
            render::note("there are no resources");
        }
        return failed;
    }
    render::out(render::table(&["server", "uri", "name", "type", "description"], rows)).await.max(failed)
}

/// A text in what a server sent, if it is there and one.
fn text_of(raw: &Json, key: &str) -> String {
    let value = raw.to_value().unwrap_or_default();
    value[key].as_str().unwrap_or_default().to_owned()
}

/// What `--json` shows.
#[derive(Serialize)]
struct Shown<'a> {
    version: u32,
    servers: Vec<ShownServer<'a>>,
}

#[derive(Serialize)]
struct ShownServer<'a> {
    #[serde(flatten)]
    standing: ShownStanding<'a>,
    resources: Vec<&'a Json>,
    templates: Vec<&'a Json>,
    quarantined: Vec<&'a Quarantined>,
    notes: Vec<&'a String>,
}

impl<'a> ShownServer<'a> {
    fn new(found: &Found<'a>) -> Self {
        let Found { status, resources, templates, error } = *found;
        let quarantined = resources.iter().flat_map(|listed| &listed.quarantined);
        let notes = resources.iter().flat_map(|listed| &listed.notes);
        Self {
            standing: ShownStanding::new(status, error),
            resources: resources.iter().flat_map(|listed| &listed.items).map(|resource| &resource.raw).collect(),
            templates: templates.iter().flat_map(|listed| &listed.items).map(|template| &template.raw).collect(),
            quarantined: quarantined.chain(templates.iter().flat_map(|listed| &listed.quarantined)).collect(),
            notes: notes.chain(templates.iter().flat_map(|listed| &listed.notes)).collect(),
        }
    }
}
