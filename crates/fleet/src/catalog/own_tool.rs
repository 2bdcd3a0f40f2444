//! The host's own tools: entries like any other, carried out by code of the host.

use std::sync::atomic::AtomicU64;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use wharf_client::{BoxFuture, CallError, CallErrorKind, CallOptions, Deadline, Evidence};
use wharf_protocol::{Hints, Json, Tool, ToolOutput};

use super::choice::capped;
use super::entry::Entry;
use super::normalise::{NormalizedSchema, normalize};
use super::{ToolExecutor, ToolFreshness};
use wharf_protocol::naming::{PREFIX, is_plain_name};

/// A tool of the host's own, as it is described.
#[derive(Clone, Debug)]
pub struct OwnTool {
    /// Its name: 1 to 64 of letters, digits, `_` and `-`, and no `mcp__` in front, which is for servers' tools.
    pub name: String,
    /// What it does, for the model.
    pub description: String,
    /// What it takes.
    pub input_schema: Json,
    /// What it says about itself.
    pub hints: Hints,
    /// The longest output it asks for, in characters; as for all other tools if absent.
    pub most_characters: Option<usize>,
    /// Whether a person is asked before every call, whatever the rules allow.
    pub needs_person: bool,
}

/// Why a tool cannot be one of the host's own.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum InvalidOwnTool {
    /// The name would be taken for that of a server's tool.
    #[error("`{0}` begins with `mcp__`, which only tools of servers do")]
    Reserved(String),
    /// Model APIs do not take the name.
    #[error("`{0}` cannot name a tool; use 1 to 64 letters, digits, `_` and `-`")]
    Name(String),
    /// Model APIs do not take the schema.
    #[error("the schema of `{name}` cannot be used: {reason}")]
    Schema {
        /// The tool.
        name: String,
        /// Why.
        reason: String,
    },
}

impl OwnTool {
    /// A tool that takes what `input_schema` says.
    pub fn new(name: impl Into<String>, description: impl Into<String>, input_schema: impl Into<Json>) -> Self {
        let (name, description, input_schema) = (name.into(), description.into(), input_schema.into());
        Self { name, description, input_schema, hints: Hints::default(), most_characters: None, needs_person: false }
    }

    /// What it says about itself.
    #[must_use]
    pub fn with_hints(mut self, hints: Hints) -> Self {
        self.hints = hints;
        self
    }

    /// The tool, carried out by a function; what it fails with is an output the model reads.
    pub fn run_by<F, R>(self, run: F) -> Result<Arc<Entry>, InvalidOwnTool>
    where
        F: Fn(Json) -> R + Send + Sync + 'static,
        R: Future<Output = Result<ToolOutput, String>> + Send + 'static,
    {
        self.carried_out_by(Arc::new(Function(run)))
    }

    /// The tool, carried out by any callee.
    pub fn carried_out_by(self, callee: Arc<dyn ToolExecutor>) -> Result<Arc<Entry>, InvalidOwnTool> {
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
        Ok(Arc::new(Entry {
            name,
            server: None,
            description,
            hints: self.hints,
            tool: Arc::new(tool),
            callee,
            input_schema,
            settings: Arc::default(),
            most_characters: self.most_characters,
            needs_person: self.needs_person,
            bound: None,
            checked_by: OnceLock::new(),
            decided: AtomicU64::new(0),
        }))
    }
}

struct Function<F>(F);

impl<F, R> ToolExecutor for Function<F>
where
    F: Fn(Json) -> R + Send + Sync,
    R: Future<Output = Result<ToolOutput, String>> + Send,
{
    fn glance(&self, _tool: &Arc<Tool>) -> Option<ToolFreshness> {
        Some(ToolFreshness::Same)
    }

    fn look<'a>(&'a self, _tool: &'a Arc<Tool>) -> BoxFuture<'a, ToolFreshness> {
        Box::pin(std::future::ready(ToolFreshness::Same))
    }

    fn call<'a>(
        &'a self,
        _tool: &'a Arc<Tool>,
        arguments: &'a Json,
        options: CallOptions<'a>,
    ) -> BoxFuture<'a, Result<ToolOutput, CallError>> {
        Box::pin(async move {
            let run = (self.0)(arguments.clone());
            let result = match options.total {
                None => run.await,
                Some(total) => match tokio::time::timeout(total, run).await {
                    Ok(result) => result,
                    Err(_) => return Err(too_late(total)),
                },
            };
            Ok(result.unwrap_or_else(ToolOutput::error))
        })
    }
}

fn too_late(after: Duration) -> CallError {
    let server = "host".parse().expect("the name is a valid one");
    let kind = CallErrorKind::Timeout { deadline: Deadline::Total, after };
    CallError { server, kind, evidence: Evidence::default() }
}
