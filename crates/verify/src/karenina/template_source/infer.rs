//! Inference: a template with a hand-written `verify()` whose truths are literal gets the check that fits the type of each
//! field. That is a guess about the code, so it happens only on request and is always listed.

use serde_json::{Map, Value, json};

use super::read::{TemplateRead, as_type, read_type};
use crate::karenina::omission::Omitted;
use crate::karenina::python::{Class, Expression, Statement};

/// Returns the template of a class with inferred checks. `None` if its truths are not literal.
pub(super) fn infer(class: &Class) -> Option<TemplateRead> {
    let mut truths: Option<&Map<String, Value>> = None;
    for statement in &class.body {
        if let Statement::Method { correct: Some(Value::Object(correct)), .. } = statement {
            truths = Some(correct);
        }
    }
    let truths = truths?;
    let mut fields = Vec::new();
    for statement in &class.body {
        let Statement::Attribute { name, annotation: Ok(annotation), value, .. } = statement else { continue };
        let (Some(truth), Some(kind)) = (truths.get(name), read_type(annotation)) else { continue };
        let description = match value {
            Some(Ok(Expression::Call { named, .. })) => {
                named.iter().find(|(key, _)| key == "description").and_then(|(_, value)| value.clone().literal().ok())
            }
            _ => None,
        };
        let check = match kind.as_str() {
            Some("bool") => "boolean_match",
            Some("int" | "float") => "numeric_exact",
            Some("list_str") => "set_containment",
            Some("date") => "date_match",
            Some(_) => "exact_match",
            None => "literal_match",
        };
        let description = description.unwrap_or_else(|| name.replace('_', " ").into());
        let truth = as_type(truth.clone(), &kind);
        fields.push(json!({"name": name, "type": kind, "description": description, "truth": truth, "check": check}));
    }
    // A truth without a field would be lost.
    if fields.is_empty() || fields.len() < truths.len() {
        return None;
    }
    Some(TemplateRead { template: Some(json!({"fields": fields})), omitted: vec![Omitted::InferredChecks] })
}
