//! Writing: a class with one `VerifiedField(…)` per field. Every text becomes a Python literal, so no text of a benchmark
//! can become code.

use std::fmt::Write as _;

use serde_json::{Map, Value, json};

use super::{CHECKS, FLAGS};
use crate::template::{Check, Field, FieldType, Strategy, Template};

/// Names that every generated class needs, beside its checks.
const ENTITIES: [&str; 2] = ["BaseAnswer", "VerifiedField"];

/// Returns the source text of a template.
pub(in crate::karenina) fn write(template: &Template) -> String {
    let mut checks: Vec<&str> = template.fields.iter().map(|field| class_of(field.check.name())).collect();
    checks.sort_unstable();
    checks.dedup();
    let has_synonyms = template.fields.iter().any(|field| parameters(field).contains("SynonymMap("));
    let mut code = String::new();
    if template.fields.iter().any(|field| field.kind == FieldType::Date) {
        code.push_str("from datetime import date\n");
    }
    code.push_str("from typing import Literal\n\n");
    let _ = writeln!(code, "from karenina.schemas.entities import {}", ENTITIES.join(", "));
    if template.pass.is_some() {
        code.push_str("from karenina.schemas.entities.composition import AllOf, AnyOf, AtLeastN, FieldCheck\n");
    }
    let _ = writeln!(code, "from karenina.schemas.primitives import {}", checks.join(", "));
    if has_synonyms {
        code.push_str("from karenina.schemas.primitives.normalizers import SynonymMap\n");
    }
    code.push_str("\n\nclass Answer(BaseAnswer):\n");
    for field in &template.fields {
        write_field(&mut code, field);
    }
    if let Some(pass) = &template.pass {
        let _ = write!(code, "\n    class VerificationStrategy:\n        verify_strategy = {}\n", strategy(pass));
    }
    code
}

fn class_of(check: &str) -> &'static str {
    CHECKS.iter().find(|(here, _)| *here == check).map_or("ExactMatch", |(_, there)| there)
}

fn write_field(code: &mut String, field: &Field) {
    let kind = match &field.kind {
        FieldType::Bool => "bool".to_owned(),
        FieldType::Str => "str".to_owned(),
        FieldType::Int => "int".to_owned(),
        FieldType::Float => "float".to_owned(),
        FieldType::ListStr => "list[str]".to_owned(),
        FieldType::Date => "date".to_owned(),
        FieldType::Literal(options) => {
            let options: Vec<String> = options.iter().map(|option| text(option)).collect();
            format!("Literal[{}]", options.join(", "))
        }
    };
    // There, a description and a truth are required for every field.
    let description = if field.description.trim().is_empty() { &field.name } else { &field.description };
    let truth = if field.truth.is_null() && field.check.is_on_response() { &Value::Bool(true) } else { &field.truth };
    let _ = writeln!(code, "    {}: {kind} = VerifiedField(", field.name);
    let _ = writeln!(code, "        description={},", text(description));
    let _ = writeln!(code, "        ground_truth={},", python(truth));
    let _ = writeln!(code, "        verify_with={}({}),", class_of(field.check.name()), parameters(field));
    if (field.weight - 1.0).abs() > f64::EPSILON {
        let _ = writeln!(code, "        weight={},", field.weight);
    }
    if let Some(hint) = &field.extraction_hint {
        let _ = writeln!(code, "        extraction_hint={},", text(hint));
    }
    code.push_str("    )\n");
}

/// Returns a check as an object: its class under `type`, and its parameters beside it.
pub(in crate::karenina) fn write_check_object(check: &Check) -> Value {
    let mut object = Map::from_iter([("type".to_owned(), class_of(check.name()).into())]);
    if let Ok(Value::Object(written)) = serde_json::to_value(check)
        && let Some((_, Value::Object(parameters))) = written.into_iter().next()
    {
        for (name, value) in parameters {
            let value = match (name.as_str(), value) {
                ("flags", Value::Array(flags)) => Value::Array(flags.into_iter().map(flag).collect()),
                ("normalize", Value::Array(items)) => {
                    let item = |item: Value| match item.get("synonyms") {
                        Some(mapping) => json!({ "mapping": mapping }),
                        None => item,
                    };
                    Value::Array(items.into_iter().map(item).collect())
                }
                (_, value) => value,
            };
            object.insert(name, value);
        }
    }
    Value::Object(object)
}

/// Returns the parameters of a field's check as arguments.
fn parameters(field: &Field) -> String {
    let Ok(Value::Object(check)) = serde_json::to_value(&field.check) else { return String::new() };
    let Some(Value::Object(parameters)) = check.into_iter().next().map(|(_, parameters)| parameters) else {
        return String::new();
    };
    let argument = |(name, value): (String, Value)| {
        let value = match (name.as_str(), value) {
            ("normalize", Value::Array(items)) => {
                let items: Vec<String> = items.iter().map(normalizer).collect();
                format!("[{}]", items.join(", "))
            }
            ("flags", Value::Array(flags)) => python(&Value::Array(flags.into_iter().map(flag).collect())),
            (_, value) => python(&value),
        };
        format!("{name}={value}")
    };
    parameters.into_iter().map(argument).collect::<Vec<_>>().join(", ")
}

fn flag(flag: Value) -> Value {
    let known = FLAGS.iter().find(|(here, ..)| flag == *here);
    known.map_or(flag, |(_, there, _)| (*there).into())
}

fn normalizer(value: &Value) -> String {
    match value.get("synonyms") {
        Some(map) => format!("SynonymMap(mapping={})", python(map)),
        None => python(value),
    }
}

fn strategy(pass: &Strategy) -> String {
    let conditions = |inner: &[Strategy]| inner.iter().map(strategy).collect::<Vec<_>>().join(", ");
    match pass {
        Strategy::Field(name) => format!("FieldCheck(field={})", text(name)),
        Strategy::AllOf(inner) => format!("AllOf(conditions=[{}])", conditions(inner)),
        Strategy::AnyOf(inner) => format!("AnyOf(conditions=[{}])", conditions(inner)),
        Strategy::AtLeastN { n, of } => format!("AtLeastN(n={n}, conditions=[{}])", conditions(of)),
    }
}

/// Returns a JSON value as a Python literal.
fn python(value: &Value) -> String {
    match value {
        Value::Null => "None".to_owned(),
        Value::Bool(true) => "True".to_owned(),
        Value::Bool(false) => "False".to_owned(),
        Value::Number(number) => number.to_string(),
        Value::String(string) => text(string),
        Value::Array(items) => format!("[{}]", items.iter().map(python).collect::<Vec<_>>().join(", ")),
        Value::Object(entries) => {
            let entry = |(key, value): (&String, &Value)| format!("{}: {}", text(key), python(value));
            format!("{{{}}}", entries.iter().map(entry).collect::<Vec<_>>().join(", "))
        }
    }
}

/// Returns a text as a Python string literal: printable ASCII and letters as they are, everything else escaped.
fn text(text: &str) -> String {
    let mut literal = String::from("\"");
    for c in text.chars() {
        match c {
            '"' => literal.push_str("\\\""),
            '\\' => literal.push_str("\\\\"),
            '\n' => literal.push_str("\\n"),
            c if c == ' ' || c.is_ascii_graphic() || c.is_alphanumeric() => literal.push(c),
            c => {
                let _ = write!(literal, "\\U{:08x}", u32::from(c));
            }
        }
    }
    literal.push('"');
    literal
}
