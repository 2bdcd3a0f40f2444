//! One tool in a catalog: what the model is told of it, what is sent for it, and who carries it out.

use std::borrow::Cow;
use std::fmt;
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, OnceLock};

use serde::Serialize;
use serde_json::{Map, Value};
use wharf_client::{Schema, SchemaViolation};
use wharf_protocol::{Fields, Hints, Json, ServerName, Tool, ToolDefinition};

use super::ToolExecutor;
use super::shelf::without;
use crate::Settings;
use wharf_config::ToolNames;

/// The most characters a tool may ask for its own outputs.
const MOST_CHARACTERS: usize = 500_000;

/// One tool in a catalog.
pub struct Entry {
    /// The name the model sees.
    pub name: Arc<str>,
    /// The server it lives on; the host's own tools have none.
    pub server: Option<ServerName>,
    /// What the model is told about it: overridden where somebody said so, and capped.
    pub description: Arc<str>,
    /// The tool as its server describes it.
    pub tool: Arc<Tool>,
    /// What it says about itself.
    pub hints: Hints,
    /// Who carries it out.
    pub callee: Arc<dyn ToolExecutor>,
    /// What it takes, in a form that every model API accepts.
    pub input_schema: Json,
    /// What is set for its server; the usual for the host's own tools.
    pub settings: Arc<Settings>,
    /// The longest output it asks for, in characters.
    pub most_characters: Option<usize>,
    /// Whether it wants a person to be asked each time.
    pub needs_person: bool,
    /// Arguments that are always sent and never shown.
    pub(super) bound: Option<Arc<Map<String, Value>>>,
    /// The tool's own schema, compiled when it is first called.
    pub(super) checked_by: OnceLock<Result<Box<Schema>, String>>,
    /// What a policy has decided about it, in that policy's own words.
    pub(crate) decided: AtomicU64,
}

/// What lists of tools show besides names and descriptions.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Metadata {
    /// Where it comes from: `mcp` for a server's tool, `own` for the host's.
    pub tool_type: &'static str,
    /// A name for people.
    pub display_name: String,
    /// Where it is kept: its server.
    pub folder_path: Option<String>,
    /// Its server's name and its own, as one would write them in an address.
    pub slug: String,
}

/// Arguments that fit a tool.
pub(crate) struct Fitted<'a> {
    /// What is to be sent.
    pub(crate) arguments: Cow<'a, Json>,
    /// Whether they had to be mended.
    pub(crate) repaired: bool,
    /// Why they could not be checked.
    pub(crate) unchecked: Option<String>,
}

impl Entry {
    /// The tool as a model is shown it.
    pub fn offered(&self) -> ToolDefinition {
        ToolDefinition {
            name: Arc::clone(&self.name),
            description: Arc::clone(&self.description),
            input_schema: self.input_schema.clone(),
            hints: self.hints,
        }
    }

