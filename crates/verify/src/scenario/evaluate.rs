//! Evaluates conditions in three-valued logic: what could not be read or compared is unknown, and never a guess.

use std::collections::BTreeSet;

use serde_json::{Map, Value};

use super::condition::{Comparison, Condition, TurnSelector, Visit};
use super::{Criterion, CriterionResult, Scenario, State, Turn};
use crate::assertion::TraceFacts;
use crate::problem::quoted;
use crate::template::{Check, Field, FieldType, compare_value_of};

/// A turn of a conversation, as conditions see it.
pub(crate) struct TurnFacts<'a> {
    /// Name of the turn.
    pub(crate) name: &'a str,
    /// The model's answer.
    pub(crate) response: &'a str,
    /// The tool calls of the turn.
    pub(crate) trace: TraceFacts<'a>,
    /// The values that a judge read in the answer.
    pub(crate) values: Option<&'a Map<String, Value>>,
    /// Whether the checks of the turn passed.
    pub(crate) passed: Option<bool>,
    /// Why they did not.
    pub(crate) reason: Option<String>,
    /// Whether they could not be made only because the answer lacks values.
    pub(crate) lacks_values: bool,
}

/// A conversation, as conditions see it.
#[derive(Clone, Copy)]
pub(crate) struct Facts<'a> {
    pub(crate) scenario: &'a Scenario,
    /// The turns so far, in order.
    pub(crate) turns: &'a [TurnFacts<'a>],
    pub(crate) state: &'a State,
}

/// The result of a condition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Evaluation {
    /// `None` if it is unknown.
    pub(crate) holds: Option<bool>,
    /// Why it does not hold, or is unknown.
    pub(crate) reason: Option<String>,
    /// Whether it is unknown only because the answer lacks a value, which is the model's fault.
    pub(crate) lacks_value: bool,
}

impl Evaluation {
    fn new(holds: Option<bool>, reason: impl FnOnce() -> String) -> Self {
        Self { holds, reason: (holds != Some(true)).then(reason), lacks_value: false }
    }

    fn with_reason(self, describe: impl FnOnce(String) -> String) -> Self {
        Self { reason: self.reason.map(describe), ..self }
    }
}

impl Facts<'_> {
    /// Returns how often a turn was taken.
    pub(super) fn visits(&self, name: &str) -> usize {
        self.turns.iter().filter(|turn| turn.name == name).count()
    }
}

impl Criterion {
    /// Returns the result of an evaluation of the criterion at the end of a conversation.
    pub(crate) fn result(&self, evaluation: &Evaluation) -> CriterionResult {
        CriterionResult { name: self.name.clone(), passed: evaluation.holds, reason: evaluation.reason.clone() }
    }
}

