//! `wharf call`: one tool, once.

use std::io::Read as _;

use serde::Serialize;
use serde_json::Value;
use wharf::{CallErrorKind, CallOptions, Json, Listed, Progress, Session, Tool, ToolOutput};

use crate::args::{Call, Globals};
use crate::exit::Exit;
use crate::interrupt::guarded;
use crate::render::Transient;
use crate::servers::Misuse;
use crate::suggest::nearest;
use crate::{arguments, render, servers};

pub(crate) async fn run(globals: &Globals, call: Call) -> Exit {
    let prepared =
        servers::sessions(globals, Some(&call.server)).and_then(|sessions| Ok((sessions, from_stdin(&call)?)));
    let (sessions, given) = match prepared {
        Ok(prepared) => prepared,
        Err(misuse) => {
            render::misuse(&misuse);
            return Exit::Usage;
        }
    };
    let Some(session) = sessions.first() else { return Exit::Usage };
    guarded(&sessions, async { Box::pin(call_tool(globals, &call, session, given)).await }).await
}

/// The arguments, if they come from stdin.
fn from_stdin(call: &Call) -> Result<Option<Json>, Misuse> {
    if call.arguments != ["-"] {
        return Ok(None);
    }
    let mut text = String::new();
    let read = std::io::stdin().read_to_string(&mut text);
    read.map_err(|error| Misuse { what: format!("stdin cannot be read: {error}"), hint: None })?;
    arguments::json(&text).map(Some)
}

async fn call_tool(globals: &Globals, call: &Call, session: &Session, given: Option<Json>) -> Exit {
    let mut doing = Transient::new(globals.quiet);
    doing.show(&format!("connecting to {}", call.server));
    // The list tells what the arguments have to look like, before anything is done.
    let listed = match session.list_tools().await {
        Ok(listed) => listed,
        Err(error) => {
            drop(doing);
            render::call_error(&error, None);
            return Exit::from(&error.kind);
        }
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
    doing.show(&format!("calling {}", call.tool));
    let mut progress = |step: Progress| doing.show(&told(&step));
    let options = CallOptions { progress: Some(&mut progress), ..CallOptions::default() };
    let result = session.call_with(&call.tool, &arguments, options).await;
    drop(doing);
    match result {
        Ok(output) => show(globals, call, &output),
        Err(error) => {
            let hint = matches!(error.kind, CallErrorKind::Arguments { .. }).then(|| usage_of(tool));
            render::call_error(&error, hint);
            Exit::from(&error.kind)
        }
    }
}

fn no_such_tool(call: &Call, listed: &Listed<Tool>) -> Misuse {
    let names = || listed.items.iter().map(|tool| &*tool.name);
    let hint = match nearest(&call.tool, names()) {
        Some(name) => format!("did you mean `{name}`?"),
        None => format!("it has: {}", names().collect::<Vec<_>>().join(", ")),
    };
    Misuse { what: format!("{}: there is no tool `{}`", call.server, call.tool), hint: Some(hint) }
}

/// What the tool takes, in one line: `add takes a: integer, b: integer, note: string (optional)`.
fn usage_of(tool: &Tool) -> String {
    let schema = tool.input_schema.to_value().unwrap_or_default();
    let required = |name: &str| schema["required"].as_array().is_some_and(|all| all.iter().any(|one| one == name));
    let one = |(name, schema): (&String, &Value)| {
        let kind = schema["type"].as_str().unwrap_or("any");
        let optional = if required(name) { "" } else { " (optional)" };
        format!("{name}: {kind}{optional}")
    };
    let taken: Vec<String> = schema["properties"].as_object().into_iter().flatten().map(one).collect();
    if taken.is_empty() {
        format!("{} takes no arguments", tool.name)
    } else {
        format!("{} takes {}", tool.name, taken.join(", "))
    }
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

fn show(globals: &Globals, call: &Call, output: &ToolOutput) -> Exit {
    if globals.json {
        let Call { server, tool, .. } = call;
        render::json(&Shown { version: 1, server, tool, is_error: output.is_error, result: &output.raw });
    } else {
        render::out(&render::plain(&output.text()));
        for odd in output.quarantined().iter().filter(|_| !globals.quiet) {
            render::warning(&format!("{}: block {} of the result {}", call.server, odd.position + 1, odd.reason));
        }
    }
    if output.is_error {
        if !globals.quiet {
            render::error(&format!("{}: the tool `{}` reports that it failed", call.server, call.tool), &[], None);
        }
        return Exit::Failed;
    }
    Exit::Done
}

fn told(step: &Progress) -> String {
    let total = step.total.map(|total| format!(" of {total}")).unwrap_or_default();
    let message = step.message.as_deref().map(|message| format!("  {message}")).unwrap_or_default();
    format!("{}{total}{message}", step.progress)
}
