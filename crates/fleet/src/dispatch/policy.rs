//! Which calls may be made: allowed, forbidden, or to be asked about.

use serde::{Deserialize, Serialize};

use super::condition::{Condition, Facts};
use crate::catalog::Entry;

/// Rules, and what holds where none of them says anything.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(from = "Written")]
pub struct Policy {
    /// What holds where no rule fits.
    pub mode: PolicyMode,
    /// The rules. Of those that fit, one that denies wins, then one that asks, then one that allows.
    pub rules: Vec<Rule>,
}

/// One rule.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, expecting = "an object with `when` and `then`")]
pub struct Rule {
    /// Which calls it is about.
    pub when: Condition,
    /// What it says of them.
    pub then: RuleAction,
    /// What it is called; its condition where it has no name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
}

/// What a rule says.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum RuleAction {
    /// The call is made.
    Allow,
    /// A person is asked.
    Ask,
    /// The call is not made.
    Deny,
}

/// What holds where no rule fits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum PolicyMode {
    /// Everything may be called.
    Permissive,
    /// Tools that say they are destructive are asked about.
    #[default]
    Standard,
    /// All tools are asked about that do not say they only read.
    Cautious,
}

/// What is to be done with a call, and which rule says so.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Decision<'a> {
    /// What is to be done.
    pub then: RuleAction,
    /// The rule's name, or that of the mode.
    pub by: &'a str,
}

impl Policy {
    /// Everything may be called: for hosts whose user has just asked for the call.
    pub fn permissive() -> Self {
        Self { mode: PolicyMode::Permissive, rules: Vec::new() }
    }

    /// The same with one more rule.
    #[must_use]
    pub fn with(mut self, then: RuleAction, when: Condition) -> Self {
        self.rules.push(Rule { when, then, name: None });
        self
    }

    /// The place of the rule that decides about a call; `None` if none does, and the mode counts.
    pub(super) fn deciding(&self, facts: &Facts<'_>) -> Option<usize> {
        let mut deciding: Option<(usize, &Rule)> = None;
        for (place, rule) in self.rules.iter().enumerate() {
            // Of equal rules the first is named.
            if deciding.is_none_or(|(_, deciding)| rule.then > deciding.then) && rule.when.holds_for(facts) {
                deciding = Some((place, rule));
            }
        }
        deciding.map(|(place, _)| place)
    }

    /// What the rule at a place, or the mode, says about a tool.
    pub(super) fn decision(&self, place: Option<usize>, entry: &Entry) -> Decision<'_> {
        let decided = place.and_then(|place| self.rules.get(place));
        let decided = decided.map(|rule| Decision { then: rule.then, by: rule.called() });
        let person = Decision { then: RuleAction::Ask, by: "the tool wants a person to be asked" };
        match decided.unwrap_or_else(|| self.mode.decide(entry)) {
            Decision { then: RuleAction::Allow, .. } if entry.needs_person => person,
            decision => decision,
        }
    }

    /// Whether what it decides about a tool may differ from call to call.
    pub(super) fn looks_at_arguments(&self) -> bool {
        self.rules.iter().any(|rule| rule.when.looks_at_arguments())
    }
}

impl Rule {
    fn called(&self) -> &str {
        self.name.as_deref().unwrap_or_else(|| self.when.as_str())
    }
}

impl PolicyMode {
    fn decide(self, entry: &Entry) -> Decision<'static> {
        let hints = entry.hints;
        match self {
            Self::Standard if hints.destructive == Some(true) => {
                Decision { then: RuleAction::Ask, by: "standard mode: the tool says that it may destroy something" }
            }
            Self::Cautious if hints.read_only != Some(true) => {
                Decision { then: RuleAction::Ask, by: "cautious mode: the tool does not say that it only reads" }
            }
            Self::Permissive => Decision { then: RuleAction::Allow, by: "permissive mode" },
            Self::Standard => Decision { then: RuleAction::Allow, by: "standard mode" },
            Self::Cautious => Decision { then: RuleAction::Allow, by: "cautious mode: the tool only reads" },
        }
    }
}

/// As people write it: rules one by one, or conditions by what they mean.
#[derive(Deserialize)]
#[serde(deny_unknown_fields, default, expecting = "an object with `mode`, `allow`, `ask`, `deny` and `rules`")]
#[derive(Default)]
struct Written {
    mode: PolicyMode,
    rules: Vec<Rule>,
    allow: Vec<Condition>,
    ask: Vec<Condition>,
    deny: Vec<Condition>,
}

impl From<Written> for Policy {
    fn from(written: Written) -> Self {
        let mut policy = Self { mode: written.mode, rules: written.rules };
        let lists =
            [(RuleAction::Allow, written.allow), (RuleAction::Ask, written.ask), (RuleAction::Deny, written.deny)];
        for (then, conditions) in lists {
            policy.rules.extend(conditions.into_iter().map(|when| Rule { when, then, name: None }));
        }
        policy
    }
}
