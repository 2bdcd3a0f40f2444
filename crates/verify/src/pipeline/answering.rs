//! Runs the agent of a trial, with its model and its tools through the journal.

use std::sync::Arc;

use wharf_agent::middleware::{AttemptTimeout, LayeredModel, LoopGuard, ModelLayer};
use wharf_agent::{Agent, Limits, Run};
use wharf_protocol::{Message, Role, ToolSource};

use super::answer::Answer;
use super::context::TrialContext;
use crate::journal::{JournalError, StepOwner};
use crate::journaled::{
    Denials, JournaledCalls, JournaledRequests, RequestContext, RequestOwner, Steps, StopCause, middleware,
};
use crate::workbench::{TrialServers, TrialTools};

/// Gets the answer of a trial. An error of the journal ends the trial without one.
pub(super) async fn answer(trial: &TrialContext) -> Result<Answer, JournalError> {
    let denials = Arc::<Denials>::default();
    let tools = open_tools(trial, &denials).await;
    let answer = run(trial, &tools, denials).await;
    tools.close().await;
    answer
}

/// Opens the tools of a trial. A replay starts no server.
pub(super) async fn open_tools(trial: &TrialContext, denials: &Arc<Denials>) -> TrialTools {
    if trial.is_replay {
        return TrialTools::replayed(&trial.tools);
    }
    let servers = TrialServers {
        model: &trial.model.label,
        servers: &trial.servers,
        isolation: trial.isolation,
        planned: &trial.tools,
    };
    trial.pool.open(&servers, Arc::clone(denials) as _).await
}

async fn run(trial: &TrialContext, tools: &TrialTools, denials: Arc<Denials>) -> Result<Answer, JournalError> {
    let settings = &trial.model.settings;
    let steps = Steps::new(Arc::clone(&trial.journal), StepOwner::Trial, trial.redactor.clone());
    // The time limit counts the time on record, so a resumed run and a replay end at the same point.
    let steps = Arc::new(steps.with_time_limit(settings.limits.time));
    let context: Arc<dyn RequestContext> = Arc::clone(&tools.offered) as _;
    let requests = JournaledRequests::new(Arc::clone(&steps), RequestOwner::Model, context);
    let mut layers: Vec<Arc<dyn ModelLayer>> = vec![Arc::new(requests)];
    if let Some(time) = settings.attempt_timeout {
        layers.push(Arc::new(AttemptTimeout::new(time, settings.middleware.model_retry.policy.clone())));
    }
    let model = LayeredModel::new(Arc::clone(&trial.model.model), layers);
    let mut agent = Agent::new(Arc::new(model), Arc::clone(&tools.offered) as Arc<dyn ToolSource>)
        .with_options(settings.options.clone())
        .with_middleware(middleware(&settings.middleware, trial.is_replay));
    if let Some(max) = settings.middleware.repetition.0 {
        agent = agent.with_tool_layer(Arc::new(LoopGuard::new(max)));
    }
    agent = agent.with_tool_layer(Arc::new(JournaledCalls::new(Arc::clone(&steps), denials)));
    if let Some(limit) = &trial.model.concurrency {
        agent = agent.with_concurrency_limit(limit.clone());
    }
    let system = settings.system_prompt.iter().map(|text| Message::text(Role::System, text.clone()));
    let question = Message::text(Role::User, trial.question.question.clone());
    let limits = Limits { time: None, ..settings.limits.clone() };
    let mut run = Run::new(trial.id.to_string(), system.chain([question]).collect(), limits);
    let result = agent.run_until(&mut run, steps.stop().stopped()).await.unwrap_or_else(|error| *error.result);
    match steps.stop().cause() {
        Some(StopCause::Journal(error)) => Err(error),
        cause => Ok(Answer::new(result, steps.totals(), cause)),
    }
}
