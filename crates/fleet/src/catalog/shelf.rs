//! The tools of one server, made ready for models once for each list that it sends.

use std::fmt;
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, OnceLock};

use serde::Serialize;
use serde_json::{Map, Value};
use wharf_protocol::{Json, Listed, ServerName, Tool, ToolRef};

use super::ToolExecutor;
use super::choice::{Chooser, LONGEST, capped};
use super::entry::{Entry, wishes};
use super::normalise::{NormalizedSchema, normalize};
use crate::{Scope, Settings};
use wharf_config::{Pattern, ToolNames, TransportKind};
use wharf_protocol::visible_name;

/// What a shelf is made of.
pub struct ServerToolsParts<'a> {
    /// The server.
    pub server: ServerName,
    /// Who configured it.
    pub scope: Scope,
    /// How it is reached, in a word.
    pub transport: TransportKind,
    /// What is set for it.
    pub settings: Arc<Settings>,
    /// What it says about itself as a whole.
    pub instructions: Option<&'a str>,
    /// Its tools.
    pub tools: &'a Listed<Tool>,
    /// Who carries out their calls.
    pub callee: Arc<dyn ToolExecutor>,
}

/// The tools of one server.
#[derive(Debug)]
pub struct ServerTools {
    /// The server.
    pub server: ServerName,
    /// Who configured it.
    pub scope: Scope,
    /// How it is reached, in a word.
    pub transport: TransportKind,
    /// What it says about itself as a whole, capped.
    pub instructions: Option<Arc<str>>,
    entries: Vec<Arc<Entry>>,
    notes: Vec<CatalogNote>,
}

/// Something that was done to what a server offers, and that somebody may want to know.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct CatalogNote {
    /// The server, if it is about one.
    pub server: Option<ServerName>,
    /// The tool, if it is about one.
    pub tool: Option<String>,
    /// What the note says, for callers that treat some notes differently.
    #[serde(skip)]
    pub kind: CatalogNoteKind,
    /// What was done, and why.
    pub words: String,
}

/// What a note says.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum CatalogNoteKind {
    /// A note of the server's list itself.
    List,
    /// A tool is left out because it is malformed; the server's list has it among the quarantined.
    Malformed,
    /// A well-formed tool is left out.
    LeftOut {
        /// Why, without the words that it is left out.
        reason: String,
    },
    /// Anything else, such as a changed description.
    #[default]
    Other,
}

impl ServerTools {
    /// Filters, describes, caps and normalises the tools of one list.
    pub fn new(parts: ServerToolsParts<'_>) -> Self {
        let ServerToolsParts { server, scope, transport, settings, instructions, tools, callee } = parts;
        let mut shelf = Self { server, scope, transport, instructions: None, entries: Vec::new(), notes: Vec::new() };
        shelf.instructions = instructions.filter(|text| !text.trim().is_empty()).map(|text| match capped(text) {
            Some(cut) => {
                shelf.note(None, format!("its instructions were cut to {LONGEST} characters"));
                cut
            }
            None => text.into(),
        });
        for set_aside in &tools.quarantined {
            let name = set_aside.name.clone().unwrap_or_else(|| format!("number {}", set_aside.position + 1));
            let note = CatalogNote::new(&shelf.server, Some(&name), format!("it is left out: it {}", set_aside.reason));
            shelf.notes.push(CatalogNote { kind: CatalogNoteKind::Malformed, ..note });
        }
        shelf.notes.extend(tools.notes.iter().map(|words| CatalogNote {
            kind: CatalogNoteKind::List,
            ..CatalogNote::new(&shelf.server, None, words.clone())
        }));
        let mut chooser = Chooser::new(&settings.tools);
        let mut chosen = Vec::with_capacity(tools.items.len());
        for tool in &tools.items {
            let name = visible_name(&ToolRef { server: shelf.server.clone(), tool: Arc::clone(&tool.name) });
            if chooser.takes(&ToolNames { visible: &name, server: Some(&shelf.server), tool: &tool.name }) {
                chosen.push((tool, name));
            }
        }
        let (server, listed) = (shelf.server.as_str(), tools.items.len());
        tracing::debug!(target: "wharf::step", step = "filter", server, listed, chosen = chosen.len());
        tracing::debug!(target: "wharf::step", step = "transform", server, tools = chosen.len());
        for (tool, name) in chosen {
            let server = shelf.server.clone();
            let named = ToolNames { visible: &name, server: Some(&server), tool: &tool.name };
            let described = chooser.description(&named);
            let bound = bindings(&settings, &named);
            let Some(input_schema) = shelf.input_schema(tool, bound.as_deref()) else { continue };
            let description = shelf.description(tool, described);
            for odd in &tool.notes {
                shelf.note(Some(&tool.name), odd.clone());
            }
            let (most_characters, needs_person) = wishes(tool);
            shelf.entries.push(Arc::new(Entry {
                name,
                server: Some(server),
                description,
                tool: Arc::clone(tool),
                hints: tool.hints,
                callee: Arc::clone(&callee),
                input_schema,
                settings: Arc::clone(&settings),
                most_characters,
                needs_person,
                bound,
                checked_by: OnceLock::new(),
                decided: AtomicU64::new(0),
            }));
        }
        for words in chooser.unused(&tools.items.iter().map(|tool| &*tool.name)) {
            shelf.note(None, words);
        }
        let known = |name: &String| tools.items.iter().any(|tool| shelf.means(name, tool));
        let unknown: Vec<&String> = settings.bindings.keys().filter(|name| !known(name)).collect();
        for name in unknown {
            shelf.note(None, format!("arguments are set for `{name}`, which is no tool here"));
        }
        shelf
    }

