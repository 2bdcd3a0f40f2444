//! Values that the user types for the fields of a server's form: read by the field's type, and checked against its limits.

use serde_json::Value;
use wharf::schema_accepts;

use super::field_format;
use super::form_field::Choice;

/// The types of JSON, and how a question describes them.
const KINDS: [(&str, &str); 7] = [
    ("string", "text"),
    ("boolean", "true or false"),
    ("integer", "a whole number"),
    ("number", "a number"),
    ("array", "a JSON array"),
    ("object", "a JSON object"),
    ("null", "null"),
];

/// Returns what was typed as a value of the field, or what the field expects. A field without a type accepts everything.
pub(super) fn parse(field: &Value, typed: &str) -> Result<Value, String> {
    let value = read(field, typed).ok_or_else(|| expected(field))?;
    check(field, &value)?;
    Ok(value)
}

fn read(field: &Value, typed: &str) -> Option<Value> {
    let text = || Value::String(typed.to_owned());
    if schema_accepts(field, "string") {
        return Some(text());
    }
    if schema_accepts(field, "boolean") {
        match typed.to_ascii_lowercase().as_str() {
            "y" | "yes" => return Some(Value::Bool(true)),
            "n" | "no" => return Some(Value::Bool(false)),
            _ => {}
        }
    }
    let parsed = typed.parse::<Value>();
    if !has_type(field) {
        return Some(parsed.unwrap_or_else(|_| text()));
    }
    parsed.ok().filter(|value| accepts(field, value))
}

/// Returns the choices that were typed, by number or by value; several are separated by commas.
pub(super) fn parse_choices(field: &Value, choices: &[Choice], typed: &str) -> Result<Value, String> {
    let expected = || "one of the choices, by number or by value".to_owned();
    if !is_list(field) {
        return chosen(choices, typed).cloned().ok_or_else(expected);
    }
    let words = typed.split(',').map(str::trim).filter(|word| !word.is_empty());
    let values: Option<Vec<Value>> = words.map(|word| chosen(choices, word).cloned()).collect();
    let mut values =
        values.ok_or_else(|| "some of the choices, by number or by value, separated by commas".to_owned())?;
    let mut seen = Vec::new();
    values.retain(|value| {
        !seen.contains(value) && {
            seen.push(value.clone());
            true
        }
    });
    let values = Value::Array(values);
    check(field, &values)?;
    Ok(values)
}

/// Finds a choice by its value, or by its number if no choice is a number itself.
fn chosen<'a>(choices: &'a [Choice], typed: &str) -> Option<&'a Value> {
    if let Some(choice) = choices.iter().find(|choice| choice.text() == typed) {
        return Some(&choice.value);
    }
    let is_number = |text: &str| text.parse::<usize>().is_ok();
    if choices.iter().any(|choice| is_number(&choice.text())) {
        return None;
    }
    let number: usize = typed.trim_end_matches(['.', ')']).parse().ok()?;
    choices.get(number.checked_sub(1)?).map(|choice| &choice.value)
}

/// Whether a field accepts several values.
pub(super) fn is_list(field: &Value) -> bool {
    schema_accepts(field, "array")
}

/// Checks a value against the limits of a field. The error says what the field expects.
pub(super) fn check(field: &Value, value: &Value) -> Result<(), String> {
    let is_fine = match value {
        Value::String(text) => {
            let length = number_of(text.chars().count());
            is_within(field, ["minLength", "maxLength"], length)
                && field["format"].as_str().is_none_or(|format| field_format::matches(format, text))
        }
        Value::Number(number) => {
            let number = number.as_f64().unwrap_or(f64::NAN);
            let is_beyond =
                |key: &str, beyond: fn(f64, f64) -> bool| field[key].as_f64().is_none_or(|limit| beyond(number, limit));
            is_within(field, ["minimum", "maximum"], number)
                && is_beyond("exclusiveMinimum", |number, limit| number > limit)
                && is_beyond("exclusiveMaximum", |number, limit| number < limit)
        }
        Value::Array(items) => is_within(field, ["minItems", "maxItems"], number_of(items.len())),
        _ => true,
    };
    let is_typed = !has_type(field) || accepts_any(field, value);
    if is_fine && is_typed { Ok(()) } else { Err(expected(field)) }
}

