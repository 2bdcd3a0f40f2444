//! Every adapter over in-memory HTTP.

use std::sync::{Arc, Mutex};

use tokio::task::JoinSet;
use wharf_agent::models::{Anthropic, Dialect, Endpoint, OpenAi};
use wharf_agent::{Delta, Model, ModelError, ModelOptions, ModelRequest, ModelResponse, RequestPurpose};
use wharf_io::{DialTo, Dialed, HttpClient, HttpSettings};
use wharf_protocol::{Hints, Json, Message, Role, Secret, ServerInstructions, ToolDefinition, ToolLoading};
use wharf_testkit::models::FakeModels;

/// The API key, which must not appear in any output.
pub(crate) const KEY: &str = "sk-very-secret-0123456789";

/// A model adapter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Adapter {
    Anthropic,
    OpenAi(Dialect),
}

pub(crate) const OPENAI: Adapter = Adapter::OpenAi(Dialect::OpenAi);
pub(crate) const ALL: [Adapter; 5] = [
    Adapter::Anthropic,
    OPENAI,
    Adapter::OpenAi(Dialect::OpenRouter),
    Adapter::OpenAi(Dialect::Endpoint),
    Adapter::OpenAi(Dialect::Ollama),
];

impl Adapter {
    pub(crate) fn model(self, fake: &FakeModels) -> Box<dyn Model> {
        self.at(endpoint(fake))
    }

    pub(crate) fn at(self, endpoint: Endpoint) -> Box<dyn Model> {
        self.named(endpoint, "fake-1")
    }

    pub(crate) fn named(self, endpoint: Endpoint, model: &str) -> Box<dyn Model> {
        match self {
            Self::Anthropic => Box::new(Anthropic::new(endpoint, model).unwrap()),
            Self::OpenAi(dialect) => Box::new(OpenAi::new(dialect, endpoint, model).unwrap()),
        }
    }
}

pub(crate) fn endpoint(fake: &FakeModels) -> Endpoint {
    Endpoint::new("http://provider.test/v1", Some(Secret::new(KEY)), in_memory(fake)).unwrap()
}

/// A client whose connections all lead to the fake provider.
pub(crate) fn in_memory(fake: &FakeModels) -> HttpClient {
    let fake = fake.clone();
    let tasks = Arc::new(Mutex::new(JoinSet::new()));
    let settings = HttpSettings::default().dialing(move |_: DialTo| {
        let (ours, theirs) = tokio::io::duplex(64 * 1024);
        tasks.lock().unwrap().spawn(fake.clone().serve_connection(theirs));
        async move { Ok(Dialed::new(ours)) }
    });
    HttpClient::new(settings).unwrap()
}

/// A model request.
#[derive(Default)]
pub(crate) struct TestRequest {
    pub(crate) messages: Vec<Message>,
    pub(crate) tools: Vec<ToolDefinition>,
    /// Tools that the model may not call.
    pub(crate) all_tools: Vec<ToolDefinition>,
    pub(crate) options: ModelOptions,
    pub(crate) instructions: Vec<ServerInstructions>,
}

impl TestRequest {
    pub(crate) fn new(text: &str) -> Self {
        Self { messages: vec![Message::text(Role::User, text)], ..Self::default() }
    }

    pub(crate) fn unstreamed(mut self) -> Self {
        self.options.stream = false;
        self
    }

    pub(crate) fn streaming(mut self, stream: bool) -> Self {
        self.options.stream = stream;
        self
    }

    pub(crate) async fn complete(&self, model: &dyn Model) -> Result<(ModelResponse, Vec<Delta>), ModelError> {
        let deltas = Mutex::new(Vec::new());
        let on_delta = |delta: Delta| deltas.lock().unwrap().push(delta);
        let Self { messages, tools, all_tools, options, instructions } = self;
        let all_tools = if tools.is_empty() { all_tools } else { tools };
        let purpose = RequestPurpose::TURN;
        let request = ModelRequest { messages, instructions, tools, all_tools, options, purpose, on_delta: &on_delta };
        let response = model.complete(&request).await?;
        Ok((response, deltas.into_inner().unwrap()))
    }
}

pub(crate) fn tool(name: &str) -> ToolDefinition {
    ToolDefinition {
        name: name.into(),
        description: format!("Does {name}").into(),
        input_schema: json(r#"{"type":"object","properties":{"n":{"type":"integer"}}}"#),
        hints: Hints { read_only: Some(true), ..Hints::default() },
        loading: ToolLoading::default(),
    }
}

pub(crate) fn json(text: &str) -> Json {
    Json::parse(text).unwrap()
}
