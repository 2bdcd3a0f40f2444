//! Every limit and every fault, on every adapter, through the whole agent: a complete trace and a typed outcome.

mod defaults;
mod faults;
mod limits;

use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use tokio::time::Instant;
use wharf_agent::models::{Dialect, OpenAi, ProviderTimeouts};
use wharf_agent::{Agent, AgentResult, Limit, Limits, Model, ModelOptions, Run, RunEnd, TraceMessage};
use wharf_protocol::{Message, Role, Tools};
use wharf_testkit::eventually;
use wharf_testkit::models::{FakeModels, Turn};

use super::kit::{ALL, Adapter, endpoint};
use crate::kit::{EventLog, TestTools};

const TIMEOUTS: ProviderTimeouts = ProviderTimeouts {
    first_byte: Duration::from_secs(20),
    idle: Duration::from_secs(5),
    total: Duration::from_secs(60),
};

/// A model under test: an adapter, or a model with emulated tools.
#[derive(Clone, Copy, PartialEq, Eq)]
enum TestModel {
    Native(Adapter),
    Emulated,
}

impl std::fmt::Debug for TestModel {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Native(Adapter::Anthropic) => f.write_str("anthropic"),
            Self::Native(Adapter::OpenAi(dialect)) => f.write_str(dialect.interface()),
            Self::Emulated => f.write_str("openai-endpoint with emulated tools"),
        }
    }
}

fn all_models() -> impl Iterator<Item = TestModel> {
    ALL.into_iter().map(TestModel::Native).chain([TestModel::Emulated])
}

impl TestModel {
    fn model(self, fake: &FakeModels) -> Arc<dyn Model> {
        let endpoint = endpoint(fake).with_timeouts(TIMEOUTS);
        match self {
            Self::Native(adapter) => Arc::from(adapter.at(endpoint)),
            Self::Emulated => {
                Arc::new(OpenAi::new(Dialect::Endpoint, endpoint, "fake-1").unwrap().with_emulated_tools())
            }
        }
    }

