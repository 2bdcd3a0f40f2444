//! `wharf call`: one tool, once.

use std::io::Read as _;

use serde::Serialize;
use wharf::fleet::Fleet;
use wharf::{CallError, CallErrorKind, CallOptions, ConnectErrorKind, Json, Listed, Progress, Tool, ToolOutput};

use crate::args::{Call, Globals};
use crate::exit::Exit;
use crate::interrupt::guarded;
use crate::render::Transient;
use crate::servers::Misuse;
use crate::setup::{How, LONGEST, Setup, Which};
use crate::suggest::nearest;
use crate::{arguments, render, usage};

pub(crate) async fn run(globals: &Globals, call: Call) -> Exit {
    let prepared = async {
        let which = Which::One(&call.server);
        let setup = Setup::load_for(globals, which).await?;
        Ok::<_, Misuse>((setup.open(which, How::Once)?, from_stdin(&call)?))
    };
    let (fleet, given) = match prepared.await {
        Ok(prepared) => prepared,
        Err(misuse) => {
            render::misuse(&misuse);
            return Exit::Usage;
        }
    };
    guarded(&fleet, async { Box::pin(call_tool(globals, &call, &fleet, given)).await }).await
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

async fn call_tool(globals: &Globals, call: &Call, fleet: &Fleet, given: Option<Json>) -> Exit {
    let mut doing = Transient::new(globals.quiet);
    doing.show(&format!("connecting to {}", call.server));
    fleet.settled(LONGEST).await;
    let Some(status) = fleet.statuses().pop() else { return Exit::Usage };
    let (Some(session), Some(listed)) = (fleet.session(&status.name), fleet.listed(&status.name)) else {
        drop(doing);
        return match status.error() {
            Some(error) => failed(globals, call, (status.transport != "stdio", error), None).await,
            None => Exit::from(&status),
        };
    };
    let Some(tool) = listed.items.iter().find(|tool| *tool.name == *call.tool) else {
        drop(doing);
        render::misuse(&no_such_tool(call, &listed));
        return Exit::Usage;
    };
    let arguments = match given.map_or_else(|| arguments::read(&call.arguments, Some(tool)), Ok) {
        Ok(arguments) => arguments,
        Err(misuse) => {
            drop(doing);
            render::misuse(&misuse);
            return Exit::Usage;
        }
    };
    if globals.verbose {
        drop(doing);
        render::spoken(&session);
        doing = Transient::new(globals.quiet);
    }
    doing.show(&format!("calling {}", call.tool));
    let mut progress = |step: Progress| doing.show(&told(&step));
    let options = CallOptions { progress: Some(&mut progress), ..CallOptions::default() };
    let result = session.call_with(&call.tool, &arguments, options).await;
    drop(doing);
    match result {
        Ok(output) => show(globals, call, &output).await,
        Err(error) => {
            let hint = matches!(error.kind, CallErrorKind::Arguments { .. }).then(|| usage::sentence(tool));
            if let CallErrorKind::Output { output, .. } = &error.kind
                && !globals.json
            {
                // It does not keep its promise, but it is what there is.
                render::out(render::for_stdout(output.text())).await;
            }
            failed(globals, call, (session.is_remote(), &error), hint).await
        }
    }
}

/// How many names a hint lists.
const NAMES: usize = 12;

fn no_such_tool(call: &Call, listed: &Listed<Tool>) -> Misuse {
    let Call { server, tool, .. } = call;
    if let Some(odd) = listed.quarantined.iter().find(|odd| odd.name.as_ref() == Some(tool)) {
        return Misuse {
            what: format!("{server}: the tool `{tool}` was left out: {}", render::about(&odd.reason)),
            hint: None,
        };
    }
    let names: Vec<&str> = listed.items.iter().map(|tool| &*tool.name).collect();
    let hint = match nearest(tool, names.iter().copied()) {
        Some(name) => format!("did you mean `{name}`?"),
        None if names.is_empty() => "it has no tools".to_owned(),
        None if names.len() > NAMES => format!("it has {} tools; `wharf tools {server}` lists them", names.len()),
        None => format!("it has: {}", names.join(", ")),
    };
    Misuse { what: format!("{server}: there is no tool `{tool}`"), hint: Some(hint) }
}

/// A call without an answer: in words, and for a program too if one reads.
async fn failed(globals: &Globals, call: &Call, (remote, error): (bool, &CallError), hint: Option<String>) -> Exit {
    render::call_error(error, hint, remote);
    if globals.json {
        let (data, result) = match &error.kind {
            CallErrorKind::Server { data, .. } => (data.as_ref(), None),
            CallErrorKind::Output { output, .. } => (None, Some(&output.raw)),
            _ => (None, None),
        };
        let status = match &error.kind {
            CallErrorKind::Http(status) | CallErrorKind::Connect(ConnectErrorKind::Http(status)) => Some(status.status),
            CallErrorKind::Connect(ConnectErrorKind::Auth(auth)) => Some(auth.status),
            _ => None,
        };
        let outcome = error.outcome().as_str();
        let (message, stderr) = (error.kind.to_string(), &error.evidence.stderr[..]);
        let shown = ShownError { message, outcome, status, code: error.code(), data, result, stderr };
        let Call { server, tool, .. } = call;
        render::json(&ShownFailure { version: 1, server, tool, error: shown }).await;
    }
    Exit::from(&error.kind)
}

#[derive(Serialize)]
struct ShownFailure<'a> {
    version: u32,
    server: &'a str,
    tool: &'a str,
    error: ShownError<'a>,
}

#[derive(Serialize)]
struct ShownError<'a> {
    message: String,
    /// Whether the call may have run.
    outcome: &'static str,
    /// The HTTP status, where that is the answer.
    #[serde(skip_serializing_if = "Option::is_none")]
    status: Option<u16>,
    #[serde(skip_serializing_if = "Option::is_none")]
    code: Option<i64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    data: Option<&'a Json>,
    /// A result that does not fit its schema.
    #[serde(skip_serializing_if = "Option::is_none")]
    result: Option<&'a Json>,
    stderr: &'a [String],
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

fn told(step: &Progress) -> String {
    let total = step.total.map(|total| format!(" of {total}")).unwrap_or_default();
    let message = step.message.as_deref().map(|message| format!("  {message}")).unwrap_or_default();
    format!("{}{total}{message}", step.progress)
}
