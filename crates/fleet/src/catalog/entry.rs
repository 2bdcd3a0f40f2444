//! One tool in a catalog: its description for the model, its settings, and its executor.

use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use serde::Serialize;
use serde_json::{Map, Value};
use tokio::sync::OnceCell;
use wharf_client::{Admission, Schema, SchemaError, SchemaViolation};
use wharf_protocol::{Fields, Hints, Json, ServerName, Tool, ToolDefinition, ToolLoading};

use super::executor::ToolExecutor;
use super::tool_filter::capped;
use wharf_config::{Settings, ToolNames};

/// The longest output limit that a tool may request for itself, in characters.
const MAX_REQUESTED_OUTPUT_CHARS: usize = 500_000;

/// One tool in a catalog.
pub struct Entry {
    /// The name that the model sees.
    pub name: Arc<str>,
    /// The tool's server; `None` for the host's own tools.
    pub server: Option<ServerName>,
    /// The description for the model: overridden if configured, and capped.
    pub description: Arc<str>,
    /// The tool as its server describes it.
    pub tool: Arc<Tool>,
    /// The tool's hints: of all that its server has sent, the strictest.
    pub hints: Hints,
    /// The executor of its calls.
    pub executor: Arc<dyn ToolExecutor>,
    /// The input schema, in a form that every model API accepts.
    pub input_schema: Json,
    /// The settings of its server; the defaults for the host's own tools.
    pub settings: Arc<Settings>,
    /// The output limit that the tool requests, in characters.
    pub max_output_chars: Option<usize>,
    /// Whether the tool requires the user's approval for each call.
    pub requires_user: bool,
    /// Whether models may have to search for it.
    pub loading: ToolLoading,
    /// Arguments that are always sent and never shown.
    bound: Option<Arc<Map<String, Value>>>,
    /// The tool's own schema, compiled by the first call.
    compiled_schema: OnceCell<Result<Arc<Schema>, SchemaError>>,
    /// The cached decision of a policy, encoded by its evaluator.
    pub(crate) decided: AtomicU64,
}

/// The input of [`Entry::new`].
pub(super) struct EntryParts {
    pub(super) name: Arc<str>,
    pub(super) server: Option<ServerName>,
    pub(super) description: Arc<str>,
    pub(super) tool: Arc<Tool>,
    pub(super) hints: Hints,
    pub(super) executor: Arc<dyn ToolExecutor>,
    pub(super) input_schema: Json,
    pub(super) settings: Arc<Settings>,
    pub(super) max_output_chars: Option<usize>,
    pub(super) requires_user: bool,
    pub(super) loading: ToolLoading,
    pub(super) bound: Option<Arc<Map<String, Value>>>,
}

/// Metadata for lists of tools.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Metadata {
    /// The origin: `mcp` for a server's tool, `own` for the host's.
    pub tool_type: &'static str,
    /// A name for people.
    pub display_name: String,
    /// The tool's server.
    pub folder_path: Option<String>,
    /// The names of the server and the tool in the form of a URL path.
    pub slug: String,
}

/// Arguments that match a tool's schema.
pub(crate) struct Admitted<'a> {
    /// The arguments to send.
    pub(crate) arguments: Cow<'a, Json>,
    /// Whether they had to be repaired.
    pub(crate) repaired: bool,
    /// Why they could not be checked.
    pub(crate) unchecked: Option<String>,
}

/// Why arguments are not sent.
#[derive(Clone, Debug)]
pub(crate) enum NotAdmitted {
    /// They do not match the tool's schema.
    Violation(SchemaViolation),
    /// Checking them took too long. They may be invalid.
    TimedOut,
}

impl From<SchemaViolation> for NotAdmitted {
    fn from(fault: SchemaViolation) -> Self {
        Self::Violation(fault)
    }
}

impl Entry {
    pub(super) fn new(parts: EntryParts) -> Self {
        Self {
            name: parts.name,
            server: parts.server,
            description: parts.description,
            hints: parts.hints,
            tool: parts.tool,
            executor: parts.executor,
            input_schema: parts.input_schema,
            settings: parts.settings,
            max_output_chars: parts.max_output_chars,
            requires_user: parts.requires_user,
            loading: parts.loading,
            bound: parts.bound,
            compiled_schema: OnceCell::new(),
            decided: AtomicU64::new(0),
        }
    }

    /// The tool as a model sees it.
    pub fn offered(&self) -> ToolDefinition {
        ToolDefinition {
            name: Arc::clone(&self.name),
            description: Arc::clone(&self.description),
            input_schema: self.input_schema.clone(),
            hints: self.hints,
            loading: self.loading,
        }
    }

    /// The description without the cap: its server's, if models see the beginning of that. A session stores no more than
    /// its `max_description_chars`.
    pub fn whole_description(&self) -> &str {
        match &self.tool.description {
            Some(whole) if capped(whole).is_some_and(|cut| cut == self.description) => whole,
            _ => &self.description,
        }
    }

