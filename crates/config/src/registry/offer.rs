//! The ways in which a server can be used, and the entry of each.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

use super::inputs::{Input, InputRole, Inputs, NoValue, Template};
use super::package::{Runtime, brief, runnable};
use super::runtime_arguments::unusual_arguments;
use super::server_json::{InvalidServer, RawInput, RawPackage, RawRemote, RegistryServer};
use crate::address;
use crate::expand::literal;
use crate::hidden_chars::visible;
use crate::server::TransportKind;

/// One way to use a server: a package, or a remote server.
#[derive(Clone, Debug)]
pub struct Offer {
    /// The package or URL, for messages.
    pub label: String,
    /// The transport.
    pub transport: TransportKind,
    /// The program that must be installed, if it is a package.
    pub runtime: Option<&'static str>,
    inputs: Inputs,
    content: OfferContent,
}

#[derive(Clone, Debug)]
enum OfferContent {
    Package {
        runtime: Runtime,
        before: Vec<Argument>,
        pinned: String,
        after: Vec<Argument>,
        env: Vec<(String, Template)>,
    },
    Remote {
        url: Template,
        headers: Vec<(String, Template)>,
    },
}

/// A command-line argument: a flag, a value, or both.
#[derive(Clone, Debug)]
struct Argument {
    flag: Option<String>,
    value: Option<Template>,
}

/// A way that cannot be used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RefusedOffer {
    /// The package or URL, for messages.
    pub label: String,
    /// Why it cannot be used, as a predicate of it.
    pub reason: String,
}

/// The entry of an offer.
#[derive(Clone, Debug)]
pub struct EntryPlan {
    /// The entry, in the format of `.mcp.json`.
    pub entry: Map<String, Value>,
    /// The variables of the user's environment that it refers to.
    pub references: Vec<String>,
    /// What the arguments of the runtime may change, as predicates of the server.
    pub dangers: Vec<String>,
}

/// Why an offer has no entry.
#[derive(Clone, Debug)]
pub enum NoEntry {
    /// A required input has no value.
    Missing(Box<Input>),
    /// The entry is longer than anyone would review. Contains the limit in bytes.
    TooLarge(usize),
}

/// Larger entries are not offered: small texts with many places for inputs become large ones.
const MAX_ENTRY_BYTES: usize = 32 * 1024;

/// Returns the ways in which a server can be used, packages first, and those that cannot be used.
pub fn offers(server: &RegistryServer) -> (Vec<Offer>, Vec<RefusedOffer>) {
    let mut usable = Vec::new();
    let mut refused = Vec::new();
    let packages = server.packages.iter().map(|package| {
        let label = format!("{} package {}", brief(&package.registry_type), brief(&package.identifier));
        (label, of_package(package))
    });
    let remotes = server.remotes.iter().map(|remote| (brief(&remote.url), of_remote(remote)));
    for (label, offer) in packages.chain(remotes) {
        match offer {
            Ok(offer) => usable.push(Offer { label, ..offer }),
            Err(reason) => refused.push(RefusedOffer { label, reason }),
        }
    }
    (usable, refused)
}

fn of_package(package: &RawPackage) -> Result<Offer, String> {
    let transport = package.transport.as_ref().map_or("stdio", |transport| transport.kind.as_str());
    if transport != "stdio" {
        return Err(format!("starts its own {} server, which is not supported", brief(transport)));
    }
    package.check().map_err(too_large)?;
    let runnable = runnable(package)?;
    let mut inputs = Inputs::default();
    let before = arguments(&package.runtime_arguments, &mut inputs)?;
    let after = arguments(&package.package_arguments, &mut inputs)?;
    let mut env = Vec::new();
    for variable in &package.environment_variables {
        let name = variable.name.as_deref().unwrap_or_default();
        let is_name = name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
            && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
        if !is_name {
            return Err(format!("has a variable with an invalid name: `{}`", brief(name)));
        }
        env.push((name.to_owned(), inputs.template(variable, InputRole::Variable)));
    }
    let runtime = runnable.runtime;
    Ok(Offer {
        label: String::new(),
        transport: TransportKind::Stdio,
        runtime: Some(runtime.command()),
        inputs,
        content: OfferContent::Package { runtime, before, pinned: runnable.pinned, after, env },
    })
}

