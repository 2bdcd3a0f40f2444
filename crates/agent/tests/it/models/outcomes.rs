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
use crate::kit::{Bench, Heard};

const WAITS: ProviderTimeouts =
    ProviderTimeouts { head: Duration::from_secs(20), idle: Duration::from_secs(5), whole: Duration::from_secs(60) };

/// Who is asked: an adapter, or the one that tells of tools in words.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Who {
    Native(Adapter),
    Emulated,
}

impl std::fmt::Debug for Who {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Native(Adapter::Anthropic) => f.write_str("anthropic"),
            Self::Native(Adapter::OpenAi(dialect)) => f.write_str(dialect.interface()),
            Self::Emulated => f.write_str("openai-endpoint with emulated tools"),
        }
    }
}

fn everybody() -> impl Iterator<Item = Who> {
    ALL.into_iter().map(Who::Native).chain([Who::Emulated])
}

impl Who {
    fn model(self, fake: &FakeModels) -> Arc<dyn Model> {
        let endpoint = endpoint(fake).with_waits(WAITS);
        match self {
            Self::Native(adapter) => Arc::from(adapter.at(endpoint)),
            Self::Emulated => Arc::new(OpenAi::new(Dialect::Endpoint, endpoint, "fake-1").unwrap().emulating_tools()),
        }
    }

    /// A turn with calls of `look`, of which those who only speak make one.
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

    /// How many of these calls are in one turn.
    fn of(self, ids: &[&str]) -> usize {
        if self == Self::Emulated { 1 } else { ids.len() }
    }
}

/// A run and everything around it.
struct Trial {
    who: Who,
    fake: FakeModels,
    model: Arc<dyn Model>,
    tools: Arc<Bench>,
    limits: Limits,
    stream: bool,
}

/// What came of it.
struct Came {
    name: String,
    result: AgentResult,
    fake: FakeModels,
    heard: Arc<Heard>,
    took: Duration,
}

impl Trial {
    fn new(who: Who, turns: impl IntoIterator<Item = Turn>) -> Self {
        let fake = FakeModels::new(turns);
        let model = who.model(&fake);
        Self { who, fake, model, tools: Bench::new(), limits: Limits::default(), stream: true }
    }

    fn within(mut self, limits: Limits) -> Self {
        self.limits = limits;
        self
    }

    fn streaming(mut self, stream: bool) -> Self {
        self.stream = stream;
        self
    }

    /// Runs it to its end, which leaves a complete trace whatever happens.
    async fn run(self, what: &str) -> Came {
        let Self { who, fake, model, tools, limits, stream } = self;
        let name = format!("{who:?}, {what}, stream: {stream}");
        let heard = Arc::<Heard>::default();
        let bench = Arc::clone(&tools);
        let agent = Agent::new(model, Arc::new(move || Arc::clone(&bench) as Arc<dyn Tools>))
            .with_options(ModelOptions { stream, ..ModelOptions::default() })
            .with_events(heard.clone());
        let given = vec![Message::text(Role::System, "Be brief."), Message::text(Role::User, "what?")];
        let (mut run, began) = (Run::new("s", given, limits), Instant::now());
        let result = eventually(agent.run(&mut run, std::future::pending())).await;
        let result = result.unwrap_or_else(|error| panic!("{name}: nothing was to be an error: {error}"));
        let came = Came { name, result, fake, heard, took: began.elapsed() };
        came.expect_complete();
        came
    }
}

impl Came {
    fn events(&self, kind: &str) -> Vec<Value> {
        self.heard.all().into_iter().filter(|event| event["type"] == kind).collect()
    }

    /// Every call has its result, right after it and in its order; the text and the events tell the same.
    fn expect_complete(&self) {
        let Self { name, result, .. } = self;
        let trace = &result.trace_messages;
        let mut seen = std::collections::HashSet::new();
        for (place, message) in trace.iter().enumerate() {
            assert_eq!(message.block_index, place, "{name}");
            for (number, call) in message.tool_calls.iter().enumerate() {
                assert!(seen.insert(call.id.clone()), "{name}: the id {} is there twice", call.id);
                let answered = trace.get(place + 1 + number).and_then(|message| message.tool_result.as_ref());
                assert_eq!(answered.map(|result| &result.tool_use_id), Some(&call.id), "{name}: a call is open");
                let heading = format!("--- Tool Message (call_id: {}) ---", call.id);
                assert_eq!(result.raw_trace.matches(&heading).count(), 1, "{name}: {}", result.raw_trace);
            }
        }
        let results = trace.iter().filter(|message| message.tool_result.is_some()).count();
        assert_eq!(results, seen.len(), "{name}: nothing is the result of no call");
        let said = trace.iter().filter(|message| message.role == Role::Assistant);
        let spent: u64 = said.clone().filter_map(|message| message.usage_metadata).map(|one| one.total_tokens()).sum();
        assert_eq!(result.usage.total_tokens(), spent, "{name}: what was spent");
        assert_eq!(usize::try_from(result.turns).unwrap(), said.count(), "{name}");
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

    /// It ended at this limit, with these words or none, after so many questions.
    fn expect_limit(&self, limit: &Limit, answer: Option<&str>, asked: usize) {
        let Self { name, result, fake, .. } = self;
        assert_eq!(result.stop, RunEnd::Limit(limit.clone()), "{name}");
        assert_eq!(result.limits, std::slice::from_ref(limit), "{name}");
        assert_eq!(result.final_response.as_deref(), answer, "{name}: nothing is made up");
        assert_eq!(fake.requests().len(), asked, "{name}");
    }

    fn results(&self) -> Vec<&TraceMessage> {
        self.result.trace_messages.iter().filter(|message| message.tool_result.is_some()).collect()
    }
}
