//! `wharf call`: call one tool, once. The user who types it approves of it; policy and hooks still apply.

mod progress;
mod save;

use std::io::Read as _;
use std::path::PathBuf;
use std::sync::Arc;

use clap_complete::ArgValueCandidates;
use serde::Serialize;
use wharf::agent::Model;
use wharf::fleet::dispatch::{CallFailure, UserPrompt};
use wharf::fleet::{Catalog, Dispatcher, Entry, Fleet};
use wharf::{CallError, CallErrorKind, Evidence, Json, Redactor, ToolCall, ToolOutput};

use super::tool_lookup;
use crate::arguments::UnknownArgument;
use crate::completion_cache::ListedKind;
use crate::config::dispatcher::{ApproveAll, dispatcher, policy};
use crate::config::{FleetLifetime, ServerSelection, Setup};
use crate::error::{UsageError, usage_error};
use crate::exit::Exit;
use crate::failure::{Failure, Subject};
use crate::globals::Globals;
use crate::interrupt::guarded;
use crate::models::choose;
use crate::models::timeouts::ModelTimeouts;
use crate::one_shot::{connected_server, print_server_info};
use crate::term::SETTLE_LIMIT;
use crate::term::prompt::{SecretFields, is_interactive, user_prompt};
use crate::{arguments, complete, completion_cache, signature, term};
pub(super) use progress::ProgressLine;
use save::SavedFile;

/// How much of a media type is shown.
const MAX_TYPE_CHARS: usize = 40;

#[derive(Clone, Debug, clap::Args)]
#[command(after_help = "Examples:\n  \
        wharf call time get_current_time timezone=Europe/Paris\n  \
        wharf call git git_log '{\"repo_path\": \".\", \"max_count\": 3}' --mcp 'git=uvx mcp-server-git'\n  \
        cat arguments.json | wharf call git git_commit - --mcp 'git=uvx mcp-server-git'")]
pub(crate) struct Call {
    /// Server name
    #[arg(add = ArgValueCandidates::new(complete::servers))]
    server: String,
    /// Tool name
    #[arg(add = ArgValueCandidates::new(complete::tools))]
    tool: String,
    /// Save images and audio clips of the result to a directory
    #[arg(long, value_name = "DIR", value_hint = clap::ValueHint::DirPath)]
    save: Option<PathBuf>,
    /// Model for completions that the server requests; you review each one [default: `WHARF_MODEL`, or a provider with an
    /// API key]
    #[arg(short, long, value_name = "MODEL")]
    model: Option<String>,
    #[command(flatten)]
    timeouts: ModelTimeouts,
    /// Let the server ask you for passwords and other secrets; what you type is not shown
    #[arg(long)]
    allow_secrets: bool,
    /// Arguments: one JSON object, `-` to read it from stdin, or `key=value` pairs. Values are parsed as JSON unless the
    /// tool expects a string
    #[arg(value_name = "JSON | - | KEY=VALUE", add = ArgValueCandidates::new(complete::tool_arguments))]
    arguments: Vec<String>,
    /// Whether a result that is JSON is laid out for reading
    #[arg(skip)]
    is_pretty: bool,
}

impl Call {
    /// Returns a call of the repl, without its tool.
    pub(super) fn interactive(
        server: &str,
        model: Option<String>,
        timeouts: ModelTimeouts,
        allow_secrets: bool,
    ) -> Self {
        let (tool, arguments, save) = (String::new(), Vec::new(), None);
        Self { server: server.to_owned(), tool, save, model, timeouts, allow_secrets, arguments, is_pretty: true }
    }

    /// Sets the tool and its arguments.
    pub(super) fn of_tool(&self, tool: String, arguments: Vec<String>) -> Self {
        Self { tool, arguments, ..self.clone() }
    }
}

pub(crate) async fn run(globals: &Globals, call: Call) -> Exit {
    let progress = Arc::new(ProgressLine::new(globals.quiet));
    let prepared = async {
        let selection = ServerSelection::One(&call.server);
        let setup = Setup::load_for(globals, selection).await?;
        let prompt = prompt(globals, &call).await?;
        let dispatcher = dispatcher(globals, &setup, policy(&setup)?)?.with_user_prompt(Arc::clone(&prompt));
        let dispatcher = dispatcher.with_unlimited_outputs().with_trace(Arc::clone(&progress) as _);
        let fleet = setup.open_for_user(&call.server, &prompt, FleetLifetime::OneShot)?;
        let needs_user = !is_interactive()
            && completion_cache::names(&setup.paths, ListedKind::Tools, &call.server).contains_key(&call.tool);
        Ok::<_, UsageError>((fleet, dispatcher, CallInput { from_stdin: from_stdin(&call)?, needs_user }))
    };
    let (fleet, dispatcher, input) = match prepared.await {
        Ok(prepared) => prepared,
        Err(error) => return term::usage_error(&error),
    };
    let work = async {
        progress.show(&format!("connecting to {}", call.server));
        fleet.settled(SETTLE_LIMIT).await;
        progress.clear();
        match resolve(globals, &call, &fleet, input).await {
            Ok(resolved) => Box::pin(call_tool(globals, &resolved, &dispatcher, &progress)).await,
            Err(exit) => exit,
        }
    };
    guarded(&fleet, work).await
}

