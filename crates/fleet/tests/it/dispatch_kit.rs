//! Shared by the tests of catalogs and dispatch: tools without servers, and a trace recorder.

use std::sync::{Arc, Mutex};

use serde_json::{Value, json};
use wharf_client::{BoxFuture, CallError, CallErrorKind, CallOptions, Evidence, Progress, Session};
use wharf_fleet::catalog::{
    Catalog, Entry, ExecutionError, ServerTools, ServerToolsParts, StrictestHints, ToolExecutor, ToolFreshness,
};
use wharf_fleet::dispatch::{Condition, Dispatcher};
use wharf_fleet::{Scope, Settings};
use wharf_protocol::{CallFailed, Item as _, Json, Listed, Tool, ToolCall, ToolOutput, TraceEvent, TraceSink};

type Answers = dyn Fn(&Json) -> Result<ToolOutput, CallErrorKind> + Send + Sync;

/// Executes calls by a function and records them.
pub(crate) struct Fake {
    answers: Box<Answers>,
    freshness: ToolFreshness,
    pub(crate) calls: Mutex<Vec<String>>,
}

impl Fake {
    pub(crate) fn new(
        answers: impl Fn(&Json) -> Result<ToolOutput, CallErrorKind> + Send + Sync + 'static,
    ) -> Arc<Self> {
        Arc::new(Self { answers: Box::new(answers), freshness: ToolFreshness::Same, calls: Mutex::default() })
    }

    pub(crate) fn echo() -> Arc<Self> {
        Self::new(|arguments| Ok(ToolOutput::said(arguments.to_string())))
    }

    pub(crate) fn with_freshness(freshness: ToolFreshness) -> Arc<Self> {
        let answers = |arguments: &Json| Ok(ToolOutput::said(arguments.to_string()));
        Arc::new(Self { answers: Box::new(answers), freshness, calls: Mutex::default() })
    }

    pub(crate) fn calls(&self) -> Vec<String> {
        self.calls.lock().unwrap().clone()
    }
}

impl ToolExecutor for Fake {
    fn cached_freshness(&self, _: &Arc<Tool>) -> Option<ToolFreshness> {
        matches!(self.freshness, ToolFreshness::Same).then_some(ToolFreshness::Same)
    }

    fn freshness<'a>(&'a self, _: &'a Arc<Tool>) -> BoxFuture<'a, ToolFreshness> {
        Box::pin(async { self.freshness.clone() })
    }

    fn call<'a>(
        &'a self,
        tool: &'a Arc<Tool>,
        arguments: &'a Json,
        options: CallOptions<'a>,
    ) -> BoxFuture<'a, Result<ToolOutput, ExecutionError>> {
        Box::pin(async move {
            self.calls.lock().unwrap().push(format!("{} {arguments}", tool.name));
            if let Some(recorder) = options.progress {
                recorder(Progress { progress: 1.0, total: Some(2.0), message: Some("half".to_owned()) });
            }
            tokio::task::yield_now().await;
            let evidence = Evidence { stderr: vec!["password=hunter2".to_owned()], ..Evidence::default() };
            let server = "fake".parse().unwrap();
            (self.answers)(arguments).map_err(|kind| CallError { server, kind, evidence }.into())
        })
    }
}

/// Executes calls in a session.
pub(crate) struct InSession(pub(crate) Session);

impl ToolExecutor for InSession {
    fn cached_freshness(&self, _: &Arc<Tool>) -> Option<ToolFreshness> {
        Some(ToolFreshness::Same)
    }

    fn freshness<'a>(&'a self, _: &'a Arc<Tool>) -> BoxFuture<'a, ToolFreshness> {
        Box::pin(async { ToolFreshness::Same })
    }

    fn call<'a>(
        &'a self,
        tool: &'a Arc<Tool>,
        arguments: &'a Json,
        options: CallOptions<'a>,
    ) -> BoxFuture<'a, Result<ToolOutput, ExecutionError>> {
        Box::pin(async move { Ok(self.0.call_with(&tool.name, arguments, options).await?) })
    }
}

