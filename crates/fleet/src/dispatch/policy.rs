//! Policies: which calls are allowed, denied, or need the user's approval.

use serde::{Deserialize, Serialize};

use super::condition::{Condition, Elements, Facts};
use crate::catalog::Entry;

/// Rules, and a mode for calls that no rule matches.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(from = "RawPolicy")]
pub struct Policy {
    /// Decides about calls that no rule matches.
    pub mode: PolicyMode,
    /// The rules. Of those that match, one that denies wins, then one that asks, then one that allows.
    pub rules: Vec<Rule>,
}

/// One rule of a policy.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, expecting = "an object with `when` and `then`")]
pub struct Rule {
    /// The calls that it matches.
    pub when: Condition,
    /// The action for them.
    pub then: RuleAction,
    /// Its name; its condition serves as one if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
}

/// The action of a rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum RuleAction {
    /// Make the call.
    Allow,
    /// Ask the user.
    Ask,
    /// Do not make the call.
    Deny,
}

/// The decision about calls that no rule matches.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum PolicyMode {
    /// Allow everything.
    Permissive,
    /// Ask about tools that declare themselves destructive.
    #[default]
    Standard,
    /// Ask about all tools that do not declare themselves read-only.
    Cautious,
}

/// The decision about a call, and the rule behind it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Decision<'a> {
    /// The action.
    pub then: RuleAction,
    /// The name of the rule or of the mode.
    pub by: &'a str,
}

impl Policy {
    /// Returns a policy that allows everything, for hosts whose user has just requested the call.
    pub fn permissive() -> Self {
        Self { mode: PolicyMode::Permissive, rules: Vec::new() }
    }

    /// Adds a rule.
    #[must_use]
    pub fn with(mut self, then: RuleAction, when: Condition) -> Self {
        self.rules.push(Rule { when, then, name: None });
        self
    }

    /// Returns the index of the rule that decides about a call; `None` if the mode decides.
    pub(super) fn deciding_rule(&self, facts: &Facts<'_>) -> Option<usize> {
        let mut deciding: Option<(usize, &Rule)> = None;
        for (index, rule) in self.rules.iter().enumerate() {
            // Of rules with the same action, the first decides.
            if deciding.is_none_or(|(_, deciding)| rule.then > deciding.then) && rule.matches(facts) {
                deciding = Some((index, rule));
            }
        }
        deciding.map(|(index, _)| index)
    }

    /// Returns the decision of the rule at an index, or of the mode.
    pub(super) fn decision(&self, rule: Option<usize>, entry: &Entry) -> Decision<'_> {
        let rule = rule.and_then(|index| self.rules.get(index));
        let decided = rule.map(|rule| Decision { then: rule.then, by: rule.name() });
        let ask_user = Decision { then: RuleAction::Ask, by: "the tool requires the user's approval" };
        match decided.unwrap_or_else(|| self.mode.decide(entry)) {
            Decision { then: RuleAction::Allow, .. } if entry.requires_user => ask_user,
            decision => decision,
        }
    }

    /// Whether the decision about a tool can differ from call to call.
    pub(super) fn depends_on_arguments(&self) -> bool {
        self.rules.iter().any(|rule| rule.when.depends_on_arguments())
    }
}

impl Rule {
    fn matches(&self, facts: &Facts<'_>) -> bool {
        let elements = if self.then == RuleAction::Allow { Elements::All } else { Elements::Any };
        self.when.matches_facts(facts, elements)
    }

    fn name(&self) -> &str {
        self.name.as_deref().unwrap_or_else(|| self.when.as_str())
    }
}

impl PolicyMode {
    fn decide(self, entry: &Entry) -> Decision<'static> {
        let hints = entry.hints;
        match self {
            Self::Standard if hints.destructive == Some(true) => {
                Decision { then: RuleAction::Ask, by: "standard mode: the tool is destructive" }
            }
            Self::Cautious if hints.read_only != Some(true) => {
                Decision { then: RuleAction::Ask, by: "cautious mode: the tool is not read-only" }
            }
            Self::Permissive => Decision { then: RuleAction::Allow, by: "permissive mode" },
            Self::Standard => Decision { then: RuleAction::Allow, by: "standard mode" },
            Self::Cautious => Decision { then: RuleAction::Allow, by: "cautious mode: the tool is read-only" },
        }
    }
}

/// A policy in a file: a list of rules, or lists of conditions by action.
#[derive(Deserialize)]
#[serde(deny_unknown_fields, default, expecting = "an object with `mode`, `allow`, `ask`, `deny` and `rules`")]
#[derive(Default)]
struct RawPolicy {
    mode: PolicyMode,
    rules: Vec<Rule>,
    allow: Vec<Condition>,
    ask: Vec<Condition>,
    deny: Vec<Condition>,
}

impl From<RawPolicy> for Policy {
    fn from(raw: RawPolicy) -> Self {
        let mut policy = Self { mode: raw.mode, rules: raw.rules };
        let lists = [(RuleAction::Allow, raw.allow), (RuleAction::Ask, raw.ask), (RuleAction::Deny, raw.deny)];
        for (then, conditions) in lists {
            policy.rules.extend(conditions.into_iter().map(|when| Rule { when, then, name: None }));
        }
        policy
    }
}
