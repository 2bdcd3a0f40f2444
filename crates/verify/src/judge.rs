//! The judge of one unit, or of the path of a scenario: requests with a fixed form of the answer, and repairs of answers in
//! another form.

mod investigation;

use std::sync::Arc;

use serde_json::Value;
use wharf_agent::middleware::{AttemptTimeout, LayeredModel, Middleware, ModelLayer, Summarization};
use wharf_agent::{Agent, Limits, ModelError, ModelOptions, NoTools, Run, RunEnd};
use wharf_protocol::{Json, Message, Role, Usage};

use crate::journaled::{
    JournaledRequests, RequestContext, RequestOwner, RequestSender, Steps, StopCause, Totals, middleware,
};
use crate::judge_prompt::{JudgePrompt, repair};
use crate::model_under_test::Judge;

pub(crate) use investigation::Investigation;

/// How often a judge may correct an answer in the wrong form.
const MAX_REPAIRS: u32 = 2;

/// The judge of one unit.
pub(crate) struct UnitJudge {
    judge: Arc<Judge>,
    /// Id of its runs.
    session: String,
    steps: Arc<Steps>,
    is_replay: bool,
    usage: Usage,
    actual_model: Option<String>,
    /// The time and the retries of investigations.
    investigated: Vec<Totals>,
}

/// A judge's answer in the required form.
#[derive(Debug)]
pub(crate) struct Judged<T> {
    /// The answer.
    pub(crate) value: T,
    /// How often the judge had to correct it.
    pub(crate) repairs: u32,
}

/// Why a judge gave no answer.
#[derive(Debug)]
pub(crate) enum JudgeError {
    /// The request failed, after all retries.
    Model(ModelError),
    /// The answer never had the required form.
    Unparseable(String),
    /// No further step is executed.
    Stopped(StopCause),
}

/// The context of a judge without tools.
pub(crate) struct NoContext;

impl RequestContext for NoContext {
    fn tool_set(&self) -> &'static str {
        ""
    }

    fn has_tools(&self) -> bool {
        false
    }

    fn problem(&self) -> Option<String> {
        None
    }
}

impl UnitJudge {
    pub(crate) fn new(judge: Arc<Judge>, session: String, steps: Arc<Steps>, is_replay: bool) -> Self {
        Self { judge, session, steps, is_replay, usage: Usage::default(), actual_model: None, investigated: Vec::new() }
    }

    pub(crate) fn judge(&self) -> &Judge {
        &self.judge
    }

    /// Returns the tokens and cost of all requests.
    pub(crate) fn usage(&self) -> Usage {
        self.usage
    }

    /// Returns the model that responded last, according to its provider.
    pub(crate) fn actual_model(&self) -> Option<&str> {
        self.actual_model.as_deref()
    }

    /// Adds tokens and cost of a request that helps the judge.
    pub(crate) fn add_usage(&mut self, usage: Usage) {
        self.usage += usage;
    }

    /// Returns the steps of the unit.
    pub(crate) fn steps(&self) -> Arc<Steps> {
        Arc::clone(&self.steps)
    }

    pub(crate) fn totals(&self) -> Totals {
        let mut totals = self.steps.totals();
        self.investigated.iter().for_each(|other| totals.merge(other.clone()));
        totals
    }

    /// Sends a request. `read` accepts the answer or says what is wrong with it, in text that the judge reads.
    pub(crate) async fn ask<T>(
        &mut self,
        mut prompt: JudgePrompt,
        read: impl Fn(&Value) -> Result<T, String>,
    ) -> Result<Judged<T>, JudgeError> {
        let mut repairs = 0;
        loop {
            let text = self.request(&prompt).await?;
            let error = match object_in(&text).and_then(|answer| read(&answer)) {
                Ok(value) => return Ok(Judged { value, repairs }),
                Err(error) => error,
            };
            if repairs == MAX_REPAIRS {
                return Err(JudgeError::Unparseable(error));
            }
            repairs += 1;
            repair(&mut prompt, &text, &error);
        }
    }

