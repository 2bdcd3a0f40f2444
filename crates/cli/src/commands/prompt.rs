//! `wharf prompt`: one prompt, filled in.

use clap_complete::ArgValueCandidates;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use wharf::fleet::{Fleet, ListingError};
use wharf::{CallError, Content, ContentKind, Json, Listed, Prompt as Offered, ResourceBody, nearest};

use super::prompts;
use crate::args::Globals;
use crate::arguments;
use crate::complete;
use crate::exit::Exit;
use crate::failure::{Failure, Subject};
use crate::render::{self, Transient};
use crate::servers::{Misuse, misuse};
use crate::setup::Which;
use crate::visit::{misused, only, visit};

#[derive(Debug, clap::Args)]
pub(crate) struct Prompt {
    /// The server
    #[arg(add = ArgValueCandidates::new(complete::servers))]
    pub(crate) server: String,
    /// The prompt
    pub(crate) name: String,
    /// The arguments: `key=value` pairs, or one JSON object. All of them are text
    #[arg(value_name = "JSON | KEY=VALUE")]
    pub(crate) arguments: Vec<String>,
}

pub(crate) async fn run(globals: &Globals, prompt: Prompt) -> Exit {
    let subject = Subject::prompt(&prompt.server, &prompt.name);
    visit(globals, Which::One(&prompt.server), async |fleet| {
        let remote = match only(fleet, globals, subject).await {
            Ok(status) => status.transport != "stdio",
            Err(exit) => return exit,
        };
        let mut doing = Transient::new(globals.quiet);
        doing.show(&format!("asking for {}", prompt.name));
        let got = fetch(fleet, &prompt).await;
        drop(doing);
        match got {
            Ok(result) if globals.json => render::json(&Shown { subject, result: &result }).await,
            Ok(result) => show(&prompt, &result).await,
            Err(Missing::Misuse(misuse)) => misused(&misuse),
            Err(Missing::Error(error)) => Failure { remote, error: &error, hint: None }.told(globals, subject).await,
        }
    })
    .await
}

/// Why there is no prompt.
enum Missing {
    Misuse(Misuse),
    Error(Box<CallError>),
}

impl From<Misuse> for Missing {
    fn from(misuse: Misuse) -> Self {
        Self::Misuse(misuse)
    }
}

async fn fetch(fleet: &Fleet, prompt: &Prompt) -> Result<Json, Missing> {
    let Prompt { server, name, arguments } = prompt;
    let Some((server_name, offer)) = fleet.prompts().await.pop() else {
        return Err(no_such_prompt(prompt, &Listed::default()).into());
    };
    let listed = offer.map_err(|error| Missing::Error(Box::new(error)))?;
    let Some(found) = listed.items.iter().find(|offered| offered.name == *name) else {
        return Err(no_such_prompt(prompt, &listed).into());
    };
    let arguments = filled_in(server, found, arguments)?;
    fleet.prompt(&server_name, name, &arguments).await.map_err(|error| match error {
        ListingError::Call(error) => Missing::Error(error),
        other => Missing::Misuse(misuse(other.to_string(), None)),
    })
}

fn no_such_prompt(Prompt { server, name, .. }: &Prompt, listed: &Listed<Offered>) -> Misuse {
    if let Some(odd) = listed.quarantined.iter().find(|odd| odd.name.as_ref() == Some(name)) {
        return misuse(format!("{server}: the prompt `{name}` was left out: {}", render::about(&odd.reason)), None);
    }
    let names: Vec<&str> = listed.items.iter().map(|prompt| prompt.name.as_str()).collect();
    let hint = match nearest(name, names.iter().copied()) {
        Some(near) => format!("did you mean `{near}`?"),
        None if names.is_empty() => "it has no prompts".to_owned(),
        None => format!("`wharf prompts {server}` lists them"),
    };
    misuse(format!("{server}: there is no prompt `{name}`"), Some(&hint))
}

