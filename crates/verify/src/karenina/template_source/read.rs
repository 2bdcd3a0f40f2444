//! Reading: the attributes with `VerifiedField(…)`, and the strategy that combines them.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

use super::infer::infer;
use super::{CHECKS, FLAGS, HandWritten};
use crate::karenina::omission::Omitted;
use crate::karenina::python::{Class, Expression, Module, Statement, module};

/// A template that was read, and what is missing from it.
#[derive(Debug, Default, PartialEq)]
pub(in crate::karenina) struct TemplateRead {
    /// The template in Wharf's notation. `None` if it is left out.
    pub(in crate::karenina) template: Option<Value>,
    pub(in crate::karenina) omitted: Vec<Omitted>,
}

/// The arguments of `VerifiedField` in their order.
const FIELD_ARGUMENTS: [&str; 5] = ["description", "ground_truth", "verify_with", "weight", "extraction_hint"];

/// Attributes that belong to the class, not to the answer.
const CLASS_ATTRIBUTES: [&str; 3] = ["model_config", "id", "regex"];

/// Reads the source text of a template.
pub(in crate::karenina) fn read(source: &str, hand_written: HandWritten) -> TemplateRead {
    let left_out = |omitted| TemplateRead { template: None, omitted: vec![omitted] };
    let Module { classes, other_lines } = match module(source) {
        Ok(module) => module,
        Err(error) => return left_out(Omitted::UnreadableTemplate { line: error.line, reason: error.reason }),
    };
    let mut answers = classes.iter().filter(|class| class.bases.iter().any(|base| base == "BaseAnswer"));
    let class = match (answers.next(), answers.count()) {
        (Some(class), 0) => class,
        (None, _) => return left_out(Omitted::AnswerClasses { count: 0 }),
        (Some(_), more) => return left_out(Omitted::AnswerClasses { count: more + 1 }),
    };
    let is_base = classes.iter().any(|other| other.bases.contains(&class.name));
    if is_base || class.bases.len() > 1 {
        return left_out(Omitted::Inheritance);
    }
    if let Some(line) = other_lines.first() {
        return left_out(Omitted::Statement { line: *line });
    }
    let read = read_class(class);
    let is_code = read.omitted.contains(&Omitted::HandWrittenVerify);
    let inferred = if is_code && hand_written == HandWritten::Infer { infer(class) } else { None };
    inferred.unwrap_or(read)
}

fn read_class(class: &Class) -> TemplateRead {
    let mut fields = Vec::new();
    let mut strategy = None;
    // Those that keep the template out, and the others.
    let (mut reasons, mut notes) = (Vec::new(), Vec::new());
    for statement in &class.body {
        match statement {
            Statement::Method { name, .. } if name == "verify" => reasons.push(Omitted::HandWrittenVerify),
            Statement::Method { name, .. } if name == "verify_granular" => notes.push(Omitted::HandWrittenScore),
            Statement::Method { name, line, .. } => reasons.push(Omitted::Method { name: name.clone(), line: *line }),
            Statement::Assignment { name, .. } | Statement::Attribute { name, .. }
                if CLASS_ATTRIBUTES.contains(&name.as_str()) || name.starts_with('_') => {}
            Statement::Attribute { name, line, annotation, value } => match value {
                Some(Ok(Expression::Call { name: called, positional, named })) if called == "VerifiedField" => {
                    let annotation = annotation.as_ref().ok();
                    match read_field(name, annotation, &arguments(positional, named)) {
                        Ok(field) => fields.push(field),
                        Err(NotTaken::NotLiteral) => {
                            reasons.push(Omitted::NotLiteral { field: name.clone(), line: *line });
                        }
                        Err(NotTaken::Because(omitted)) => reasons.push(omitted),
                    }
                }
                // What the judge extracts without a check has no effect on the verdict.
                Some(Ok(_)) | None => notes.push(Omitted::UncheckedField { field: name.clone() }),
                Some(Err(_)) => reasons.push(Omitted::NotLiteral { field: name.clone(), line: *line }),
            },
            Statement::Class(nested) if nested.name == "VerificationStrategy" => match read_strategy(nested) {
                Ok(read) => strategy = read,
                Err(line) => {
                    reasons.push(Omitted::NotLiteral { field: "VerificationStrategy".to_owned(), line });
                }
            },
            Statement::Assignment { line, .. } | Statement::Other { line } => {
                reasons.push(Omitted::Statement { line: *line });
            }
            // A class that no literal refers to.
            Statement::Class(_) => {}
        }
    }
    if fields.is_empty() && reasons.is_empty() {
        reasons.push(Omitted::InvalidTemplate { message: "no field has a check".to_owned() });
    }
    if reasons.contains(&Omitted::HandWrittenVerify) {
        // The code decides, whatever else there is.
        reasons = vec![Omitted::HandWrittenVerify];
    }
    if !reasons.is_empty() {
        // Without the template, what is missing from it does not matter.
        return TemplateRead { template: None, omitted: reasons };
    }
    let mut template = json!({"fields": fields});
    if let Some(strategy) = strategy {
        template["pass"] = strategy;
    }
    TemplateRead { template: Some(template), omitted: notes }
}

