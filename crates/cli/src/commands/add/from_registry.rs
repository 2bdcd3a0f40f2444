//! `wharf add OWNER/NAME`: a server of the MCP registry, at a fixed version.

use std::collections::BTreeMap;

use wharf::ServerName;
use wharf::config::registry::{
    EntryPlan, Input, InputRole, LifecycleStatus, NoEntry, Offer, RefusedOffer, RegistryError, RegistryServer, offers,
};
use wharf::config::{TransportKind, import_name, is_secret_name};
use wharf::fleet::Scope;

use super::proposal::{AddOptions, Proposal, add};
use super::{Add, TransportArg};
use crate::config::registry::registry;
use crate::config::{Setup, servers};
use crate::env;
use crate::error::{UsageError, usage_error};
use crate::exit::Exit;
use crate::globals::Globals;
use crate::program::{self, Program};
use crate::term;
use crate::term::input::{hidden_line, line};
use crate::term::prompt::is_interactive;
use crate::term::review::{Reviewed, show_values};

/// How often a required value is asked for.
const MAX_QUESTIONS: usize = 3;

/// What a review shows in place of a secret that the user provides.
const HIDDEN: &str = "[hidden]";

/// Why a server of the registry is not added.
enum NotAdded {
    Usage(UsageError),
    Failed { message: String, hint: Option<String> },
}

impl From<UsageError> for NotAdded {
    fn from(error: UsageError) -> Self {
        Self::Usage(error)
    }
}

pub(super) async fn run(globals: &Globals, args: &Add, options: &AddOptions) -> Exit {
    match Box::pin(proposal(globals, args, options)).await {
        Ok(proposal) => add(globals, proposal, options).await,
        Err(NotAdded::Usage(error)) => term::usage_error(&error),
        Err(NotAdded::Failed { message, hint }) => {
            term::error(&message, &[], hint.as_deref());
            Exit::Failed
        }
    }
}

async fn proposal(globals: &Globals, args: &Add, options: &AddOptions) -> Result<Proposal, NotAdded> {
    let setup = Setup::read(globals)?;
    let (wanted, version) = split_version(&args.name);
    let registry = registry(&setup)?;
    let server = registry.server(wanted, version).await.map_err(|error| {
        let hint = matches!(error, RegistryError::NotFound).then(|| {
            let word = wanted.rsplit('/').next().unwrap_or(wanted);
            format!("find its name: wharf search {word}; for a local command, pass a name before it: wharf add NAME {wanted}")
        });
        NotAdded::Failed { message: format!("{wanted}: {error}"), hint }
    })?;
    if server.status == LifecycleStatus::Deleted {
        let why = server.status_message.as_ref().map(|why| format!(": {}", term::name(why))).unwrap_or_default();
        let message = format!("{wanted} {} was deleted from the registry{why}", term::name(&server.version));
        return Err(NotAdded::Failed { message, hint: None });
    }
    let (usable, refused) = offers(&server);
    let offer = chosen(&usable, args.transport).ok_or_else(|| NotAdded::Failed {
        message: term::name(&format!("{wanted} {} cannot be added: {}", server.version, reasons(&usable, &refused))),
        hint: server.repository.as_ref().map(|url| format!("its documentation may help: {url}")),
    })?;
    let mut values = given_values(globals, args, offer)?;
    if is_interactive() && !options.yes {
        ask_for(offer, options.scope, &mut values).await?;
    }
    let EntryPlan { entry, references, dangers } = offer.plan(&values).map_err(no_entry)?;
    let hidden: BTreeMap<String, String> = values
        .iter()
        .map(|(name, value)| {
            (name.clone(), if is_hidden(offer, name, value) { HIDDEN.to_owned() } else { value.clone() })
        })
        .collect();
    let without_secrets = if hidden == values { None } else { Some(offer.plan(&hidden).map_err(no_entry)?.entry) };
    let mut about = about(&server);
    for variable in references.iter().filter(|variable| env::variable(&[variable]).is_none()) {
        let what =
            offer.inputs().iter().find(|input| input.name == **variable).and_then(|input| input.description.as_ref());
        let what = what.map(|what| format!(" ({what})")).unwrap_or_default();
        about.push(Reviewed::new("needs", &format!("{variable} in your environment{what}")));
    }
    let optional = offer.inputs().iter().filter(|input| !input.is_required && !values.contains_key(&input.name));
    let optional: Vec<&str> = optional.map(|input| input.name.as_str()).collect();
    if !optional.is_empty() {
        about.push(Reviewed::new("accepts", &format!("with --set: {}", optional.join(", "))));
    }
    let others = usable.iter().filter(|other| other.label != offer.label).map(|other| other.label.clone());
    let others: Vec<String> = others.collect();
    if !others.is_empty() {
        about.push(Reviewed::new("also as", &format!("with --transport: {}", others.join(", "))));
    }
    let title = format!("{} of {}", server.name, registry.url());
    Ok(Proposal { name: server_name(args, &server)?, entry, without_secrets, title, about, dangers })
}