/// Calls a tool of a connected server.
pub(super) async fn call_connected(
    globals: &Globals,
    call: &Call,
    fleet: &Fleet,
    dispatcher: &Dispatcher,
    progress: &ProgressLine,
) -> Exit {
    match resolve(globals, call, fleet, CallInput::default()).await {
        Ok(resolved) => Box::pin(call_tool(globals, &resolved, dispatcher, progress)).await,
        Err(exit) => exit,
    }
}

/// Returns who answers the server's questions: the user at the terminal. Arguments on stdin take it from the user.
pub(super) async fn prompt(globals: &Globals, call: &Call) -> Result<Arc<dyn UserPrompt>, UsageError> {
    let secret_fields = if call.allow_secrets { SecretFields::Allow } else { SecretFields::Refuse };
    let model = if is_interactive() { sampling_model(globals, call).await? } else { None };
    Ok(Arc::new(ApproveAll(user_prompt(secret_fields, model))))
}

async fn sampling_model(globals: &Globals, call: &Call) -> Result<Option<Arc<dyn Model>>, UsageError> {
    choose::for_servers(call.model.as_deref(), call.timeouts.into(), globals).await
}

/// Reads the arguments from stdin, if they are `-`.
fn from_stdin(call: &Call) -> Result<Option<Json>, UsageError> {
    if call.arguments != ["-"] {
        return Ok(None);
    }
    let mut text = String::new();
    let read = std::io::stdin().read_to_string(&mut text);
    read.map_err(|error| usage_error(format!("cannot read stdin: {error}"), None))?;
    if text.trim().is_empty() {
        return Err(usage_error("stdin is empty".to_owned(), Some("expected one JSON object")));
    }
    arguments::json(&text).map(Some)
}

/// A call whose tool was found and whose arguments were read.
struct ResolvedCall<'a> {
    call: &'a Call,
    catalog: Arc<Catalog>,
    entry: Arc<Entry>,
    arguments: Json,
    remote: bool,
    redactor: Redactor,
}

/// What is known about a call before its server is connected.
#[derive(Default)]
struct CallInput {
    /// The arguments, if they are on stdin.
    from_stdin: Option<Json>,
    /// Whether the server has listed the tool for a client that answers questions, which this one cannot.
    needs_user: bool,
}

async fn resolve<'a>(
    globals: &Globals,
    call: &'a Call,
    fleet: &Fleet,
    input: CallInput,
) -> Result<ResolvedCall<'a>, Exit> {
    let status = connected_server(fleet, globals, subject(call)).await?;
    let catalog = fleet.catalog();
    let found = tool_lookup::find(fleet, &catalog, &status.name, &call.tool).map_err(|error| {
        let hint = "the server lists it only for clients that can ask a user: call it at a terminal".to_owned();
        if input.needs_user { UsageError { hint: Some(hint), ..error } } else { error }
    });
    let checked = found.and_then(|entry| {
        let arguments =
            input.from_stdin.map_or_else(|| arguments::read(&call.arguments, Some(&entry.input_schema)), Ok)?;
        Ok((entry, arguments))
    });
    let (entry, arguments) = checked.map_err(|error| term::usage_error(&error))?;
    if !globals.quiet {
        warn_unknown(call, &entry, &arguments);
    }
    if globals.is_verbose()
        && let Some(session) = fleet.session(&status.name)
    {
        print_server_info(&session);
    }
    Ok(ResolvedCall {
        call,
        catalog,
        entry,
        arguments,
        remote: status.transport.is_remote(),
        redactor: fleet.redactor(),
    })
}

/// Warns about arguments that the schema does not know. A server may ignore them, and then a misspelled one is lost.
fn warn_unknown(call: &Call, entry: &Entry, arguments: &Json) {
    for UnknownArgument { name, near } in arguments::unknown(arguments, &entry.tool.input_schema) {
        term::warning(&format!("{}: `{}` has no argument `{}`", call.server, call.tool, term::name(&name)));
        if let Some(near) = near {
            term::hint(&format!("did you mean `{near}`?"));
        }
    }
}

async fn call_tool(
    globals: &Globals,
    resolved: &ResolvedCall<'_>,
    dispatcher: &Dispatcher,
    progress: &ProgressLine,
) -> Exit {
    let ResolvedCall { call, catalog, entry, arguments, .. } = resolved;
    progress.show(&format!("calling {}", entry.tool.name));
    let tool_call = ToolCall { id: "call".into(), name: Arc::clone(&entry.name), arguments: arguments.clone() };
    let (result, cause) = dispatcher.call_explained(catalog, &tool_call).await;
    progress.clear();
    progress.print_steps(&call.server, globals);
    match (result, cause) {
        (Ok(output), None) => show(globals, resolved, &output).await,
        (_, Some(cause)) => report_failure(globals, resolved, cause).await,
        (Err(failed), None) => {
            term::error(&failed.to_string(), &[], None);
            Exit::Failed
        }
    }
}

