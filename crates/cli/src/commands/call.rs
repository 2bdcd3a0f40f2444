//! `wharf call`: one tool, once, the way every tool is called. Whoever types it has approved of it; what is forbidden
//! stays forbidden, and hooks are run.

mod doing;

use std::io::Read as _;
use std::sync::Arc;

use serde::Serialize;
use wharf::fleet::dispatch::CallFailure;
use wharf::fleet::{Catalog, Dispatcher, Entry, Fleet};
use wharf::{CallError, CallErrorKind, Evidence, Json, Listed, Tool, ToolCall, ToolOutput, nearest};

use crate::args::{Call, Globals};
use crate::dispatcher::{Approving, dispatcher, policy};
use crate::exit::Exit;
use crate::failure::{Failure, Subject};
use crate::interrupt::guarded;
use crate::servers::{Misuse, misuse};
use crate::setup::{How, LONGEST, Setup, Which};
use crate::visit::{misused, only};
use crate::{arguments, render, usage};
use doing::Doing;

pub(crate) async fn run(globals: &Globals, call: Call) -> Exit {
    let doing = Arc::new(Doing::new(globals.quiet));
    let prepared = async {
        let which = Which::One(&call.server);
        let setup = Setup::load_for(globals, which).await?;
        let dispatcher = dispatcher(globals, &setup, policy(&setup)?)?.with_asker(Arc::new(Approving));
        let dispatcher = dispatcher.with_whole_outputs().with_trace(Arc::clone(&doing) as _);
        Ok::<_, Misuse>((setup.open(which, How::Once)?, dispatcher, from_stdin(&call)?))
    };
    let (fleet, dispatcher, given) = match prepared.await {
        Ok(prepared) => prepared,
        Err(misuse) => return misused(&misuse),
    };
    let work = async {
        doing.show(&format!("connecting to {}", call.server));
        fleet.settled(LONGEST).await;
        doing.clear();
        let chosen = match choose(globals, &call, &fleet, given).await {
            Ok(chosen) => chosen,
            Err(exit) => return exit,
        };
        Box::pin(call_tool(globals, &call, &chosen, (&dispatcher, &doing))).await
    };
    guarded(&fleet, work).await
}

/// The arguments, if they come from stdin.
fn from_stdin(call: &Call) -> Result<Option<Json>, Misuse> {
    if call.arguments != ["-"] {
        return Ok(None);
    }
    let mut text = String::new();
    let read = std::io::stdin().read_to_string(&mut text);
    read.map_err(|error| Misuse { what: format!("stdin cannot be read: {error}"), hint: None })?;
    if text.trim().is_empty() {
        return Err(Misuse {
            what: "stdin was empty".to_owned(),
            hint: Some("it should hold one JSON object".to_owned()),
        });
    }
    arguments::json(&text).map(Some)
}

/// The tool that is meant, and what it is called with.
struct Chosen {
    catalog: Arc<Catalog>,
    entry: Arc<Entry>,
    arguments: Json,
    remote: bool,
}

async fn choose(globals: &Globals, call: &Call, fleet: &Fleet, given: Option<Json>) -> Result<Chosen, Exit> {
    let status = only(fleet, globals, subject(call)).await?;
    let remote = status.transport != "stdio";
    let listed = fleet.listed(&status.name).unwrap_or_default();
    let catalog = fleet.catalog();
    let wanted = |entry: &&Arc<Entry>| *entry.tool.name == *call.tool;
    let chosen = catalog.entries().iter().find(wanted).or_else(|| catalog.get(&call.tool)).cloned();
    let checked = chosen.ok_or_else(|| no_such_tool(call, &catalog, &listed)).and_then(|entry| {
        let arguments = given.map_or_else(|| arguments::read(&call.arguments, Some(&entry.input_schema)), Ok)?;
        Ok((entry, arguments))
    });
    let (entry, arguments) = checked.map_err(|misuse| misused(&misuse))?;
    if let Some(session) = fleet.session(&status.name).filter(|_| globals.verbose) {
        render::spoken(&session);
    }
    Ok(Chosen { catalog, entry, arguments, remote })
}

