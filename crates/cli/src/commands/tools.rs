//! `wharf tools`: what the servers offer.

use futures_util::future::join_all;
use serde::Serialize;
use wharf::{CallError, Json, Listed, Quarantined, ServerName, Session, Status, Tool};

use crate::args::{Globals, Tools};
use crate::exit::Exit;
use crate::interrupt::guarded;
use crate::render::Transient;
use crate::{render, servers, usage};

/// How much of a description a table shows.
const DESCRIPTION: usize = 100;

pub(crate) async fn run(globals: &Globals, tools: Tools) -> Exit {
    let sessions = match servers::sessions(globals, tools.server.as_deref()) {
        Ok(sessions) => sessions,
        Err(misuse) => {
            render::misuse(&misuse);
            return Exit::Usage;
        }
    };
    guarded(&sessions, async {
        let mut doing = Transient::new(globals.quiet);
        let names: Vec<&str> = sessions.iter().map(|session| session.name().as_str()).collect();
        doing.show(&format!("connecting to {}", names.join(", ")));
        let listed = join_all(sessions.iter().map(Session::list_tools)).await;
        drop(doing);
        let servers: Vec<_> = sessions.iter().zip(listed).collect();
        let written = if globals.json {
            let servers = servers.iter().map(|(session, listed)| ShownServer::new(session, listed)).collect();
            render::json(&Shown { version: 1, servers }).await
        } else {
            show(&servers, globals).await
        };
        // Every server was named on the command line, so every one is required.
        let exits = servers.iter().filter_map(|(_, listed)| listed.as_ref().err()).map(|error| Exit::from(&error.kind));
        exits.max().unwrap_or(Exit::Done).max(written)
    })
    .await
}

async fn show(servers: &[(&Session, Result<Listed<Tool>, CallError>)], globals: &Globals) -> Exit {
    let mut rows = Vec::new();
    for (session, listed) in servers {
        match listed {
            Ok(listed) => {
                if globals.verbose {
                    render::spoken(session);
                }
                for tool in &listed.items {
                    let description = render::brief(tool.description.as_deref().unwrap_or_default(), DESCRIPTION);
                    let mut row = vec![session.name().to_string(), render::plain(&tool.name), description];
                    if globals.verbose {
                        row.push(render::plain(&usage::arguments(tool)));
                    }
                    rows.push(row);
                }
                if !globals.quiet {
                    warn(session, listed, globals.verbose);
                }
            }
            Err(error) => render::call_error(error, None, session.is_remote()),
        }
    }
    if rows.is_empty() {
        if servers.iter().any(|(_, listed)| listed.is_ok()) && !globals.quiet {
            render::note("there are no tools");
        }
        return Exit::Done;
    }
    let head = ["server", "tool", "description", "arguments"];
    render::out(render::table(&head[..if globals.verbose { 4 } else { 3 }], rows)).await
}

fn warn(session: &Session, listed: &Listed<Tool>, verbose: bool) {
    let name = session.name();
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
    fn new(session: &'a Session, listed: &'a Result<Listed<Tool>, CallError>) -> Self {
        let name = session.name();
        match listed {
            Ok(listed) => Self {
                name,
                state: "connected",
                reason: None,
                protocol: match &*session.status().borrow() {
                    Status::Connected(info) => Some(info.revision.clone()),
                    _ => None,
                },
                tools: listed.items.iter().map(|tool| &tool.raw).collect(),
                quarantined: &listed.quarantined,
                notes: &listed.notes,
                stderr: &[],
            },
            Err(error) => Self {
                name,
                state: "failed",
                reason: Some(error.kind.to_string()),
                protocol: None,
                tools: Vec::new(),
                quarantined: &[],
                notes: &[],
                stderr: &error.evidence.stderr,
            },
        }
    }
}
