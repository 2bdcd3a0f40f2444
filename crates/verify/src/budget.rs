//! Budgets of a run: money, tokens and time.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use wharf_protocol::Usage;

/// Limits of a whole run. A step begins only while every limit has something left, so the steps in flight may exceed it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Budget {
    /// The maximum cost in US dollars, over all workers and sessions of the run. Steps without a known price count as 0.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_cost_usd: Option<f64>,
    /// The maximum number of input and output tokens, over all workers and sessions of the run.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_tokens: Option<u64>,
    /// The maximum time since the worker started.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_time: Option<Duration>,
}

/// A limit of a budget that is used up.
#[derive(Clone, Copy, Debug, PartialEq, thiserror::Error)]
pub enum BudgetExceeded {
    /// The cost.
    #[error("the cost limit of ${max:.2} is used up: ${spent:.2} spent")]
    Cost {
        /// The limit in US dollars.
        max: f64,
        /// What was spent, in US dollars.
        spent: f64,
    },
    /// The tokens.
    #[error("the limit of {max} tokens is used up: {spent} spent")]
    Tokens {
        /// The limit.
        max: u64,
        /// What was spent.
        spent: u64,
    },
    /// The time.
    #[error("the time limit of {} s is used up", max.as_secs())]
    Time {
        /// The limit.
        max: Duration,
    },
}

impl Budget {
    /// Returns whether the limits depend on what all workers have spent.
    pub fn needs_usage(&self) -> bool {
        self.max_cost_usd.is_some() || self.max_tokens.is_some()
    }

    /// Checks what was spent, and the time since the worker started, against the limits.
    pub fn check(&self, spent: &Usage, elapsed: Duration) -> Result<(), BudgetExceeded> {
        if let Some(max) = self.max_time.filter(|max| elapsed >= *max) {
            return Err(BudgetExceeded::Time { max });
        }
        let cost = spent.cost_usd.unwrap_or_default();
        if let Some(max) = self.max_cost_usd.filter(|max| cost >= *max) {
            return Err(BudgetExceeded::Cost { max, spent: cost });
        }
        let tokens = spent.total_tokens();
        match self.max_tokens.filter(|max| tokens >= *max) {
            Some(max) => Err(BudgetExceeded::Tokens { max, spent: tokens }),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_limit_stops_when_it_is_reached_and_not_before() {
        let spent = Usage { input_tokens: 60, output_tokens: 40, cost_usd: Some(0.5), ..Usage::default() };
        let check = |budget: Budget| budget.check(&spent, Duration::from_secs(10)).err();
        let none = Budget::default();
        assert_eq!(check(none), None);
        assert_eq!(check(Budget { max_cost_usd: Some(0.51), ..none }), None);
        assert_eq!(
            check(Budget { max_cost_usd: Some(0.5), ..none }),
            Some(BudgetExceeded::Cost { max: 0.5, spent: 0.5 })
        );
        assert_eq!(check(Budget { max_tokens: Some(101), ..none }), None);
        assert_eq!(
            check(Budget { max_tokens: Some(100), ..none }),
            Some(BudgetExceeded::Tokens { max: 100, spent: 100 })
        );
        let max = Duration::from_secs(10);
        assert_eq!(check(Budget { max_time: Some(max), ..none }), Some(BudgetExceeded::Time { max }));
        assert_eq!(check(Budget { max_time: Some(max * 2), ..none }), None);
    }
}