    /// Sends one request, with retries. Returns the text of the answer.
    async fn request(&mut self, prompt: &JudgePrompt) -> Result<String, JudgeError> {
        let Judge { model, settings, concurrency, .. } = &*self.judge;
        let context = Arc::new(NoContext);
        let sender = RequestSender { owner: RequestOwner::Judge, provider: settings.interface.clone() };
        let journal = JournaledRequests::new(Arc::clone(&self.steps), sender, context);
        let mut layers: Vec<Arc<dyn ModelLayer>> = vec![Arc::new(journal)];
        if let Some(time) = settings.attempt_timeout {
            let policy = settings.middleware.model_retry.policy.clone();
            layers.push(Arc::new(AttemptTimeout::new(time, policy)));
        }
        let model = LayeredModel::new(Arc::clone(model), layers);
        let options = ModelOptions { schema: Some(Json::from(prompt.schema.clone())), ..settings.options.clone() };
        let mut agent =
            Agent::new(Arc::new(model), Arc::new(NoTools)).with_options(options).with_middleware(Middleware {
                // A judge reads one message, as a whole or not at all.
                summarization: Summarization { enabled: false, ..Summarization::default() },
                ..middleware(&settings.middleware, self.is_replay)
            });
        if let Some(limit) = concurrency {
            agent = agent.with_concurrency_limit(limit.clone());
        }
        let own = settings.system_prompt.iter().map(|text| Message::text(Role::System, text.clone()));
        let messages = own.chain(prompt.messages.iter().cloned()).collect();
        let mut run = Run::new(self.session.clone(), messages, Limits { model_calls: 1, ..Limits::default() });
        let result = agent.run_until(&mut run, self.steps.stop().stopped()).await;
        let result = result.unwrap_or_else(|error| *error.result);
        self.usage += result.usage;
        self.actual_model = result.actual_model.or(self.actual_model.take());
        if let Some(cause) = self.steps.stop().cause() {
            return Err(JudgeError::Stopped(cause));
        }
        match result.stop {
            RunEnd::ModelFailed(error) => Err(JudgeError::Model(error)),
            _ => Ok(result.final_response.unwrap_or_default()),
        }
    }
}

/// Reads the JSON object of an answer, also from a fenced code block.
fn object_in(text: &str) -> Result<Value, String> {
    let text = text.trim();
    let fenced = text.strip_prefix("```").and_then(|rest| rest.strip_suffix("```"));
    let text = fenced.map_or(text, |inner| inner.strip_prefix("json").unwrap_or(inner)).trim();
    if text.is_empty() {
        return Err("the answer is empty".to_owned());
    }
    let json = Json::parse(text).map_err(|error| format!("the answer is not JSON: {error}"))?;
    let value = json.to_unambiguous_value().map_err(|error| format!("the answer is not usable: {error}"))?;
    if value.is_object() { Ok(value) } else { Err("the answer is not a JSON object".to_owned()) }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn an_answer_is_one_json_object_plain_or_fenced() {
        for text in ["{\"a\": 1}", " {\"a\":1}\n", "```json\n{\"a\": 1}\n```", "```\n{\"a\": 1}```"] {
            assert_eq!(object_in(text).unwrap(), json!({"a": 1}), "{text}");
        }
        let errors: Vec<String> = ["", "It is 9.", "[1]", "{\"a\": 1} and more", "{\"a\": 1, \"a\": 2}", "\"x\""]
            .map(|text| {
                let error = object_in(text).unwrap_err();
                error.split(" at line").next().unwrap_or_default().to_owned()
            })
            .into();
        insta::assert_snapshot!(errors.join("\n"), @"
        the answer is empty
        the answer is not JSON: expected value
        the answer is not a JSON object
        the answer is not JSON: trailing characters
        the answer is not usable: `a` is given twice
        the answer is not a JSON object
        ");
        let deep = format!("{{\"a\":{}{}}}", "[".repeat(5000), "]".repeat(5000));
        assert!(object_in(&deep).is_err());
    }
}