/// Converts a count for a comparison. No text that a user types is longer.
fn number_of(count: usize) -> f64 {
    u32::try_from(count).map_or(f64::INFINITY, f64::from)
}

fn is_within(field: &Value, [least, most]: [&str; 2], number: f64) -> bool {
    field[least].as_f64().is_none_or(|least| number >= least) && field[most].as_f64().is_none_or(|most| number <= most)
}

/// Describes what a field accepts: its types, its format and its limits.
pub(super) fn expected(field: &Value) -> String {
    let format = field["format"].as_str().and_then(field_format::description);
    let kinds = KINDS.iter().filter(|(kind, _)| schema_accepts(field, kind)).map(|(_, text)| *text);
    let kinds: Vec<&str> = kinds.collect();
    if kinds.is_empty() {
        return "of a type that cannot be typed".to_owned();
    }
    let kinds = format.map_or_else(|| kinds.join(" or "), str::to_owned);
    let limits = [
        range(field, ["minimum", "maximum"], ""),
        range(field, ["minLength", "maxLength"], " characters"),
        range(field, ["minItems", "maxItems"], " items"),
        exclusive(field),
    ];
    limits.into_iter().flatten().fold(kinds, |text, limit| format!("{text}, {limit}"))
}

/// Returns for example `from 1 to 5`, `at least 1` or `at most 5 characters`.
fn range(field: &Value, [least, most]: [&str; 2], unit: &str) -> Option<String> {
    let number = |key: &str| field[key].is_number().then(|| field[key].to_string());
    match (number(least), number(most)) {
        (Some(least), Some(most)) => Some(format!("from {least} to {most}{unit}")),
        (Some(least), None) => Some(format!("at least {least}{unit}")),
        (None, Some(most)) => Some(format!("at most {most}{unit}")),
        (None, None) => None,
    }
}

fn exclusive(field: &Value) -> Option<String> {
    let limit = |key: &str, text: &str| field[key].is_number().then(|| format!("{text} {}", field[key]));
    let limits: Vec<String> =
        limit("exclusiveMinimum", "more than").into_iter().chain(limit("exclusiveMaximum", "less than")).collect();
    (!limits.is_empty()).then(|| limits.join(" and "))
}

