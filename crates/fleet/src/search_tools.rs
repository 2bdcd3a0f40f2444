//! The tool `search_tools`: finds tools that a model is not offered at once. It is a tool like any other.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::sync::{Arc, Mutex, PoisonError};

use serde::Deserialize;
use serde_json::{Value, json};
use tokio::sync::OnceCell;
use wharf_protocol::{Hints, Json, SearchableTool, ServerName, ToolIndex, ToolOutput, ToolRanking, cut};

use crate::catalog::{Catalog, Entry, OwnTool};

/// The name of the tool.
pub const SEARCH_TOOLS: &str = "search_tools";

/// The number of tools that are found by default, and at most.
const DEFAULT_LIMIT: usize = 5;
const MAX_LIMIT: usize = 20;
/// How much of a description is shown in a result, in characters. The model then gets the whole definition.
const BRIEF_CHARS: usize = 200;
/// How many servers the description names.
const MAX_SERVERS: usize = 60;
/// How many characters of a query are used.
const MAX_QUERY: usize = 2_000;

/// Adds the tool to catalogs.
pub(crate) struct SearchTools {
    ranking: Arc<dyn ToolRanking>,
    /// The last catalog, and the same one with the tool. Catalogs change rarely.
    last: Mutex<Option<(Arc<Catalog>, Arc<Catalog>)>>,
}

/// The tools of one catalog, indexed by the first search.
struct SearchableCatalog {
    catalog: Arc<Catalog>,
    ranking: Arc<dyn ToolRanking>,
    index: OnceCell<Arc<dyn ToolIndex>>,
}

#[derive(Deserialize)]
struct SearchArguments {
    query: String,
    limit: Option<usize>,
}

impl SearchTools {
    pub(crate) fn new(ranking: Arc<dyn ToolRanking>) -> Self {
        Self { ranking, last: Mutex::default() }
    }

    /// Returns the catalog with the tool; `None` if the host has a tool of that name itself.
    pub(crate) fn add_to(&self, catalog: &Arc<Catalog>) -> Option<Arc<Catalog>> {
        let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, searchable)) = last.as_ref().filter(|(known, _)| Arc::ptr_eq(known, catalog)) {
            return Some(Arc::clone(searchable));
        }
        if catalog.get(SEARCH_TOOLS).is_some() {
            return None;
        }
        let tool = search_tool(Arc::clone(catalog), Arc::clone(&self.ranking));
        let searchable = Arc::new(catalog.with_own(tool));
        *last = Some((Arc::clone(catalog), Arc::clone(&searchable)));
        Some(searchable)
    }
}

fn search_tool(catalog: Arc<Catalog>, ranking: Arc<dyn ToolRanking>) -> Arc<Entry> {
    let description = format!(
        "Finds tools by what they do. Most tools are not listed here: search for a tool before you conclude that none \
         exists. The tools that are found can be called from the next turn on. Tools of these servers can be found: {}.",
        servers(&catalog)
    );
    let schema = json!({"type": "object", "required": ["query"], "additionalProperties": false, "properties": {
        "query": {"type": "string", "description": "What the tool should do, in a few words, for example: create issue"},
        "limit": {"type": "integer", "minimum": 1, "maximum": MAX_LIMIT,
            "description": format!("The number of tools to find; default: {DEFAULT_LIMIT}.")}}});
    let hints =
        Hints { read_only: Some(true), destructive: Some(false), idempotent: Some(true), open_world: Some(false) };
    let searchable = Arc::new(SearchableCatalog { catalog, ranking, index: OnceCell::new() });
    let run = move |arguments: Json| {
        let searchable = Arc::clone(&searchable);
        async move {
            let SearchArguments { query, limit } = arguments.decode().map_err(|error| error.to_string())?;
            searchable.search(query, limit.unwrap_or(DEFAULT_LIMIT).clamp(1, MAX_LIMIT)).await
        }
    };
    let tool = OwnTool::new(SEARCH_TOOLS, description, schema).with_hints(hints);
    tool.run_by(run).expect("a valid name and schema")
}

/// Returns the servers with the number of their tools.
fn servers(catalog: &Catalog) -> String {
    let mut counts: BTreeMap<&ServerName, usize> = BTreeMap::new();
    for server in catalog.entries().iter().filter_map(|entry| entry.server.as_ref()) {
        *counts.entry(server).or_default() += 1;
    }
    let named: Vec<String> = counts.iter().take(MAX_SERVERS).map(|(name, count)| format!("{name} ({count})")).collect();
    let more = counts.len().saturating_sub(MAX_SERVERS);
    let more = if more > 0 { format!(" and {more} more") } else { String::new() };
    format!("{}{more}", named.join(", "))
}

impl SearchableCatalog {
    async fn search(self: Arc<Self>, query: String, limit: usize) -> Result<ToolOutput, String> {
        let query = cut(&query, MAX_QUERY).unwrap_or(query);
        let index = Arc::clone(self.index.get_or_try_init(|| self.build()).await?);
        let found = index.search(&query, limit);
        let entries: Vec<&Arc<Entry>> = found.iter().filter_map(|at| self.servers_tools().nth(*at)).collect();
        let total = self.servers_tools().count();
        let mut text = match entries.len() {
            0 => format!("No tool of {total} matches. Use other words."),
            count => format!("Found {count} of {total} tools. They can be called now:"),
        };
        let mut tools = Vec::new();
        for entry in entries {
            let description = entry.description.split_whitespace().collect::<Vec<_>>().join(" ");
            let description = cut(&description, BRIEF_CHARS).unwrap_or(description);
            let _ = write!(text, "\n- {}: {description}", entry.name);
            tools.push(json!({"name": &*entry.name}));
        }
        let structured = Some(Json::from(Value::from_iter([("tools", Value::from(tools))])));
        Ok(ToolOutput { structured, ..ToolOutput::said(text) }.rebuilt())
    }

    /// The tools that can be found.
    fn servers_tools(&self) -> impl Iterator<Item = &Arc<Entry>> {
        self.catalog.entries().iter().filter(|entry| entry.server.is_some())
    }

    /// Indexes the tools on another thread: thousands of them take a while.
    async fn build(self: &Arc<Self>) -> Result<Arc<dyn ToolIndex>, String> {
        let this = Arc::clone(self);
        let built = tokio::task::spawn_blocking(move || {
            let mut tools = this.servers_tools().map(|entry| SearchableTool {
                name: &entry.tool.name,
                server: entry.server.as_ref().map(ServerName::as_str),
                description: &entry.description,
                input_schema: &entry.input_schema,
            });
            Arc::from(this.ranking.index(&mut tools))
        });
        built.await.map_err(|error| error.to_string())
    }
}
