//! `wharf prompt`: get one prompt's messages.

use clap_complete::ArgValueCandidates;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use wharf::fleet::{Fleet, ListingError};
use wharf::{CallError, Content, ContentKind, Json, Listed, Prompt as ListedPrompt, ResourceBody};

use super::listing::left_out;
use super::prompts;
use crate::config::ServerSelection;
use crate::error::{UsageError, usage_error};
use crate::exit::Exit;
use crate::failure::{Failure, Subject};
use crate::globals::Globals;
use crate::term::{self, StatusLine};
use crate::{arguments, complete, one_shot};
use wharf::nearest;

#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  wharf prompt git review branch=main\n  \
        wharf prompt docs summary '{\"topic\": \"sails\"}' --mcp docs=https://example.com/mcp")]
pub(crate) struct Prompt {
    /// Server name
    #[arg(add = ArgValueCandidates::new(complete::servers))]
    server: String,
    /// Prompt name
    #[arg(add = ArgValueCandidates::new(complete::prompts))]
    name: String,
    /// Arguments: `key=value` pairs, or one JSON object of strings
    #[arg(value_name = "JSON | KEY=VALUE", add = ArgValueCandidates::new(complete::prompt_arguments))]
    arguments: Vec<String>,
}

pub(crate) async fn run(globals: &Globals, prompt: Prompt) -> Exit {
    let subject = Subject::prompt(&prompt.server, &prompt.name);
    one_shot::run(globals, ServerSelection::One(&prompt.server), async |fleet| {
        let remote = match one_shot::connected_server(fleet, globals, subject).await {
            Ok(status) => status.transport.is_remote(),
            Err(exit) => return exit,
        };
        let progress = StatusLine::new(globals.quiet);
        progress.show(&format!("getting {}", prompt.name));
        let fetched = fetch(fleet, &prompt).await;
        drop(progress);
        match fetched {
            Ok(result) if globals.json => {
                term::redacted_json(&JsonPrompt { subject, result: &result }, &fleet.redactor()).await
            }
            Ok(result) => show(&prompt, &result).await,
            Err(FetchError::Usage(error)) => term::usage_error(&error),
            Err(FetchError::Call(error)) => {
                let redactor = fleet.redactor();
                Failure { remote, error: &error, hint: None, redactor }.report(globals, subject).await
            }
        }
    })
    .await
}

enum FetchError {
    Usage(UsageError),
    Call(Box<CallError>),
}

impl From<UsageError> for FetchError {
    fn from(error: UsageError) -> Self {
        Self::Usage(error)
    }
}

async fn fetch(fleet: &Fleet, prompt: &Prompt) -> Result<Json, FetchError> {
    let Prompt { server, name, arguments } = prompt;
    let Some((server_name, listing)) = fleet.prompts().await.pop() else {
        return Err(unknown_prompt(prompt, &Listed::default()).into());
    };
    let listed = listing.map_err(|error| FetchError::Call(Box::new(error)))?;
    let Some(found) = listed.items.iter().find(|offered| offered.name == *name) else {
        return Err(unknown_prompt(prompt, &listed).into());
    };
    let arguments = checked_arguments(server, found, arguments)?;
    fleet.prompt(&server_name, name, &arguments).await.map_err(|error| match error {
        ListingError::Call(error) => FetchError::Call(error),
        other => FetchError::Usage(usage_error(other.to_string(), None)),
    })
}

fn unknown_prompt(Prompt { server, name, .. }: &Prompt, listed: &Listed<ListedPrompt>) -> UsageError {
    if let Some(invalid) = listed.quarantined.iter().find(|item| item.name.as_ref() == Some(name)) {
        return usage_error(format!("{server}: {}", left_out("prompt", invalid)), None);
    }
    let names: Vec<&str> = listed.items.iter().map(|prompt| prompt.name.as_str()).collect();
    let hint = match nearest(name, names.iter().copied()) {
        Some(near) => format!("did you mean `{near}`?"),
        None if names.is_empty() => "it has no prompts".to_owned(),
        None => format!("`wharf prompts {server}` lists them"),
    };
    usage_error(format!("{server}: unknown prompt `{name}`"), Some(&hint))
}

