//! The host's own tools: entries like any other, executed by code of the host.

use std::sync::Arc;
use std::time::Duration;

use wharf_client::{BoxFuture, CallError, CallErrorKind, CallOptions, Deadline, Evidence};
use wharf_protocol::{Hints, Json, Tool, ToolLoading, ToolOutput};

use super::entry::{Entry, EntryParts};
use super::executor::{ExecutionError, ToolExecutor, ToolFreshness};
use super::normalize::{NormalizedSchema, normalize};
use super::tool_filter::capped;
use wharf_protocol::naming::{PREFIX, is_plain_name};

/// The definition of one of the host's own tools.
#[derive(Clone, Debug)]
pub struct OwnTool {
    /// Its name: 1 to 64 letters, digits, `_` and `-`, without the prefix `mcp__` of servers' tools.
    pub name: String,
    /// The description for the model.
    pub description: String,
    /// The schema of its arguments.
    pub input_schema: Json,
    /// Its hints.
    pub hints: Hints,
    /// Its own output limit in characters; the dispatcher's limit if absent.
    pub max_output_chars: Option<usize>,
    /// Whether the user has to approve each call, whatever the rules allow.
    pub requires_user: bool,
}

/// Why a definition cannot be one of the host's own tools.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum InvalidOwnTool {
    /// The name looks like that of a server's tool.
    #[error("invalid tool name `{0}`: the prefix `mcp__` is reserved for servers' tools")]
    Reserved(String),
    /// Model APIs do not accept the name.
    #[error("invalid tool name `{0}`: expected 1 to 64 letters, digits, `_` and `-`")]
    Name(String),
    /// Model APIs do not accept the schema.
    #[error("unusable schema of `{name}`: {reason}")]
    Schema {
        /// The tool's name.
        name: String,
        /// What is wrong with the schema.
        reason: String,
    },
}

impl OwnTool {
    /// Creates a definition with default hints and limits.
    pub fn new(name: impl Into<String>, description: impl Into<String>, input_schema: impl Into<Json>) -> Self {
        Self {
            name: name.into(),
            description: description.into(),
            input_schema: input_schema.into(),
            hints: Hints::default(),
            max_output_chars: None,
            requires_user: false,
        }
    }

    /// Sets the hints.
    #[must_use]
    pub fn with_hints(mut self, hints: Hints) -> Self {
        self.hints = hints;
        self
    }

    /// Makes a tool that a function executes. An error of the function is an output that the model reads.
    pub fn run_by<F, R>(self, run: F) -> Result<Arc<Entry>, InvalidOwnTool>
    where
        F: Fn(Json) -> R + Send + Sync + 'static,
        R: Future<Output = Result<ToolOutput, String>> + Send + 'static,
    {
        self.with_executor(Arc::new(Function(run)))
    }

    /// Makes a tool with any executor.
    pub fn with_executor(self, executor: Arc<dyn ToolExecutor>) -> Result<Arc<Entry>, InvalidOwnTool> {
        if self.name.starts_with(PREFIX) {
            return Err(InvalidOwnTool::Reserved(self.name));
        }
        if !is_plain_name(&self.name) {
            return Err(InvalidOwnTool::Name(self.name));
        }
        let input_schema = match normalize(&self.input_schema) {
            NormalizedSchema::Same => self.input_schema.clone(),
            NormalizedSchema::Changed(schema, _) => schema,
            NormalizedSchema::Unusable(reason) => return Err(InvalidOwnTool::Schema { name: self.name, reason }),
        };
        let name: Arc<str> = self.name.into();
        let description: Arc<str> = capped(&self.description).unwrap_or_else(|| self.description.into());
        let raw = serde_json::json!({"name": &*name, "description": &*description, "inputSchema": &self.input_schema});
        let tool = Tool {
            name: Arc::clone(&name),
            title: None,
            description: Some(Arc::clone(&description)),
            input_schema: self.input_schema,
            output_schema: None,
            annotations: None,
            hints: self.hints,
            cut_from: None,
            notes: Vec::new(),
            raw: raw.into(),
        };
        Ok(Arc::new(Entry::new(EntryParts {
            name,
            server: None,
            description,
            hints: tool.hints,
            tool: Arc::new(tool),
            executor,
            input_schema,
            settings: Arc::default(),
            max_output_chars: self.max_output_chars,
            requires_user: self.requires_user,
            loading: ToolLoading::Always,
            bound: None,
        })))
    }
}

struct Function<F>(F);

impl<F, R> ToolExecutor for Function<F>
where
    F: Fn(Json) -> R + Send + Sync,
    R: Future<Output = Result<ToolOutput, String>> + Send,
{
    fn cached_freshness(&self, _tool: &Arc<Tool>) -> Option<ToolFreshness> {
        Some(ToolFreshness::Same)
    }

    fn freshness<'a>(&'a self, _tool: &'a Arc<Tool>) -> BoxFuture<'a, ToolFreshness> {
        Box::pin(std::future::ready(ToolFreshness::Same))
    }

    fn call<'a>(
        &'a self,
        _tool: &'a Arc<Tool>,
        arguments: &'a Json,
        options: CallOptions<'a>,
    ) -> BoxFuture<'a, Result<ToolOutput, ExecutionError>> {
        Box::pin(async move {
            let run = (self.0)(arguments.clone());
            let result = match options.total {
                None => run.await,
                Some(total) => match tokio::time::timeout(total, run).await {
                    Ok(result) => result,
                    Err(_) => return Err(timed_out(total).into()),
                },
            };
            Ok(result.unwrap_or_else(ToolOutput::error))
        })
    }
}

fn timed_out(after: Duration) -> CallError {
    let server = "host".parse().expect("a valid name");
    let kind = CallErrorKind::Timeout { deadline: Deadline::Total, after };
    CallError { server, kind, evidence: Evidence::default() }
}