fn too_large(error: InvalidServer) -> String {
    format!("is too large to review: {error}")
}

fn arguments(raw: &[RawInput], inputs: &mut Inputs) -> Result<Vec<Argument>, String> {
    let read = |input: &RawInput| match input.kind.as_deref() {
        Some("positional") | None => {
            Ok(Argument { flag: None, value: Some(inputs.template(input, InputRole::Argument)) })
        }
        Some("named") => {
            let flag = input.name.clone().filter(|name| name.starts_with('-')).ok_or("has an option without a name")?;
            // A flag without a value is a switch.
            let has_value =
                input.value.is_some() || input.is_required || input.default.is_some() || input.value_hint.is_some();
            let value = has_value.then(|| inputs.template(input, InputRole::Argument));
            Ok(Argument { flag: Some(literal(&flag)), value })
        }
        Some(other) => Err(format!("has an argument of an unknown kind: `{}`", brief(other))),
    };
    raw.iter().map(read).collect()
}

const NOT_ENCRYPTED: &str = "is not at an https:// URL";

/// Checks that a URL is encrypted or local.
fn check_remote_url(url: &str) -> Result<(), String> {
    address::check_url(url).map_err(|_| "has an invalid URL")?;
    let uri: http::Uri = url.parse().map_err(|_| "has an invalid URL")?;
    let is_local = uri.host().is_some_and(wharf_io::address::is_loopback_host);
    if uri.scheme_str() == Some("https") || is_local { Ok(()) } else { Err(NOT_ENCRYPTED.to_owned()) }
}

fn of_remote(remote: &RawRemote) -> Result<Offer, String> {
    let transport = match remote.kind.as_str() {
        "streamable-http" | "http" => TransportKind::Http,
        "sse" => TransportKind::Sse,
        other => return Err(format!("has an unknown transport: `{}`", brief(other))),
    };
    remote.check().map_err(too_large)?;
    let mut inputs = Inputs::default();
    let url = inputs.parts(&remote.url, &remote.variables, false);
    // With the defaults of its inputs. What a user has to provide is the user's decision, but not the scheme before it.
    match inputs.text(&url, &BTreeMap::new(), &mut Vec::new()) {
        Ok(url) if !url.contains("${") => check_remote_url(&url)?,
        _ if remote.url.starts_with("https://") || remote.url.starts_with('{') => {}
        _ => return Err(NOT_ENCRYPTED.to_owned()),
    }
    let mut headers = Vec::new();
    for header in &remote.headers {
        let name = header.name.clone().unwrap_or_default();
        if name.is_empty() || !name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_".contains(&byte)) {
            return Err(format!("has a header with an invalid name: `{}`", brief(&name)));
        }
        let template = inputs.template(header, InputRole::Header);
        headers.push((name, template));
    }
    let content = OfferContent::Remote { url, headers };
    Ok(Offer { label: String::new(), transport, runtime: None, inputs, content })
}

impl Offer {
    /// Returns the values that the user may provide.
    pub fn inputs(&self) -> &[Input] {
        &self.inputs.0
    }