/// Why a field is not taken over.
enum NotTaken {
    NotLiteral,
    Because(Omitted),
}

type Arguments<'a> = BTreeMap<&'a str, &'a Expression>;

/// Returns all arguments of `VerifiedField` by name.
fn arguments<'a>(positional: &'a [Expression], named: &'a [(String, Expression)]) -> Arguments<'a> {
    let first = FIELD_ARGUMENTS.into_iter().zip(positional);
    first.chain(named.iter().map(|(name, value)| (name.as_str(), value))).collect()
}

fn literal(arguments: &Arguments<'_>, name: &str) -> Result<Option<Value>, NotTaken> {
    match arguments.get(name) {
        Some(Expression::Literal(Value::Null)) | None => Ok(None),
        Some(Expression::Literal(value)) => Ok(Some(value.clone())),
        Some(_) => Err(NotTaken::NotLiteral),
    }
}

fn read_field(name: &str, annotation: Option<&Expression>, arguments: &Arguments<'_>) -> Result<Value, NotTaken> {
    let unknown_type = || NotTaken::Because(Omitted::UnknownType { field: name.to_owned() });
    let kind = annotation.and_then(read_type).ok_or_else(unknown_type)?;
    let check = read_check(name, arguments)?;
    let mut field = json!({"name": name, "type": kind});
    if let Some(description) = literal(arguments, "description")? {
        field["description"] = description;
    }
    if let Some(hint) = literal(arguments, "extraction_hint")? {
        field["extraction_hint"] = hint;
    }
    if let Some(truth) = literal(arguments, "ground_truth")? {
        field["truth"] = as_type(truth, &kind);
    }
    field["check"] = check;
    match literal(arguments, "weight")? {
        Some(weight) if weight.as_f64() != Some(1.0) => field["weight"] = weight,
        _ => {}
    }
    Ok(field)
}

/// Returns the type of an annotation. Whether a value may be missing does not matter: a judge may always leave it out.
pub(super) fn read_type(annotation: &Expression) -> Option<Value> {
    match annotation {
        Expression::Name(name) => match name.as_str() {
            "bool" | "str" | "int" | "float" | "date" => Some(name.as_str().into()),
            "datetime" => Some("date".into()),
            _ => None,
        },
        Expression::Subscript { name, items } => match (name.as_str(), items.as_slice()) {
            ("Optional", [inner]) => read_type(inner),
            ("list" | "List" | "set" | "Set", [Expression::Name(item)]) if item == "str" => Some("list_str".into()),
            ("Literal", options) => {
                let text = |option: &Expression| option.clone().literal().ok().filter(Value::is_string);
                let options: Option<Vec<Value>> = options.iter().map(text).collect();
                options.map(|options| json!({"literal": options}))
            }
            ("Union", types) => read_union(types),
            _ => None,
        },
        Expression::Union(types) => read_union(types),
        _ => None,
    }
}

fn read_union(types: &[Expression]) -> Option<Value> {
    let mut present = types.iter().filter(|item| **item != Expression::Literal(Value::Null));
    match (present.next(), present.next()) {
        (Some(only), None) => read_type(only),
        _ => None,
    }
}

/// Converts a truth as the other side does when it compares: texts of numbers are numbers, and numbers may be booleans.
pub(super) fn as_type(truth: Value, kind: &Value) -> Value {
    let number = truth.as_f64().or_else(|| truth.as_str().and_then(|text| text.trim().parse().ok()));
    match (kind.as_str(), number) {
        (Some("bool"), Some(number)) if truth.is_number() => (number != 0.0).into(),
        (Some("int" | "float"), Some(number)) if truth.is_string() => number.into(),
        (Some("str"), _) if truth.is_number() => truth.to_string().into(),
        _ => truth,
    }
}