    /// A turn with calls of `look`. With emulated tools, only the first one.
    fn looks(self, ids: &[&str]) -> Turn {
        match self {
            Self::Native(_) => {
                let call = |turn: Turn, id: &&str| turn.calling(id, "look", &format!(r#"{{"at":"{id}"}}"#));
                ids.iter().fold(Turn::text("I am looking."), call)
            }
            Self::Emulated => Turn::text(format!(r#"{{"tool":"look","arguments":{{"at":"{}"}}}}"#, ids[0])),
        }
    }

    fn says(self, text: &str) -> Turn {
        match self {
            Self::Native(_) => Turn::text(text),
            Self::Emulated => Turn::text(json!({ "answer": text }).to_string()),
        }
    }

    /// The number of these calls in one turn.
    fn call_count(self, ids: &[&str]) -> usize {
        if self == Self::Emulated { 1 } else { ids.len() }
    }
}

/// A run with its model, tools and limits.
struct Trial {
    kind: TestModel,
    fake: FakeModels,
    model: Arc<dyn Model>,
    tools: Arc<TestTools>,
    limits: Limits,
    stream: bool,
}

/// The outcome of a trial.
struct TrialOutcome {
    name: String,
    result: AgentResult,
    fake: FakeModels,
    event_log: Arc<EventLog>,
    duration: Duration,
}

impl Trial {
    fn new(kind: TestModel, turns: impl IntoIterator<Item = Turn>) -> Self {
        let fake = FakeModels::new(turns);
        let model = kind.model(&fake);
        Self { kind, fake, model, tools: TestTools::new(), limits: Limits::default(), stream: true }
    }

    fn within(mut self, limits: Limits) -> Self {
        self.limits = limits;
        self
    }

    fn streaming(mut self, stream: bool) -> Self {
        self.stream = stream;
        self
    }

    /// Executes the run, and checks that its trace is complete.
    async fn run(self, what: &str) -> TrialOutcome {
        let Self { kind, fake, model, tools, limits, stream } = self;
        let name = format!("{kind:?}, {what}, stream: {stream}");
        let event_log = Arc::<EventLog>::default();
        let bench = Arc::clone(&tools);
        let agent = Agent::new(model, Arc::new(move || Arc::clone(&bench) as Arc<dyn Tools>))
            .with_options(ModelOptions { stream, ..ModelOptions::default() })
            .with_events(event_log.clone());
        let messages = vec![Message::text(Role::System, "Be brief."), Message::text(Role::User, "what?")];
        let mut run = Run::new("s", messages, limits);
        let start = Instant::now();
        let result = eventually(agent.run(&mut run, std::future::pending())).await;
        let result = result.unwrap_or_else(|error| panic!("{name}: unexpected error: {error}"));
        let outcome = TrialOutcome { name, result, fake, event_log, duration: start.elapsed() };
        outcome.expect_complete();
        outcome
    }
}

impl TrialOutcome {
    fn events(&self, kind: &str) -> Vec<Value> {
        self.event_log.all().into_iter().filter(|event| event["type"] == kind).collect()
    }

    /// Checks that every call has its result, in order, and that the text and the events agree.
    fn expect_complete(&self) {
        let Self { name, result, .. } = self;
        let trace = &result.trace_messages;
        let mut seen = std::collections::HashSet::new();
        for (index, message) in trace.iter().enumerate() {
            assert_eq!(message.block_index, index, "{name}");
            for (number, call) in message.tool_calls.iter().enumerate() {
                assert!(seen.insert(call.id.clone()), "{name}: duplicate id {}", call.id);
                let answered = trace.get(index + 1 + number).and_then(|message| message.tool_result.as_ref());
                assert_eq!(
                    answered.map(|result| &result.tool_use_id),
                    Some(&call.id),
                    "{name}: a call without a result"
                );
                let heading = format!("--- Tool Message (call_id: {}) ---", call.id);
                assert_eq!(result.raw_trace.matches(&heading).count(), 1, "{name}: {}", result.raw_trace);
            }
        }
        let results = trace.iter().filter(|message| message.tool_result.is_some()).count();
        assert_eq!(results, seen.len(), "{name}: a result without a call");
        let responses = trace.iter().filter(|message| message.role == Role::Assistant);
        let tokens: u64 =
            responses.clone().filter_map(|message| message.usage_metadata).map(|one| one.total_tokens()).sum();
        assert_eq!(result.usage.total_tokens(), tokens, "{name}: token count");
        assert_eq!(usize::try_from(result.turns).unwrap(), responses.count(), "{name}");
        let finished = self.events("finished");
        assert_eq!(finished.len(), 1, "{name}");
        assert_eq!(finished[0]["stop"], result.stop.as_str(), "{name}");
        assert_eq!(self.events("limit_reached").len(), result.limits.len(), "{name}");
        assert_eq!(result.limit_reached, !result.limits.is_empty(), "{name}");
        let unanswered = result.raw_trace.ends_with("[No final response extracted]");
        assert_eq!(unanswered, result.final_response.is_none(), "{name}: {}", result.raw_trace);
        let note = match &result.stop {
            RunEnd::Limit(Limit::ModelCalls { .. }) => Some("[Note: Turn limit reached - partial response shown]"),
            RunEnd::Limit(Limit::Time { .. }) => Some("[Note: Agent timed out - partial response shown]"),
            RunEnd::Limit(_) => Some("[Note: Recursion limit reached - partial response shown]"),
            _ => None,
        };
        let notes: Vec<&str> = result.raw_trace.lines().filter(|line| line.starts_with("[Note: ")).collect();
        assert_eq!(notes, note.into_iter().collect::<Vec<_>>(), "{name}: {}", result.raw_trace);
    }

    /// Checks that the run ended at this limit, with this answer, after this many requests.
    fn expect_limit(&self, limit: &Limit, answer: Option<&str>, requests: usize) {
        let Self { name, result, fake, .. } = self;
        assert_eq!(result.stop, RunEnd::Limit(limit.clone()), "{name}");
        assert_eq!(result.limits, std::slice::from_ref(limit), "{name}");
        assert_eq!(result.final_response.as_deref(), answer, "{name}: no invented answer");
        assert_eq!(fake.requests().len(), requests, "{name}");
    }

    fn results(&self) -> Vec<&TraceMessage> {
        self.result.trace_messages.iter().filter(|message| message.tool_result.is_some()).collect()
    }
}
