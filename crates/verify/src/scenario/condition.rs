//! Conditions over a conversation: what its turns answered, called and passed, its variables and its path.

use std::fmt;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::assertion::{self, Assertion};
use crate::problem::{Finding, Path};
use crate::template::{Check, ExactMatch, SetContainment};

/// A condition over the turns so far.
#[derive(Clone, Debug, PartialEq)]
pub enum Condition {
    /// The checks of a turn passed, or failed.
    Passed {
        /// The expected result.
        is: bool,
        /// The turns that are looked at.
        of: TurnSelector,
    },
    /// The value of a field that a judge read.
    Field {
        /// Name of the field.
        name: String,
        /// What it is compared with.
        comparison: Comparison,
        /// The turns that are looked at.
        of: TurnSelector,
    },
    /// The value of a variable.
    State {
        /// Name of the variable.
        name: String,
        /// What it is compared with.
        comparison: Comparison,
    },
    /// A check of the answer itself.
    Response {
        /// The check.
        check: Check,
        /// The turns that are looked at.
        of: TurnSelector,
    },
    /// An assertion on the tool calls of a turn.
    Trace {
        /// The assertion.
        assertion: Box<Assertion>,
        /// The turns that are looked at.
        of: TurnSelector,
    },
    /// The number of turns, or of visits of one turn.
    Visits {
        /// The turn. `None` for all turns.
        turn: Option<String>,
        /// The expected number.
        count: CountRange,
    },
    /// The names of all turns, in order.
    Path(Vec<String>),
    /// All conditions hold.
    AllOf(Vec<Condition>),
    /// At least one condition holds.
    AnyOf(Vec<Condition>),
    /// The condition does not hold.
    Not(Box<Condition>),
}

/// What a value is compared with, and how.
#[derive(Clone, Debug, PartialEq)]
pub struct Comparison {
    /// The expected value.
    pub truth: Value,
    /// How it is compared.
    pub check: Check,
}

/// Which turns a condition looks at.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TurnSelector {
    /// Name of the turn. `None` for all turns.
    pub turn: Option<String>,
    /// Which of its visits.
    pub visit: Visit,
}

/// Which visits of a turn a condition looks at.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Visit {
    /// The first one.
    First,
    /// The last one.
    #[default]
    Last,
    /// At least one of them.
    Any,
    /// All of them, and at least one.
    All,
}

/// A range of numbers. Without bounds it holds for every number.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CountRange {
    /// The minimum.
    pub at_least: Option<usize>,
    /// The maximum.
    pub at_most: Option<usize>,
}

/// A condition whose keys do not fit together.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("invalid condition: {0}")]
pub struct InvalidCondition(String);

/// A condition as files write it. The conditions inside are read one by one, so that each problem has its path.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct RawCondition {
    #[serde(skip_serializing_if = "Option::is_none")]
    passed: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    field: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    state: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    response: Option<Check>,
    #[serde(skip_serializing_if = "Option::is_none")]
    trace: Option<Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    visits: Option<RawVisits>,
    #[serde(skip_serializing_if = "Option::is_none")]
    path: Option<Vec<String>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    all_of: Option<Vec<Value>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    any_of: Option<Vec<Value>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    not: Option<Value>,
    #[serde(skip_serializing_if = "Value::is_null")]
    truth: Value,
    #[serde(skip_serializing_if = "Option::is_none")]
    check: Option<Check>,
    #[serde(skip_serializing_if = "Option::is_none")]
    turn: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    visit: Option<Visit>,
}

#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct RawVisits {
    #[serde(skip_serializing_if = "Option::is_none")]
    turn: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    exactly: Option<usize>,
    #[serde(skip_serializing_if = "Option::is_none")]
    at_least: Option<usize>,
    #[serde(skip_serializing_if = "Option::is_none")]
    at_most: Option<usize>,
}

impl Comparison {
    /// Compares with a value by its type, where no check is given.
    fn new(truth: Value, check: Option<Check>) -> Option<Self> {
        let check = check.or_else(|| match &truth {
            Value::Bool(_) => Some(Check::BooleanMatch),
            Value::Number(_) => Some(Check::NumericExact),
            Value::String(_) => Some(Check::ExactMatch(ExactMatch::default())),
            Value::Array(_) => Some(Check::SetContainment(SetContainment::default())),
            Value::Null | Value::Object(_) => None,
        })?;
        Some(Self { truth, check })
    }
}

