//! Scripted models and tools.

use std::collections::VecDeque;
use std::io::{self, Write};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde_json::{Value, json};
use wharf_agent::{
    Agent, AgentEvent, Capabilities, EventSink, Limits, Model, ModelError, ModelErrorKind, ModelOptions, ModelRequest,
    ModelResponse, Run, StopReason,
};
use wharf_protocol::{
    Block, BlockKind, BoxFuture, CallFailed, Hints, Json, Message, Outcome, Role, ServerInstructions, ToolCall,
    ToolDefinition, ToolLoading, ToolOutput, Tools, Usage,
};

pub(crate) fn user(text: &str) -> Vec<Message> {
    vec![Message::text(Role::User, text)]
}

pub(crate) fn new_run(limits: Limits) -> Run {
    Run::new("test", user("what?"), limits)
}

/// A response with text and calls: name, id, arguments.
pub(crate) fn answer(text: &str, calls: &[(&str, &str, Value)]) -> ModelResponse {
    let text = (!text.is_empty()).then(|| Block::text(text));
    let calls = calls.iter().map(|(name, id, arguments)| {
        let arguments = Json::from(arguments.clone());
        Block::from(BlockKind::ToolUse(ToolCall { id: (*id).into(), name: (*name).into(), arguments }))
    });
    let content: Vec<Block> = text.into_iter().chain(calls).collect();
    let stop = if content.iter().any(|block| matches!(block.kind, BlockKind::ToolUse(_))) {
        StopReason::ToolUse
    } else {
        StopReason::EndTurn
    };
    let usage = Usage { input_tokens: 10, output_tokens: 5, ..Usage::default() };
    ModelResponse { message: Message::new(Role::Assistant, content), stop, model: "fake-1".into(), id: None, usage }
}

pub(crate) fn one_call(id: &str) -> ModelResponse {
    answer("", &[("look", id, json!({"at": id}))])
}

/// A response with one call whose arguments contain line breaks.
pub(crate) fn one_call_over_lines(id: &str) -> ModelResponse {
    let arguments: Json = serde_json::from_str("{\n  \"at\": 1\n}").unwrap();
    let call = ToolCall { id: id.into(), name: "look".into(), arguments };
    let mut answer = one_call(id);
    answer.message.content = vec![Block::from(BlockKind::ToolUse(call))];
    answer
}

/// The tools of these tests: `look` is read-only, `put` is idempotent, `send` is neither.
pub(crate) fn hints(name: &str) -> Option<Hints> {
    let mut hints = Hints::default();
    match name {
        "look" => hints.read_only = Some(true),
        "put" => hints.idempotent = Some(true),
        "send" => {}
        _ => return None,
    }
    Some(hints)
}

/// A model with scripted responses, which records its requests.
#[derive(Default)]
pub(crate) struct Fake {
    pub(crate) responses: Mutex<VecDeque<Result<ModelResponse, ModelError>>>,
    /// The response after all others are used.
    pub(crate) endless: Option<ModelResponse>,
    pub(crate) requests: Mutex<Vec<RecordedRequest>>,
    pub(crate) caching: bool,
    /// How often a layer requested the capabilities.
    pub(crate) capability_checks: std::sync::atomic::AtomicUsize,
    pub(crate) delay: Duration,
}

/// A request that the model received.
#[derive(Clone, Debug)]
pub(crate) struct RecordedRequest {
    pub(crate) tools: Vec<String>,
    pub(crate) options: ModelOptions,
    pub(crate) system: Vec<String>,
    pub(crate) at: tokio::time::Instant,
}

impl Fake {
    pub(crate) fn new(responses: impl IntoIterator<Item = Result<ModelResponse, ModelError>>) -> Self {
        Self { responses: Mutex::new(responses.into_iter().collect()), caching: true, ..Self::default() }
    }

    /// Always returns the same response.
    pub(crate) fn endless(answer: ModelResponse) -> Self {
        Self { endless: Some(answer), caching: true, ..Self::default() }
    }

    pub(crate) fn times(&self) -> usize {
        self.requests.lock().unwrap().len()
    }

    /// The delays between requests, in seconds.
    pub(crate) fn pauses(&self) -> Vec<f64> {
        let asked = self.requests.lock().unwrap();
        asked.windows(2).map(|pair| (pair[1].at - pair[0].at).as_secs_f64()).collect()
    }
}

impl Model for Fake {
    fn interface(&self) -> &'static str {
        "fake"
    }

    fn name(&self) -> &'static str {
        "fake-1"
    }

    fn capabilities(&self) -> Capabilities {
        self.capability_checks.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        Capabilities { prompt_caching: self.caching, tools: true, ..Capabilities::default() }
    }

    fn complete<'a>(&'a self, request: &'a ModelRequest<'a>) -> BoxFuture<'a, Result<ModelResponse, ModelError>> {
        let tools = request.tools.iter().map(|tool| tool.name.to_string()).collect();
        let at = tokio::time::Instant::now();
        let system = request.system_texts();
        self.requests.lock().unwrap().push(RecordedRequest { tools, options: request.options.clone(), system, at });
        let next = self.responses.lock().unwrap().pop_front();
        let over = || ModelError::new(ModelErrorKind::Exhausted, "no more responses");
        let answer = next.unwrap_or_else(|| self.endless.clone().ok_or_else(over));
        Box::pin(async move {
            if !self.delay.is_zero() {
                tokio::time::sleep(self.delay).await;
            }
            answer
        })
    }
}