    /// The tools, in the server's order.
    pub fn entries(&self) -> &[Arc<Entry>] {
        &self.entries
    }

    /// What was done to them.
    pub fn notes(&self) -> &[CatalogNote] {
        &self.notes
    }

    fn note(&mut self, tool: Option<&str>, words: String) {
        self.notes.push(CatalogNote::new(&self.server, tool, words));
    }

    fn means(&self, name: &str, tool: &Tool) -> bool {
        let visible = visible_name(&ToolRef { server: self.server.clone(), tool: Arc::clone(&tool.name) });
        Pattern::new(name).fits_tool(&ToolNames { visible: &visible, server: Some(&self.server), tool: &tool.name })
    }

    /// What the model is told, shared with the tool's own words where they are not changed.
    fn description(&mut self, tool: &Tool, described: Option<&str>) -> Arc<str> {
        if described.is_some() {
            self.note(Some(&tool.name), "its description is overridden".to_owned());
        }
        let words: Arc<str> = match (described, &tool.description) {
            (Some(words), _) => words.into(),
            (None, Some(words)) if !words.trim().is_empty() => Arc::clone(words),
            (None, _) => tool.description_or_default().into(),
        };
        capped(&words).inspect(|_| self.note(Some(&tool.name), cut_note())).unwrap_or(words)
    }

    /// What the model may write, shared with the tool's own schema where that can be shown as it is.
    fn input_schema(&mut self, tool: &Tool, bound: Option<&Map<String, Value>>) -> Option<Json> {
        let schema = match normalize(&tool.input_schema) {
            NormalizedSchema::Same => tool.input_schema.clone(),
            NormalizedSchema::Changed(schema, notes) => {
                self.note(Some(&tool.name), format!("its schema is shown changed: {}", notes.join("; ")));
                schema
            }
            NormalizedSchema::Unusable(reason) => {
                let reason = format!("its schema cannot be used: {reason}");
                self.notes.push(CatalogNote::left_out(Some(self.server.clone()), &tool.name, reason));
                return None;
            }
        };
        Some(match bound {
            Some(bound) => without(&schema, bound).unwrap_or(schema),
            None => schema,
        })
    }
}

pub(super) fn cut_note() -> String {
    format!("its description was cut to {LONGEST} characters")
}

impl CatalogNote {
    pub(super) fn new(server: &ServerName, tool: Option<&str>, words: String) -> Self {
        Self { server: Some(server.clone()), tool: tool.map(str::to_owned), kind: CatalogNoteKind::Other, words }
    }

    /// A note that a well-formed tool is left out.
    pub(super) fn left_out(server: Option<ServerName>, tool: &str, reason: String) -> Self {
        let words = format!("it is left out: {reason}");
        Self { server, tool: Some(tool.to_owned()), kind: CatalogNoteKind::LeftOut { reason }, words }
    }
}

impl fmt::Display for CatalogNote {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(server) = &self.server {
            write!(f, "{server}: ")?;
        }
        if let Some(tool) = &self.tool {
            write!(f, "`{tool}`: ")?;
        }
        f.write_str(&self.words)
    }
}

/// The arguments that are always sent with a tool.
fn bindings(settings: &Settings, named: &ToolNames<'_>) -> Option<Arc<Map<String, Value>>> {
    let mut all: Option<Map<String, Value>> = None;
    for (_, bound) in settings.bindings.iter().filter(|(name, _)| Pattern::new(name).fits_tool(named)) {
        all.get_or_insert_default().extend(bound.clone());
    }
    all.filter(|all| !all.is_empty()).map(Arc::new)
}

/// The schema without the arguments that the model has no part in.
pub(super) fn without(schema: &Json, bound: &Map<String, Value>) -> Option<Json> {
    let Ok(Value::Object(mut schema)) = schema.to_value() else { return None };
    if let Some(Value::Object(properties)) = schema.get_mut("properties") {
        properties.retain(|name, _| !bound.contains_key(name));
    }
    if let Some(Value::Array(required)) = schema.get_mut("required") {
        required.retain(|name| name.as_str().is_none_or(|name| !bound.contains_key(name)));
        if required.is_empty() {
            schema.shift_remove("required");
        }
    }
    Some(Json::from(Value::Object(schema)))
}