    /// The names that patterns are matched against.
    pub fn named(&self) -> ToolNames<'_> {
        ToolNames { visible: &self.name, server: self.server.as_ref(), tool: &self.tool.name }
    }

    /// The metadata for lists of tools.
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

    /// The names of the arguments that the configuration sets.
    pub fn bound(&self) -> impl Iterator<Item = &str> {
        self.bound.iter().flat_map(|bound| bound.keys().map(String::as_str))
    }

    /// Adds the bound arguments, checks the result against the tool's own schema, and repairs what can be repaired.
    pub(crate) async fn admit<'a>(&self, written: &'a Json) -> Result<Admitted<'a>, NotAdmitted> {
        let object = as_object(written);
        let mut repaired = object.is_some();
        let mut arguments = object.map_or(Cow::Borrowed(written), Cow::Owned);
        if let Some(bound) = &self.bound {
            arguments = Cow::Owned(with_bound(&arguments, bound)?);
        }
        let schema = match self.compiled_schema.get() {
            Some(schema) => schema,
            None => self.compiled_schema.get_or_try_init(|| Box::pin(self.compile())).await?,
        };
        let unchecked = match schema {
            Ok(schema) => match schema.admit(&arguments).await.map_err(|fault| self.without_bound_values(fault))? {
                Admission::Valid => None,
                Admission::Repaired(fixed) => {
                    arguments = Cow::Owned(fixed);
                    repaired = true;
                    None
                }
                Admission::Unchecked(reason) => Some(reason),
                Admission::TimedOut => return Err(NotAdmitted::TimedOut),
            },
            Err(_) if !arguments.is_object() => {
                let message = "the arguments are not an object".to_owned();
                return Err(SchemaViolation::of_whole(message).into());
            }
            // The server owns its schema and checks the arguments too.
            Err(reason) => {
                SchemaViolation::in_text(&arguments)?;
                Some(reason.to_string())
            }
        };
        Ok(Admitted { arguments, repaired, unchecked })
    }

    /// Compiles the tool's schema. What took too long is not stored, so that the next call tries it again.
    async fn compile(&self) -> Result<Result<Arc<Schema>, SchemaError>, NotAdmitted> {
        match Schema::compile_in_background(&self.tool.input_schema, self.server.as_ref()).await {
            Err(SchemaError::TimedOut) => Err(NotAdmitted::TimedOut),
            compiled => Ok(compiled.map(Arc::new)),
        }
    }

    /// Returns a schema of this tool as a model sees it: without bound arguments.
    pub(crate) fn without_bound_properties(&self, schema: &Json) -> Json {
        let shown = self.bound.as_deref().and_then(|bound| without_bound(schema, bound));
        shown.unwrap_or_else(|| schema.clone())
    }

    /// Removes values from a violation, because it may quote a bound argument.
    fn without_bound_values(&self, fault: SchemaViolation) -> SchemaViolation {
        if self.bound.is_none() {
            return fault;
        }
        let message = "a value does not match, or is missing".to_owned();
        SchemaViolation { message, others: Vec::new(), ..fault }
    }

    /// Returns the arguments without bound ones, as everything but the tool sees them; `None` if none are bound.
    pub(crate) fn without_bound_arguments(&self, arguments: &Json) -> Option<Json> {
        let bound = self.bound.as_ref()?;
        match arguments.to_value() {
            Ok(Value::Object(mut fields)) => {
                fields.retain(|name, _| !bound.contains_key(name));
                Some(Json::from(Value::Object(fields)))
            }
            _ => None,
        }
    }

    /// Returns the same tool with another description.
    pub(super) fn with_description(&self, description: Arc<str>) -> Self {
        Self::new(EntryParts {
            name: Arc::clone(&self.name),
            server: self.server.clone(),
            description,
            tool: Arc::clone(&self.tool),
            hints: self.hints,
            executor: Arc::clone(&self.executor),
            input_schema: self.input_schema.clone(),
            settings: Arc::clone(&self.settings),
            max_output_chars: self.max_output_chars,
            requires_user: self.requires_user,
            loading: self.loading,
            bound: self.bound.clone(),
        })
    }
}

impl fmt::Debug for Entry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Entry").field("name", &self.name).finish_non_exhaustive()
    }
}

/// The fields of a tool's `_meta` that hosts act on.
#[derive(Clone, Copy, Default)]
pub(super) struct ToolMeta {
    pub(super) max_output_chars: Option<usize>,
    pub(super) requires_user: bool,
    /// Whether it shall be offered at once.
    pub(super) always_load: bool,
}

impl ToolMeta {
    pub(super) fn of(tool: &Tool) -> Self {
        // Most tools have no `_meta`, and parsing each of thousands to find that out takes time.
        if !tool.raw.as_str().contains("\"_meta\"") {
            return Self::default();
        }
        let meta = Fields::of(&tool.raw).ok().and_then(|fields| fields.json("_meta"));
        let Some(meta) = meta else { return Self::default() };
        let Ok(meta) = Fields::of(&meta) else { return Self::default() };
        let chars =
            meta.raw("anthropic/maxResultSizeChars").and_then(|raw| serde_json::from_str::<u64>(raw.get()).ok());
        let chars = chars.filter(|chars| *chars > 0);
        Self {
            max_output_chars: chars.map(|chars| {
                usize::try_from(chars).unwrap_or(MAX_REQUESTED_OUTPUT_CHARS).min(MAX_REQUESTED_OUTPUT_CHARS)
            }),
            requires_user: meta.flag("anthropic/requiresUserInteraction").ok().flatten() == Some(true),
            always_load: meta.flag("anthropic/alwaysLoad").ok().flatten() == Some(true),
        }
    }
}

/// Models that mean "no arguments" write `null` or nothing, and some write the whole object as a string.
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

fn with_bound(arguments: &Json, bound: &Map<String, Value>) -> Result<Json, SchemaViolation> {
    match SchemaViolation::in_text(arguments)? {
        Value::Object(mut fields) => {
            fields.extend(bound.iter().map(|(name, value)| (name.clone(), value.clone())));
            Ok(Json::from(Value::Object(fields)))
        }
        // The schema check reports what is wrong.
        _ => Ok(arguments.clone()),
    }
}

/// Returns a schema without the arguments that the configuration sets.
pub(super) fn without_bound(schema: &Json, bound: &Map<String, Value>) -> Option<Json> {
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

fn slug(name: &str) -> String {
    let replace =
        |c: char| if c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.') { c.to_ascii_lowercase() } else { '-' };
    name.chars().map(replace).collect()
}