    /// The names that patterns are compared with.
    pub fn named(&self) -> ToolNames<'_> {
        ToolNames { visible: &self.name, server: self.server.as_ref(), tool: &self.tool.name }
    }

    /// What lists of tools show.
    pub fn metadata(&self) -> Metadata {
        let annotated = || {
            let fields = Fields::of(self.tool.annotations.as_ref()?).ok()?;
            fields.text("title").ok().flatten()
        };
        let title = self.tool.title.as_deref().map(str::to_owned).or_else(annotated);
        let title = title.filter(|title| !title.trim().is_empty());
        let own = slug(&self.tool.name);
        Metadata {
            tool_type: if self.server.is_some() { "mcp" } else { "own" },
            display_name: title.unwrap_or_else(|| self.tool.name.to_string()),
            folder_path: self.server.as_ref().map(ServerName::to_string),
            slug: self.server.as_ref().map_or_else(|| own.clone(), |server| format!("{}/{own}", slug(server.as_str()))),
        }
    }

    /// The names of the arguments that are set by the configuration.
    pub fn bound(&self) -> impl Iterator<Item = &str> {
        self.bound.iter().flat_map(|bound| bound.keys().map(String::as_str))
    }

    /// Arguments with what is always sent, checked against the tool's own schema and mended where that is all it takes.
    pub(crate) fn fit<'a>(&self, written: &'a Json) -> Result<Fitted<'a>, SchemaViolation> {
        let (mut arguments, mut repaired) = match as_object(written) {
            Some(object) => (Cow::Owned(object), true),
            None => (Cow::Borrowed(written), false),
        };
        if let Some(bound) = &self.bound {
            arguments = Cow::Owned(with_bound(&arguments, bound));
        }
        let schema = self.checked_by.get_or_init(|| Schema::compile(&self.tool.input_schema).map(Box::new));
        let unchecked = match schema {
            Ok(schema) => {
                if let Some(mended) = schema.admit(&arguments).map_err(|fault| self.without_bound(fault))? {
                    (arguments, repaired) = (Cow::Owned(mended), true);
                }
                None
            }
            Err(_) if !arguments.is_object() || arguments.to_value().is_err() => {
                let message = "the arguments are no object, or one that is nested too deep".to_owned();
                return Err(SchemaViolation { path: String::new(), message });
            }
            // The server owns its schema and checks for itself.
            Err(reason) => Some(reason.clone()),
        };
        Ok(Fitted { arguments, repaired, unchecked })
    }

    /// A schema of this tool as a model is shown it: without what the configuration sets.
    pub(crate) fn without_bound_properties(&self, schema: &Json) -> Json {
        let shown = self.bound.as_deref().and_then(|bound| without(schema, bound));
        shown.unwrap_or_else(|| schema.clone())
    }

    /// A fault quotes what it is about, and that may be what the configuration sets.
    fn without_bound(&self, fault: SchemaViolation) -> SchemaViolation {
        if self.bound.is_none() {
            return fault;
        }
        let message = "what is given there, or what is missing, does not fit".to_owned();
        SchemaViolation { message, ..fault }
    }

    /// Arguments as everybody but the tool sees them: without what the configuration sets. `None` where it sets nothing.
    pub(crate) fn seen(&self, arguments: &Json) -> Option<Json> {
        let bound = self.bound.as_ref()?;
        match arguments.to_value() {
            Ok(Value::Object(mut fields)) => {
                fields.retain(|name, _| !bound.contains_key(name));
                Some(Json::from(Value::Object(fields)))
            }
            _ => None,
        }
    }

    /// The same tool with other words for the model.
    pub(super) fn described(&self, description: Arc<str>) -> Self {
        Self {
            name: Arc::clone(&self.name),
            server: self.server.clone(),
            description,
            tool: Arc::clone(&self.tool),
            hints: self.hints,
            callee: Arc::clone(&self.callee),
            input_schema: self.input_schema.clone(),
            settings: Arc::clone(&self.settings),
            most_characters: self.most_characters,
            needs_person: self.needs_person,
            bound: self.bound.clone(),
            checked_by: OnceLock::new(),
            decided: AtomicU64::new(0),
        }
    }
}

impl fmt::Debug for Entry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Entry").field("name", &self.name).finish_non_exhaustive()
    }
}

/// What a tool says in `_meta` that hosts act on: how long its outputs may be, and whether a person has to be asked.
pub(crate) fn wishes(tool: &Tool) -> (Option<usize>, bool) {
    // Most tools have none, and reading each of thousands to find that out takes time.
    if !tool.raw.as_str().contains("\"_meta\"") {
        return (None, false);
    }
    let Some(meta) = Fields::of(&tool.raw).ok().and_then(|fields| fields.json("_meta")) else { return (None, false) };
    let Ok(meta) = Fields::of(&meta) else { return (None, false) };
    let characters =
        meta.raw("anthropic/maxResultSizeChars").and_then(|raw| serde_json::from_str::<u64>(raw.get()).ok());
    let characters = characters.map(|most| usize::try_from(most).unwrap_or(MOST_CHARACTERS).min(MOST_CHARACTERS));
    let person = meta.flag("anthropic/requiresUserInteraction").ok().flatten() == Some(true);
    (characters.filter(|most| *most > 0), person)
}

/// Models that want to say "no arguments" write `null` or nothing, and some write the whole object as a text.
fn as_object(written: &Json) -> Option<Json> {
    if written.is_null() {
        return Some(Json::from(Value::Object(Map::new())));
    }
    if !written.as_str().starts_with('"') {
        return None;
    }
    let text: String = written.decode().ok()?;
    if text.trim().is_empty() {
        return Some(Json::from(Value::Object(Map::new())));
    }
    Json::parse(text).ok().filter(Json::is_object)
}

fn with_bound(arguments: &Json, bound: &Map<String, Value>) -> Json {
    match arguments.to_value() {
        Ok(Value::Object(mut fields)) => {
            fields.extend(bound.iter().map(|(name, value)| (name.clone(), value.clone())));
            Json::from(Value::Object(fields))
        }
        // The schema says what is wrong with it.
        _ => arguments.clone(),
    }
}

fn slug(name: &str) -> String {
    let kept =
        |c: char| if c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.') { c.to_ascii_lowercase() } else { '-' };
    name.chars().map(kept).collect()
}
