//! Rules of traits.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use super::super::traits::{AgenticResult, EvaluationMode, Metric, Trait, TraitClass, TraitKind};
use crate::object_schema::compile;
use crate::problem::{Finding, Path, quoted};

pub(super) fn check(traits: &BTreeMap<String, Trait>) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (name, of_rubric) in traits {
        let path = Path::default().key("rubric").key(name);
        check_trait(of_rubric, &path, &mut findings);
    }
    findings
}

fn check_trait(of_rubric: &Trait, path: &Path, findings: &mut Vec<Finding>) {
    let is_computed = matches!(of_rubric.kind, TraitKind::Regex(_) | TraitKind::Metric(_));
    if of_rubric.description.is_none() && !is_computed {
        let finding = Finding::new(path.key("description"), "missing description");
        findings.push(finding.with_hint("the judge measures what the description says"));
    }
    if of_rubric.if_present && of_rubric.summary.is_none() && of_rubric.description.is_none() {
        findings.push(Finding::new(path.key("if_present"), "`if_present` needs a `summary` or a `description`"));
    }
    match &of_rubric.kind {
        TraitKind::LlmBoolean(_) => {}
        TraitKind::Regex(regex) => {
            if let Err(error) = regex.expression() {
                findings.push(Finding::new(path.key("pattern"), error.to_string()));
            }
        }
        TraitKind::LlmScore(score) => check_range(score.min, score.max, path, findings),
        TraitKind::LlmLiteral(literal) => check_classes(&literal.classes, path, findings),
        TraitKind::LlmStructured(structured) => {
            check_schema(&structured.schema, path, findings);
            check_direction(of_rubric, path, findings);
        }
        TraitKind::Metric(metric) => {
            let is_full = metric.evaluation_mode == EvaluationMode::FullMatrix;
            if is_full && metric.tn_instructions.is_empty() {
                findings.push(Finding::new(path.key("tn_instructions"), "`full_matrix` needs `tn_instructions`"));
            }
            if !is_full && !metric.tn_instructions.is_empty() {
                let message = "`tn_instructions` apply to the mode `full_matrix` only";
                findings.push(Finding::new(path.key("tn_instructions"), message));
            }
            if !is_full && metric.metrics.iter().any(|metric| Metric::needs_full_matrix(*metric)) {
                let message = "`specificity` and `accuracy` need the mode `full_matrix`";
                findings.push(Finding::new(path.key("metrics"), message));
            }
        }
        TraitKind::Agentic(agentic) => match agentic.result {
            AgenticResult::Boolean => {}
            AgenticResult::Score => check_range(agentic.min, agentic.max, path, findings),
            AgenticResult::Literal if agentic.classes.is_empty() => {
                findings.push(Finding::new(path.key("classes"), "a `literal` result needs `classes`"));
            }
            AgenticResult::Literal => check_classes(&agentic.classes, path, findings),
            AgenticResult::Structured => {
                match &agentic.schema {
                    Some(schema) => check_schema(schema, path, findings),
                    None => findings.push(Finding::new(path.key("schema"), "a `structured` result needs a `schema`")),
                }
                check_direction(of_rubric, path, findings);
            }
        },
    }
}

fn check_range(min: i64, max: i64, path: &Path, findings: &mut Vec<Finding>) {
    if min >= max {
        findings.push(Finding::new(path.key("max"), "`max` must be greater than `min`"));
    }
}

fn check_classes(classes: &[TraitClass], path: &Path, findings: &mut Vec<Finding>) {
    let mut names = BTreeSet::new();
    for (index, class) in classes.iter().enumerate() {
        if !names.insert(class.name.to_lowercase()) {
            let path = path.key("classes").index(index).key("name");
            findings.push(Finding::new(path, format!("duplicate class {}", quoted(&class.name))));
        }
    }
}

fn check_schema(schema: &Value, path: &Path, findings: &mut Vec<Finding>) {
    if let Err(reason) = compile(schema) {
        findings.push(Finding::new(path.key("schema"), reason));
    }
}

fn check_direction(of_rubric: &Trait, path: &Path, findings: &mut Vec<Finding>) {
    if of_rubric.higher_is_better.is_some() {
        findings.push(Finding::new(path.key("higher_is_better"), "an object has no direction"));
    }
}