/// The arguments as a prompt takes them: text, all that are required, and none that it does not know.
fn filled_in(server: &str, prompt: &Offered, words: &[String]) -> Result<Json, Misuse> {
    let (name, taken) = (&prompt.name, prompts::arguments(prompt));
    let given = texts(words)?;
    let hint = match prompts::taken(&taken) {
        all if all.is_empty() => format!("{name} takes no arguments"),
        all => format!("{name} takes {all}"),
    };
    if let Some(unknown) = given.keys().find(|key| !taken.iter().any(|argument| argument.name == **key)) {
        return Err(misuse(format!("{server}: the prompt `{name}` has no argument `{unknown}`"), Some(&hint)));
    }
    let missing = taken.iter().filter(|argument| argument.required && !given.contains_key(&argument.name));
    let missing: Vec<String> = missing.map(|argument| format!("`{}`", argument.name)).collect();
    if !missing.is_empty() {
        let what = format!("{server}: the prompt `{name}` needs {}", missing.join(" and "));
        return Err(misuse(what, Some(&hint)));
    }
    Ok(Json::from(Value::Object(given)))
}

fn texts(words: &[String]) -> Result<Map<String, Value>, Misuse> {
    let [one] = words else { return pairs(words) };
    if !one.trim_start().starts_with(['{', '[']) {
        return pairs(words);
    }
    let json = arguments::json(one)?;
    let fields: Map<String, Value> =
        json.decode().map_err(|error| misuse(format!("the arguments cannot be read: {error}"), None))?;
    match fields.iter().find(|(_, value)| !value.is_string()) {
        None => Ok(fields),
        Some((key, value)) => {
            let hint =
                format!("write it in quotation marks: {{\"{key}\": \"{}\"}}", value.to_string().replace('"', ""));
            Err(misuse(format!("the argument `{key}` is no text, and prompts take nothing else"), Some(&hint)))
        }
    }
}

fn pairs(words: &[String]) -> Result<Map<String, Value>, Misuse> {
    let pairs = arguments::pairs(words)?;
    Ok(pairs.into_iter().map(|(key, text)| (key.to_owned(), Value::from(text))).collect())
}

/// What `--json` shows.
#[derive(Serialize)]
struct Shown<'a> {
    #[serde(flatten)]
    subject: Subject<'a>,
    result: &'a Json,
}

/// What a server answers. Everything but the messages may be missing.
#[derive(Deserialize)]
struct Answer {
    messages: Vec<Message>,
}

#[derive(Deserialize)]
struct Message {
    role: String,
    content: Json,
}

async fn show(Prompt { server, name, .. }: &Prompt, result: &Json) -> Exit {
    match result.decode::<Answer>() {
        Ok(Answer { messages }) if messages.is_empty() => {
            render::note(&format!("{server}: the prompt `{name}` has no messages"));
            Exit::Done
        }
        Ok(Answer { messages }) => {
            let told: Vec<String> =
                messages.iter().map(|message| format!("{}:\n{}", message.role, message.text())).collect();
            render::out(render::for_stdout(told.join("\n\n"))).await
        }
        Err(error) => {
            let what = format!("{server}: the answer for the prompt `{name}` makes no sense: {error}");
            render::error(&what, &[], Some("--json shows it as it is"));
            Exit::Failed
        }
    }
}

impl Message {
    /// Its content in words. There should be one block; some servers send a list of them.
    fn text(&self) -> String {
        let blocks = self.content.decode::<Vec<Json>>().unwrap_or_else(|_| vec![self.content.clone()]);
        let told = blocks.into_iter().map(Content::from_json).map(|block| match &block.kind {
            ContentKind::Resource { body: ResourceBody::Text(text), .. } => format!("{}\n{text}", block.describe()),
            _ => block.describe(),
        });
        told.collect::<Vec<_>>().join("\n")
    }
}
