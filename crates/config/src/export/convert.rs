//! Converts an entry to that of another host.

use serde_json::{Map, Value, json};

use super::ExportHost;
use crate::expand::translate;
use crate::import::variable_name;
use crate::raw_entry::RawEntry;
use crate::secrets::{SecretPlace, secret_places};
use crate::server::TransportKind;

/// The keys that every host understands.
const COMMON: [&str; 7] = ["type", "command", "args", "env", "cwd", "url", "headers"];

/// An entry for another host.
#[derive(Clone, Debug, PartialEq)]
pub struct ExportedEntry {
    /// The entry.
    pub entry: Map<String, Value>,
    /// What the host does not understand.
    pub notes: Vec<String>,
    /// Where the entry contains secrets, without their values.
    pub secrets: Vec<String>,
}

/// What becomes of a secret that an entry contains.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SecretValues {
    /// It is copied.
    Copy,
    /// A reference to a variable takes its place, if the host has variables.
    Placeholder,
}

/// Converts an entry as it is written; fails with the reason why the host cannot use it.
pub fn convert(
    host: ExportHost,
    written: &RawEntry,
    transport: TransportKind,
    secrets: SecretValues,
) -> Result<ExportedEntry, String> {
    let mut draft = Draft { host, notes: Vec::new() };
    let mut entry = Map::new();
    match transport {
        TransportKind::Stdio => {
            let command = written.text("command").ok_or("has no command")?;
            // The host starts it in a directory of its own.
            if command.contains('/') && !command.starts_with(['/', '$', '~']) {
                return Err("has a command relative to its project".to_owned());
            }
            if host == ExportHost::VsCode {
                entry.insert("type".to_owned(), json!("stdio"));
            }
            entry.insert("command".to_owned(), json!(draft.text(command)?));
            draft.copy(written, "args", &mut entry)?;
            draft.copy(written, "env", &mut entry)?;
            match (host, written.get("cwd")) {
                (_, None) => {}
                (ExportHost::VsCode, Some(_)) => draft.copy(written, "cwd", &mut entry)?,
                (_, Some(_)) => draft.notes.push("`cwd` is not supported there".to_owned()),
            }
        }
        TransportKind::Http | TransportKind::Sse => {
            if host == ExportHost::ClaudeDesktop {
                return Err("is a remote server; Claude Desktop adds those as connectors, not in this file".to_owned());
            }
            let url = written.text("url").ok_or("has no URL")?;
            if host == ExportHost::VsCode {
                entry.insert("type".to_owned(), json!(transport.as_str()));
            }
            entry.insert("url".to_owned(), json!(draft.text(url)?));
            draft.copy(written, "headers", &mut entry)?;
        }
        other => return Err(format!("has the transport `{other}`, which the host does not have")),
    }
    let dropped = written.keys().filter(|key| !COMMON.contains(key)).map(|key| format!("`{key}`")).collect::<Vec<_>>();
    if !dropped.is_empty() {
        draft.notes.push(format!("{} not exported: only Wharf has it", dropped.join(", ")));
    }
    let places = secret_places(written);
    let names: Vec<String> = places.iter().map(SecretPlace::to_string).collect();
    if secrets == SecretValues::Copy || places.is_empty() {
        return Ok(ExportedEntry { entry, notes: draft.notes, secrets: names });
    }
    if host == ExportHost::ClaudeDesktop {
        return Err(format!("contains {}, and Claude Desktop has no variables", names.join(", ")));
    }
    for place in places {
        let SecretPlace::Field { group, name } = &place else {
            return Err(format!("contains a secret in `{place}`, where no placeholder is written; move it to `env`"));
        };
        let Some(value) = entry.get_mut(*group).and_then(|group| group.get_mut(name)) else { continue };
        let scheme = value.as_str().and_then(|text| text.split_once(' ')).map(|(scheme, _)| format!("{scheme} "));
        let scheme = scheme.filter(|_| *group == "headers").unwrap_or_default();
        let variable = variable_name(name);
        *value = json!(format!("{scheme}${{env:{variable}}}"));
        draft.notes.push(format!("set {variable} in the environment of the host"));
    }
    Ok(ExportedEntry { entry, notes: draft.notes, secrets: Vec::new() })
}

struct Draft {
    host: ExportHost,
    notes: Vec<String>,
}

impl Draft {
    /// Copies a text, or the texts of a list or an object.
    fn copy(&mut self, written: &RawEntry, key: &str, entry: &mut Map<String, Value>) -> Result<(), String> {
        let Some(value) = written.get(key) else { return Ok(()) };
        let copied = self.value(value)?;
        entry.insert(key.to_owned(), copied);
        Ok(())
    }

    fn value(&mut self, value: &Value) -> Result<Value, String> {
        Ok(match value {
            Value::String(text) => json!(self.text(text)?),
            Value::Array(items) => Value::Array(items.iter().map(|item| self.value(item)).collect::<Result<_, _>>()?),
            Value::Object(fields) => {
                let field = |(key, value): (&String, &Value)| Ok((key.clone(), self.value(value)?));
                Value::Object(fields.iter().map(field).collect::<Result<_, String>>()?)
            }
            // Environment variables are texts, which some hosts insist on.
            other => json!(other.to_string()),
        })
    }

    /// Translates the variables of a text.
    fn text(&mut self, text: &str) -> Result<String, String> {
        let host = self.host;
        let mut unsupported = None;
        let mut lost_defaults = Vec::new();
        let translated = translate(
            text,
            |plain| {
                if plain.contains("${") && host != ExportHost::ClaudeDesktop {
                    unsupported = Some("contains `${` as plain text, which the host would expand".to_owned());
                }
                plain.to_owned()
            },
            |name, default| {
                lost_defaults.extend(default.map(|default| format!("`${{{name}:-{default}}}`")));
                format!("${{env:{name}}}")
            },
        );
        let translated = translated.map_err(|found| format!("has an invalid reference: `{found}`"))?;
        if let Some(reason) = unsupported {
            return Err(reason);
        }
        if host == ExportHost::ClaudeDesktop && translated.contains("${env:") {
            let name = translated.split("${env:").nth(1).and_then(|rest| rest.split('}').next()).unwrap_or_default();
            return Err(format!("refers to the variable {name}, and Claude Desktop has no variables"));
        }
        for lost in lost_defaults {
            self.notes.push(format!("the default of {lost} is not supported there: set the variable"));
        }
        Ok(translated)
    }
}
