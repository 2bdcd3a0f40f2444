//! The variables of a conversation. Every variable has a value from the start, and a new value must fit into a message.

use serde_json::{Map, Value};

use super::{Turn, Update};
use crate::template::FieldType;

/// The maximum length of a text in a variable, in characters: an answer may be very long.
const MAX_TEXT_CHARS: usize = 10_000;
/// The maximum number of items of a list in a variable.
const MAX_LIST_ITEMS: usize = 100;

/// The variables of a conversation.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct State(Map<String, Value>);

impl State {
    pub(crate) fn new(first_values: &Map<String, Value>) -> Self {
        Self(first_values.clone())
    }

    pub(crate) fn values(&self) -> &Map<String, Value> {
        &self.0
    }

    /// Returns the value of a variable as it stands in a message.
    pub(crate) fn text(&self, name: &str) -> String {
        let text = |value: &Value| match value {
            Value::String(text) => text.clone(),
            Value::Null => String::new(),
            other => other.to_string(),
        };
        match self.0.get(name) {
            Some(Value::Array(items)) => items.iter().map(text).collect::<Vec<_>>().join(", "),
            Some(value) => text(value),
            None => String::new(),
        }
    }

    /// Sets the variables of a turn from its answer, and from the values that a judge read in it.
    pub(crate) fn update(&mut self, turn: &Turn, response: &str, read: Option<&Map<String, Value>>) {
        for (name, update) in &turn.set {
            let value = match update {
                Update::Value(value) => Some(value.clone()),
                Update::Match(expression) => {
                    let is_number = self.0.get(name).is_some_and(Value::is_number);
                    let text = expression.first_match(response);
                    text.and_then(|text| if is_number { number(text) } else { Some(Value::from(text)) })
                }
                Update::Field(field) => read.and_then(|values| values.get(field)).cloned(),
            };
            if let Some(value) = value.filter(|value| !value.is_null()) {
                self.0.insert(name.clone(), bounded(value));
            }
        }
    }
}

/// Reads a number in a text. `None` for any other text.
fn number(text: &str) -> Option<Value> {
    let text = text.trim();
    let float = || text.parse::<f64>().ok().and_then(serde_json::Number::from_f64).map(Value::Number);
    text.parse::<i64>().ok().map(Value::from).or_else(float)
}

/// Cuts what is too long for a message.
fn bounded(value: Value) -> Value {
    match value {
        Value::String(text) => text.chars().take(MAX_TEXT_CHARS).collect::<String>().into(),
        Value::Array(items) => items.into_iter().take(MAX_LIST_ITEMS).map(bounded).collect(),
        other => other,
    }
}

/// Returns the type of a value that a variable can have. `None` for others.
pub(super) fn type_of(value: &Value) -> Option<FieldType> {
    match value {
        Value::Bool(_) => Some(FieldType::Bool),
        Value::String(_) => Some(FieldType::Str),
        Value::Number(number) if number.is_f64() => Some(FieldType::Float),
        Value::Number(_) => Some(FieldType::Int),
        Value::Array(items) if items.iter().all(Value::is_string) => Some(FieldType::ListStr),
        Value::Null | Value::Array(_) | Value::Object(_) => None,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[expect(clippy::needless_pass_by_value, reason = "tests write the value in place")]
    fn updated(set: Value, response: &str, read: Option<Value>) -> Value {
        let turn: Turn = serde_json::from_value(json!({"name": "t", "prompt": "?", "set": set})).unwrap();
        let mut state = State::new(json!({"a": "first", "n": 1}).as_object().unwrap());
        state.update(&turn, response, read.as_ref().and_then(Value::as_object));
        Value::Object(state.0)
    }

    #[test]
    fn a_variable_without_a_new_value_stays_as_it_is() {
        let set = json!({"a": {"field": "f"}, "n": {"match": "([0-9]+) h"}});
        assert_eq!(updated(set.clone(), "9 h", Some(json!({"f": "new"}))), json!({"a": "new", "n": 9}));
        assert_eq!(updated(set.clone(), "none", Some(json!({"f": null}))), json!({"a": "first", "n": 1}));
        assert_eq!(updated(set, "none", None), json!({"a": "first", "n": 1}));
        assert_eq!(updated(json!({"n": {"value": [ "x" ]}}), "", None)["n"], json!(["x"]));
        for (answer, expected) in
            [("n: -7", json!(-7)), ("n: 2.5", json!(2.5)), ("n: two", json!(1)), ("n: inf", json!(1))]
        {
            assert_eq!(updated(json!({"n": {"match": "n: (.*)"}}), answer, None)["n"], expected, "{answer}");
        }
    }

    #[test]
    fn long_values_are_cut() {
        let state = updated(json!({"a": {"match": "(?s).*"}}), &"ä".repeat(50_000), None);
        assert_eq!(state["a"].as_str().unwrap().chars().count(), MAX_TEXT_CHARS);
        let list = updated(json!({"a": {"field": "f"}}), "", Some(json!({"f": vec!["x"; 5000]})));
        assert_eq!(list["a"].as_array().unwrap().len(), MAX_LIST_ITEMS);
    }
}
