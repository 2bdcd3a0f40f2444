//! Scenarios: questions of several turns. A turn is one message to the model and its answer; conditions decide which turn
//! follows, and criteria decide about the whole conversation. Pure functions, no I/O.
//!
//! ```text
//! start ──▶ turn ──▶ state is set ──▶ branches, then `next` ──▶ another turn, or the end ──▶ outcome
//! ```

mod condition;
mod evaluate;
mod graph;
pub(crate) mod notation;
mod prompt;
mod result;
mod state;
mod validate;

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::assertion::Assertion;
use crate::expression::Expression;
use crate::template::{Template, TemplateResult};

pub(crate) use condition::read_assertion;
pub use condition::{Comparison, Condition, CountRange, InvalidCondition, TurnSelector, Visit};
pub(crate) use evaluate::{Evaluation, Facts, TurnFacts};
pub use prompt::{InvalidPrompt, PromptText};
pub use result::{CriterionResult, ScenarioEnd, ScenarioResult, TurnResult};
pub(crate) use state::State;

/// The target that ends a scenario.
pub(crate) const END: &str = "end";
/// The maximum number of turns of a conversation, unless the scenario sets another one.
pub const DEFAULT_MAX_TURNS: u32 = 20;

/// A question of several turns.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Scenario {
    /// The maximum number of turns of a conversation. One that would be longer fails.
    #[serde(default = "default_max_turns")]
    pub max_turns: u32,
    /// The variables with their first values.
    #[serde(default, skip_serializing_if = "Map::is_empty")]
    pub state: Map<String, Value>,
    /// Name of the first turn. `None` for the first of the list.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub start: Option<String>,
    /// The turns.
    pub turns: Vec<Turn>,
    /// What decides about the whole conversation. Without criteria, every turn must pass.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub outcome: Vec<Criterion>,
}

/// A message to the model, and what its answer leads to.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Turn {
    /// Name of the turn, unique in its scenario.
    pub name: String,
    /// The message. It may refer to variables.
    pub prompt: PromptText,
    /// The fields of a correct answer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub template: Option<Template>,
    /// Assertions on the tool calls of the turn.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub trace: Vec<Assertion>,
    /// The variables that the answer changes.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub set: BTreeMap<String, Update>,
    /// The turns that follow under a condition. The first condition that holds decides.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub branches: Vec<Branch>,
    /// The turn that follows otherwise. `None` ends the scenario.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next: Option<String>,
    /// How often the turn may be taken. What leads to it after that is skipped.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_visits: Option<u32>,
}

/// A turn that follows under a condition.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Branch {
    /// The condition.
    pub when: Condition,
    /// Name of the turn, or `end`.
    pub to: String,
}

/// A requirement on the whole conversation.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Criterion {
    /// Name of the criterion, unique in its scenario.
    pub name: String,
    /// What must hold at the end.
    pub when: Condition,
}

/// The new value of a variable. A variable whose new value does not exist stays as it is.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Update {
    /// The value of a field of the turn's template.
    Field(String),
    /// The text that an expression matches in the answer: its first group, or else the whole match.
    Match(Expression),
    /// A fixed value.
    Value(Value),
}

fn default_max_turns() -> u32 {
    DEFAULT_MAX_TURNS
}

impl Turn {
    /// Returns whether the turn can pass or fail.
    pub fn has_checks(&self) -> bool {
        self.template.is_some() || !self.trace.is_empty()
    }

    /// Returns whether a judge must read the answer to know whether the turn passed.
    fn is_judged(&self) -> bool {
        self.template.as_ref().is_some_and(Template::needs_judge)
    }
}

impl Scenario {
    /// Returns the turn with this name.
    pub fn turn(&self, name: &str) -> Option<&Turn> {
        self.turns.iter().find(|turn| turn.name == name)
    }

    /// Returns the first turn. `None` only for a scenario that is not valid.
    pub fn first_turn(&self) -> Option<&Turn> {
        match &self.start {
            Some(name) => self.turn(name),
            None => self.turns.first(),
        }
    }

    /// Returns whether a judge must read answers to decide about turns or variables, before the conversation ends.
    pub fn needs_steering(&self) -> bool {
        !self.steered_turns().is_empty()
    }

    /// Returns the names of the turns whose answers a judge reads before the next turn.
    pub(crate) fn steered_turns(&self) -> BTreeSet<&str> {
        let mut steered = BTreeSet::new();
        for turn in &self.turns {
            if turn.set.values().any(|update| matches!(update, Update::Field(_))) {
                steered.insert(turn.name.as_str());
            }
            for branch in &turn.branches {
                branch.when.add_judged_turns(self, turn, &mut steered);
            }
        }
        steered
    }

    /// Returns the assertions of all turns, branches and criteria.
    pub(crate) fn assertions(&self) -> Vec<&Assertion> {
        let mut assertions: Vec<&Assertion> = self.turns.iter().flat_map(|turn| &turn.trace).collect();
        let branches = self.turns.iter().flat_map(|turn| &turn.branches).map(|branch| &branch.when);
        for condition in branches.chain(self.outcome.iter().map(|criterion| &criterion.when)) {
            condition.add_assertions(&mut assertions);
        }
        assertions
    }

    /// Returns whether a unit's judge must read answers.
    pub fn needs_judge(&self) -> bool {
        self.turns.iter().any(Turn::is_judged)
    }

    /// Returns whether the conversation can pass or fail.
    pub fn has_checks(&self) -> bool {
        !self.outcome.is_empty() || self.turns.iter().any(Turn::has_checks)
    }

    /// Returns the turn that follows the last one. `None` if the conversation ends.
    pub(crate) fn following(&self, facts: &Facts<'_>) -> Option<&Turn> {
        let current = self.turn(facts.turns.last()?.name)?;
        let is_open = |name: &str| match self.turn(name).and_then(|turn| turn.max_visits) {
            Some(max) => facts.visits(name) < max as usize,
            None => true,
        };
        let followed = current.branches.iter().filter(|branch| is_open(&branch.to));
        let branch = followed.into_iter().find(|branch| branch.when.evaluate(facts).holds == Some(true));
        let target = match branch {
            Some(branch) => branch.to.as_str(),
            None => current.next.as_deref().filter(|next| is_open(next)).unwrap_or(END),
        };
        self.turn(target)
    }
}

/// Returns whether the checks of a turn passed: `None` if the turn has none, or if they could not be made.
pub(crate) fn turn_passed(
    template: Option<&TemplateResult>,
    assertions: &[crate::assertion::AssertionResult],
) -> Option<bool> {
    if assertions.iter().any(|assertion| !assertion.passed) {
        return Some(false);
    }
    match template {
        Some(template) => template.passed,
        None => (!assertions.is_empty()).then_some(true),
    }
}
