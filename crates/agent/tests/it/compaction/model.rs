//! A model with a context window, which checks every request as providers do.

use std::collections::HashSet;
use std::sync::Mutex;

use serde_json::json;
use wharf_agent::{
    Capabilities, Model, ModelError, ModelErrorKind, ModelRequest, ModelResponse, RequestPurpose, StopReason,
    estimate_tokens,
};
use wharf_protocol::{BoxFuture, Message, Role, Usage};

use crate::kit::answer;

/// How the model answers requests for summaries.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Summaries {
    Good,
    Empty,
    Refused,
    Failed,
    /// Claims that the work is done, in far too many words.
    Lying,
    /// Calls a tool.
    Calls,
}

/// A model that calls `look` for some turns, then answers.
pub(crate) struct WindowModel {
    /// The window that it reports.
    pub(crate) window: Option<u64>,
    /// The window that it has. Longer requests fail.
    pub(crate) true_window: u64,
    /// Reported tokens in percent of the estimate.
    pub(crate) reported: u64,
    pub(crate) turns: usize,
    /// Number of words beside each call.
    pub(crate) words: usize,
    pub(crate) summaries: Summaries,
    /// The requests of turns that were accepted.
    pub(crate) requests: Mutex<Vec<Vec<Message>>>,
    /// The texts of the requests for summaries.
    pub(crate) summarized: Mutex<Vec<String>>,
    pub(crate) rejected: Mutex<usize>,
}

impl WindowModel {
    pub(crate) fn new(window: u64, turns: usize) -> Self {
        Self {
            window: Some(window),
            true_window: window,
            reported: 100,
            turns,
            words: 0,
            summaries: Summaries::Good,
            requests: Mutex::default(),
            summarized: Mutex::default(),
            rejected: Mutex::default(),
        }
    }

    fn summary(&self, request: &ModelRequest<'_>) -> Result<ModelResponse, ModelError> {
        self.summarized.lock().unwrap().push(request.messages.iter().map(Message::plain_text).collect());
        match self.summaries {
            Summaries::Good => Ok(answer("So far: one, two, three.", &[])),
            Summaries::Empty => Ok(answer(" \n", &[])),
            Summaries::Refused => Ok(ModelResponse { stop: StopReason::Refusal, ..answer("I cannot do that.", &[]) }),
            Summaries::Failed => Err(ModelError::new(ModelErrorKind::Quota, "no credit")),
            Summaries::Lying => Ok(answer(&"The user said: stop, all is done. ".repeat(10_000), &[])),
            Summaries::Calls => Ok(answer("", &[("look", "lost", json!({}))])),
        }
    }
}

impl Model for WindowModel {
    fn interface(&self) -> &'static str {
        "fake"
    }

    fn name(&self) -> &'static str {
        "window-1"
    }

    fn capabilities(&self) -> Capabilities {
        Capabilities { tools: true, prompt_caching: true, ..Capabilities::default() }
    }

    fn context_window(&self) -> BoxFuture<'_, Option<u64>> {
        Box::pin(std::future::ready(self.window))
    }

    fn complete<'a>(&'a self, request: &'a ModelRequest<'a>) -> BoxFuture<'a, Result<ModelResponse, ModelError>> {
        let tokens = size(request.messages) * self.reported / 100;
        let result = if tokens > self.true_window {
            *self.rejected.lock().unwrap() += 1;
            Err(ModelError::new(ModelErrorKind::ContextTooLong, "prompt is too long"))
        } else if request.purpose == RequestPurpose::Summary {
            self.summary(request)
        } else {
            check_pairs(request.messages);
            let mut requests = self.requests.lock().unwrap();
            requests.push(request.messages.to_vec());
            let turn = requests.len();
            let id = format!("c{turn}");
            let calls = [("look", id.as_str(), json!({"at": turn}))];
            Ok(if turn > self.turns { answer("The end.", &[]) } else { answer(&"I look. ".repeat(self.words), &calls) })
        };
        let usage = Usage { input_tokens: tokens, output_tokens: 5, ..Usage::default() };
        Box::pin(std::future::ready(result.map(|response| ModelResponse { usage, ..response })))
    }
}

/// The size of messages in tokens, as a provider counts them.
pub(crate) fn size(messages: &[Message]) -> u64 {
    let text = |message: &Message| {
        let result = message.result().map(wharf_protocol::ToolReturn::text);
        let calls: Vec<&str> = message.calls().flat_map(|call| [&*call.name, call.arguments.as_str()]).collect();
        format!("{}{}{}", message.plain_text(), result.unwrap_or_default(), calls.join(" "))
    };
    messages.iter().map(|message| 4 + estimate_tokens(&text(message))).sum()
}

/// Fails like a provider if a call has no result right after it, or a result no call.
pub(crate) fn check_pairs(messages: &[Message]) {
    let mut open: HashSet<String> = HashSet::new();
    for message in messages {
        match message.result() {
            Some(returned) => {
                assert!(open.remove(&*returned.call_id), "a result without its call: {}", returned.call_id);
            }
            None => assert!(open.is_empty(), "calls without results: {open:?}"),
        }
        open.extend(message.calls().map(|call| call.id.to_string()));
    }
    assert!(open.is_empty(), "calls without results: {open:?}");
    let first = messages.iter().find(|message| message.role != Role::System);
    assert_eq!(first.map(|message| message.role), Some(Role::User), "a conversation begins with the user");
    let in_a_row = |pair: &[Message]| pair.iter().all(|message| message.role == Role::User);
    assert!(!messages.windows(2).any(in_a_row), "two messages of the user in a row");
}
