//! `wharf prompts`: list prompts.

use clap_complete::ArgValueCandidates;
use serde::{Deserialize, Serialize};
use wharf::fleet::{Fleet, ServerListing, ServerStatus};
use wharf::{Json, Prompt, Quarantined, ServerName};

use super::listing::{JsonServerState, description, exit_code, print_list_problems, report_failure};
use crate::completion_cache::{self, ListedKind, ServerNames};
use crate::config::{Paths, ServerSelection};
use crate::exit::Exit;
use crate::globals::Globals;
use crate::term::{self, StatusLine};
use crate::{complete, one_shot};

#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  wharf prompts\n  wharf prompts docs --json")]
pub(crate) struct Prompts {
    /// Only list this server's prompts
    #[arg(add = ArgValueCandidates::new(complete::servers))]
    server: Option<String>,
}

/// An argument of a prompt.
#[derive(Clone, Debug, Deserialize)]
pub(super) struct Argument {
    pub(super) name: String,
    #[serde(default)]
    pub(super) required: bool,
}

pub(crate) async fn run(globals: &Globals, prompts: Prompts) -> Exit {
    let selection = prompts.server.as_deref().map_or(ServerSelection::All, ServerSelection::One);
    one_shot::run(globals, selection, async |fleet| list(fleet, globals).await).await
}

/// Lists the prompts of a fleet.
pub(super) async fn list(fleet: &Fleet, globals: &Globals) -> Exit {
    let statuses = fleet.statuses();
    let progress = StatusLine::new(globals.quiet);
    progress.show("listing prompts");
    let listings = fleet.prompts().await;
    drop(progress);
    if let Ok(paths) = Paths::find(globals) {
        completion_cache::store(&paths, ListedKind::Prompts, listings.iter().filter_map(names));
    }
    if globals.json {
        let servers = statuses.iter().map(|status| JsonServer::new(status, &listings)).collect();
        let failed = |status: &ServerStatus| Some(exit_code(status, listing_of(status, &listings)?.as_ref().err()?));
        let failed = statuses.iter().filter_map(failed).max().unwrap_or(Exit::Done);
        let written = term::json(&JsonPrompts { version: 1, servers }).await;
        return written.max(one_shot::exit_code(&statuses)).max(failed);
    }
    let shown = show(&statuses, &listings, globals).await;
    one_shot::report_unconnected(&statuses, globals).max(shown)
}

/// Returns the names of a server's prompts, and of their arguments.
fn names((server, listing): &ServerListing<Prompt>) -> Option<(&ServerName, ServerNames)> {
    let listed = listing.as_ref().ok()?;
    let names_of = |prompt: &Prompt| arguments(prompt).into_iter().map(|argument| argument.name).collect();
    Some((server, listed.items.iter().map(|prompt| (prompt.name.clone(), names_of(prompt))).collect()))
}

/// Returns a server's list; `None` for a server without prompts or a connection.
fn listing_of<'a>(status: &ServerStatus, listings: &'a [ServerListing<Prompt>]) -> Option<&'a Listing> {
    listings.iter().find(|(name, _)| *name == status.name).map(|(_, listing)| listing)
}

type Listing = Result<wharf::Listed<Prompt>, wharf::CallError>;

async fn show(statuses: &[ServerStatus], listings: &[ServerListing<Prompt>], globals: &Globals) -> Exit {
    let mut rows = Vec::new();
    let mut failed = Exit::Done;
    for status in statuses {
        match listing_of(status, listings) {
            Some(Ok(listed)) => {
                for prompt in &listed.items {
                    let description = description(prompt.description.as_deref().unwrap_or_default(), globals);
                    let arguments = term::name(&argument_list(&arguments(prompt)));
                    rows.push(vec![status.name.to_string(), term::name(&prompt.name), arguments, description]);
                }
                if !globals.quiet {
                    print_list_problems(&status.name, "prompt", &listed.quarantined, &listed.notes);
                }
            }
            Some(Err(error)) => failed = failed.max(report_failure(status, error, globals)),
            None => {}
        }
    }
    if rows.is_empty() {
        if failed == Exit::Done && !globals.quiet {
            term::note("no prompts");
        }
        return failed;
    }
    term::out(term::table(&["server", "prompt", "arguments", "description"], rows)).await.max(failed)
}

/// Returns a prompt's arguments, without invalid ones.
pub(super) fn arguments(prompt: &Prompt) -> Vec<Argument> {
    #[derive(Deserialize)]
    struct RawPrompt {
        #[serde(default)]
        arguments: Option<Vec<Json>>,
    }
    let raw: Option<RawPrompt> = prompt.raw.decode().ok();
    let arguments = raw.and_then(|raw| raw.arguments).unwrap_or_default();
    arguments.iter().filter_map(|argument| argument.decode().ok()).collect()
}

/// Lists arguments, for example `code, style (optional)`.
pub(super) fn argument_list(arguments: &[Argument]) -> String {
    let one = |argument: &Argument| format!("{}{}", argument.name, if argument.required { "" } else { " (optional)" });
    arguments.iter().map(one).collect::<Vec<_>>().join(", ")
}

/// The layout of `--json`.
#[derive(Serialize)]
struct JsonPrompts<'a> {
    version: u32,
    servers: Vec<JsonServer<'a>>,
}

#[derive(Serialize)]
struct JsonServer<'a> {
    #[serde(flatten)]
    state: JsonServerState<'a>,
    prompts: Vec<&'a Json>,
    quarantined: &'a [Quarantined],
    notes: &'a [String],
}

impl<'a> JsonServer<'a> {
    fn new(status: &'a ServerStatus, listings: &'a [ServerListing<Prompt>]) -> Self {
        let listing = listing_of(status, listings);
        let listed = listing.and_then(|listing| listing.as_ref().ok());
        Self {
            state: JsonServerState::new(status, listing.and_then(|listing| listing.as_ref().err())),
            prompts: listed.map_or_else(Vec::new, |listed| listed.items.iter().map(|prompt| &prompt.raw).collect()),
            quarantined: listed.map_or(&[], |listed| &listed.quarantined),
            notes: listed.map_or(&[], |listed| &listed.notes),
        }
    }
}
