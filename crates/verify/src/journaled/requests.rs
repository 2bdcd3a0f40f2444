//! Model requests through the journal.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use serde::{Deserialize, Serialize};
use wharf_agent::middleware::{ModelLayer, NextModel};
use wharf_agent::{ModelError, ModelErrorKind, ModelOptions, ModelRequest, ModelResponse};
use wharf_protocol::{BoxFuture, Message, Usage};

use super::steps::{Attempt, Executed, Steps};
use super::stop::StopCause;
use crate::journal::{RequestPermit, StepKind};
use crate::outcome::FailureCategory;

/// Who sends the requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RequestOwner {
    /// The answering model.
    Model,
    /// A judge.
    Judge,
}

/// Who sends the requests, and to whom.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct RequestSender {
    pub(crate) owner: RequestOwner,
    /// The name of the interface.
    pub(crate) provider: String,
}

/// What the layer knows about the run beside its requests.
pub(crate) trait RequestContext: Send + Sync {
    /// Returns the digest of the tools that the model is offered, as planned.
    fn tool_set(&self) -> &str;

    /// Returns whether tools are planned.
    fn has_tools(&self) -> bool;

    /// Returns why the next request would say nothing about the model: a server is missing, or other tools are offered.
    fn problem(&self) -> Option<String>;
}

/// A layer that executes each attempt of a model request as a step.
pub(crate) struct JournaledRequests {
    steps: Arc<Steps>,
    sender: RequestSender,
    context: Arc<dyn RequestContext>,
    /// The failures of the current request, by kind of error.
    failures: Mutex<BTreeMap<String, u32>>,
}

/// The recorded form of an attempt.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum AttemptBody {
    Response(Box<RespondedAttempt>),
    Error(FailedAttempt),
    /// The request was not sent, because the trial is invalid.
    Invalid(String),
    /// The time limit of the run, in seconds, ended the request.
    TimeLimit(u64),
}

#[derive(Serialize, Deserialize)]
struct RespondedAttempt {
    response: ModelResponse,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    failures: BTreeMap<String, u32>,
}

#[derive(Serialize, Deserialize)]
struct FailedAttempt {
    error: ModelError,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    failures: BTreeMap<String, u32>,
}

/// The parts of a request that can change the answer. The tools are those of the plan: a turn with other tools is not
/// sent.
#[derive(Serialize)]
struct RequestDigest<'a> {
    messages: &'a [Message],
    tool_set: &'a str,
    /// Whether the model may call tools.
    tools: bool,
    options: ModelOptions,
}

impl JournaledRequests {
    pub(crate) fn new(steps: Arc<Steps>, sender: RequestSender, context: Arc<dyn RequestContext>) -> Self {
        Self { steps, sender, context, failures: Mutex::default() }
    }

    fn digest(&self, request: &ModelRequest<'_>) -> String {
        // How a prompt is cached and transferred does not change the answer.
        let options = ModelOptions { cache: None, stream: false, ..request.options.clone() };
        let digested = RequestDigest {
            messages: request.messages,
            tool_set: self.context.tool_set(),
            // A turn whose servers are all gone has the digest of the planned one, so that a replay finds it.
            tools: if request.all_tools.is_empty() { self.context.has_tools() } else { !request.tools.is_empty() },
            options,
        };
        self.steps.digest(&digested)
    }

    async fn execute<'a>(&self, request: ModelRequest<'a>, next: NextModel<'a>, mut permit: RequestPermit) -> Executed {
        if let Some(problem) = self.context.problem() {
            return executed(&AttemptBody::Invalid(problem), false, Usage::default());
        }
        let failures = self.failures.lock().unwrap_or_else(PoisonError::into_inner).clone();
        if let Err(error) = permit.send().await {
            // The journal reports the same failure with the result of this step.
            let error = ModelError::new(ModelErrorKind::Overloaded, error.to_string());
            return executed(&AttemptBody::Error(FailedAttempt { error, failures }), true, Usage::default());
        }
        match next.complete(request).await {
            Ok(response) => {
                let usage = response.usage;
                permit.finish(&usage);
                let attempt = AttemptBody::Response(Box::new(RespondedAttempt { response, failures }));
                executed(&attempt, false, usage)
            }
            Err(error) => {
                let failed = error.is_transient();
                if error.kind == ModelErrorKind::RateLimit
                    && let Err(error) = permit.refused(error.retry_after).await
                {
                    tracing::warn!(%error, "other workers do not learn that the provider refuses requests");
                }
                executed(&AttemptBody::Error(FailedAttempt { error, failures }), failed, Usage::default())
            }
        }
    }

    fn count_failure(&self, error: &ModelError) {
        let category = FailureCategory::of_retry(error.kind).unwrap_or(FailureCategory::UnexpectedError);
        let mut failures = self.failures.lock().unwrap_or_else(PoisonError::into_inner);
        let count = failures.entry(category.as_str().to_owned()).or_default();
        *count = count.saturating_add(1);
    }

    async fn request<'a>(
        &'a self,
        request: ModelRequest<'a>,
        next: NextModel<'a>,
    ) -> Option<Result<ModelResponse, ModelError>> {
        let stop = self.steps.stop();
        if stop.cause().is_some() {
            return None;
        }
        // What ended a call ends the run here, after all calls of the turn: so a replay ends at the same point.
        let totals = self.steps.totals();
        if let Some(reason) = totals.denied {
            stop.set(StopCause::Invalid(reason));
            return None;
        }
        if let Some(seconds) = totals.time_limit {
            stop.set(StopCause::TimeLimit(seconds));
            return None;
        }
        let kind = match self.sender.owner {
            RequestOwner::Model => StepKind::Model,
            RequestOwner::Judge => StepKind::Judge,
        };
        let on_time_limit = |seconds| body(&AttemptBody::TimeLimit(seconds));
        let digest = self.digest(&request);
        let permit = self.steps.permit(&self.sender.provider).await?;
        let attempted = self.steps.run(kind, digest, self.execute(request, next, permit), on_time_limit).await?;
        let result = attempted.result;
        let attempt = |retries| Attempt { millis: result.millis, retries };
        match self.steps.decode(&result)? {
            AttemptBody::Response(attempted) => {
                let RespondedAttempt { response, failures } = *attempted;
                self.failures.lock().unwrap_or_else(PoisonError::into_inner).clear();
                self.steps.add_attempt(attempt(failures), false);
                Some(Ok(response))
            }
            AttemptBody::Error(FailedAttempt { error, failures }) => {
                self.steps.add_attempt(attempt(failures), true);
                self.count_failure(&error);
                Some(Err(error))
            }
            AttemptBody::Invalid(reason) => {
                stop.set(StopCause::Invalid(reason));
                None
            }
            AttemptBody::TimeLimit(seconds) => {
                self.steps.add_attempt(attempt(BTreeMap::new()), false);
                stop.set(StopCause::TimeLimit(seconds));
                None
            }
        }
    }
}

impl ModelLayer for JournaledRequests {
    fn handle<'a>(
        &'a self,
        request: ModelRequest<'a>,
        next: NextModel<'a>,
    ) -> BoxFuture<'a, Result<ModelResponse, ModelError>> {
        Box::pin(async move {
            match self.request(request, next).await {
                Some(result) => result,
                // The cause is set, and the agent is about to be stopped.
                None => std::future::pending().await,
            }
        })
    }
}

fn executed(attempt: &AttemptBody, failed: bool, usage: Usage) -> Executed {
    Executed { body: body(attempt), failed, usage }
}

fn body(attempt: &AttemptBody) -> String {
    serde_json::to_string(attempt).unwrap_or_default()
}