/// Records all trace events.
#[derive(Default)]
pub(crate) struct Recorder(Mutex<Vec<TraceEvent>>);

impl TraceSink for Recorder {
    fn record(&self, event: TraceEvent) {
        self.0.lock().unwrap().push(event);
    }
}

impl Recorder {
    /// One JSON line for each event, without its duration.
    pub(crate) fn lines(&self) -> String {
        let line = |event: &TraceEvent| {
            let mut event = serde_json::to_value(event).unwrap();
            if let Some(fields) = event.as_object_mut() {
                fields.remove("millis");
                fields.retain(|_, value| !value.is_null());
            }
            event.to_string()
        };
        self.0.lock().unwrap().iter().map(line).collect::<Vec<_>>().join("\n")
    }

    /// The duration of the last call, in milliseconds.
    pub(crate) fn millis(&self) -> u64 {
        let events = self.0.lock().unwrap();
        let Some(TraceEvent::ToolFinished(trace)) = events.last() else { panic!("no call has ended") };
        trace.millis
    }

    /// The trace steps of the last call.
    pub(crate) fn steps(&self) -> String {
        let events = self.0.lock().unwrap();
        let Some(TraceEvent::ToolFinished(trace)) = events.last() else { panic!("no call has ended") };
        trace.steps.iter().map(|step| serde_json::to_string(step).unwrap()).collect::<Vec<_>>().join("\n")
    }
}

pub(crate) fn listed(tools: &Value) -> Listed<Tool> {
    let page: Vec<Json> = tools.as_array().unwrap().iter().map(|tool| Json::from(tool.clone())).collect();
    let mut listed = Listed::default();
    listed.add_page(&page);
    listed
}

pub(crate) fn tool(tool: Value) -> Arc<Tool> {
    Arc::new(Tool::from_json(&Json::from(tool)).unwrap())
}

pub(crate) fn server_tools(
    server: &str,
    settings: Settings,
    tools: impl Into<Json>,
    executor: Arc<dyn ToolExecutor>,
) -> Arc<ServerTools> {
    Arc::new(ServerTools::new(ServerToolsParts {
        server: server.parse().unwrap(),
        scope: Scope::User,
        transport: wharf_config::TransportKind::Stdio,
        settings: Arc::new(settings),
        instructions: None,
        tools: &listed(&tools.into().to_value().unwrap()),
        hints: &StrictestHints::default(),
        executor,
    }))
}

/// A tool of the server `notes` that accepts a string `what` and a list `tags`, and has these hints.
pub(crate) fn notes(name: &str, annotations: impl Into<Json>, executor: Arc<dyn ToolExecutor>) -> Arc<Entry> {
    let tool = json!({"name": name, "annotations": annotations.into(), "inputSchema": {"type": "object", "required": ["what"],
        "properties": {"what": {"type": "string"}, "tags": {"type": "array"}}}});
    Arc::clone(&server_tools("notes", Settings::default(), json!([tool]), executor).entries()[0])
}

pub(crate) fn catalog(entries: Vec<Arc<Entry>>) -> Catalog {
    Catalog::new(Vec::new(), entries)
}

pub(crate) fn condition(text: &str) -> Condition {
    text.parse().unwrap()
}

pub(crate) fn call(name: &str, arguments: Value) -> ToolCall {
    ToolCall { id: "call-1".into(), name: name.into(), arguments: arguments.into() }
}

/// The output for the model, with a mark if it is an error.
pub(crate) async fn read(dispatcher: &Dispatcher, catalog: &Catalog, name: &str, arguments: Value) -> String {
    shown(wharf_testkit::soon(dispatcher.call(catalog, &call(name, arguments))).await)
}

pub(crate) fn shown(result: Result<ToolOutput, CallFailed>) -> String {
    match result {
        Ok(output) if output.is_error => format!("error: {}", output.text()),
        Ok(output) => output.text(),
        Err(failed) => format!("failed: {failed} ({})", failed.outcome),
    }
}
