//! The size of requests: the model's context window, and the tokens besides the messages.

use std::sync::Arc;
use std::time::Duration;

use wharf_protocol::{ServerInstructions, ToolDefinition, Tools};

use super::Agent;
use crate::compaction::{ContextBudget, instructions_tokens};
use crate::middleware::{Summarization, ToolSearch};
use crate::tokens::fraction_of;
use crate::{CompactionReason, Model, OfferedTools, Run, ToolBudget};

/// How long a provider may take to report the context window.
const WINDOW_TIMEOUT: Duration = Duration::from_secs(10);
/// The smallest context window that is assumed: shorter conversations need no budget.
const MIN_WINDOW: u64 = 4_096;
/// The response is reserved at most this part of the window.
const MAX_RESERVE: u64 = 4;

/// What one run knows about the size of its requests.
pub(super) struct RequestContext<'a> {
    model: &'a dyn Model,
    fixed_window: Option<u64>,
    /// The model's window, once it was requested.
    window: Option<u64>,
    offer: Option<CachedOffer>,
    instructions: CountedInstructions,
}

/// The tools that were offered in the last turn. They change rarely.
struct CachedOffer {
    /// Keeps the definitions alive, so that their address identifies them.
    turn: Arc<dyn Tools>,
    /// Number of tools that the model had found.
    found: usize,
    offered: Arc<OfferedTools>,
}

#[derive(Default)]
struct CountedInstructions {
    servers: Vec<ServerInstructions>,
    tokens: u64,
}

impl<'a> RequestContext<'a> {
    pub(super) fn new(model: &'a dyn Model, fixed_window: Option<u64>) -> Self {
        let instructions = CountedInstructions::default();
        Self { model, fixed_window, window: None, offer: None, instructions }
    }

    /// Returns the tools that the model is offered in a turn: all of them, or those that it has found.
    pub(super) async fn offer(
        &mut self,
        turn: &Arc<dyn Tools>,
        found: &[Arc<str>],
        settings: &ToolSearch,
    ) -> Arc<OfferedTools> {
        let address = |tools: &[ToolDefinition]| (tools.as_ptr(), tools.len());
        let is_same = |offer: &&CachedOffer| {
            offer.found == found.len() && address(offer.turn.offered()) == address(turn.offered())
        };
        if let Some(offer) = self.offer.as_ref().filter(is_same) {
            return Arc::clone(&offer.offered);
        }
        let tools = turn.offered();
        let offered = match turn.search_tool().filter(|_| settings.enabled) {
            None => OfferedTools::all(tools, turn.search_tool()),
            Some(search_tool) => {
                let budget = settings.trigger_tokens.map_or(ToolBudget::MIN, ToolBudget);
                let offered = OfferedTools::new(tools, search_tool, found, budget);
                if offered.deferred > 0 && settings.trigger_tokens.is_none() {
                    let budget = ToolBudget::of_window(self.window().await, settings.trigger_fraction);
                    OfferedTools::new(tools, search_tool, found, budget)
                } else {
                    offered
                }
            }
        };
        let offered = Arc::new(offered);
        self.offer = Some(CachedOffer { turn: Arc::clone(turn), found: found.len(), offered: Arc::clone(&offered) });
        offered
    }

    /// Returns the estimated tokens of a request besides its messages.
    pub(super) fn overhead(&mut self, turn: &dyn Tools, offered: &OfferedTools) -> u64 {
        if self.instructions.servers != turn.instructions() {
            let tokens = instructions_tokens(turn.instructions());
            self.instructions = CountedInstructions { servers: turn.instructions().to_vec(), tokens };
        }
        offered.tokens + self.instructions.tokens
    }

    /// Returns the budget of a request, or `None` if it is short for every model. The window may have to be requested.
    pub(super) async fn budget(
        &mut self,
        run: &Run,
        settings: &Summarization,
        max_tokens: u32,
        tokens: u64,
    ) -> Option<ContextBudget> {
        let least = settings.trigger_tokens.unwrap_or_else(|| fraction_of(MIN_WINDOW, settings.trigger_fraction));
        if !settings.enabled || tokens < least {
            return None;
        }
        let keep_messages = usize::try_from(settings.keep_messages).unwrap_or(usize::MAX);
        let budget = if let Some(tokens) = settings.trigger_tokens {
            // A configured number counts exactly.
            ContextBudget { trigger: tokens, limit: tokens, keep_messages }
        } else {
            let window = self.window().await;
            let trigger = fraction_of(window, settings.trigger_fraction);
            let reserve = u64::from(max_tokens).min(window / MAX_RESERVE);
            ContextBudget { trigger, limit: window.saturating_sub(reserve).max(trigger), keep_messages }
        };
        let rejected = run.compactions().iter().filter(|one| one.reason == CompactionReason::Overflow);
        Some(rejected.map(|one| one.tokens_before).min().map_or(budget, |tokens| budget.below(tokens)))
    }

    /// Returns the model's context window, or an assumption if it is unknown.
    pub(super) async fn window(&mut self) -> u64 {
        if let Some(window) = self.fixed_window.or(self.window) {
            return window;
        }
        let window = tokio::time::timeout(WINDOW_TIMEOUT, self.model.context_window()).await;
        let window = window.ok().flatten().unwrap_or(Agent::DEFAULT_CONTEXT_WINDOW);
        *self.window.insert(window)
    }
}