/// Whether a field has limits, or a type that a user may not guess.
pub(super) fn needs_description(field: &Value) -> bool {
    let limits = ["minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "minLength", "maxLength", "minItems"];
    let is_text = schema_accepts(field, "string");
    let has_format = field["format"].as_str().is_some_and(|format| field_format::description(format).is_some());
    has_format || limits.iter().any(|key| field[key].is_number()) || (has_type(field) && !is_text)
}

/// Whether the type of a value that was typed is one of the field's. A field for text is not parsed.
fn accepts(field: &Value, value: &Value) -> bool {
    !value.is_string() && accepts_any(field, value)
}

fn accepts_any(field: &Value, value: &Value) -> bool {
    match value {
        Value::Null => schema_accepts(field, "null"),
        Value::Bool(_) => schema_accepts(field, "boolean"),
        Value::Number(number) => {
            // 2.0 is an integer in JSON Schema.
            let is_whole = number.as_f64().is_some_and(|number| number.fract() == 0.0);
            schema_accepts(field, "number") || (is_whole && schema_accepts(field, "integer"))
        }
        Value::String(_) => schema_accepts(field, "string"),
        Value::Array(_) => schema_accepts(field, "array"),
        Value::Object(_) => schema_accepts(field, "object"),
    }
}

fn has_type(field: &Value) -> bool {
    let alternatives = |key: &str| field[key].as_array().into_iter().flatten();
    !field["type"].is_null() || alternatives("anyOf").chain(alternatives("oneOf")).any(has_type)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_value_that_the_field_does_not_accept_is_refused() {
        for (kind, typed) in [
            ("boolean", "hunter2"),
            ("boolean", "1"),
            ("boolean", "\"hunter2\""),
            ("integer", "12ab"),
            ("integer", "1.5"),
            ("integer", "true"),
            ("number", "many"),
            ("array", "hunter2"),
            ("object", "[1]"),
            ("null", "hunter2"),
            ("unknown", "hunter2"),
        ] {
            assert!(parse(&json!({"type": kind}), typed).is_err(), "{kind} {typed}");
            assert!(parse(&json!({"anyOf": [{"type": kind}]}), typed).is_err(), "{kind} {typed}");
        }
        assert_eq!(expected(&json!({"type": ["boolean", "integer"]})), "true or false or a whole number");
        assert_eq!(expected(&json!({"type": "unknown"})), "of a type that cannot be typed");
    }

    #[test]
    fn a_value_has_the_type_of_its_field() {
        for (field, typed, value) in [
            (json!({"type": "string"}), "12", json!("12")),
            (json!({"type": ["string", "null"]}), "null", json!("null")),
            (json!({"type": "boolean"}), "true", json!(true)),
            (json!({"type": "boolean"}), "Yes", json!(true)),
            (json!({"type": "boolean"}), "n", json!(false)),
            (json!({"type": "integer"}), "2.0", json!(2.0)),
            (json!({"type": "number"}), "2", json!(2)),
            (json!({"type": "array"}), "[1]", json!([1])),
            (json!({"oneOf": [{"type": "null"}, {"type": "object"}]}), "{}", json!({})),
            (json!({}), "12", json!(12)),
        ] {
            assert_eq!(parse(&field, typed), Ok(value), "{field} {typed}");
        }
    }

    #[test]
    fn limits_and_formats_are_checked_and_described() {
        let integer = json!({"type": "integer", "minimum": 1, "maximum": 5});
        assert_eq!(parse(&integer, "6"), Err("a whole number, from 1 to 5".to_owned()));
        assert_eq!(parse(&integer, "5"), Ok(json!(5)));
        let short = json!({"type": "string", "minLength": 2, "maxLength": 3});
        assert_eq!(parse(&short, "é"), Err("text, from 2 to 3 characters".to_owned()));
        assert!(parse(&short, "éé").is_ok() && parse(&short, "abcd").is_err());
        let more = json!({"type": "number", "exclusiveMinimum": 0});
        assert_eq!(parse(&more, "0"), Err("a number, more than 0".to_owned()));
        assert!(parse(&more, "0.1").is_ok());
        let email = json!({"type": "string", "format": "email"});
        assert_eq!(parse(&email, "ada"), Err("an email address".to_owned()));
        assert!(parse(&email, "ada@example.com").is_ok());
        assert_eq!(
            parse(&json!({"type": "string", "maxLength": 2}), "abc"),
            Err("text, at most 2 characters".to_owned())
        );
        assert_eq!(check(&integer, &json!("3")), Err("a whole number, from 1 to 5".to_owned()));
    }

    #[test]
    fn choices_are_made_by_number_or_by_value() {
        let choices = |values: &[&str]| values.iter().map(|value| Choice::new(json!(value), None)).collect::<Vec<_>>();
        let one = json!({"type": "string"});
        let colors = choices(&["red", "green"]);
        assert_eq!(parse_choices(&one, &colors, "2"), Ok(json!("green")));
        assert_eq!(parse_choices(&one, &colors, "red"), Ok(json!("red")));
        for typed in ["3", "0", "blue", "1,2"] {
            assert!(parse_choices(&one, &colors, typed).is_err(), "{typed}");
        }
        // Where choices are numbers, a number is a value.
        let numbers = choices(&["2", "1"]);
        assert_eq!(parse_choices(&one, &numbers, "2"), Ok(json!("2")));
        let several = json!({"type": "array", "minItems": 1, "maxItems": 2});
        assert_eq!(parse_choices(&several, &colors, "2, red, 2"), Ok(json!(["green", "red"])));
        assert!(parse_choices(&several, &colors, ",").is_err() && parse_choices(&several, &colors, "pink").is_err());
    }
}