impl Condition {
    pub(crate) fn evaluate(&self, facts: &Facts<'_>) -> Evaluation {
        match self {
            Self::Passed { is, of } => {
                let has_checks = |turn: &&TurnFacts<'_>| facts.scenario.turn(turn.name).is_some_and(Turn::has_checks);
                let turns: Vec<&TurnFacts<'_>> = facts.turns.iter().filter(has_checks).collect();
                let found = |turn: &TurnFacts<'_>| {
                    let holds = turn.passed.map(|passed| passed == *is);
                    let what = match turn.passed {
                        Some(true) => "passed",
                        Some(false) => "failed",
                        None => "could not be checked",
                    };
                    let evaluation = Evaluation::new(holds, || match &turn.reason {
                        Some(reason) => format!("turn `{}` {what}: {reason}", turn.name),
                        None => format!("turn `{}` {what}", turn.name),
                    });
                    Evaluation { lacks_value: holds.is_none() && turn.lacks_values, ..evaluation }
                };
                select(&turns, of, found)
            }
            Self::Field { name, comparison, of } => {
                let template = |turn: &TurnFacts<'_>| {
                    let template = facts.scenario.turn(turn.name)?.template.as_ref()?;
                    template.fields.iter().find(|field| field.name == *name)
                };
                let turns: Vec<&TurnFacts<'_>> = facts.turns.iter().filter(|turn| template(turn).is_some()).collect();
                let found = |turn: &TurnFacts<'_>| {
                    let kind = template(turn).map_or(FieldType::Str, |field| field.kind.clone());
                    let value = turn.values.and_then(|values| values.get(name));
                    let compared = compare(comparison, kind, value);
                    compared.with_reason(|reason| format!("turn `{}`: field `{name}`: {reason}", turn.name))
                };
                select(&turns, of, found)
            }
            Self::State { name, comparison } => {
                let value = facts.state.values().get(name);
                let kind = value.and_then(super::state::type_of).unwrap_or(FieldType::Str);
                compare(comparison, kind, value).with_reason(|reason| format!("variable `{name}`: {reason}"))
            }
            Self::Response { check, of } => {
                let turns: Vec<&TurnFacts<'_>> = facts.turns.iter().collect();
                let found = |turn: &TurnFacts<'_>| {
                    let field = compared_field(check, &Value::Null, FieldType::Bool);
                    let (holds, reason) = compare_value_of(&field, None, turn.response);
                    let compared = Evaluation { holds, reason, lacks_value: false };
                    compared.with_reason(|reason| format!("turn `{}`: {reason}", turn.name))
                };
                select(&turns, of, found)
            }
            Self::Trace { assertion, of } => {
                let turns: Vec<&TurnFacts<'_>> = facts.turns.iter().collect();
                let found = |turn: &TurnFacts<'_>| {
                    // Nothing is known about a tool that does not exist: neither the assertion nor its opposite holds.
                    if let Some(reason) = assertion.unknown_tool(&turn.trace) {
                        return Evaluation::new(None, || format!("turn `{}`: {reason}", turn.name));
                    }
                    let result = assertion.check(&turn.trace);
                    let reason = || format!("turn `{}`: {}", turn.name, result.reason.clone().unwrap_or_default());
                    Evaluation::new(Some(result.passed), reason)
                };
                select(&turns, of, found)
            }
            Self::Visits { turn, count } => {
                let found = turn.as_ref().map_or(facts.turns.len(), |turn| facts.visits(turn));
                Evaluation::new(Some(count.contains(found)), || match turn {
                    Some(turn) => format!("turn `{turn}` was taken {found} times"),
                    None => format!("the conversation has {found} turns"),
                })
            }
            Self::Path(expected) => {
                let path: Vec<&str> = facts.turns.iter().map(|turn| turn.name).collect();
                Evaluation::new(Some(path == *expected), || format!("the path is {}", path.join(", ")))
            }
            Self::AllOf(inner) => all(inner.iter().map(|condition| condition.evaluate(facts))),
            Self::AnyOf(inner) => any(inner.iter().map(|condition| condition.evaluate(facts))),
            Self::Not(inner) => {
                let inner = inner.evaluate(facts);
                if inner.holds.is_none() {
                    return inner;
                }
                Evaluation::new(inner.holds.map(|holds| !holds), || "the excluded condition holds".to_owned())
            }
        }
    }

    /// Adds the turns whose answers a judge must read to evaluate the condition after `current`.
    pub(super) fn add_judged_turns<'a>(
        &self,
        scenario: &'a Scenario,
        current: &'a Turn,
        turns: &mut BTreeSet<&'a str>,
    ) {
        let selected = |of: &TurnSelector| {
            let is_current = of.turn.is_none() && of.visit == Visit::Last;
            let name = of.turn.clone().or_else(|| is_current.then(|| current.name.clone()));
            let candidates =
                scenario.turns.iter().filter(move |turn| name.as_ref().is_none_or(|name| turn.name == *name));
            candidates.collect::<Vec<&'a Turn>>()
        };
        match self {
            Self::Passed { of, .. } => {
                turns.extend(selected(of).into_iter().filter(|turn| turn.is_judged()).map(|turn| turn.name.as_str()));
            }
            Self::Field { name, of, .. } => {
                let has_field = |turn: &&&Turn| {
                    turn.template.as_ref().is_some_and(|of| of.judged_fields().any(|field| field.name == *name))
                };
                turns.extend(selected(of).iter().filter(has_field).map(|turn| turn.name.as_str()));
            }
            Self::AllOf(inner) | Self::AnyOf(inner) => {
                for condition in inner {
                    condition.add_judged_turns(scenario, current, turns);
                }
            }
            Self::Not(inner) => inner.add_judged_turns(scenario, current, turns),
            Self::State { .. } | Self::Response { .. } | Self::Trace { .. } | Self::Visits { .. } | Self::Path(_) => {}
        }
    }
}