fn read_check(field: &str, arguments: &Arguments<'_>) -> Result<Value, NotTaken> {
    let (called, named) = match arguments.get("verify_with") {
        Some(Expression::Call { name, positional, named }) if positional.is_empty() => (name, named),
        _ => return Err(NotTaken::NotLiteral),
    };
    let Some((check, _)) = CHECKS.iter().find(|(_, there)| there == called) else {
        let omitted = Omitted::UnknownCheck { field: field.to_owned(), check: called.clone() };
        return Err(NotTaken::Because(omitted));
    };
    let mut parameters = Map::new();
    for (name, value) in named {
        let value = match name.as_str() {
            "normalize" => read_normalizers(value)?,
            _ => value.clone().literal().map_err(|_| NotTaken::NotLiteral)?,
        };
        let value = match (name.as_str(), value) {
            ("flags", Value::Array(flags)) => Value::Array(flags.into_iter().map(read_flag).collect()),
            (_, value) => value,
        };
        if !value.is_null() {
            parameters.insert(name.clone(), value);
        }
    }
    if parameters.is_empty() {
        return Ok((*check).into());
    }
    Ok(Value::Object(Map::from_iter([((*check).to_owned(), Value::Object(parameters))])))
}

/// Reads a check that is an object: its class under `type`, and its parameters beside it. Returns its name here, and the
/// check in Wharf's notation.
pub(in crate::karenina) fn read_check_object(object: &Value) -> Option<(&'static str, Value)> {
    let class = object.get("type")?.as_str()?;
    let (check, _) = CHECKS.iter().find(|(_, there)| *there == class)?;
    let mut parameters = Map::new();
    for (name, value) in object.as_object()?.iter().filter(|(name, value)| *name != "type" && !value.is_null()) {
        let value = match (name.as_str(), value) {
            ("flags", Value::Array(flags)) => Value::Array(flags.iter().cloned().map(read_flag).collect()),
            ("normalize", Value::Array(items)) => {
                let item = |item: &Value| match item.get("mapping") {
                    Some(mapping) => json!({ "synonyms": mapping }),
                    None => item.clone(),
                };
                Value::Array(items.iter().map(item).collect())
            }
            _ => value.clone(),
        };
        parameters.insert(name.clone(), value);
    }
    if parameters.is_empty() {
        return Some((check, (*check).into()));
    }
    Some((check, Value::Object(Map::from_iter([((*check).to_owned(), Value::Object(parameters))]))))
}

/// Returns a flag by its name here; an unknown one stays, and is reported by the rules of templates.
fn read_flag(flag: Value) -> Value {
    let known = FLAGS.iter().find(|(_, long, short)| flag == *long || flag == *short);
    known.map_or(flag, |(here, ..)| (*here).into())
}

fn read_normalizers(value: &Expression) -> Result<Value, NotTaken> {
    let items: Vec<Expression> = match value {
        Expression::Literal(Value::Array(names)) => names.iter().cloned().map(Expression::Literal).collect(),
        Expression::List(items) => items.clone(),
        _ => return Err(NotTaken::NotLiteral),
    };
    let normalizer = |item: Expression| match item {
        Expression::Literal(name @ Value::String(_)) => Ok(name),
        Expression::Call { name, positional, named } if name == "SynonymMap" && positional.is_empty() => {
            match named.as_slice() {
                [(key, Expression::Literal(map @ Value::Object(_)))] if key == "mapping" => {
                    Ok(json!({"synonyms": map}))
                }
                _ => Err(NotTaken::NotLiteral),
            }
        }
        _ => Err(NotTaken::NotLiteral),
    };
    items.into_iter().map(normalizer).collect::<Result<Vec<_>, _>>().map(Value::Array)
}

/// Reads the strategy. An error is the line of what is not literal.
fn read_strategy(class: &Class) -> Result<Option<Value>, usize> {
    for statement in &class.body {
        let (name, line, value) = match statement {
            Statement::Assignment { name, line, value }
            | Statement::Attribute { name, line, value: Some(value), .. } => (name, *line, value),
            Statement::Method { line, .. } | Statement::Other { line } | Statement::Attribute { line, .. } => {
                return Err(*line);
            }
            Statement::Class(_) => continue,
        };
        if name == "verify_strategy" {
            let value = value.as_ref().map_err(|_| line)?;
            return strategy(value).map(Some).ok_or(line);
        }
    }
    Ok(None)
}

fn strategy(value: &Expression) -> Option<Value> {
    let Expression::Call { name, positional, named } = value else { return None };
    if !positional.is_empty() {
        return None;
    }
    let argument = |key: &str| named.iter().find(|(name, _)| name == key).map(|(_, value)| value);
    let conditions = || match argument("conditions")? {
        Expression::List(items) => items.iter().map(strategy).collect::<Option<Vec<_>>>(),
        _ => None,
    };
    match name.as_str() {
        "FieldCheck" => argument("field")?.clone().literal().ok().filter(Value::is_string),
        "AllOf" => Some(json!({"all_of": conditions()?})),
        "AnyOf" => Some(json!({"any_of": conditions()?})),
        "AtLeastN" => Some(json!({"at_least_n": {"n": argument("n")?.clone().literal().ok()?, "of": conditions()?}})),
        _ => None,
    }
}