/// Tools that log the start and the end of every call.
pub(crate) struct TestTools {
    offered: Vec<ToolDefinition>,
    instructions: Vec<ServerInstructions>,
    pub(crate) log: Mutex<Vec<String>>,
    /// The behavior of calls, by id.
    pub(crate) behaviors: Mutex<Vec<(String, Behavior)>>,
}

/// The behavior of a call.
#[derive(Clone)]
pub(crate) enum Behavior {
    After(Duration),
    Fails(Outcome),
    Says(ToolOutput),
    Never,
}

impl TestTools {
    pub(crate) fn new() -> Arc<Self> {
        let offered = ["look", "put", "send"].map(|name| ToolDefinition {
            name: name.into(),
            description: "does it".into(),
            input_schema: json!({"type": "object"}).into(),
            hints: hints(name).unwrap(),
            loading: ToolLoading::default(),
        });
        let (log, behaviors) = (Mutex::default(), Mutex::default());
        Arc::new(Self { offered: offered.into(), instructions: Vec::new(), log, behaviors })
    }

    /// Returns the tools with instructions of servers: name, text.
    pub(crate) fn with_instructions(self: Arc<Self>, servers: &[(&str, &str)]) -> Arc<Self> {
        let instructions =
            servers.iter().map(|(server, text)| ServerInstructions::of_server(server.parse().unwrap(), (*text).into()));
        let tools = Arc::into_inner(self).unwrap();
        Arc::new(Self { instructions: instructions.collect(), ..tools })
    }

    pub(crate) fn on_call(self: &Arc<Self>, id: &str, behavior: Behavior) -> Arc<Self> {
        self.behaviors.lock().unwrap().push((id.to_owned(), behavior));
        Arc::clone(self)
    }

    pub(crate) fn log(&self) -> Vec<String> {
        self.log.lock().unwrap().clone()
    }

    fn next_behavior(&self, id: &str) -> Option<Behavior> {
        let mut behaviors = self.behaviors.lock().unwrap();
        let place = behaviors.iter().position(|(other, _)| other == id)?;
        Some(behaviors.remove(place).1)
    }
}

impl Tools for TestTools {
    fn offered(&self) -> &[ToolDefinition] {
        &self.offered
    }

    fn instructions(&self) -> &[ServerInstructions] {
        &self.instructions
    }

    fn call<'a>(&'a self, call: &'a ToolCall) -> BoxFuture<'a, Result<ToolOutput, CallFailed>> {
        Box::pin(async move {
            self.log.lock().unwrap().push(format!("{} starts", call.id));
            let behavior = self.next_behavior(&call.id);
            let result = match behavior {
                Some(Behavior::Fails(outcome)) => {
                    Err(CallFailed { name: call.name.to_string(), reason: "the server is gone".into(), outcome })
                }
                Some(Behavior::Says(output)) => Ok(output),
                Some(Behavior::Never) => std::future::pending().await,
                Some(Behavior::After(time)) => {
                    tokio::time::sleep(time).await;
                    Ok(ToolOutput::said(format!("{} of {}", call.id, call.name)))
                }
                None => Ok(ToolOutput::said(format!("{} of {}", call.id, call.name))),
            };
            self.log.lock().unwrap().push(format!("{} ends", call.id));
            result
        })
    }
}

/// Records all events.
#[derive(Default)]
pub(crate) struct EventLog(Mutex<Vec<AgentEvent>>);

impl EventLog {
    /// All events as JSON.
    pub(crate) fn all(&self) -> Vec<Value> {
        self.0.lock().unwrap().iter().map(|event| serde_json::to_value(event).unwrap()).collect()
    }

    pub(crate) fn kinds(&self) -> Vec<String> {
        self.all().iter().map(|event| event["type"].as_str().unwrap().to_owned()).collect()
    }
}

impl EventSink for EventLog {
    fn event(&self, event: AgentEvent) {
        self.0.lock().unwrap().push(event);
    }
}

pub(crate) fn test_agent(model: &Arc<Fake>, tools: &Arc<TestTools>) -> Agent {
    let tools = Arc::clone(tools);
    Agent::new(Arc::clone(model) as Arc<dyn Model>, Arc::new(move || Arc::clone(&tools) as Arc<dyn Tools>))
}

/// A file in memory.
#[derive(Clone, Default)]
pub(crate) struct MemoryFile(Arc<Mutex<Vec<u8>>>);

impl MemoryFile {
    pub(crate) fn text(&self) -> String {
        String::from_utf8(self.0.lock().unwrap().clone()).unwrap()
    }
}

impl Write for MemoryFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap().write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