fn compare(comparison: &Comparison, kind: FieldType, value: Option<&Value>) -> Evaluation {
    let field = compared_field(&comparison.check, &comparison.truth, kind);
    let (holds, reason) = compare_value_of(&field, value, "");
    Evaluation { holds, reason, lacks_value: holds.is_none() && value.is_none_or(Value::is_null) }
}

/// Returns a field that is compared like the value of a condition.
pub(super) fn compared_field(check: &Check, truth: &Value, kind: FieldType) -> Field {
    Field {
        name: "value".to_owned(),
        kind,
        description: String::new(),
        extraction_hint: None,
        truth: truth.clone(),
        check: check.clone(),
        weight: 1.0,
    }
}

/// Evaluates the turns that a selector chooses. Without such a turn the condition does not hold.
fn select(turns: &[&TurnFacts<'_>], of: &TurnSelector, found: impl Fn(&TurnFacts<'_>) -> Evaluation) -> Evaluation {
    let mut turns = turns.iter().filter(|turn| of.turn.as_ref().is_none_or(|name| turn.name == name));
    let none = || Evaluation::new(Some(false), || missing(of));
    match of.visit {
        Visit::First => turns.next().map_or_else(none, |turn| found(turn)),
        Visit::Last => turns.next_back().map_or_else(none, |turn| found(turn)),
        Visit::Any => {
            let evaluated: Vec<Evaluation> = turns.map(|turn| found(turn)).collect();
            if evaluated.is_empty() { none() } else { any(evaluated.into_iter()) }
        }
        Visit::All => {
            let evaluated: Vec<Evaluation> = turns.map(|turn| found(turn)).collect();
            if evaluated.is_empty() { none() } else { all(evaluated.into_iter()) }
        }
    }
}

fn missing(of: &TurnSelector) -> String {
    match &of.turn {
        Some(turn) => format!("the conversation has no turn {}", quoted(turn)),
        None => "the conversation has no such turn".to_owned(),
    }
}

/// All hold. The reason is that of the first one that does not, or else of an unknown one.
fn all(evaluations: impl Iterator<Item = Evaluation>) -> Evaluation {
    let mut unknown = None;
    for evaluation in evaluations {
        match evaluation.holds {
            Some(true) => {}
            Some(false) => return evaluation,
            None => unknown = Some(graver(unknown, evaluation)),
        }
    }
    unknown.unwrap_or(Evaluation::new(Some(true), String::new))
}

/// At least one holds. The reason is that of an unknown one, or else of all of them.
fn any(evaluations: impl Iterator<Item = Evaluation>) -> Evaluation {
    let mut unknown = None;
    let mut reasons = Vec::new();
    for evaluation in evaluations {
        match evaluation.holds {
            Some(true) => return evaluation,
            Some(false) => reasons.extend(evaluation.reason),
            None => unknown = Some(graver(unknown, evaluation)),
        }
    }
    unknown.unwrap_or_else(|| Evaluation::new(Some(false), || reasons.join("; ")))
}

/// Returns the first unknown condition. One that the model is not responsible for counts more.
fn graver(first: Option<Evaluation>, next: Evaluation) -> Evaluation {
    match first {
        Some(first) if !first.lacks_value || next.lacks_value => first,
        _ => next,
    }
}