/// Whether a value that the user provides is a secret that the review leaves out. A reference to a variable is none.
fn is_hidden(offer: &Offer, name: &str, value: &str) -> bool {
    let is_secret = offer.inputs().iter().any(|input| input.name == name && input.is_secret);
    (is_secret || is_secret_name(name)) && !value.starts_with("${")
}

/// Splits `OWNER/NAME@VERSION`.
fn split_version(text: &str) -> (&str, Option<&str>) {
    text.split_once('@').map_or((text, None), |(name, version)| (name, Some(version)))
}

/// Returns what the registry says about a server.
fn about(server: &RegistryServer) -> Vec<Reviewed> {
    let mut about = vec![Reviewed::new("version", &server.version), Reviewed::new("about", &server.description)];
    if server.status == LifecycleStatus::Deprecated {
        let why = server.status_message.as_ref().map(|why| format!(": {why}")).unwrap_or_default();
        about.push(Reviewed::new("status", &format!("deprecated by its authors{why}")));
    }
    about.extend(server.repository.as_ref().map(|url| Reviewed::new("source", url)));
    about
}

fn server_name(args: &Add, server: &RegistryServer) -> Result<ServerName, UsageError> {
    let invalid = |error: wharf::InvalidName| usage_error(error.to_string(), Some("choose a name with --as NAME"));
    match &args.name_as {
        Some(name) => name.parse().map_err(invalid),
        None => import_name(server.name.rsplit('/').next().unwrap_or(&server.name)).parse().map_err(invalid),
    }
}

/// Chooses the offer to add: one of the wanted transport, or else a package whose runtime is installed, a remote server,
/// or any package.
fn chosen(usable: &[Offer], transport: Option<TransportArg>) -> Option<&Offer> {
    let wanted = |offer: &&Offer| match transport {
        None => true,
        Some(TransportArg::Stdio) => offer.transport == TransportKind::Stdio,
        Some(TransportArg::Http) => offer.transport == TransportKind::Http,
        Some(TransportArg::Sse) => offer.transport == TransportKind::Sse,
        Some(TransportArg::Ws) => false,
    };
    let environment = env::for_servers();
    let path: Option<std::ffi::OsString> = environment.get("PATH").map(Into::into);
    let folder = std::path::Path::new("/");
    let is_installed = |command: &str| matches!(program::find(command, path.as_deref(), folder), Program::Found(_));
    let offers = || usable.iter().filter(wanted);
    let installed = offers().find(|offer| offer.runtime.is_some_and(is_installed));
    installed.or_else(|| offers().find(|offer| offer.runtime.is_none())).or_else(|| offers().next())
}

fn reasons(usable: &[Offer], refused: &[RefusedOffer]) -> String {
    if !usable.is_empty() {
        return "it is not available over this transport".to_owned();
    }
    let reasons: Vec<String> =
        refused.iter().map(|RefusedOffer { label, reason }| format!("{label} {reason}")).collect();
    if reasons.is_empty() { "it has neither a package nor a URL".to_owned() } else { reasons.join("; ") }
}

