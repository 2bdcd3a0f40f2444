//! Which tools a model is offered at once.

use std::collections::HashSet;
use std::sync::Arc;

use wharf_protocol::{ToolDefinition, ToolLoading};

use crate::compaction::tool_tokens;
use crate::tokens::fraction_of;

/// The number of tokens above which tools are deferred.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ToolBudget(pub u64);

impl ToolBudget {
    /// The least budget that follows from a context window: a search costs a turn.
    pub const MIN: Self = Self(2_000);

    /// Returns a fraction of a context window.
    pub fn of_window(window: u64, fraction: f64) -> Self {
        Self(fraction_of(window, fraction).max(Self::MIN.0))
    }
}

/// The tools that a model is offered.
#[derive(Clone, Debug)]
pub struct OfferedTools {
    /// Their definitions. New ones are only appended while the tools of the turn are the same.
    pub tools: Vec<ToolDefinition>,
    /// Their estimated tokens.
    pub tokens: u64,
    /// Number of tools that the model has to search for.
    pub deferred: usize,
}

impl OfferedTools {
    /// Offers all tools except the search tool, which has nothing to find.
    pub fn all(tools: &[ToolDefinition], search_tool: Option<&str>) -> Self {
        let tools: Vec<ToolDefinition> =
            tools.iter().filter(|tool| Some(&*tool.name) != search_tool).cloned().collect();
        let tokens = tools.iter().map(tool_tokens).sum();
        Self { tools, tokens, deferred: 0 }
    }

    /// Offers the search tool, the tools that are always offered and the tools that the model has `found`, if all tools
    /// together have more tokens than the budget. A tool that its server wants to be offered always is, if it fits.
    pub fn new(tools: &[ToolDefinition], search_tool: &str, found: &[Arc<str>], budget: ToolBudget) -> Self {
        let mut total = 0;
        let exceeds = |tool: &ToolDefinition| {
            total += if &*tool.name == search_tool { 0 } else { tool_tokens(tool) };
            total > budget.0
        };
        if !tools.iter().any(exceeds) {
            return Self::all(tools, Some(search_tool));
        }
        let of = |loading: ToolLoading| tools.iter().filter(move |tool| tool.loading == loading);
        let search = || tools.iter().filter(|tool| &*tool.name == search_tool);
        let is_other = |tool: &&ToolDefinition| &*tool.name != search_tool;
        let mut offered: Vec<ToolDefinition> = of(ToolLoading::Always).filter(is_other).cloned().collect();
        let mut tokens: u64 = offered.iter().map(tool_tokens).sum::<u64>() + search().map(tool_tokens).sum::<u64>();
        for tool in of(ToolLoading::Requested) {
            let with_tool = tokens + tool_tokens(tool);
            if with_tool <= budget.0 {
                tokens = with_tool;
                offered.push(tool.clone());
            }
        }
        offered.extend(search().cloned());
        let mut known: HashSet<Arc<str>> = offered.iter().map(|tool| Arc::clone(&tool.name)).collect();
        for name in found {
            let Some(tool) = tools.iter().find(|tool| tool.name == *name) else { continue };
            if known.insert(Arc::clone(name)) {
                tokens += tool_tokens(tool);
                offered.push(tool.clone());
            }
        }
        let deferred = tools.len() - offered.len();
        Self { tools: offered, tokens, deferred }
    }
}
