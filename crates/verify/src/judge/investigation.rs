//! An investigation: the judge's model as an agent with tools, its own limits, and the journal of the unit.

use std::sync::Arc;
use std::time::Duration;

use wharf_agent::middleware::{AttemptTimeout, LayeredModel, LoopGuard, ModelLayer};
use wharf_agent::{Agent, Limits, Run, RunEnd};
use wharf_protocol::{Message, Role, ToolSource};

use super::{JudgeError, UnitJudge};
use crate::journaled::{
    Denials, JournaledCalls, JournaledRequests, RequestContext, RequestOwner, RequestSender, ServerLifetime, StopCause,
    context_window, middleware,
};
use crate::model_under_test::Judge;

/// What an agent does, and how far it may go.
pub(crate) struct Investigation {
    pub(crate) messages: Vec<Message>,
    pub(crate) tools: Arc<dyn ToolSource>,
    /// What the journal knows about the tools.
    pub(crate) context: Arc<dyn RequestContext>,
    pub(crate) denials: Arc<Denials>,
    /// The maximum number of model requests.
    pub(crate) turns: u32,
    /// The maximum time. It counts the time on record.
    pub(crate) time: Duration,
}

impl UnitJudge {
    /// Runs an investigation. Returns what the agent found.
    pub(crate) async fn investigate(&mut self, investigation: Investigation) -> Result<String, JudgeError> {
        let Investigation { messages, tools, context, denials, turns, time } = investigation;
        let Judge { model, settings, concurrency, .. } = &*self.judge;
        let steps = Arc::new(self.steps.sibling().with_time_limit(Some(time)));
        let sender = RequestSender { owner: RequestOwner::Judge, provider: settings.interface.clone() };
        let requests = JournaledRequests::new(Arc::clone(&steps), sender, context);
        let mut layers: Vec<Arc<dyn ModelLayer>> = vec![Arc::new(requests)];
        if let Some(time) = settings.attempt_timeout {
            layers.push(Arc::new(AttemptTimeout::new(time, settings.middleware.model_retry.policy.clone())));
        }
        let model = LayeredModel::new(Arc::clone(model), layers);
        let mut agent = Agent::new(Arc::new(model), tools)
            .with_options(settings.options.clone())
            .with_middleware(middleware(&settings.middleware, self.is_replay))
            .with_context_window(context_window(settings));
        if let Some(max) = settings.middleware.repetition.0 {
            agent = agent.with_tool_layer(Arc::new(LoopGuard::new(max)));
        }
        // Its tools only read, so a resumed investigation misses nothing on other servers.
        agent = agent.with_tool_layer(Arc::new(JournaledCalls::new(Arc::clone(&steps), denials, ServerLifetime::Run)));
        if let Some(limit) = concurrency {
            agent = agent.with_concurrency_limit(limit.clone());
        }
        let own = settings.system_prompt.iter().map(|text| Message::text(Role::System, text.clone()));
        let limits = Limits { model_calls: turns, ..Limits::default() };
        let mut run = Run::new(self.session.clone(), own.chain(messages).collect(), limits);
        let result = agent.run_until(&mut run, steps.stop().stopped()).await;
        let result = result.unwrap_or_else(|error| *error.result);
        self.usage += result.usage;
        self.investigated.push(steps.totals());
        match steps.stop().cause() {
            None => {}
            Some(StopCause::TimeLimit(seconds)) => {
                return Err(JudgeError::Unparseable(format!("the investigation took longer than {seconds} s")));
            }
            Some(StopCause::Invalid(reason)) => return Err(JudgeError::Unparseable(reason)),
            Some(cause) => return Err(JudgeError::Stopped(cause)),
        }
        let reason = match result.stop {
            RunEnd::ModelFailed(error) => return Err(JudgeError::Model(error)),
            RunEnd::Limit(_) => format!("the investigation did not end within {turns} turns"),
            _ => "the investigation has no result".to_owned(),
        };
        result.final_response.filter(|text| !text.trim().is_empty()).ok_or(JudgeError::Unparseable(reason))
    }
}
