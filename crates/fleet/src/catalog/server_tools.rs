//! The tools of one server, prepared for models once for each list that the server sends.

use std::sync::Arc;

use serde_json::{Map, Value};
use wharf_client::{Schema, SchemaError};
use wharf_protocol::{Json, Listed, ServerName, Tool, ToolLoading, ToolRef};

use super::entry::{Entry, EntryParts, ToolMeta, without_bound};
use super::executor::ToolExecutor;
use super::normalize::{NormalizedSchema, may_multiply, normalize};
use super::note::{CatalogNote, CatalogNoteKind, description_cut};
use super::strictest_hints::{StrictHints, StrictestHints};
use super::tool_filter::{MAX_DESCRIPTION_CHARS, ToolFilter, capped};
use wharf_config::{AlwaysLoad, Pattern, Scope, Settings, ToolNames, TransportKind};
use wharf_protocol::visible_name;

/// The largest definition of a tool that a model sees, in bytes of its name, description and schema.
const DEFAULT_MAX_TOOL_BYTES: usize = 64 * 1024;

/// The input of [`ServerTools::new`].
pub struct ServerToolsParts<'a> {
    /// The server's name.
    pub server: ServerName,
    /// The scope that configures it.
    pub scope: Scope,
    /// Its transport: `stdio`, `http`, `sse`, `ws` or `sdk`.
    pub transport: TransportKind,
    /// Its settings.
    pub settings: Arc<Settings>,
    /// Its instructions.
    pub instructions: Option<&'a str>,
    /// Its tool list.
    pub tools: &'a Listed<Tool>,
    /// The strictest hints of its tools so far.
    pub hints: &'a StrictestHints,
    /// The executor of its tools.
    pub executor: Arc<dyn ToolExecutor>,
}

/// The tools of one server.
#[derive(Debug)]
pub struct ServerTools {
    /// The server's name.
    pub server: ServerName,
    /// The scope that configures it.
    pub scope: Scope,
    /// Its transport: `stdio`, `http`, `sse`, `ws` or `sdk`.
    pub transport: TransportKind,
    /// Its instructions for models, capped; `None` if its settings exclude them.
    pub instructions: Option<Arc<str>>,
    entries: Vec<Arc<Entry>>,
    notes: Vec<CatalogNote>,
}

/// Collects notes on one server.
struct Notes {
    server: ServerName,
    notes: Vec<CatalogNote>,
}

impl ServerTools {
    /// Filters, describes, caps and normalizes the tools of one list.
    pub fn new(parts: ServerToolsParts<'_>) -> Self {
        let ServerToolsParts { server, scope, transport, settings, instructions, tools, hints, executor } = parts;
        let mut notes = Notes { server: server.clone(), notes: Vec::new() };
        let instructions = if settings.instructions { notes.capped_instructions(instructions) } else { None };
        for item in &tools.quarantined {
            let name = item.name.clone().unwrap_or_else(|| format!("number {}", item.position + 1));
            notes.add(Some(&name), CatalogNoteKind::Quarantined, item.reason.clone());
        }
        for text in &tools.notes {
            notes.add(None, CatalogNoteKind::List, text.clone());
        }
        let mut filter = ToolFilter::new(&settings.tools);
        let mut chosen = Vec::with_capacity(tools.items.len());
        for tool in &tools.items {
            let name = visible_name(&ToolRef { server: server.clone(), tool: Arc::clone(&tool.name) });
            if filter.selects(&ToolNames { visible: &name, server: Some(&server), tool: &tool.name }) {
                chosen.push((tool, name));
            }
        }
        let listed = tools.items.len();
        tracing::debug!(target: "wharf::step", step = "filter", server = server.as_str(), listed, chosen = chosen.len());
        tracing::debug!(target: "wharf::step", step = "transform", server = server.as_str(), tools = chosen.len());
        let mut entries = Vec::with_capacity(chosen.len());
        for (tool, name) in chosen {
            let names = ToolNames { visible: &name, server: Some(&server), tool: &tool.name };
            let overriding = filter.description(&names);
            let bound = bindings(&settings, &names);
            let description = description(tool, overriding);
            let bytes = |schema: &Json| name.len() + description.shown().len() + schema.as_str().len();
            // A schema that is too large is not even parsed.
            if !notes.is_small_enough(tool, bytes(&tool.input_schema), &settings) {
                continue;
            }
            let Some(input_schema) = notes.input_schema(tool, bound.as_deref()) else { continue };
            if !notes.is_small_enough(tool, bytes(&input_schema), &settings) {
                continue;
            }
            let description = notes.description(tool, description);
            notes.output_schema(tool);
            for irregular in &tool.notes {
                notes.add(Some(&tool.name), CatalogNoteKind::Tool, irregular.clone());
            }
            let ToolMeta { max_output_chars, requires_user, always_load } = ToolMeta::of(tool);
            let loading = loading(&settings.always_load, &names, always_load);
            let StrictHints { hints, requires_user } =
                hints.add(&tool.name, StrictHints { hints: tool.hints, requires_user });
            entries.push(Arc::new(Entry::new(EntryParts {
                name,
                server: Some(server.clone()),
                description,
                tool: Arc::clone(tool),
                hints,
                executor: Arc::clone(&executor),
                input_schema,
                settings: Arc::clone(&settings),
                max_output_chars,
                requires_user,
                loading,
                bound,
            })));
        }
        for text in filter.unused(&tools.items.iter().map(|tool| &*tool.name)) {
            notes.add(None, CatalogNoteKind::UnknownTool, text);
        }
        for name in settings.bindings.keys().filter(|name| !tools.items.iter().any(|tool| names(name, &server, tool))) {
            notes.add(
                None,
                CatalogNoteKind::UnknownTool,
                format!("bound arguments for `{name}`, which matches no tool"),
            );
        }
        Self { server, scope, transport, instructions, entries, notes: notes.notes }
    }

