//! `wharf prompts`: the prompts of the servers.

use clap_complete::ArgValueCandidates;
use serde::{Deserialize, Serialize};
use wharf::fleet::{ServerListing, ServerStatus};
use wharf::{Json, Prompt, Quarantined};

use super::offers::{ShownStanding, failure, tell_failure, tell_odd};
use crate::args::Globals;
use crate::complete;
use crate::exit::Exit;
use crate::render::{self, Transient};
use crate::setup::Which;
use crate::visit::{exit, tell_absent, visit};

/// How much of a description a table shows.
const DESCRIPTION: usize = 100;

#[derive(Debug, clap::Args)]
pub(crate) struct Prompts {
    /// Only this server
    #[arg(add = ArgValueCandidates::new(complete::servers))]
    pub(crate) server: Option<String>,
}

/// An argument that a prompt takes.
#[derive(Clone, Debug, Deserialize)]
pub(super) struct Argument {
    pub(super) name: String,
    #[serde(default)]
    pub(super) required: bool,
}

pub(crate) async fn run(globals: &Globals, prompts: Prompts) -> Exit {
    let which = prompts.server.as_deref().map_or(Which::All, Which::One);
    visit(globals, which, async |fleet| {
        let (statuses, mut doing) = (fleet.statuses(), Transient::new(globals.quiet));
        doing.show("asking for the prompts");
        let offers = fleet.prompts().await;
        drop(doing);
        if globals.json {
            let servers = statuses.iter().map(|status| ShownServer::new(status, &offers)).collect();
            let failed =
                statuses.iter().filter_map(|status| Some(failure(status, offer_of(status, &offers)?.as_ref().err()?)));
            let failed = failed.max().unwrap_or(Exit::Done);
            return render::json(&Shown { version: 1, servers }).await.max(exit(&statuses)).max(failed);
        }
        let shown = show(&statuses, &offers, globals).await;
        tell_absent(&statuses, globals).max(shown)
    })
    .await
}

/// What a server said when it was asked; `None` for one that has no such thing, or is not connected.
fn offer_of<'a>(status: &ServerStatus, offers: &'a [ServerListing<Prompt>]) -> Option<&'a Offered> {
    offers.iter().find(|(name, _)| *name == status.name).map(|(_, offer)| offer)
}

type Offered = Result<wharf::Listed<Prompt>, wharf::CallError>;

async fn show(statuses: &[ServerStatus], offers: &[ServerListing<Prompt>], globals: &Globals) -> Exit {
    let (mut rows, mut failed) = (Vec::new(), Exit::Done);
    for status in statuses {
        match offer_of(status, offers) {
            Some(Ok(listed)) => {
                for prompt in &listed.items {
                    let description = render::brief(prompt.description.as_deref().unwrap_or_default(), DESCRIPTION);
                    let taken = render::plain(&taken(&arguments(prompt)));
                    rows.push(vec![status.name.to_string(), render::plain(&prompt.name), taken, description]);
                }
                if !globals.quiet {
                    tell_odd(&status.name, "prompt", &listed.quarantined, &listed.notes);
                }
            }
            Some(Err(error)) => failed = failed.max(tell_failure(status, error, globals)),
            None => {}
        }
    }
    if rows.is_empty() {
        if failed == Exit::Done && !globals.quiet {
            render::note("there are no prompts");
        }
        return failed;
    }
    render::out(render::table(&["server", "prompt", "arguments", "description"], rows)).await.max(failed)
}

/// What a prompt takes; what cannot be read is not among it.
pub(super) fn arguments(prompt: &Prompt) -> Vec<Argument> {
    #[derive(Deserialize)]
    struct Written {
        #[serde(default)]
        arguments: Option<Vec<Json>>,
    }
    let written: Option<Written> = prompt.raw.decode().ok();
    let arguments = written.and_then(|written| written.arguments).unwrap_or_default();
    arguments.iter().filter_map(|argument| argument.decode().ok()).collect()
}

/// For example `code, style (optional)`.
pub(super) fn taken(arguments: &[Argument]) -> String {
    let one = |argument: &Argument| format!("{}{}", argument.name, if argument.required { "" } else { " (optional)" });
    arguments.iter().map(one).collect::<Vec<_>>().join(", ")
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
    prompts: Vec<&'a Json>,
    quarantined: &'a [Quarantined],
    notes: &'a [String],
}

impl<'a> ShownServer<'a> {
    fn new(status: &'a ServerStatus, offers: &'a [ServerListing<Prompt>]) -> Self {
        let offer = offer_of(status, offers);
        let listed = offer.and_then(|offer| offer.as_ref().ok());
        Self {
            standing: ShownStanding::new(status, offer.and_then(|offer| offer.as_ref().err())),
            prompts: listed.map_or_else(Vec::new, |listed| listed.items.iter().map(|prompt| &prompt.raw).collect()),
            quarantined: listed.map_or(&[], |listed| &listed.quarantined),
            notes: listed.map_or(&[], |listed| &listed.notes),
        }
    }
}