impl Condition {
    /// Adds the assertions of the condition.
    pub(super) fn add_assertions<'a>(&'a self, assertions: &mut Vec<&'a Assertion>) {
        match self {
            Self::Trace { assertion, .. } => assertions.push(assertion),
            Self::AllOf(inner) | Self::AnyOf(inner) => {
                for condition in inner {
                    condition.add_assertions(assertions);
                }
            }
            Self::Not(inner) => inner.add_assertions(assertions),
            Self::Passed { .. }
            | Self::Field { .. }
            | Self::State { .. }
            | Self::Response { .. }
            | Self::Visits { .. }
            | Self::Path(_) => {}
        }
    }

    /// Reads a condition whose shape was checked. Its problems are added to `findings`.
    pub(crate) fn parse(value: Value, path: &Path, findings: &mut Vec<Finding>) -> Option<Self> {
        let raw: RawCondition = match serde_json::from_value(value) {
            Ok(raw) => raw,
            Err(error) => {
                findings.push(Finding::new(path.clone(), error.to_string()));
                return None;
            }
        };
        let compares = raw.field.is_some() || raw.state.is_some();
        let looks_at_turns =
            raw.passed.is_some() || raw.field.is_some() || raw.response.is_some() || raw.trace.is_some();
        let misplaced = [
            (!raw.truth.is_null() && !compares, "truth", "`field` or `state`"),
            (raw.check.is_some() && !compares, "check", "`field` or `state`"),
            (raw.turn.is_some() && !looks_at_turns, "turn", "`passed`, `field`, `response` or `trace`"),
            (raw.visit.is_some() && !looks_at_turns, "visit", "`passed`, `field`, `response` or `trace`"),
        ];
        if let Some((_, key, owners)) = misplaced.into_iter().find(|(is_misplaced, ..)| *is_misplaced) {
            findings.push(Finding::new(path.key(key), format!("`{key}` belongs to {owners}")));
            return None;
        }
        raw.read(path, findings)
    }
}

impl RawCondition {
    fn read(self, path: &Path, findings: &mut Vec<Finding>) -> Option<Condition> {
        let of = TurnSelector { turn: self.turn, visit: self.visit.unwrap_or_default() };
        if let Some(is) = self.passed {
            return Some(Condition::Passed { is, of });
        }
        if self.field.is_some() || self.state.is_some() {
            let Some(comparison) = Comparison::new(self.truth, self.check) else {
                let key = if self.field.is_some() { "field" } else { "state" };
                let finding = Finding::new(path.clone(), format!("`{key}` needs a value to compare with"));
                findings.push(finding.with_hint("add `truth`, `check` or both"));
                return None;
            };
            return match (self.field, self.state) {
                (Some(name), _) => Some(Condition::Field { name, comparison, of }),
                (None, name) => name.map(|name| Condition::State { name, comparison }),
            };
        }
        if let Some(check) = self.response {
            return Some(Condition::Response { check, of });
        }
        if let Some(value) = self.trace {
            let assertion = read_assertion(value, &path.key("trace"), findings)?;
            return Some(Condition::Trace { assertion: Box::new(assertion), of });
        }
        if let Some(visits) = self.visits {
            return visits.read(&path.key("visits"), findings);
        }
        if let Some(turns) = self.path {
            return Some(Condition::Path(turns));
        }
        if let Some(inner) = self.all_of {
            return read_all(inner, &path.key("all_of"), findings).map(Condition::AllOf);
        }
        if let Some(inner) = self.any_of {
            return read_all(inner, &path.key("any_of"), findings).map(Condition::AnyOf);
        }
        if let Some(inner) = self.not {
            return Condition::parse(inner, &path.key("not"), findings).map(|inner| Condition::Not(Box::new(inner)));
        }
        findings.push(Finding::new(path.clone(), "the condition is empty"));
        None
    }
}

impl RawVisits {
    fn read(self, path: &Path, findings: &mut Vec<Finding>) -> Option<Condition> {
        let Self { turn, exactly, at_least, at_most } = self;
        let problem = match (exactly, at_least, at_most) {
            (None, None, None) => Some("expected `exactly`, `at_least` or `at_most`"),
            (Some(_), Some(_), _) | (Some(_), _, Some(_)) => Some("`exactly` excludes `at_least` and `at_most`"),
            (None, Some(min), Some(max)) if min > max => Some("`at_most` must not be less than `at_least`"),
            _ => None,
        };
        if let Some(problem) = problem {
            findings.push(Finding::new(path.clone(), problem));
            return None;
        }
        let count = CountRange { at_least: exactly.or(at_least), at_most: exactly.or(at_most) };
        Some(Condition::Visits { turn, count })
    }
}