/// Checks the arguments of a prompt: all are text, none is missing, and none is unknown.
fn checked_arguments(server: &str, prompt: &ListedPrompt, words: &[String]) -> Result<Json, UsageError> {
    let name = &prompt.name;
    let accepted = prompts::arguments(prompt);
    let given = texts(words)?;
    let hint = match prompts::argument_list(&accepted) {
        all if all.is_empty() => format!("{name} accepts no arguments"),
        all => format!("{name} accepts {all}"),
    };
    if let Some(unknown) = given.keys().find(|key| !accepted.iter().any(|argument| argument.name == **key)) {
        return Err(usage_error(format!("{server}: prompt `{name}` has no argument `{unknown}`"), Some(&hint)));
    }
    let missing = accepted.iter().filter(|argument| argument.required && !given.contains_key(&argument.name));
    let missing: Vec<String> = missing.map(|argument| format!("`{}`", argument.name)).collect();
    if !missing.is_empty() {
        let message = format!("{server}: prompt `{name}` requires {}", missing.join(" and "));
        return Err(usage_error(message, Some(&hint)));
    }
    Ok(Json::from(Value::Object(given)))
}

fn texts(words: &[String]) -> Result<Map<String, Value>, UsageError> {
    let [one] = words else { return pairs(words) };
    if !one.trim_start().starts_with(['{', '[']) {
        return pairs(words);
    }
    let json = arguments::json(one)?;
    let fields: Map<String, Value> =
        json.decode().map_err(|error| usage_error(format!("invalid arguments: {error}"), None))?;
    match fields.iter().find(|(_, value)| !value.is_string()) {
        None => Ok(fields),
        Some((key, value)) => {
            let hint = format!("quote it: {{\"{key}\": \"{}\"}}", value.to_string().replace('"', ""));
            Err(usage_error(format!("argument `{key}` is not a string: prompts accept only strings"), Some(&hint)))
        }
    }
}

fn pairs(words: &[String]) -> Result<Map<String, Value>, UsageError> {
    let pairs = arguments::pairs(words)?;
    Ok(pairs.into_iter().map(|(key, text)| (key.to_owned(), Value::from(text))).collect())
}

/// The layout of `--json`.
#[derive(Serialize)]
struct JsonPrompt<'a> {
    #[serde(flatten)]
    subject: Subject<'a>,
    result: &'a Json,
}

/// The result of `prompts/get`, as far as it is printed.
#[derive(Deserialize)]
struct PromptResult {
    messages: Vec<Message>,
}

#[derive(Deserialize)]
struct Message {
    role: String,
    content: Json,
}

async fn show(Prompt { server, name, .. }: &Prompt, result: &Json) -> Exit {
    match result.decode::<PromptResult>() {
        Ok(PromptResult { messages }) if messages.is_empty() => {
            term::note(&format!("{server}: prompt `{name}` has no messages"));
            Exit::Done
        }
        Ok(PromptResult { messages }) => {
            let texts: Vec<String> =
                messages.iter().map(|message| format!("{}:\n{}", message.role, message.text())).collect();
            term::out(term::for_stdout(texts.join("\n\n"))).await
        }
        Err(error) => {
            let message = format!("{server}: malformed result for prompt `{name}`: {error}");
            term::error(&message, &[], Some("print it with --json"));
            Exit::Failed
        }
    }
}

impl Message {
    /// Returns the content as text. It should be one block; some servers send a list of them.
    fn text(&self) -> String {
        let blocks = self.content.decode::<Vec<Json>>().unwrap_or_else(|_| vec![self.content.clone()]);
        let texts = blocks.into_iter().map(Content::from_json).map(|block| match &block.kind {
            ContentKind::Resource { body: ResourceBody::Text(text), .. } => format!("{}\n{text}", block.describe()),
            _ => block.describe(),
        });
        texts.collect::<Vec<_>>().join("\n")
    }
}
