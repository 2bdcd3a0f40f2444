//! Assertions as files write them, and the conversion to [`Assertion`].

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::{ArgumentMatch, Assertion, OutputText, ToolPattern};
use crate::expression::Expression;

/// An assertion whose keys do not fit together.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("invalid assertion: {message}")]
pub struct InvalidAssertion {
    /// The key with the problem, if it is one key.
    pub key: Option<&'static str>,
    /// What is wrong.
    pub message: String,
}

#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(super) struct RawAssertion {
    #[serde(skip_serializing_if = "Option::is_none")]
    called: Option<ToolPattern>,
    #[serde(skip_serializing_if = "Option::is_none")]
    not_called: Option<ToolPattern>,
    #[serde(skip_serializing_if = "Map::is_empty")]
    with: Map<String, Value>,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    with_regex: BTreeMap<String, Expression>,
    #[serde(skip_serializing_if = "Option::is_none")]
    max_calls: Option<usize>,
    #[serde(skip_serializing_if = "Option::is_none")]
    min_calls: Option<usize>,
    #[serde(skip_serializing_if = "Option::is_none")]
    count: Option<RawCount>,
    #[serde(skip_serializing_if = "Option::is_none")]
    order: Option<Vec<ToolPattern>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    strict: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    success_rate: Option<RawSuccessRate>,
    #[serde(skip_serializing_if = "Option::is_none")]
    output_matches: Option<RawOutput>,
    #[serde(skip_serializing_if = "Option::is_none")]
    path_efficiency: Option<RawEfficiency>,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct RawCount {
    #[serde(default = "ToolPattern::all")]
    tool: ToolPattern,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    exactly: Option<usize>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    at_least: Option<usize>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    at_most: Option<usize>,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct RawSuccessRate {
    #[serde(default = "ToolPattern::all")]
    tool: ToolPattern,
    at_least: f64,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct RawOutput {
    #[serde(default = "ToolPattern::all")]
    tool: ToolPattern,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    regex: Option<Expression>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    contains: Option<String>,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct RawEfficiency {
    optimal: usize,
    at_least: f64,
}

fn invalid<T>(key: &'static str, message: impl Into<String>) -> Result<T, InvalidAssertion> {
    Err(InvalidAssertion { key: Some(key), message: message.into() })
}

impl TryFrom<RawAssertion> for Assertion {
    type Error = InvalidAssertion;

    fn try_from(raw: RawAssertion) -> Result<Self, InvalidAssertion> {
        let arguments = ArgumentMatch { with: raw.with, with_regex: raw.with_regex };
        if raw.called.is_none() && raw.not_called.is_none() && !arguments.is_empty() {
            let key = if arguments.with.is_empty() { "with_regex" } else { "with" };
            return invalid(key, format!("`{key}` belongs to `called` or `not_called`"));
        }
        if raw.order.is_none() && raw.strict.is_some() {
            return invalid("strict", "`strict` belongs to `order`");
        }
        let mut found = Vec::new();
        if let Some(tool) = raw.called {
            found.push(Self::Called { tool, arguments: arguments.clone() });
        }
        if let Some(tool) = raw.not_called {
            found.push(Self::NotCalled { tool, arguments });
        }
        found.extend(raw.max_calls.map(Self::MaxCalls));
        found.extend(raw.min_calls.map(Self::MinCalls));
        if let Some(count) = raw.count {
            found.push(convert_count(count)?);
        }
        if let Some(tools) = raw.order {
            if tools.len() < 2 {
                return invalid("order", "an order needs at least two tools");
            }
            found.push(Self::Order { tools, strict: raw.strict.unwrap_or_default() });
        }
        if let Some(RawSuccessRate { tool, at_least }) = raw.success_rate {
            expect_fraction("success_rate", at_least)?;
            found.push(Self::SuccessRate { tool, at_least });
        }
        if let Some(RawOutput { tool, regex, contains }) = raw.output_matches {
            let text = match (regex, contains) {
                (Some(regex), None) => OutputText::Regex(regex),
                (None, Some(text)) if !text.is_empty() => OutputText::Contains(text),
                _ => return invalid("output_matches", "expected either `regex` or `contains`"),
            };
            found.push(Self::OutputMatches { tool, text });
        }
        if let Some(RawEfficiency { optimal, at_least }) = raw.path_efficiency {
            expect_fraction("path_efficiency", at_least)?;
            found.push(Self::PathEfficiency { optimal, at_least });
        }
        let count = found.len();
        match (found.pop(), count) {
            (Some(assertion), 1) => Ok(assertion),
            _ => Err(InvalidAssertion { key: None, message: format!("expected one kind of assertion, found {count}") }),
        }
    }
}

fn convert_count(count: RawCount) -> Result<Assertion, InvalidAssertion> {
    let RawCount { tool, exactly, at_least, at_most } = count;
    if exactly.is_some() && (at_least.is_some() || at_most.is_some()) {
        return invalid("count", "`exactly` and a range are mutually exclusive");
    }
    let (at_least, at_most) = (exactly.or(at_least), exactly.or(at_most));
    match (at_least, at_most) {
        (None, None) => invalid("count", "expected `exactly`, `at_least` or `at_most`"),
        (Some(min), Some(max)) if min > max => invalid("count", "`at_most` must not be less than `at_least`"),
        _ => Ok(Assertion::Count { tool, at_least, at_most }),
    }
}

fn expect_fraction(key: &'static str, at_least: f64) -> Result<(), InvalidAssertion> {
    if (0.0..=1.0).contains(&at_least) { Ok(()) } else { invalid(key, "`at_least` must be from 0 to 1") }
}

impl From<Assertion> for RawAssertion {
    fn from(assertion: Assertion) -> Self {
        let mut raw = Self::default();
        match assertion {
            Assertion::Called { tool, arguments } => {
                raw.called = Some(tool);
                (raw.with, raw.with_regex) = (arguments.with, arguments.with_regex);
            }
            Assertion::NotCalled { tool, arguments } => {
                raw.not_called = Some(tool);
                (raw.with, raw.with_regex) = (arguments.with, arguments.with_regex);
            }
            Assertion::MaxCalls(max) => raw.max_calls = Some(max),
            Assertion::MinCalls(min) => raw.min_calls = Some(min),
            Assertion::Count { tool, at_least, at_most } => {
                raw.count = Some(RawCount { tool, exactly: None, at_least, at_most });
            }
            Assertion::Order { tools, strict } => {
                raw.order = Some(tools);
                raw.strict = strict.then_some(true);
            }
            Assertion::SuccessRate { tool, at_least } => raw.success_rate = Some(RawSuccessRate { tool, at_least }),
            Assertion::OutputMatches { tool, text } => {
                let (regex, contains) = match text {
                    OutputText::Regex(regex) => (Some(regex), None),
                    OutputText::Contains(text) => (None, Some(text)),
                };
                raw.output_matches = Some(RawOutput { tool, regex, contains });
            }
            Assertion::PathEfficiency { optimal, at_least } => {
                raw.path_efficiency = Some(RawEfficiency { optimal, at_least });
            }
        }
        raw
    }
}