/// Reads an assertion whose shape was checked. Its problem is added to `findings`.
pub(crate) fn read_assertion(value: Value, path: &Path, findings: &mut Vec<Finding>) -> Option<Assertion> {
    match assertion::notation::parse(value) {
        Ok(assertion) => Some(assertion),
        Err(invalid) => {
            let path = invalid.key.map_or_else(|| path.clone(), |key| path.key(key));
            findings.push(Finding::new(path, invalid.message));
            None
        }
    }
}

fn read_all(conditions: Vec<Value>, path: &Path, findings: &mut Vec<Finding>) -> Option<Vec<Condition>> {
    let conditions = conditions.into_iter().enumerate();
    let read: Vec<_> = conditions.map(|(index, value)| Condition::parse(value, &path.index(index), findings)).collect();
    read.into_iter().collect()
}

impl CountRange {
    pub(super) fn contains(self, count: usize) -> bool {
        self.at_least.is_none_or(|min| count >= min) && self.at_most.is_none_or(|max| count <= max)
    }
}

impl From<Condition> for RawCondition {
    fn from(condition: Condition) -> Self {
        let raw = Self::default();
        let with = |raw: Self, of: TurnSelector| Self {
            turn: of.turn,
            visit: Some(of.visit).filter(|visit| *visit != Visit::Last),
            ..raw
        };
        let all = |inner: Vec<Condition>| Some(inner.into_iter().map(Condition::into_value).collect());
        match condition {
            Condition::Passed { is, of } => with(Self { passed: Some(is), ..raw }, of),
            Condition::Field { name, comparison: Comparison { truth, check }, of } => {
                with(Self { field: Some(name), truth, check: Some(check), ..raw }, of)
            }
            Condition::State { name, comparison: Comparison { truth, check } } => {
                Self { state: Some(name), truth, check: Some(check), ..raw }
            }
            Condition::Response { check, of } => with(Self { response: Some(check), ..raw }, of),
            Condition::Trace { assertion, of } => with(Self { trace: serde_json::to_value(assertion).ok(), ..raw }, of),
            Condition::Visits { turn, count: CountRange { at_least, at_most } } => {
                let exactly = at_least.filter(|min| at_most == Some(*min));
                let (at_least, at_most) = if exactly.is_some() { (None, None) } else { (at_least, at_most) };
                Self { visits: Some(RawVisits { turn, exactly, at_least, at_most }), ..raw }
            }
            Condition::Path(turns) => Self { path: Some(turns), ..raw },
            Condition::AllOf(inner) => Self { all_of: all(inner), ..raw },
            Condition::AnyOf(inner) => Self { any_of: all(inner), ..raw },
            Condition::Not(inner) => Self { not: Some(inner.into_value()), ..raw },
        }
    }
}

impl Condition {
    fn into_value(self) -> Value {
        serde_json::to_value(RawCondition::from(self)).unwrap_or_else(|_| Value::Object(Map::new()))
    }
}

impl Serialize for Condition {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        RawCondition::from(self.clone()).serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for Condition {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let value = Value::deserialize(deserializer)?;
        Self::try_from(value).map_err(serde::de::Error::custom)
    }
}

impl TryFrom<Value> for Condition {
    type Error = InvalidCondition;

    fn try_from(value: Value) -> Result<Self, InvalidCondition> {
        let mut findings = Vec::new();
        let condition = Self::parse(value, &Path::default(), &mut findings);
        condition.ok_or_else(|| {
            let shown: Vec<String> = findings.iter().map(ToString::to_string).collect();
            InvalidCondition(shown.join("; "))
        })
    }
}

/// The short form of a condition, for reasons.
impl fmt::Display for TurnSelector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let which = match self.visit {
            Visit::First => "the first",
            Visit::Last => "the last",
            Visit::Any => "any",
            Visit::All => "all",
        };
        match &self.turn {
            Some(turn) => write!(f, "{which} `{turn}`"),
            None => write!(f, "{which} turn"),
        }
    }
}