    /// The tools, in the server's order.
    pub fn entries(&self) -> &[Arc<Entry>] {
        &self.entries
    }

    /// What was changed or left out.
    pub fn notes(&self) -> &[CatalogNote] {
        &self.notes
    }
}

impl Notes {
    fn add(&mut self, tool: Option<&str>, kind: CatalogNoteKind, text: String) {
        self.notes.push(CatalogNote::new(&self.server, tool, kind, text));
    }

    fn capped_instructions(&mut self, instructions: Option<&str>) -> Option<Arc<str>> {
        let text = instructions.filter(|text| !text.trim().is_empty())?;
        let Some(cut) = capped(text) else { return Some(text.into()) };
        let note = format!("instructions cut to {MAX_DESCRIPTION_CHARS} characters");
        self.add(None, CatalogNoteKind::Description, note);
        Some(cut)
    }

    /// Notes what was changed in a description, and returns its text for the model.
    fn description(&mut self, tool: &Tool, description: Description) -> Arc<str> {
        if description.is_overridden {
            self.add(Some(&tool.name), CatalogNoteKind::Description, "description overridden".to_owned());
        }
        let Some(cut) = description.cut else { return description.text };
        self.add(Some(&tool.name), CatalogNoteKind::Description, description_cut());
        cut
    }

    /// Leaves a tool out if its definition is too large. Cutting a definition would change its meaning.
    fn is_small_enough(&mut self, tool: &Tool, bytes: usize, settings: &Settings) -> bool {
        let max = settings.max_tool_bytes.unwrap_or(DEFAULT_MAX_TOOL_BYTES);
        if bytes > max {
            let text = format!("its definition has {bytes} bytes; the maximum is {max}");
            self.add(Some(&tool.name), CatalogNoteKind::TooLarge, text);
        }
        bytes <= max
    }

    /// Notes an output schema that results are not checked against, because that would take too much work.
    fn output_schema(&mut self, tool: &Tool) {
        let Some(schema) = &tool.output_schema else { return };
        let weight = Schema::check_size(schema).and_then(|()| {
            if may_multiply(schema) { Schema::weight(&Schema::parse(schema)?).map(drop) } else { Ok(()) }
        });
        if let Err(SchemaError::OverBudget(reason)) = weight {
            let text = format!("output schema ignored: {reason}");
            self.add(Some(&tool.name), CatalogNoteKind::Schema, text);
        }
    }

    /// Returns the schema for the model, shared with the tool if it is unchanged; `None` if models cannot use it.
    fn input_schema(&mut self, tool: &Tool, bound: Option<&Map<String, Value>>) -> Option<Json> {
        let schema = match normalize(&tool.input_schema) {
            NormalizedSchema::Same => tool.input_schema.clone(),
            NormalizedSchema::Changed(schema, changes) => {
                let text = format!("schema adjusted for models: {}", changes.join("; "));
                self.add(Some(&tool.name), CatalogNoteKind::Schema, text);
                schema
            }
            NormalizedSchema::Unusable(reason) => {
                self.add(Some(&tool.name), CatalogNoteKind::LeftOut, format!("unusable schema: {reason}"));
                return None;
            }
        };
        Some(match bound {
            Some(bound) => without_bound(&schema, bound).unwrap_or(schema),
            None => schema,
        })
    }
}

/// A tool's description for the model.
struct Description {
    text: Arc<str>,
    /// The text without its end, if it is too long.
    cut: Option<Arc<str>>,
    is_overridden: bool,
}

impl Description {
    fn shown(&self) -> &str {
        self.cut.as_ref().unwrap_or(&self.text)
    }
}

/// Returns a tool's description, shared with the tool if it is unchanged.
fn description(tool: &Tool, overriding: Option<&str>) -> Description {
    let text: Arc<str> = match (overriding, &tool.description) {
        (Some(text), _) => text.into(),
        (None, Some(text)) if !text.trim().is_empty() => Arc::clone(text),
        (None, _) => tool.description_or_default().into(),
    };
    Description { cut: capped(&text), text, is_overridden: overriding.is_some() }
}

/// Whether a name of the configuration names a tool.
fn names(name: &str, server: &ServerName, tool: &Tool) -> bool {
    let visible = visible_name(&ToolRef { server: server.clone(), tool: Arc::clone(&tool.name) });
    Pattern::new(name).fits_tool(&ToolNames { visible: &visible, server: Some(server), tool: &tool.name })
}

/// Returns the arguments that are always sent with a tool.
fn bindings(settings: &Settings, names: &ToolNames<'_>) -> Option<Arc<Map<String, Value>>> {
    let mut all: Option<Map<String, Value>> = None;
    for (_, bound) in settings.bindings.iter().filter(|(name, _)| Pattern::new(name).fits_tool(names)) {
        all.get_or_insert_default().extend(bound.clone());
    }
    all.filter(|all| !all.is_empty()).map(Arc::new)
}

/// Returns whether a tool is offered at once: as the user says, or else as its server requests.
fn loading(setting: &AlwaysLoad, names: &ToolNames<'_>, is_requested: bool) -> ToolLoading {
    match setting {
        AlwaysLoad::All => ToolLoading::Always,
        AlwaysLoad::Tools(patterns) if patterns.iter().any(|pattern| pattern.fits_tool(names)) => ToolLoading::Always,
        AlwaysLoad::AsRequested | AlwaysLoad::Tools(_) if is_requested => ToolLoading::Requested,
        AlwaysLoad::AsRequested | AlwaysLoad::Tools(_) | AlwaysLoad::None => ToolLoading::Deferred,
    }
}
