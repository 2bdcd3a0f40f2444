//! Models and tools that do what a test tells them to.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde_json::{Value, json};
use wharf_agent::{
    Agent, AgentEvent, Capabilities, EventSink, Limits, Model, ModelError, ModelErrorKind, ModelOptions, ModelRequest,
    ModelResponse, Run, StopReason,
};
use wharf_protocol::{
    Block, BlockKind, BoxFuture, CallFailed, Hints, Json, Message, Outcome, Role, ToolCall, ToolDefinition, ToolOutput,
    Tools, Usage,
};

pub(crate) fn user(text: &str) -> Vec<Message> {
    vec![Message::text(Role::User, text)]
}

pub(crate) fn new_run(limits: Limits) -> Run {
    Run::new("test", user("what?"), limits)
}

/// An answer of a text and calls: name, id, arguments.
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

/// The same, with arguments that are written over several lines.
pub(crate) fn one_call_over_lines(id: &str) -> ModelResponse {
    let arguments: Json = serde_json::from_str("{\n  \"at\": 1\n}").unwrap();
    let call = ToolCall { id: id.into(), name: "look".into(), arguments };
    let mut answer = one_call(id);
    answer.message.content = vec![Block::from(BlockKind::ToolUse(call))];
    answer
}

/// Which tools there are in tests: `look` only reads, `put` is idempotent, `send` is neither.
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

/// What is said and done, in the order of a test's wishes.
#[derive(Default)]
pub(crate) struct Fake {
    pub(crate) answers: Mutex<VecDeque<Result<ModelResponse, ModelError>>>,
    /// What the last answer is, when the others are used up.
    pub(crate) endless: Option<ModelResponse>,
    pub(crate) asked: Mutex<Vec<Asked>>,
    pub(crate) caching: bool,
    pub(crate) takes: Duration,
}

/// What a model was asked with.
#[derive(Clone, Debug)]
pub(crate) struct Asked {
    pub(crate) tools: Vec<String>,
    pub(crate) options: ModelOptions,
    pub(crate) at: tokio::time::Instant,
}

impl Fake {
    pub(crate) fn new(answers: impl IntoIterator<Item = Result<ModelResponse, ModelError>>) -> Self {
        Self { answers: Mutex::new(answers.into_iter().collect()), caching: true, ..Self::default() }
    }

    /// Says the same for ever.
    pub(crate) fn endless(answer: ModelResponse) -> Self {
        Self { endless: Some(answer), caching: true, ..Self::default() }
    }

    pub(crate) fn times(&self) -> usize {
        self.asked.lock().unwrap().len()
    }

    /// The pauses between questions, in seconds.
    pub(crate) fn pauses(&self) -> Vec<f64> {
        let asked = self.asked.lock().unwrap();
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
        Capabilities { prompt_caching: self.caching, tools: true, ..Capabilities::default() }
    }

    fn ask<'a>(&'a self, ask: &'a ModelRequest<'a>) -> BoxFuture<'a, Result<ModelResponse, ModelError>> {
        let tools = ask.tools.iter().map(|tool| tool.name.to_string()).collect();
        let at = tokio::time::Instant::now();
        self.asked.lock().unwrap().push(Asked { tools, options: ask.options.clone(), at });
        let next = self.answers.lock().unwrap().pop_front();
        let over = || ModelError::new(ModelErrorKind::Exhausted, "there are no more answers");
        let answer = next.unwrap_or_else(|| self.endless.clone().ok_or_else(over));
        Box::pin(async move {
            if !self.takes.is_zero() {
                tokio::time::sleep(self.takes).await;
            }
            answer
        })
    }
}

/// Tools that say what they were called with, and when they began and ended.
pub(crate) struct Bench {
    offered: Vec<ToolDefinition>,
    pub(crate) log: Mutex<Vec<String>>,
    /// How each call goes, by its id.
    pub(crate) ways: Mutex<Vec<(String, Way)>>,
}

/// How a call goes.
#[derive(Clone)]
pub(crate) enum Way {
    After(Duration),
    Fails(Outcome),
    Says(ToolOutput),
    Never,
}

impl Bench {
    pub(crate) fn new() -> Arc<Self> {
        let offered = ["look", "put", "send"].map(|name| ToolDefinition {
            name: name.into(),
            description: "does it".into(),
            input_schema: json!({"type": "object"}).into(),
            hints: hints(name).unwrap(),
        });
        Arc::new(Self { offered: offered.into(), log: Mutex::default(), ways: Mutex::default() })
    }

    pub(crate) fn way(self: &Arc<Self>, id: &str, way: Way) -> Arc<Self> {
        self.ways.lock().unwrap().push((id.to_owned(), way));
        Arc::clone(self)
    }

    pub(crate) fn log(&self) -> Vec<String> {
        self.log.lock().unwrap().clone()
    }

    fn next_way(&self, id: &str) -> Option<Way> {
        let mut ways = self.ways.lock().unwrap();
        let place = ways.iter().position(|(wanted, _)| wanted == id)?;
        Some(ways.remove(place).1)
    }
}

impl Tools for Bench {
    fn offered(&self) -> &[ToolDefinition] {
        &self.offered
    }

    fn call<'a>(&'a self, call: &'a ToolCall) -> BoxFuture<'a, Result<ToolOutput, CallFailed>> {
        Box::pin(async move {
            self.log.lock().unwrap().push(format!("{} begins", call.id));
            let way = self.next_way(&call.id);
            let result = match way {
                Some(Way::Fails(outcome)) => {
                    Err(CallFailed { name: call.name.to_string(), reason: "the server is gone".into(), outcome })
                }
                Some(Way::Says(output)) => Ok(output),
                Some(Way::Never) => std::future::pending().await,
                Some(Way::After(time)) => {
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

/// Keeps everything that is told.
#[derive(Default)]
pub(crate) struct Heard(Mutex<Vec<AgentEvent>>);

impl Heard {
    /// Everything, as JSON.
    pub(crate) fn all(&self) -> Vec<Value> {
        self.0.lock().unwrap().iter().map(|event| serde_json::to_value(event).unwrap()).collect()
    }

    pub(crate) fn kinds(&self) -> Vec<String> {
        self.all().iter().map(|event| event["type"].as_str().unwrap().to_owned()).collect()
    }
}

impl EventSink for Heard {
    fn event(&self, event: AgentEvent) {
        self.0.lock().unwrap().push(event);
    }
}

pub(crate) fn agent(model: &Arc<Fake>, tools: &Arc<Bench>) -> Agent {
    let tools = Arc::clone(tools);
    Agent::new(Arc::clone(model) as Arc<dyn Model>, Arc::new(move || Arc::clone(&tools) as Arc<dyn Tools>))
}
