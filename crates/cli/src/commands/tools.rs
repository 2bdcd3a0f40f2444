//! `wharf tools`: what the servers offer.

use std::sync::Arc;

use serde::Serialize;
use wharf::fleet::{Fleet, Reason, State, Status};
use wharf::{Json, Listed, Quarantined, ServerName, Tool};

use crate::args::{Globals, Tools};
use crate::exit::Exit;
use crate::interrupt::guarded;
use crate::live::Live;
use crate::setup::{How, Setup, Which};
use crate::{remembered, render, usage};

/// How much of a description a table shows.
const DESCRIPTION: usize = 100;

/// A server, and the tools it has if it is connected.
type Found = (Status, Option<Arc<Listed<Tool>>>);

pub(crate) async fn run(globals: &Globals, tools: Tools) -> Exit {
    let which = tools.server.as_deref().map_or(Which::All, Which::One);
    let opened = async {
        let setup = Setup::load_for(globals, which).await?;
        let fleet = setup.open(which, How::Once)?;
        Ok((setup, fleet))
    };
    let (setup, fleet) = match opened.await {
        Ok(opened) => opened,
        Err(misuse) => {
            render::misuse(&misuse);
            return Exit::Usage;
        }
    };
    guarded(&fleet, async {
        Live::watch(&fleet, globals.quiet).await;
        remembered::keep(&setup.places, &fleet);
        let found: Vec<Found> =
            fleet.statuses().into_iter().map(|status| (status.clone(), fleet.listed(&status.name))).collect();
        let written = if globals.json {
            let servers = found.iter().map(ShownServer::new).collect();
            render::json(&Shown { version: 1, servers }).await
        } else {
            show(&fleet, &found, globals).await
        };
        let needed = |status: &Status| status.required && status.state != State::Disabled;
        let exits = found.iter().filter(|(status, _)| needed(status)).map(|(status, _)| Exit::from(status));
        exits.max().unwrap_or(Exit::Done).max(written)
    })
    .await
}

async fn show(fleet: &Fleet, servers: &[Found], globals: &Globals) -> Exit {
    let mut rows = Vec::new();
    for (status, listed) in servers {
        match listed {
            Some(listed) => {
                if globals.verbose
                    && let Some(session) = fleet.session(&status.name)
                {
                    render::spoken(&session);
                }
                for tool in &listed.items {
                    let description = render::brief(tool.description.as_deref().unwrap_or_default(), DESCRIPTION);
                    let mut row = vec![status.name.to_string(), render::plain(&tool.name), description];
                    if globals.verbose {
                        row.push(render::plain(&usage::arguments(tool)));
                    }
                    rows.push(row);
                }
                if !globals.quiet {
                    warn(&status.name, listed, globals.verbose);
                }
            }
            None => render::status(status, globals),
        }
    }
    if rows.is_empty() {
        if servers.iter().any(|(_, listed)| listed.is_some()) && !globals.quiet {
            render::note("there are no tools");
        }
        return Exit::Done;
    }
    let head = ["server", "tool", "description", "arguments"];
    render::out(render::table(&head[..if globals.verbose { 4 } else { 3 }], rows)).await
}

fn warn(name: &ServerName, listed: &Listed<Tool>, verbose: bool) {
    for odd in &listed.quarantined {
        let tool =
            odd.name.as_ref().map_or_else(|| format!("tool {}", odd.position + 1), |name| format!("tool `{name}`"));
        render::warning(&format!("{name}: the {tool} was left out: {}", render::about(&odd.reason)));
    }
    for note in &listed.notes {
        render::warning(&format!("{name}: {note}"));
    }
    if verbose {
        for tool in &listed.items {
            for note in &tool.notes {
                render::note(&format!("{name}: the tool `{}`: {note}, passed over", tool.name));
            }
        }
    }
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
    state: &'static str,
    reason: Option<String>,
    /// The revision of the protocol that is spoken.
    protocol: Option<String>,
    tools: Vec<&'a Json>,
    quarantined: &'a [Quarantined],
    notes: &'a [String],
    /// The last lines of a server that failed.
    stderr: &'a [String],
}

impl<'a> ShownServer<'a> {
    fn new((status, listed): &'a Found) -> Self {
        let listed = listed.as_deref();
        Self {
            name: &status.name,
            state: status.state.as_str(),
            reason: status.reason.as_ref().map(Reason::to_string),
            protocol: status.info.as_ref().map(|info| info.revision.clone()),
            tools: listed.map_or_else(Vec::new, |listed| listed.items.iter().map(|tool| &tool.raw).collect()),
            quarantined: listed.map_or(&[], |listed| &listed.quarantined),
            notes: listed.map_or(&[], |listed| &listed.notes),
            stderr: status.error().map_or(&[], |error| &error.evidence.stderr),
        }
    }
}
