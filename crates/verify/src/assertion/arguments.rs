//! Arguments that a call must have.

use std::collections::BTreeMap;
use std::fmt;

use serde_json::{Map, Value};

use crate::expression::Expression;
use crate::problem::{cut, quoted};

/// Arguments that a call must have. Other arguments do not matter.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ArgumentMatch {
    /// Values by argument. In an object only the given keys are compared, in a list all items.
    pub with: Map<String, Value>,
    /// Expressions by argument, or by a path of keys such as `filter.name`. They may match anywhere in the value.
    pub with_regex: BTreeMap<String, Expression>,
}

impl ArgumentMatch {
    /// Returns whether any arguments match.
    pub fn is_empty(&self) -> bool {
        self.with.is_empty() && self.with_regex.is_empty()
    }

    /// Returns whether the arguments of a call match.
    pub(super) fn fits(&self, arguments: &Value) -> bool {
        let is_match = |(path, expression): (&String, &Expression)| match lookup(arguments, path) {
            Some(Value::String(text)) => expression.is_match(text),
            Some(Value::Null) | None => false,
            Some(value) => expression.is_match(&value.to_string()),
        };
        contains_all(&self.with, arguments) && self.with_regex.iter().all(is_match)
    }
}

fn contains_all(expected: &Map<String, Value>, found: &Value) -> bool {
    let is_same = |(key, value): (&String, &Value)| found.get(key).is_some_and(|found| is_subset(value, found));
    expected.is_empty() || expected.iter().all(is_same)
}

/// Returns whether every expected value is in a found one. Numbers are compared by value.
fn is_subset(expected: &Value, found: &Value) -> bool {
    match (expected, found) {
        (Value::Object(expected), Value::Object(_)) => contains_all(expected, found),
        (Value::Array(expected), Value::Array(found)) => {
            expected.len() == found.len()
                && expected.iter().zip(found).all(|(expected, found)| is_subset(expected, found))
        }
        (Value::Number(expected), Value::Number(found)) => {
            expected == found || ((expected.is_f64() || found.is_f64()) && expected.as_f64() == found.as_f64())
        }
        (expected, found) => expected == found,
    }
}

/// Finds an argument by its name, or by a path of keys with dots.
fn lookup<'a>(arguments: &'a Value, path: &str) -> Option<&'a Value> {
    arguments.get(path).or_else(|| path.split('.').try_fold(arguments, |value, key| value.get(key)))
}

impl fmt::Display for ArgumentMatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let exact = self.with.iter().map(|(name, value)| format!("{name} = {}", shown(value)));
        let matching =
            self.with_regex.iter().map(|(name, regex)| format!("{name} matching {}", quoted(regex.as_str())));
        let all: Vec<String> = exact.chain(matching).collect();
        if all.is_empty() { Ok(()) } else { write!(f, " with {}", all.join(", ")) }
    }
}

/// Shows a value on one line, cut if it is long.
pub(super) fn shown(value: &Value) -> String {
    const MAX_CHARS: usize = 200;
    cut(&value.to_string(), MAX_CHARS)
}
