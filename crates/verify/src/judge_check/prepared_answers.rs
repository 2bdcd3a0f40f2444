//! A model that has one prepared answer to each question.

use std::collections::HashMap;

use wharf_agent::{Capabilities, Model, ModelError, ModelErrorKind, ModelRequest, ModelResponse, StopReason};
use wharf_protocol::{BoxFuture, Message, Role, Usage};

pub(super) struct PreparedAnswers {
    pub(super) name: String,
    /// The answers by the text of their question.
    pub(super) answers: HashMap<String, String>,
}

impl Model for PreparedAnswers {
    fn interface(&self) -> &'static str {
        "labels"
    }

    fn name(&self) -> &str {
        &self.name
    }

    fn capabilities(&self) -> Capabilities {
        Capabilities::default()
    }

    fn complete<'a>(&'a self, request: &'a ModelRequest<'a>) -> BoxFuture<'a, Result<ModelResponse, ModelError>> {
        let question = request.messages.iter().rfind(|message| message.role == Role::User).map(Message::plain_text);
        let answer = question.and_then(|question| self.answers.get(&question));
        let response = match answer {
            Some(answer) => Ok(ModelResponse {
                message: Message::text(Role::Assistant, answer.clone()),
                stop: StopReason::EndTurn,
                model: self.name.clone(),
                id: None,
                usage: Usage { cost_usd: Some(0.0), ..Usage::default() },
            }),
            None => Err(ModelError::new(ModelErrorKind::Exhausted, "no labeled answer to this question")),
        };
        Box::pin(std::future::ready(response))
    }
}