fn subject(call: &Call) -> Subject<'_> {
    Subject::tool(&call.server, &call.tool)
}

/// Reports a call without an answer of the tool.
async fn report_failure(globals: &Globals, resolved: &ResolvedCall<'_>, cause: CallFailure) -> Exit {
    let ResolvedCall { call, entry, remote, redactor, .. } = resolved;
    let error = match cause {
        CallFailure::Error(error) => error,
        CallFailure::Arguments(fault) => {
            let Some(server) = entry.server.clone() else { return Exit::Usage };
            let kind = CallErrorKind::Arguments { tool: entry.tool.name.to_string(), fault: *fault };
            Box::new(CallError { server, kind, evidence: Evidence::default() })
        }
        CallFailure::NotOffered => {
            return subject(call).refused(globals, "was not called: it is no longer available", "not run").await;
        }
        CallFailure::CheckTimedOut => {
            let what = "was not called: checking its arguments against its schema took too long";
            return subject(call).refused(globals, what, "not run").await;
        }
        CallFailure::ServerDown(why) | CallFailure::Refused(why) => {
            return subject(call).refused(globals, &format!("was not called: {why}"), "not run").await;
        }
        CallFailure::ApprovalUnavailable => {
            let what = "was not called: it needs approval, and no user can be asked";
            return subject(call).refused(globals, what, "not run").await;
        }
        CallFailure::Withheld(why) => {
            let what = format!("was called, but its output is withheld: {why}");
            return subject(call).refused(globals, &what, "answered").await;
        }
    };
    let hint = matches!(error.kind, CallErrorKind::Arguments { .. }).then(|| signature::of_entry(entry));
    if let CallErrorKind::Output { output, .. } = &error.kind
        && !globals.json
    {
        // It does not fit the schema, but it is all the server returned.
        term::out(term::for_stdout(output.text())).await;
    }
    let redactor = redactor.clone();
    Failure { remote: *remote, error: &error, hint, redactor }.report(globals, subject(call)).await
}

/// Says where images and audio clips were saved, or how to save them.
fn report_saved(call: &Call, saved: Option<&[SavedFile]>, output: &ToolOutput) {
    match saved {
        Some([]) => term::note(&format!("{}: the result has no image and no audio clip to save", call.server)),
        Some(files) => files.iter().for_each(|SavedFile { file, mime_type, bytes }| {
            let kind = term::brief(mime_type, MAX_TYPE_CHARS);
            term::note(&format!("saved {} ({kind}, {bytes} bytes)", file.display()));
        }),
        None if save::count(output) > 0 => term::hint("save the images and audio clips to a directory: --save DIR"),
        None => {}
    }
}

/// The layout of `--json`.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct JsonResult<'a> {
    version: u32,
    server: &'a str,
    tool: &'a str,
    is_error: bool,
    result: &'a Json,
    /// The files of `--save`.
    #[serde(skip_serializing_if = "Option::is_none")]
    saved: Option<Vec<SavedFile>>,
}

/// Lays out a text that is JSON.
fn pretty(text: String) -> String {
    if !text.trim_start().starts_with(['{', '[']) {
        return text;
    }
    let value = serde_json::from_str::<serde_json::Value>(&text);
    value.ok().and_then(|value| serde_json::to_string_pretty(&value).ok()).unwrap_or(text)
}

async fn show(globals: &Globals, resolved: &ResolvedCall<'_>, output: &ToolOutput) -> Exit {
    let Call { server, tool, .. } = resolved.call;
    let saved = match &resolved.call.save {
        Some(folder) => match save::save(folder, tool, output) {
            Ok(saved) => Some(saved),
            Err(reason) => {
                // The result is data, whatever happens to its files.
                if !globals.json {
                    term::out(term::for_stdout(output.text())).await;
                }
                return subject(resolved.call).failed(globals, reason, "answered").await;
            }
        },
        None => None,
    };
    let written = if globals.json {
        let is_error = output.is_error;
        let result = JsonResult { version: 1, server, tool, is_error, result: &output.raw, saved };
        term::redacted_json(&result, &resolved.redactor).await
    } else {
        let text = output.text();
        let text = if resolved.call.is_pretty { pretty(text) } else { text };
        let written = term::out(term::for_stdout(text)).await;
        if !globals.quiet {
            for malformed in output.quarantined() {
                let block = malformed.position + 1;
                term::warning(&format!("{server}: block {block} of the result: {}", malformed.reason));
            }
            report_saved(resolved.call, saved.as_deref(), output);
        }
        written
    };
    if output.is_error {
        if !globals.quiet {
            term::error(&format!("{server}: tool `{tool}` reported an error"), &[], None);
        }
        return Exit::Failed;
    }
    written
}