/// Returns the values of `--set`, `--env` and `--header`.
fn given_values(globals: &Globals, args: &Add, offer: &Offer) -> Result<BTreeMap<String, String>, UsageError> {
    let mut values = BTreeMap::new();
    for pair in &args.set {
        let Some((name, value)) = pair.split_once('=').filter(|(name, _)| !name.is_empty()) else {
            return Err(usage_error(format!("invalid --set {pair}: expected NAME=VALUE"), None));
        };
        values.insert(name.to_owned(), value.to_owned());
    }
    for variable in &globals.env {
        let (name, value) = match variable.split_once('=') {
            Some((name, value)) => (name.to_owned(), value.to_owned()),
            None => (variable.clone(), format!("${{{variable}}}")),
        };
        values.insert(name, value);
    }
    for (name, value) in servers::headers(globals)? {
        values.insert(name, value.expose().to_owned());
    }
    let known: Vec<&str> = offer.inputs().iter().map(|input| input.name.as_str()).collect();
    if let Some(unknown) = values.keys().find(|name| !known.contains(&name.as_str())) {
        let hint = match wharf::nearest(unknown, known.iter().copied()) {
            Some(near) => format!("did you mean `{near}`?"),
            None if known.is_empty() => "it needs no values".to_owned(),
            None => format!("it has {}", term::name(&known.join(", "))),
        };
        return Err(usage_error(format!("the server has no value `{}`", term::name(unknown)), Some(&hint)));
    }
    for input in offer.inputs().iter().filter(|input| !input.choices.is_empty()) {
        if let Some(value) = values.get(&input.name).filter(|value| !input.choices.contains(value)) {
            let hint = format!("expected one of {}", term::name(&input.choices.join(", ")));
            let message = format!("invalid value `{}` of `{}`", term::name(value), term::name(&input.name));
            return Err(usage_error(message, Some(&hint)));
        }
    }
    Ok(values)
}

/// Asks for required values that have no default.
async fn ask_for(offer: &Offer, scope: Scope, values: &mut BTreeMap<String, String>) -> Result<(), UsageError> {
    for input in offer.inputs() {
        if !input.is_required || input.default.is_some() || values.contains_key(&input.name) {
            continue;
        }
        let may_refer = input.is_secret || input.role == InputRole::Variable;
        // Others can read a project's file.
        if input.is_secret && scope == Scope::Project {
            continue;
        }
        for _ in 0..MAX_QUESTIONS {
            let is_secret = input.is_secret || is_secret_name(&input.name);
            show_values(&described(input));
            let otherwise = if may_refer { ", or Enter to read it from the environment" } else { "" };
            let typed = if is_secret {
                hidden_line(format!("Value, not shown{otherwise}: ")).await
            } else {
                line(format!("Value{otherwise}: ")).await
            };
            let Some(typed) = typed else {
                return Err(usage_error("no answer".to_owned(), Some("pass the values with --set NAME=VALUE")));
            };
            let typed = typed.trim_end_matches(['\r', '\n']);
            if typed.is_empty() && may_refer {
                break;
            }
            let is_possible =
                !typed.is_empty() && (input.choices.is_empty() || input.choices.iter().any(|it| it == typed));
            if is_possible {
                // A literal `${` is not a variable.
                values.insert(input.name.clone(), typed.replace("${", "$${"));
                break;
            }
        }
    }
    Ok(())
}

/// Returns what the registry says about an input. The question itself has no text of the registry.
fn described(input: &Input) -> Vec<Reviewed> {
    let mut rows = vec![Reviewed::new("needs", &input.name)];
    rows.extend(input.description.as_ref().map(|what| Reviewed::new("about", what)));
    if !input.choices.is_empty() {
        rows.push(Reviewed::new("one of", &input.choices.join(", ")));
    }
    rows
}

fn no_entry(error: NoEntry) -> UsageError {
    let input = match error {
        NoEntry::Missing(input) => input,
        NoEntry::TooLarge(limit) => {
            return usage_error(format!("the server's entry is larger than {limit} bytes, too large to review"), None);
        }
    };
    let what = input.description.as_ref().map(|what| format!(" ({})", term::name(what))).unwrap_or_default();
    let name = term::name(&input.name);
    usage_error(format!("the server needs a value for `{name}`{what}"), Some(&format!("pass it: --set '{name}=VALUE'")))
}
