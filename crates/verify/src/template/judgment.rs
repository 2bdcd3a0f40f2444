//! What a judge is asked for, and what it may answer: the JSON Schema of a template, and the check of a judge's object.

use std::fmt;

use serde_json::{Map, Value, json};

use super::compare::named_boolean;
use super::compare::numbers::parse_number;
use super::{Field, FieldType, Template};
use crate::problem::quoted;

/// A judge's output that does not have the types of the template. The text is written for the judge, so that it can try
/// again; it never contains a truth.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub struct InvalidJudgment {
    /// What is wrong, one line for each field.
    pub problems: Vec<String>,
}

impl fmt::Display for InvalidJudgment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.problems.join("\n"))
    }
}

impl Template {
    /// Returns the JSON Schema of what the judge extracts: without expected values, and without the fields that are
    /// checked on the response itself. `None` if the judge has nothing to extract.
    ///
    /// The schema is closed and requires every property, as strict structured output demands. A value that the answer
    /// does not contain is `null`.
    pub fn judge_schema(&self) -> Option<Value> {
        let properties: Map<String, Value> =
            self.judged_fields().map(|field| (field.name.clone(), property(field))).collect();
        if properties.is_empty() {
            return None;
        }
        let required: Vec<&String> = properties.keys().collect();
        Some(json!({
            "type": "object",
            "required": required,
            "properties": properties,
            "additionalProperties": false,
        }))
    }

    /// Checks a judge's object against the types of the fields, and returns the values by field.
    ///
    /// Values are converted only where nothing is lost: the text `"9"` and `9.0` are the integer 9, `"yes"` is `true`,
    /// an option may differ in case. `null` means that the answer does not contain the value. Other keys are ignored.
    ///
    /// # Errors
    /// If a field is missing or has another type.
    pub fn parse_judgment(&self, judgment: &Value) -> Result<Map<String, Value>, InvalidJudgment> {
        let Value::Object(values) = judgment else {
            return Err(InvalidJudgment { problems: vec![format!("expected an object, found {}", kind_of(judgment))] });
        };
        let mut parsed = Map::new();
        let mut problems = Vec::new();
        for field in self.judged_fields() {
            let Some(value) = values.get(&field.name) else {
                problems.push(format!("`{}`: missing; use null if the answer does not contain it", field.name));
                continue;
            };
            if let Some(value) = convert(field, value) {
                parsed.insert(field.name.clone(), value);
            } else {
                let expected = expected(field);
                problems.push(format!("`{}`: expected {expected}, found {}", field.name, shown(value)));
            }
        }
        if problems.is_empty() { Ok(parsed) } else { Err(InvalidJudgment { problems }) }
    }
}

fn property(field: &Field) -> Value {
    let value = match &field.kind {
        FieldType::Bool => json!({"type": "boolean"}),
        FieldType::Str | FieldType::Date => json!({"type": "string"}),
        FieldType::Int => json!({"type": "integer"}),
        FieldType::Float => json!({"type": "number"}),
        FieldType::ListStr => json!({"type": "array", "items": {"type": "string"}}),
        FieldType::Literal(options) => json!({"type": "string", "enum": options}),
    };
    let mut description = field.judge_description();
    if field.kind == FieldType::Date {
        description = format!("{description}\nFormat: {}", field.check.date_form());
    }
    json!({"anyOf": [value, {"type": "null"}], "description": description})
}

impl Field {
    /// Returns what the judge reads about the field.
    pub(crate) fn judge_description(&self) -> String {
        let description = self.description.trim();
        match &self.extraction_hint {
            Some(hint) => format!("{description}\nHint: {}", hint.trim()),
            None => description.to_owned(),
        }
    }
}

/// Converts a value to the type of its field. `None` if that is impossible without a loss.
fn convert(field: &Field, value: &Value) -> Option<Value> {
    if value.is_null() {
        return Some(Value::Null);
    }
    match (&field.kind, value) {
        (FieldType::Bool, Value::Bool(_))
        | (FieldType::Str, Value::String(_))
        | (FieldType::Float, Value::Number(_)) => Some(value.clone()),
        (FieldType::Bool, Value::String(text)) => named_boolean(text).map(Value::from),
        (FieldType::Bool, Value::Number(number)) => match number.as_f64() {
            Some(0.0) => Some(false.into()),
            Some(1.0) => Some(true.into()),
            _ => None,
        },
        (FieldType::Int, Value::Number(number)) => {
            if number.is_f64() {
                number.as_f64().and_then(whole)
            } else {
                Some(value.clone())
            }
        }
        (FieldType::Int, Value::String(text)) => match text.trim().parse::<i64>() {
            Ok(number) => Some(number.into()),
            Err(_) => parse_number(text).and_then(whole),
        },
        (FieldType::Float, Value::String(text)) => parse_number(text).map(Value::from),
        (FieldType::ListStr, Value::Array(items)) => items.iter().all(Value::is_string).then(|| value.clone()),
        (FieldType::Literal(options), Value::String(text)) => {
            let same = |option: &&String| option.trim().to_lowercase() == text.trim().to_lowercase();
            let exact = options.iter().find(|option| *option == text);
            let mut similar = options.iter().filter(same);
            let only = || similar.next().filter(|_| similar.next().is_none());
            exact.or_else(only).map(|option| option.as_str().into())
        }
        (FieldType::Date, Value::String(text)) => {
            let is_date = field.check.parse_date(text).is_some();
            is_date.then(|| value.clone())
        }
        _ => None,
    }
}

/// Converts a float without a fraction to an integer.
#[expect(clippy::cast_possible_truncation, reason = "the number is whole and below 2^53")]
fn whole(number: f64) -> Option<Value> {
    let is_exact = number.fract() == 0.0 && number.abs() <= 9_007_199_254_740_992.0;
    is_exact.then(|| (number as i64).into())
}

fn expected(field: &Field) -> String {
    match &field.kind {
        FieldType::Bool => "a boolean".to_owned(),
        FieldType::Str => "a string".to_owned(),
        FieldType::Int => "an integer".to_owned(),
        FieldType::Float => "a number".to_owned(),
        FieldType::ListStr => "a list of strings".to_owned(),
        FieldType::Literal(options) => {
            format!("one of {}", options.iter().map(|option| quoted(option)).collect::<Vec<_>>().join(", "))
        }
        FieldType::Date => format!("a date in the form {}", field.check.date_form()),
    }
}

fn kind_of(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "a boolean",
        Value::Number(_) => "a number",
        Value::String(_) => "a string",
        Value::Array(_) => "a list",
        Value::Object(_) => "an object",
    }
}

fn shown(value: &Value) -> String {
    match value {
        Value::String(text) => format!("the string {}", quoted(text)),
        Value::Number(number) => format!("the number {number}"),
        Value::Bool(value) => format!("the boolean {value}"),
        other => kind_of(other).to_owned(),
    }
}
