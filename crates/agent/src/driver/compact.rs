//! Shortens what the model reads of a long conversation: removes old tool results, then has older messages summarized.

use std::ops::Range;

use tracing::Instrument as _;
use wharf_protocol::Usage;

use super::{Agent, Layers, spans};
use crate::compaction::{CompactedView, ContextBudget, SummaryRequest, without_model};
use crate::middleware::NextModel;
use crate::{AgentEvent, Compaction, CompactionReason, ModelRequest, RequestPurpose, Run};

/// A summary has at most this part of the tokens that trigger it.
const SUMMARY_PART: u64 = 8;
/// A request for a summary has at most this part of them.
const REQUEST_PART: u64 = 2;
/// The least length of a summary, in tokens.
const MIN_SUMMARY: u64 = 200;
/// The request after a rejected one has at most this many percent of its size.
const AFTER_OVERFLOW: u64 = 70;

/// A request that is too long.
#[derive(Clone, Copy)]
pub(super) struct LongRequest {
    pub(super) reason: CompactionReason,
    pub(super) budget: ContextBudget,
    /// Its size.
    pub(super) tokens: u64,
    /// Estimated tokens besides its messages.
    pub(super) overhead: u64,
}

/// The text in place of messages.
struct Summary {
    text: String,
    failure: Option<String>,
    usage: Usage,
}

impl LongRequest {
    /// Returns the budget of the request that replaces it.
    fn next_budget(&self) -> ContextBudget {
        match self.reason {
            CompactionReason::Threshold => self.budget,
            CompactionReason::Overflow => {
                let limit = self.tokens / 100 * AFTER_OVERFLOW;
                ContextBudget { trigger: self.budget.trigger.min(limit), limit, ..self.budget }
            }
        }
    }
}

/// Shortens one request.
pub(super) struct Compactor<'a> {
    agent: &'a Agent,
    layers: &'a Layers,
    long: LongRequest,
    /// The budget of the request that replaces it.
    budget: ContextBudget,
}

impl<'a> Compactor<'a> {
    pub(super) fn new(agent: &'a Agent, layers: &'a Layers, long: LongRequest) -> Self {
        Self { agent, layers, long, budget: long.next_budget() }
    }

    /// Changes what the model reads, so that the next request is shorter. Returns whether it is.
    pub(super) async fn compact(&self, run: &mut Run) -> bool {
        let Self { long, budget, .. } = *self;
        let before = run.compacted_view();
        let mut plan = run.planner(long.overhead, budget).before_summary(&before);
        let mut made = None;
        if let Some(old) = plan.summarize.take() {
            made = Some(self.replace_with_summary(run, &mut plan.view, old).await);
        }
        let mut plan = run.planner(long.overhead, budget).after_summary(plan.view);
        if let Some(old) = plan.summarize.take() {
            made = Some(self.replace_with_summary(run, &mut plan.view, old).await);
        }
        let tokens_after = run.planner(long.overhead, budget).tokens(&plan.view);
        if plan.view == before || tokens_after >= long.tokens {
            return false;
        }
        let Summary { failure, usage, .. } = made.unwrap_or_else(Summary::none);
        let compaction = Compaction {
            turn: run.turns().saturating_add(1),
            messages: run.messages().len(),
            reason: long.reason,
            view: plan.view,
            failure,
            tokens_before: long.tokens,
            tokens_after,
            usage,
        };
        tracing::info!(before = long.tokens, after = tokens_after, "compacted the conversation");
        self.agent.sink.event(AgentEvent::Compacted(compaction.clone()));
        run.compact(compaction);
        true
    }

    async fn replace_with_summary(&self, run: &mut Run, view: &mut CompactedView, old: Range<usize>) -> Summary {
        let end = old.end;
        let summary = self.summarize(run, view.summary.as_deref(), old).await;
        run.add_usage(summary.usage);
        view.summarized = end;
        view.summary = Some(summary.text.clone());
        summary
    }

    /// Has messages summarized. If that fails, the text says so, and the run continues.
    async fn summarize(&self, run: &Run, previous: Option<&str>, old: Range<usize>) -> Summary {
        let removed = ..old.end;
        let Self { agent, layers, budget, .. } = *self;
        let request_tokens = budget.trigger / REQUEST_PART;
        let SummaryRequest { messages, options } =
            SummaryRequest::new(run.messages(), old, previous, &agent.options, request_tokens);
        let request = ModelRequest {
            messages: &messages,
            instructions: &[],
            tools: &[],
            all_tools: &[],
            options: &options,
            purpose: RequestPurpose::Summary,
            // What the model writes here is not a part of its answer.
            on_delta: &|_| {},
        };
        let next = NextModel { layers: &layers.model, model: &*agent.model, sink: &*agent.sink };
        let span = spans::model_request(&*agent.model);
        let result = next.complete(request).instrument(span.clone()).await;
        spans::model_response(&span, &result);
        let (usage, text) = match &result {
            Ok(response) => {
                let max_tokens = (budget.trigger / SUMMARY_PART).max(MIN_SUMMARY);
                (response.usage, SummaryRequest::read(response, max_tokens))
            }
            Err(error) => (Usage::default(), Err(error.to_string())),
        };
        match text {
            Ok(text) => Summary { text, failure: None, usage },
            Err(reason) => Summary { text: without_model(&run.messages()[removed]), failure: Some(reason), usage },
        }
    }
}

impl Summary {
    fn none() -> Self {
        Self { text: String::new(), failure: None, usage: Usage::default() }
    }
}
