//! Runs the agent of a trial, with its model and its tools through the journal.

use std::sync::Arc;

use wharf_agent::middleware::{AttemptTimeout, LayeredModel, LoopGuard, ModelLayer};
use wharf_agent::{Agent, AgentResult, Limits, Run};
use wharf_protocol::{Message, Role, ToolSource};

use super::answer::Answer;
use super::context::TrialContext;
use super::conversation;
use crate::journal::{JournalError, StepOwner};
use crate::journaled::{
    Denials, JournaledCalls, JournaledRequests, RequestContext, RequestOwner, RequestSender, Steps, StopCause,
    context_window, middleware,
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
    // The time limit counts executing steps, also those on record, so a resumed run ends at the same point.
    let steps = Arc::new(steps.with_time_limit(settings.limits.time));
    let agent = agent(trial, tools, &steps, denials);
    let answering = Answering { trial, agent, steps };
    if let Some(scenario) = &trial.question.scenario {
        return conversation::hold(&answering, scenario).await;
    }
    let mut run = answering.start(trial.question.question.clone());
    let result = answering.drive(&mut run).await?;
    Ok(answering.answer(result))
}

/// The agent of a trial.
pub(super) struct Answering<'a> {
    pub(super) trial: &'a TrialContext,
    agent: Agent,
    steps: Arc<Steps>,
}

impl Answering<'_> {
    /// Creates the run that begins with a message to the model.
    pub(super) fn start(&self, message: String) -> Run {
        let settings = &self.trial.model.settings;
        let system = settings.system_prompt.iter().map(|text| Message::text(Role::System, text.clone()));
        let messages = system.chain([Message::text(Role::User, message)]).collect();
        Run::new(self.trial.id.to_string(), messages, Limits { time: None, ..settings.limits.clone() })
    }

    /// Runs the agent until the model has answered. An error of the journal ends the trial.
    pub(super) async fn drive(&self, run: &mut Run) -> Result<AgentResult, JournalError> {
        let stopped = self.steps.stop().stopped();
        let result = self.agent.run_until(run, stopped).await.unwrap_or_else(|error| *error.result);
        match self.steps.stop().cause() {
            Some(StopCause::Journal(error)) => Err(error),
            _ => Ok(result),
        }
    }

    /// Whether no further step may be executed.
    pub(super) fn is_stopped(&self) -> bool {
        self.steps.stop().cause().is_some()
    }

    pub(super) fn answer(&self, result: AgentResult) -> Answer {
        Answer::new(&self.trial.question, result, self.steps.totals(), self.steps.stop().cause())
    }
}

/// Builds the agent of a trial, with its model and its tools through the journal.
fn agent(trial: &TrialContext, tools: &TrialTools, steps: &Arc<Steps>, denials: Arc<Denials>) -> Agent {
    let settings = &trial.model.settings;
    let context: Arc<dyn RequestContext> = Arc::clone(&tools.offered) as _;
    let sender = RequestSender { owner: RequestOwner::Model, provider: settings.interface.clone() };
    let requests = JournaledRequests::new(Arc::clone(steps), sender, context);
    let mut layers: Vec<Arc<dyn ModelLayer>> = vec![Arc::new(requests)];
    if let Some(time) = settings.attempt_timeout {
        layers.push(Arc::new(AttemptTimeout::new(time, settings.middleware.model_retry.policy.clone())));
    }
    let model = LayeredModel::new(Arc::clone(&trial.model.model), layers);
    let mut agent = Agent::new(Arc::new(model), Arc::clone(&tools.offered) as Arc<dyn ToolSource>)
        .with_options(settings.options.clone())
        .with_middleware(middleware(&settings.middleware, trial.is_replay))
        .with_context_window(context_window(settings));
    if let Some(max) = settings.middleware.repetition.0 {
        agent = agent.with_tool_layer(Arc::new(LoopGuard::new(max)));
    }
    agent = agent.with_tool_layer(Arc::new(JournaledCalls::new(Arc::clone(steps), denials, tools.lifetime())));
    if let Some(limit) = &trial.model.concurrency {
        agent = agent.with_concurrency_limit(limit.clone());
    }
    agent
}