async fn call_tool(globals: &Globals, call: &Call, chosen: &Chosen, by: (&Dispatcher, &Doing)) -> Exit {
    let (Chosen { catalog, entry, arguments, remote }, (dispatcher, doing)) = (chosen, by);
    doing.show(&format!("calling {}", entry.tool.name));
    let made = ToolCall { id: "call".into(), name: Arc::clone(&entry.name), arguments: arguments.clone() };
    let (result, cause) = dispatcher.call_explained(catalog, &made).await;
    doing.clear();
    doing.tell(&call.server, globals);
    match (result, cause) {
        (Ok(output), None) => show(globals, call, &output).await,
        (_, Some(cause)) => failed(globals, call, (entry, *remote), cause).await,
        (Err(failed), None) => {
            render::error(&failed.to_string(), &[], None);
            Exit::Failed
        }
    }
}

fn subject(call: &Call) -> Subject<'_> {
    Subject::tool(&call.server, &call.tool)
}

/// A call without an answer of the tool: in words, and for a program too if one reads.
async fn failed(globals: &Globals, call: &Call, (entry, remote): (&Entry, bool), cause: CallFailure) -> Exit {
    let error = match cause {
        CallFailure::Error(error) => error,
        CallFailure::Arguments(fault) => {
            let Some(server) = entry.server.clone() else { return Exit::Usage };
            let kind = CallErrorKind::Arguments { tool: entry.tool.name.to_string(), fault };
            Box::new(CallError { server, kind, evidence: Evidence::default() })
        }
        CallFailure::NotOffered => {
            return subject(call).refused(globals, "was not called: it is gone", "not run").await;
        }
        CallFailure::Refused(why) => {
            return subject(call).refused(globals, &format!("was not called: {why}"), "not run").await;
        }
        CallFailure::Withheld(why) => {
            let what = format!("was called, and its output is withheld: {why}");
            return subject(call).refused(globals, &what, "answered").await;
        }
    };
    let hint = matches!(error.kind, CallErrorKind::Arguments { .. }).then(|| usage::taken_by(entry));
    if let CallErrorKind::Output { output, .. } = &error.kind
        && !globals.json
    {
        // It does not keep its promise, but it is what there is.
        render::out(render::for_stdout(output.text())).await;
    }
    Failure { remote, error: &error, hint }.told(globals, subject(call)).await
}

/// How many names a hint lists.
const NAMES: usize = 12;
/// How the catalog begins to tell that a tool is not in it.
pub(super) const LEFT_OUT: &str = "it is left out: ";

fn no_such_tool(call: &Call, catalog: &Catalog, listed: &Listed<Tool>) -> Misuse {
    let Call { server, tool, .. } = call;
    let odd = listed.quarantined.iter().find(|odd| odd.name.as_ref() == Some(tool));
    let reason = odd.map(|odd| render::about(&odd.reason)).or_else(|| {
        let about = catalog.notes().filter(|note| note.tool.as_ref() == Some(tool));
        about.filter_map(|note| note.words.strip_prefix(LEFT_OUT)).map(str::to_owned).next()
    });
    if let Some(reason) = reason {
        return misuse(format!("{server}: the tool `{tool}` was left out: {reason}"), None);
    }
    if listed.items.iter().any(|listed| *listed.name == **tool) {
        let what = format!("{server}: the tool `{tool}` is left out by the configuration");
        return misuse(what, Some(&format!("`wharf get {server}` shows which tools it lets through")));
    }
    let names: Vec<&str> = catalog.entries().iter().map(|entry| &*entry.tool.name).collect();
    let hint = match nearest(tool, names.iter().copied()) {
        Some(name) => format!("did you mean `{name}`?"),
        None if names.is_empty() => "it has no tools".to_owned(),
        None if names.len() > NAMES => format!("it has {} tools; `wharf tools {server}` lists them", names.len()),
        None => format!("it has: {}", names.join(", ")),
    };
    misuse(format!("{server}: there is no tool `{tool}`"), Some(&hint))
}

/// What `--json` shows.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Shown<'a> {
    version: u32,
    server: &'a str,
    tool: &'a str,
    is_error: bool,
    result: &'a Json,
}

async fn show(globals: &Globals, call: &Call, output: &ToolOutput) -> Exit {
    let written = if globals.json {
        let Call { server, tool, .. } = call;
        render::json(&Shown { version: 1, server, tool, is_error: output.is_error, result: &output.raw }).await
    } else {
        let written = render::out(render::for_stdout(output.text())).await;
        for odd in output.quarantined().iter().filter(|_| !globals.quiet) {
            let block = odd.position + 1;
            render::warning(&format!("{}: block {block} of the result: {}", call.server, render::about(&odd.reason)));
        }
        written
    };
    if output.is_error {
        if !globals.quiet {
            render::error(&format!("{}: the tool `{}` reports that it failed", call.server, call.tool), &[], None);
        }
        return Exit::Failed;
    }
    written
}