    /// Returns the entry with the values that the user provides, by name.
    ///
    /// # Errors
    /// If a required value is missing that cannot refer to a variable, or if the entry is too large.
    pub fn plan(&self, values: &BTreeMap<String, String>) -> Result<EntryPlan, NoEntry> {
        let mut references = Vec::new();
        let mut resolve = |template: &Template| match self.inputs.text(template, values, &mut references) {
            Ok(text) => Ok(Some(text)),
            Err(NoValue::Optional) => Ok(None),
            Err(NoValue::Missing(index)) => Err(NoEntry::Missing(Box::new(self.inputs.0[index].clone()))),
        };
        let mut pairs = |pairs: &[(String, Template)]| {
            let mut table = Map::new();
            for (name, template) in pairs {
                if let Some(text) = resolve(template)? {
                    table.insert(name.clone(), json!(text));
                }
            }
            Ok(table)
        };
        let mut dangers = Vec::new();
        let mut entry = Map::from_iter([("type".to_owned(), json!(self.transport.as_str()))]);
        match &self.content {
            OfferContent::Remote { url, headers } => {
                let headers = pairs(headers)?;
                entry.insert("url".to_owned(), json!(resolve(url)?));
                if !headers.is_empty() {
                    entry.insert("headers".to_owned(), Value::Object(headers));
                }
            }
            OfferContent::Package { runtime, before, pinned, after, env } => {
                let env = pairs(env)?;
                let before = words(before, &mut resolve)?;
                let after = words(after, &mut resolve)?;
                let unusual = unusual_arguments(*runtime, &before, &env);
                dangers.extend(unusual.into_iter().map(|word| passes(*runtime, &word)));
                entry.insert("command".to_owned(), json!(runtime.command()));
                entry.insert("args".to_owned(), json!(command_line(*runtime, before, pinned, after, &env)));
                if !env.is_empty() {
                    entry.insert("env".to_owned(), Value::Object(env));
                }
            }
        }
        let entry_bytes = json!(entry).to_string().len();
        if entry_bytes > MAX_ENTRY_BYTES {
            return Err(NoEntry::TooLarge(MAX_ENTRY_BYTES));
        }
        references.sort();
        references.dedup();
        Ok(EntryPlan { entry, references, dangers })
    }
}

fn words(
    arguments: &[Argument],
    resolve: &mut impl FnMut(&Template) -> Result<Option<String>, NoEntry>,
) -> Result<Vec<String>, NoEntry> {
    let mut words = Vec::new();
    for Argument { flag, value } in arguments {
        let value = match value {
            None => None,
            Some(template) => match resolve(template)? {
                Some(text) => Some(text),
                // An optional argument without a value is left out, with its flag.
                None => continue,
            },
        };
        match (flag, value) {
            (Some(flag), Some(value)) if flag.starts_with("--") => words.push(format!("{flag}={value}")),
            (flag, value) => words.extend(flag.clone().into_iter().chain(value)),
        }
    }
    Ok(words)
}

fn passes(runtime: Runtime, argument: &str) -> String {
    format!("passes `{}` to {}, which may change what runs or what it can reach", visible(argument), runtime.command())
}

/// Returns the arguments of a runtime: its own, the package, and those of the package.
fn command_line(
    runtime: Runtime,
    before: Vec<String>,
    pinned: &str,
    after: Vec<String>,
    env: &Map<String, Value>,
) -> Vec<String> {
    let has = |words: &[String], word: &str| words.iter().any(|other| other == word);
    let mut words: Vec<String> = Vec::new();
    match runtime {
        Runtime::Npx if !has(&before, "-y") && !has(&before, "--yes") => words.push("-y".to_owned()),
        Runtime::Container(_) => {
            let needed = ["run", "-i", "--rm"].into_iter().filter(|word| !has(&before, word));
            words.extend(needed.map(str::to_owned));
        }
        Runtime::Npx | Runtime::Uvx | Runtime::Dnx => {}
    }
    // `run` must be the first word, wherever the registry has it.
    let is_run = |word: &String| matches!(runtime, Runtime::Container(_)) && word == "run";
    if before.iter().any(is_run) {
        words.insert(0, "run".to_owned());
    }
    words.extend(before.into_iter().filter(|word| !is_run(word)));
    if matches!(runtime, Runtime::Container(_)) {
        // A container sees only the variables that are named.
        let named = env.keys().filter(|name| !has(&words, name)).cloned().collect::<Vec<_>>();
        words.extend(named.into_iter().flat_map(|name| ["-e".to_owned(), name]));
    }
    words.push(pinned.to_owned());
    if runtime == Runtime::Dnx {
        words.push("--yes".to_owned());
        if !after.is_empty() {
            words.push("--".to_owned());
        }
    }
    words.extend(after);
    words
}

#[cfg(test)]
mod tests;
